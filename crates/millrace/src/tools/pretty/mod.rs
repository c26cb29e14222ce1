//! `click-pretty`: writes a configuration as a page, from a template, or as a graph.

mod document;
mod elements;
mod graphs;
mod highlight;
mod html;

use std::collections::HashMap;

use document::Pretty;
use elements::Elements;
use highlight::highlight;
use html::next_tag;
use millrace_core::os_error_text;

use super::clp::{Choice, flag, valued};
use super::processing::Processing;
use super::router::Router;
use super::session::Common::{self, ClickPath, Expression, File, Help, Output, Own, Version};
use super::session::Session;
use super::tool::{Stop, Tool};
use super::traits::Traits;

pub(super) const TOOL: Tool = Tool {
    name: "click-pretty",
    about: "Writes a configuration as an HTML page with highlighted syntax",
    options: "\
  -f, --file FILE             Read the configuration from FILE.
  -e, --expression EXPR       Take EXPR itself as the configuration.
  -o, --output FILE           Write to FILE.
  -t, --template FILE         Make the page by the template in FILE.
  -T, --template-text TEXT    Make it by TEXT.
  -d, --define NAME=TEXT      The tag <~NAME> stands for TEXT.
  -u, --class-docs URL        Link classes to URL, where %s stands for the name.
      --package-docs PKG=URL  Link the classes of a package to URL.
      --userlevel             The configuration is for the user-level driver.
      --write-template        Write the template itself.
      --dot                   Write a graph in Graphviz’ language.
      --gml                   Write a graph in GML.
      --graphml               Write a graph in GraphML.
  -C, --clickpath PATH        Look for libraries in PATH.
",
    run,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choose {
    Action(Action),
    ClassDocs,
    Define,
    Driver,
    PackageDocs,
    Template,
    TemplateText,
}

/// What to write instead of a page.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Action {
    Dot,
    Gml,
    Graphml,
    Template,
}

const CHOICES: &[Choice<Common<Choose>>] = &[
    flag("bsdmodule", Some('b'), Own(Choose::Driver)),
    valued("clickpath", Some('C'), ClickPath),
    valued("class-docs", Some('u'), Own(Choose::ClassDocs)),
    valued("define", Some('d'), Own(Choose::Define)),
    flag("dot", None, Own(Choose::Action(Action::Dot))),
    valued("expression", Some('e'), Expression),
    valued("file", Some('f'), File),
    flag("gml", None, Own(Choose::Action(Action::Gml))),
    flag("graphml", None, Own(Choose::Action(Action::Graphml))),
    flag("help", None, Help),
    flag("kernel", Some('k'), Own(Choose::Driver)),
    flag("linuxmodule", Some('l'), Own(Choose::Driver)),
    valued("output", Some('o'), Output),
    valued("package-docs", None, Own(Choose::PackageDocs)),
    valued("template", Some('t'), Own(Choose::Template)),
    valued("template-text", Some('T'), Own(Choose::TemplateText)),
    flag("userlevel", None, Own(Choose::Driver)),
    flag("version", Some('v'), Version),
    flag("write-template", None, Own(Choose::Action(Action::Template))),
];

/// The default template for the labels of elements in graphs.
const GRAPH_TEMPLATE: &str =
    "<~if test=\"<~anonymous>\" then=\"<~type>\" else=\"<~name> :: <~type>\">";

/// Templates that are nested deeper than this are left out.
const MOST_NESTED: usize = 30;

fn run(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    let mut template = None;
    let mut action = None;
    let mut driver = false;
    let mut definitions = HashMap::new();
    let mut class_docs = String::new();
    session.command_line(CHOICES, args, |session, option, value, _| {
        match option {
            Choose::Action(_) if action.is_some() => {
                return session.usage("action specified twice");
            }
            Choose::Action(asked) => action = Some(asked),
            Choose::ClassDocs => class_docs = value,
            Choose::Define => {
                let (name, text) = value.split_once('=').unwrap_or((&value, ""));
                definitions.insert(name.to_owned(), text.to_owned());
            }
            Choose::Driver if driver => return session.usage("driver specified twice"),
            Choose::Driver => driver = true,
            Choose::PackageDocs if value.contains('=') => {}
            Choose::PackageDocs => {
                return session.usage("‘--package-docs’ option must contain an equals sign");
            }
            Choose::Template => match std::fs::read_to_string(&value) {
                Ok(text) => template = Some(text),
                Err(error) => {
                    let reason = os_error_text(&error);
                    return session.fail(format_args!("click-pretty: {value}: {reason}"));
                }
            },
            Choose::TemplateText => template = Some(value),
        }
        Ok(())
    })?;
    let graph = matches!(action, Some(Action::Dot | Action::Gml | Action::Graphml));
    let template = template.unwrap_or_else(|| match graph {
        true => GRAPH_TEMPLATE.to_owned(),
        false => include_str!("page.html").to_owned(),
    });
    if action == Some(Action::Template) {
        return session.write_text(template.as_bytes());
    }
    let (map, source, assembly, found) = session.outline()?;
    let mut router = Router::new(&assembly);
    router.flatten();
    let classes = assembly.classes.iter().map(|(name, _)| name.clone());
    let traits = Traits::with_compounds(classes);
    let (processing, complaints) = Processing::new(&router, &traits);
    complaints.warnings.iter().for_each(|warning| session.say(warning));
    complaints.errors.iter().for_each(|error| session.error(error));
    let pretty = Pretty {
        text: map.get(source).map_or("", |source| &source.text),
        assembly: &assembly,
        router: &router,
        found: &found,
        traits,
        processing,
        definitions,
        class_docs,
    };
    let out = match action {
        Some(Action::Dot) => graphs::dot(&pretty, &template),
        Some(Action::Gml) => graphs::gml(&pretty, &template),
        Some(Action::Graphml) => graphs::graphml(&pretty, &template),
        _ => page(&pretty, &template, 0),
    };
    session.write_text(out.as_bytes())
}

/// A page, from a template.
fn page(pretty: &Pretty<'_>, template: &str, depth: usize) -> String {
    let mut out = String::new();
    if depth > MOST_NESTED {
        return out;
    }
    let mut rest = Some(template);
    while let Some(template) = rest {
        let (tag, after) = next_tag(template, false);
        rest = after;
        out += &tag.before;
        match tag.name.as_str() {
            "config" => out += &highlight(pretty),
            "elements" => out += &Elements::new(pretty, &tag.attributes).all(),
            name => {
                if let Some(text) = pretty.definitions.get(name) {
                    out += &page(pretty, text, depth + 1);
                }
            }
        }
    }
    out
}
