//! Inspection of the whole configuration before anything runs.

use std::any::Any;
use std::sync::Arc;

use millrace_lang::{Connection, Diagnostic, Span};

use crate::clock::Clock;
use crate::graph::{Class, PortKind};
use crate::plan::Plan;
use crate::router::{ANY_HANDLER, Router};

/// One end of a connection: the element and its port.
pub type Port = (usize, usize);

/// The configured graph, for an element that checks more than itself
/// ([`Element::inspect`](super::Element::inspect)). Its diagnostics may point at any place of the configuration.
pub struct Inspection<'a> {
    pub(crate) id: usize,
    pub(crate) router: &'a Router,
    pub(crate) connections: &'a [Connection],
    pub(crate) found: &'a mut Vec<Diagnostic>,
}

impl<'a> Inspection<'a> {
    /// The index of the inspecting element.
    pub fn id(&self) -> usize {
        self.id
    }

    /// The number of elements; indices are smaller.
    pub fn len(&self) -> usize {
        self.router.len()
    }

    /// True when there are no elements.
    pub fn is_empty(&self) -> bool {
        self.router.is_empty()
    }

    /// The full name of an element; empty when it does not exist.
    pub fn name_of(&self, id: usize) -> &'a str {
        self.router.name_of(id)
    }

    /// The declaration of an element's class.
    pub fn class_of(&self, id: usize) -> Option<&'static Class> {
        self.router.member(id).map(|member| member.class)
    }

    /// `name :: Class`, as messages name an element.
    pub fn described(&self, id: usize) -> String {
        format!("{} :: {}", self.name_of(id), self.router.class_of(id))
    }

    /// Where an element is declared.
    pub fn span_of(&self, id: usize) -> Option<Span> {
        self.router.member(id).map(|member| member.span)
    }

    /// The element that `name` means for element `from`: the nearest one in the enclosing compound elements.
    pub fn resolve(&self, from: usize, name: &str) -> Option<usize> {
        self.router.resolve(from, name)
    }

    /// State that elements share ([`Setup::shared`](super::Setup::shared)), if an element has asked for it.
    pub fn shared<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.router.shared()
    }

    /// The connections that leave element `id`: its output, the input that it leads to, and where the file
    /// declares it. In the order of the configuration.
    pub fn leaving(&self, id: usize) -> impl Iterator<Item = (usize, Port, Span)> + use<'a> {
        let connections = self.connections;
        let own = self.router.links().leaving(id).into_iter().filter_map(|at| connections.get(at));
        own.map(|one| (one.from.1, one.to, one.span))
    }

    /// The connections that arrive at element `id`: its input, the output that leads there, and where the
    /// file declares it. In the order of the configuration.
    pub fn coming(&self, id: usize) -> impl Iterator<Item = (usize, Port, Span)> + use<'a> {
        let connections = self.connections;
        let own = self.router.links().coming(id).into_iter().filter_map(|at| connections.get(at));
        own.map(|one| (one.to.1, one.from, one.span))
    }

    /// The kinds of an element's outputs, as determined by the graph.
    pub fn outputs_of(&self, id: usize) -> &'a [PortKind] {
        self.router.member(id).map_or(&[], |member| &member.outputs)
    }

    /// The kinds of an element's inputs, as determined by the graph.
    pub fn inputs_of(&self, id: usize) -> &'a [PortKind] {
        self.router.member(id).map_or(&[], |member| &member.inputs)
    }

    /// Whether a handler of an element, or a global one, can be read and can be written; `None` if there is none.
    pub fn handler_access(&self, id: Option<usize>, handler: &str) -> Option<(bool, bool)> {
        self.router.access_of(id, handler)
    }

    /// The names of the handlers of an element, or of the global ones.
    pub fn handlers_of(&self, id: Option<usize>) -> Vec<String> {
        let all = match id {
            Some(id) => self.router.handlers_of(id),
            None => self.router.global_handlers(),
        };
        all.into_iter().map(|(name, _, _)| name).collect()
    }

    /// Whether an element answers to handlers of names that nobody knows before.
    pub fn answers_any(&self, id: usize) -> bool {
        self.router.member(id).is_some_and(|member| member.handler(ANY_HANDLER).is_some())
    }

    /// The router's clock.
    pub fn clock(&self) -> &'a Clock {
        self.router.clock()
    }

    /// The threads, and what runs on them.
    pub fn plan(&self) -> &'a Plan {
        self.router.plan()
    }

    /// Records a diagnostic. An error prevents the router from being created.
    pub fn report(&mut self, finding: Diagnostic) {
        self.found.push(finding);
    }

    /// Records advice about this element that `millrace check` prints: not an error, but perhaps not what the user
    /// wants.
    pub fn advise(&mut self, message: impl Into<String>) {
        let advice = Diagnostic::advice(self.span_of(self.id), message);
        self.report(advice.context(format!("In ‘{}’", self.described(self.id))));
    }

    /// Records a warning about this element.
    pub fn warn(&mut self, message: impl Into<String>) {
        let warning = Diagnostic::warning(self.span_of(self.id), message);
        self.report(warning.context(format!("In ‘{}’", self.described(self.id))));
    }

    /// Whether this element or one before it has reported an error.
    pub fn has_errors(&self) -> bool {
        self.found.iter().any(Diagnostic::is_error)
    }
}
