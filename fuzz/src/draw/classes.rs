//! What there is to draw from: the linked classes, their arguments, and the arguments that their manuals show.

use std::collections::HashMap;
use std::sync::LazyLock;

use millrace_core::args::Asked;
use millrace_core::testing::{CATCH, FEED};
use millrace_core::{ClassInfo, Registry};
// Elements register themselves when their crate is linked, and it is linked when it is named.
use millrace_elements as _;
use millrace_lang::{Options, SourceMap, compile};

/// A class that can be drawn.
pub(crate) struct Known {
    /// The name in configurations.
    pub(crate) name: &'static str,
    /// Its entry in the registry.
    pub(crate) info: &'static ClassInfo,
    /// The arguments that it asks for when it has none.
    pub(crate) asked: Vec<Asked>,
    /// Configuration strings that examples of manuals give it.
    pub(crate) shown: Vec<String>,
}

/// All that is known of classes.
pub(crate) struct Knowledge {
    /// The classes, those that bring in packets and take them out included.
    pub(crate) registry: Registry,
    /// The names of all of them.
    pub(crate) names: Vec<String>,
    /// The classes that are drawn, by name, each once.
    pub(crate) classes: Vec<Known>,
    /// The names of handlers.
    pub(crate) handlers: Vec<String>,
}

/// All that is known of classes, found out once.
pub(crate) fn known() -> &'static Knowledge {
    static KNOWN: LazyLock<Knowledge> = LazyLock::new(Knowledge::gather);
    &KNOWN
}

impl Knowledge {
    fn gather() -> Self {
        let mut registry = Registry::linked();
        let infos: Vec<(&'static str, &'static ClassInfo)> = registry.iter().collect();
        let infos = infos.into_iter().filter(|(name, info)| *name == info.class.name);
        let mut shown: HashMap<String, Vec<String>> = HashMap::new();
        for (_, info) in infos.clone() {
            gather_shown(&info.manual(), &mut shown);
        }
        let classes = infos.map(|(name, info)| Known {
            name,
            info,
            asked: info.arguments(),
            shown: shown.remove(name).unwrap_or_default(),
        });
        let classes: Vec<Known> = classes.collect();
        let handlers = classes.iter().flat_map(|known| known.info.handler_names());
        let mut handlers: Vec<String> = handlers.map(|(name, _, _)| name).collect();
        handlers.sort_unstable();
        handlers.dedup();
        registry.add(FEED);
        registry.add(CATCH);
        let names = registry.iter().map(|(name, _)| name.to_owned()).collect();
        Self { registry, names, classes, handlers }
    }
}

/// Adds what the examples of a manual give to elements of each class.
fn gather_shown(manual: &str, shown: &mut HashMap<String, Vec<String>>) {
    for block in manual.split("```click\n").skip(1) {
        let Some((text, _)) = block.split_once("```") else { continue };
        let mut map = SourceMap::default();
        let source = map.add("manual", text);
        let (graph, _) = compile(&mut map, source, &Options::default());
        for element in graph.elements {
            let texts = shown.entry(element.class).or_default();
            let text = element.config.text;
            if !text.is_empty() && !texts.contains(&text) {
                texts.push(text);
            }
        }
    }
}
