//! `click-combine`: combines several configurations, connected at their devices.

use millrace_lang::Variables;
use millrace_lang::config::{is_identifier, split_args, split_words};

use super::clp::{Choice, Word, flag, valued};
use super::router::{Element, Router};
use super::session::Common::{self, Expression, File, Help, Output, Own, Version};
use super::session::{Session, file};
use super::tool::{Stop, Tool};
use crate::archive::Member;
use crate::config::Origin;

pub(super) const TOOL: Tool = Tool {
    name: "click-combine",
    about: "Combines configurations, given as FILE or NAME=FILE; links \
            (NAME1.DEVICE1=NAME2.DEVICE2) connect their devices",
    options: "\
  -o, --output FILE           Write the combined configuration to FILE.
  -n, --name NAME             The name of the next configuration.
  -f, --file FILE             Read a configuration from FILE.
  -e, --expression EXPR       Take EXPR itself as a configuration.
  -l, --link LINK             A link, NAME1.ELEMENT1=NAME2.ELEMENT2: what the first
                              sends the second receives. A device’s name will do for an element.
  -c, --config                Write the configuration alone, not an archive.
",
    run,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choose {
    Config,
    Link,
    Name,
}

const CHOICES: &[Choice<Common<Choose>>] = &[
    flag("config", Some('c'), Own(Choose::Config)),
    valued("expression", Some('e'), Expression),
    valued("file", Some('f'), File),
    flag("help", None, Help),
    valued("link", Some('l'), Own(Choose::Link)),
    valued("name", Some('n'), Own(Choose::Name)),
    valued("output", Some('o'), Output),
    flag("version", Some('v'), Version),
];

/// The class of the elements that replace links.
pub(super) const LINK: &str = "RouterLink";

/// The member of the archive that names the components.
pub(super) const COMPONENTS: &str = "componentmap";

/// The member of the archive that describes RouterLink.
const CLASSES: &str = "elementmap.xml";

/// A configuration that becomes part of the combined one.
struct Component {
    name: String,
    router: Router,
    archive: Vec<Member>,
}

/// An element of a component.
type End = (usize, usize);

/// A link: the second end receives what the first end sends.
struct Link {
    from: End,
    to: End,
    /// The number of its group. Links with a common end are in one group.
    group: usize,
}

fn run(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    let mut work =
        Work { session, components: Vec::new(), links: Vec::new(), name: String::new(), number: 1 };
    let (mut link_texts, mut config_only) = (Vec::new(), false);
    for word in work.session.words(CHOICES, args)? {
        match word {
            Word::Option { id: Common::File, value, .. } => work.read("", &file(&value))?,
            Word::Option { id: Expression, value, .. } => {
                work.read("", &Origin::Expression(value))?;
            }
            Word::Option { id: Own(Choose::Config), .. } => config_only = true,
            Word::Option { id: Own(Choose::Link), value, .. } => link_texts.push(value),
            Word::Option { id: Own(Choose::Name), value, .. } => {
                if !work.name.is_empty() {
                    work.session.say("click-combine: warning: router name specified twice");
                }
                work.name = value;
            }
            Word::Option { id, value, .. } => work.session.common(id, value)?,
            Word::Plain(word) => match (word.split_once(':'), word.split_once('=')) {
                (Some((name, path)), _) => work.read(name, &file(path))?,
                (None, Some((name, path))) if !name.contains('.') => {
                    work.read(name, &file(path))?
                }
                (None, Some(_)) => link_texts.push(word),
                (None, None) => work.read("", &file(&word))?,
            },
        }
    }
    if work.components.is_empty() {
        return work.session.fail("click-combine: no routers specified");
    }
    for (index, component) in work.components.iter().enumerate() {
        let others = work.components.iter().take(index);
        if others.into_iter().any(|other| other.name == component.name) {
            let name = &component.name;
            return work.session.fail(format_args!("click-combine: two routers named ‘{name}’"));
        }
    }
    for text in &link_texts {
        work.link(text);
    }
    if work.session.errors() > 0 {
        return Err(Stop::Failed);
    }
    let (combined, archive) = work.combine()?;
    match config_only {
        true => work.session.write_text(combined.text().as_bytes()),
        false => work.session.write(&combined, &archive),
    }
}

struct Work<'a> {
    session: &'a mut Session,
    components: Vec<Component>,
    links: Vec<Link>,
    /// The name of the next component, and its number if it has no name.
    name: String,
    number: usize,
}

impl Work<'_> {
    fn error(&self, message: std::fmt::Arguments<'_>) {
        self.session.own_error(message);
    }

    fn read(&mut self, name: &str, origin: &Origin) -> Result<(), Stop> {
        if !name.is_empty() && !self.name.is_empty() {
            let first = &self.name;
            self.session.warn(format_args!("router name specified twice (‘{first}’ and ‘{name}’)"));
        } else if !name.is_empty() {
            self.name = name.to_owned();
        }
        if let Ok(mut input) = self.session.read_from(origin, Variables::Replace, false) {
            input.router.flatten();
            let name = match std::mem::take(&mut self.name) {
                name if name.is_empty() => self.number.to_string(),
                name => {
                    if !is_identifier(&name) {
                        self.session.error(format_args!(
                            "router name ‘{name}’ is not a legal Click identifier"
                        ));
                    }
                    name
                }
            };
            let (router, archive) = (input.router, input.archive);
            self.components.push(Component { name, router, archive });
        }
        self.name.clear();
        self.number += 1;
        Ok(())
    }

    /// The element of a component that a link names: by the element's name or by a device's name.
    fn end(&self, component: &str, name: &str, classes: &[&str]) -> Option<End> {
        let index = self.components.iter().position(|other| other.name == component)?;
        let router = &self.components.get(index)?.router;
        if let Some(element) = router.find(name) {
            return Some((index, element));
        }
        let is_device = |element: &Element| {
            let device = split_args(&element.config).into_iter().next();
            classes.contains(&element.class()) && device.is_some_and(|arg| arg.text == name)
        };
        let found: Vec<usize> =
            router.iter().filter(|(_, e)| is_device(e)).map(|(index, _)| index).collect();
        match found[..] {
            [one] => return Some((index, one)),
            [] => {}
            _ => {
                let kinds = classes.iter().map(|class| format!("‘{class}({name})’"));
                let kinds: Vec<String> = kinds.collect();
                let kinds = kinds.join(" or ");
                self.error(format_args!("more than one {kinds} element in router ‘{component}’"));
            }
        }
        self.error(format_args!("router ‘{component}’ has no element or device named ‘{name}’"));
        None
    }

    fn link(&mut self, text: &str) {
        let spaced = text.replace('.', " . ").replace('=', " = ");
        let words: Vec<&str> = split_words(&spaced).iter().map(|word| word.text).collect();
        let &[first, ".", from, "=", second, ".", to] = &words[..] else {
            return self.error(format_args!("bad link definition ‘{text}’"));
        };
        let mut known = true;
        for name in [first, second] {
            if self.components.iter().all(|component| component.name != name) {
                self.error(format_args!("no router named ‘{name}’"));
                known = false;
            }
        }
        if !known {
            return;
        }
        const INTO: &[&str] = &["ToDevice"];
        const OUT_OF: &[&str] = &["FromDevice", "PollDevice"];
        let ends = (self.end(first, from, INTO), self.end(second, to, OUT_OF));
        let (Some(start), Some(end)) = ends else { return };
        for (component, name, place, wanted) in
            [(first, from, start, INTO), (second, to, end, OUT_OF)]
        {
            let class = self.element(place).map_or("", Element::class);
            if !wanted.contains(&class) {
                self.session.say(format_args!(
                    "click-combine: warning: router ‘{component}’ element ‘{name}’ has unexpected \
                     class\nclick-combine:   expected {}, got {class}",
                    wanted.join(" or ")
                ));
            }
        }
        let group = self.links.len();
        self.links.push(Link { from: start, to: end, group });
    }

    fn element(&self, (component, element): End) -> Option<&Element> {
        self.components.get(component)?.router.elements.get(element)
    }

    fn combine(&mut self) -> Result<(Router, Vec<Member>), Stop> {
        let mut combined = Router::default();
        let mut archive: Vec<Member> = Vec::new();
        for component in &self.components {
            combined.take_over(&component.router, &format!("{}/", component.name));
            let own = |name: &str| ["config", CLASSES, COMPONENTS].contains(&name);
            for member in component.archive.iter().filter(|member| !own(&member.name)) {
                if archive.iter().any(|other| other.name == member.name) {
                    let name = &member.name;
                    self.session.error(format_args!(
                        "expansion conflict: two archive elements named ‘{name}’"
                    ));
                } else {
                    archive.push(member.clone());
                }
            }
        }
        if self.session.errors() > 0 {
            return Err(Stop::Failed);
        }
        for index in combined.of_class(LINK) {
            if let Some(element) = combined.elements.get_mut(index) {
                qualify(element);
            }
        }
        if self.links.is_empty() {
            self.session.warn("no links between routers");
        }
        self.group()?;
        let groups: Vec<usize> = self.links.iter().map(|link| link.group).collect();
        let mut number = 0;
        for (index, group) in groups.iter().enumerate() {
            if groups.iter().position(|other| other == group) == Some(index) {
                number += 1;
                self.add_link(*group, number, &mut combined);
            }
        }
        combined.remove_tunnels();
        self.describe(&mut archive);
        Ok((combined, archive))
    }

    /// Puts links with a common end into one group.
    fn group(&mut self) -> Result<(), Stop> {
        for (index, link) in self.links.iter().enumerate() {
            for other in self.links.iter().take(index) {
                if link.from == other.to || other.from == link.to {
                    let component = self.components.get(link.from.0).map_or("", |c| &*c.name);
                    let element = self.element(link.from).map_or("", |element| &*element.name);
                    self.error(format_args!(
                        "router ‘{component}’ element ‘{element}’ used as both source and \
                         destination"
                    ));
                }
            }
        }
        if self.session.errors() > 0 {
            return Err(Stop::Failed);
        }
        loop {
            let mut changed = false;
            for index in 1..self.links.len() {
                let (before, rest) = self.links.split_at_mut(index);
                let Some(link) = rest.first_mut() else { continue };
                for other in before {
                    let common = link.from == other.from || link.to == other.to;
                    if common && link.group != other.group {
                        link.group = other.group;
                        changed = true;
                    }
                }
            }
            if !changed {
                return Ok(());
            }
        }
    }

    /// Replaces the devices of a group by a RouterLink.
    fn add_link(&self, group: usize, number: usize, combined: &mut Router) {
        let (mut from, mut to) = (Vec::new(), Vec::new());
        for link in self.links.iter().filter(|link| link.group == group) {
            if !from.contains(&link.from) {
                from.push(link.from);
            }
            if !to.contains(&link.to) {
                to.push(link.to);
            }
        }
        let mut words = Vec::new();
        let mut places = Vec::new();
        for end in from.iter().chain(&to) {
            let (Some(component), Some(element)) = (self.components.get(end.0), self.element(*end))
            else {
                continue;
            };
            let name = format!("{}/{}", component.name, element.name);
            let Some(place) = combined.find(&name) else { continue };
            places.push(place);
            words.push(format!("{} {} {}", component.name, element.name, element.class()));
            words.push(element.config.clone());
        }
        let name = format!("link{number}");
        let link = combined.get(&name, LINK, &words.join(", "), "<click-combine>");
        for (index, &place) in places.iter().enumerate() {
            match index.checked_sub(from.len()) {
                None => combined.insert_before((link, index), (place, 0)),
                Some(output) => combined.insert_after((link, output), (place, 0)),
            }
            combined.free(place);
        }
    }

    /// Adds the information that click-uncombine and other tools need.
    fn describe(&self, archive: &mut Vec<Member>) {
        if !self.links.is_empty() {
            let text = format!(
                "<?xml version=\"1.0\" standalone=\"yes\"?>\n\
                 <elementmap xmlns=\"http://www.lcdf.org/click/xml/\">\n  \
                 <entry name=\"{LINK}\" processing=\"l/h\" flowcode=\"x/x\" flags=\"S3\" />\n\
                 </elementmap>\n"
            );
            archive.push(Member { name: CLASSES.to_owned(), data: text.into_bytes() });
        }
        let mut names = String::new();
        for component in &self.components {
            names += &component.name;
            names.push('\n');
            for inner in components(&component.archive) {
                names += &format!("{}/{inner}\n", component.name);
            }
        }
        archive.push(Member { name: COMPONENTS.to_owned(), data: names.into_bytes() });
    }
}

/// The names of the components of a combined configuration.
pub(super) fn components(archive: &[Member]) -> Vec<String> {
    let map = archive.iter().find(|member| member.name == COMPONENTS);
    let text = map.map(|member| String::from_utf8_lossy(&member.data)).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Renames the components in a RouterLink to their names in the combined configuration.
fn qualify(element: &mut Element) {
    let Some((component, _)) = element.name.split_once('/') else { return };
    let args = split_args(&element.config).into_iter().enumerate();
    let args = args.map(|(index, arg)| match index % 2 {
        0 => format!("{component}/{}", arg.text),
        _ => arg.text.into_owned(),
    });
    element.config = args.collect::<Vec<_>>().join(", ");
}
