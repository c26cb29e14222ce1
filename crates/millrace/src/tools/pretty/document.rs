//! A configuration that is to be written as a page or as a graph.

use std::collections::HashMap;

use millrace_lang::{Assembly, Diagnostic};

use crate::tools::processing::{Kind, Processing};
use crate::tools::router::{Port, Router};
use crate::tools::traits::Traits;

/// A configuration to be written.
pub(super) struct Pretty<'a> {
    pub(super) text: &'a str,
    pub(super) assembly: &'a Assembly,
    pub(super) router: &'a Router,
    pub(super) found: &'a [Diagnostic],
    pub(super) traits: Traits,
    pub(super) processing: Processing,
    /// The texts that replace tags.
    pub(super) definitions: HashMap<String, String>,
    /// The address of the documentation of classes; `%s` is replaced by the name.
    pub(super) class_docs: String,
}

impl Pretty<'_> {
    /// The index of a class that the configuration declares.
    pub(super) fn declared(&self, class: &str) -> Option<usize> {
        self.assembly.classes.iter().rposition(|(name, _)| name == class)
    }

    /// The link to the description of a class: in the configuration, or elsewhere; empty if there is none.
    pub(super) fn class_href(&self, class: &str) -> String {
        match self.declared(class) {
            Some(number) => format!("#decl{number}"),
            None => self.class_docs.replace("%s", class),
        }
    }

    pub(super) fn kind(&self, port: Port, output: bool) -> Option<Kind> {
        let side = if output { &self.processing.outputs } else { &self.processing.inputs };
        side.get(port.0)?.get(port.1).copied()
    }
}
