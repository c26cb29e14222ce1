//! `click-uncombine`: extracts one configuration from those that `click-combine` combined.

use millrace_lang::config::{split_args, split_words};

use super::clp::{Choice, Word, flag, valued};
use super::combine::{COMPONENTS, LINK, components};
use super::router::Router;
use super::session::Common::{self, File, Help, Output, Own, Version};
use super::session::{Session, file};
use super::tool::{Stop, Tool};
use crate::archive::Member;

pub(super) const TOOL: Tool = Tool {
    name: "click-uncombine",
    about: "Extracts one configuration, named after the file, from a combined one",
    options: "\
  -f, --file FILE             Read the combined configuration from FILE.
  -n, --name NAME             The name of the configuration to extract.
  -o, --output FILE           Write to FILE.
",
    run,
};

const CHOICES: &[Choice<Common<()>>] = &[
    valued("file", Some('f'), File),
    flag("help", None, Help),
    valued("name", Some('n'), Own(())),
    valued("output", Some('o'), Output),
    flag("version", Some('v'), Version),
];

/// The origin of the devices that replace links.
const LANDMARK: &str = "<click-uncombine>";

fn run(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    let mut component = String::new();
    for word in session.words(CHOICES, args)? {
        let value = match word {
            Word::Option { id: Own(()), value, .. } => value,
            Word::Option { id: Common::File, value, .. } => {
                if session.has_configuration() {
                    return session.usage("combined router specified twice");
                }
                session.configuration(file(&value))?;
                continue;
            }
            Word::Option { id, value, .. } => {
                session.common(id, value)?;
                continue;
            }
            Word::Plain(word) if session.has_configuration() => word,
            Word::Plain(word) => {
                session.configuration(file(&word))?;
                continue;
            }
        };
        if !component.is_empty() {
            return session.usage("component name specified twice");
        }
        component = value;
    }
    let mut input = session.read()?;
    let name = session.name();
    if input.archive.iter().all(|member| member.name != COMPONENTS) {
        return session
            .fail(format_args!("{name}: not created by ‘click-combine’ (no ‘{COMPONENTS}’)"));
    }
    if component.is_empty() {
        return session.fail("click-uncombine: no component specified");
    }
    let mut prefix = String::new();
    for part in component.split('/') {
        let known = components(&input.archive);
        if known.iter().all(|other| other != part) {
            return session.fail(format_args!("{name}: no ‘{prefix}{part}’ component"));
        }
        Work { session, router: &mut input.router, ends: Vec::new() }.take_out(part);
        if session.errors() > 0 {
            return Err(Stop::Failed);
        }
        let inner = known.iter().filter_map(|other| other.strip_prefix(&format!("{part}/")));
        let inner: String = inner.map(|name| format!("{name}\n")).collect();
        input.archive.retain(|member| member.name != COMPONENTS);
        if !inner.is_empty() {
            let data = inner.into_bytes();
            input.archive.push(Member { name: COMPONENTS.to_owned(), data });
        }
        prefix += part;
        prefix.push('/');
    }
    session.write(&input.router, &input.archive)
}

struct Work<'a> {
    session: &'a Session,
    router: &'a mut Router,
    /// The devices at the ends of the component, and the links inside it.
    ends: Vec<usize>,
}

impl Work<'_> {
    fn take_out(mut self, component: &str) {
        self.remove_links(component);
        let prefix = format!("{component}/");
        let mut live = vec![false; self.router.elements.len()];
        let mut todo = std::mem::take(&mut self.ends);
        let named = self.router.iter().filter(|(_, element)| element.name.starts_with(&prefix));
        todo.extend(named.map(|(index, _)| index));
        let pairs: Vec<(usize, usize)> =
            self.router.connections().map(|c| (c.from.0, c.to.0)).collect();
        while let Some(index) = todo.pop() {
            match live.get_mut(index) {
                Some(live) if !*live => *live = true,
                _ => continue,
            }
            let beyond = |&(from, to): &(usize, usize)| match index {
                index if index == from => Some(to),
                index if index == to => Some(from),
                _ => None,
            };
            todo.extend(pairs.iter().filter_map(beyond));
        }
        for (index, live) in live.iter().enumerate() {
            if !live {
                self.router.kill(index);
            }
        }
        self.router.free_dead();
        for index in 0..self.router.elements.len() {
            let Some(element) = self.router.live(index) else { continue };
            let short = element.name.strip_prefix(&prefix).map(str::to_owned);
            if let Some(short) = short
                && self.router.find(&short).is_none()
            {
                self.router.rename(index, &short);
            }
        }
        for index in self.router.of_class(LINK) {
            let Some(element) = self.router.elements.get_mut(index) else { continue };
            let args = split_args(&element.config).into_iter().enumerate();
            let args = args.map(|(index, arg)| match arg.text.strip_prefix(&prefix) {
                Some(short) if index % 2 == 0 => short.to_owned(),
                _ => arg.text.into_owned(),
            });
            element.config = args.collect::<Vec<_>>().join(", ");
        }
        self.router.flatten();
    }

    /// Replaces the links that end in the component by devices.
    fn remove_links(&mut self, component: &str) {
        for link in self.router.of_class(LINK) {
            let Some(element) = self.router.live(link).cloned() else { continue };
            let args: Vec<String> =
                split_args(&element.config).into_iter().map(|arg| arg.text.into_owned()).collect();
            let inputs = element.inputs;
            let ends: Option<Vec<[String; 4]>> = args
                .chunks(2)
                .map(|pair| match pair {
                    [end, config] => match split_words(end)[..] {
                        [name, element, class] => {
                            let words = [name, element, class].map(|word| word.text.to_owned());
                            let [name, element, class] = words;
                            Some([name, element, class, config.clone()])
                        }
                        _ => None,
                    },
                    _ => None,
                })
                .collect();
            let whole = inputs > 0 && element.outputs > 0;
            let count = inputs + element.outputs;
            let Some(ends) = ends.filter(|ends| whole && ends.len() == count) else {
                let name = &element.name;
                self.session.error(format_args!("RouterLink ‘{name}’ has strange configuration"));
                continue;
            };
            let inside =
                |name: &str| name.strip_prefix(component).is_some_and(|n| n.starts_with('/'));
            if ends.iter().all(|[name, ..]| name != component) {
                if ends.iter().any(|[name, ..]| inside(name)) {
                    self.ends.push(link);
                }
                continue;
            }
            for (index, [name, device, class, config]) in ends.iter().enumerate() {
                let full = format!("{name}/{device}");
                if let Some(earlier) = self.router.find(&full).and_then(|i| self.router.live(i)) {
                    self.session.error(format_args!(
                        "{}: RouterLink ‘{}’ element ‘{full}’ already exists\n{}: (previous \
                         definition was here)",
                        element.landmark, element.name, earlier.landmark
                    ));
                } else if name == component {
                    let device = self.router.get(device, class, config, LANDMARK);
                    match index.checked_sub(inputs) {
                        None => self.router.insert_before((device, 0), (link, index)),
                        Some(output) => self.router.insert_after((device, 0), (link, output)),
                    }
                    self.ends.push(device);
                }
            }
            self.router.free(link);
        }
    }
}
