//! What is served, as values.

use std::sync::Arc;

use millrace_core::router::{hear, or_rather};
use millrace_core::{HandlerError, Registry, Router};
use serde::Serialize;

use super::answer::Refusal;
use super::console::Folds;
use crate::drawing::{Drawing, Folded, Placed};
use crate::model::snapshot::{Connection, Element};
use crate::model::{Model, Snapshot};
use hyper::StatusCode;

/// A router that runs, and its model.
pub(super) struct Site {
    router: Arc<Router>,
    model: Model,
    registry: Registry,
}

/// The elements of a router.
#[derive(Serialize)]
pub(super) struct Elements {
    generation: u64,
    elements: Vec<Element>,
}

/// All that is known of an element.
#[derive(Serialize)]
pub(super) struct Page {
    #[serde(flatten)]
    element: Element,
    /// Its arguments.
    config: String,
    /// The threads that reach it.
    on_threads: Vec<usize>,
    handlers: Vec<Handler>,
    /// Its connections.
    connections: Vec<Connection>,
    /// The manual of its class, in Markdown.
    manual: Option<String>,
}

/// A handler.
#[derive(Serialize)]
pub(super) struct Handler {
    name: String,
    readable: bool,
    writable: bool,
}

/// The global handlers.
#[derive(Serialize)]
pub(super) struct Handlers {
    handlers: Vec<Handler>,
}

/// The graph: nodes and edges, without what elements count.
#[derive(Serialize)]
pub(super) struct Graph {
    generation: u64,
    elements: Vec<Node>,
    connections: Vec<Connection>,
}

/// An element of the graph.
#[derive(Serialize)]
pub(super) struct Node {
    id: usize,
    name: String,
    class: String,
    information: bool,
    inputs: Vec<crate::model::snapshot::PortKind>,
    outputs: Vec<crate::model::snapshot::PortKind>,
}

/// The picture of the graph.
#[derive(Serialize)]
pub(super) struct Layout {
    generation: u64,
    /// None if it is too large for a picture.
    drawing: Option<Placed>,
}

/// The configuration.
#[derive(Serialize)]
pub(super) struct Configuration {
    generation: u64,
    /// As it was written.
    text: String,
    /// Without compound elements.
    flat: String,
}

/// What came of a write.
#[derive(Serialize)]
pub(super) struct Written {
    warnings: Vec<String>,
}

impl Site {
    pub(super) fn new(router: Arc<Router>, model: Model) -> Self {
        Self { router, model, registry: Registry::linked() }
    }

    pub(super) fn snapshot(&self) -> Snapshot {
        self.model.snapshot(&self.router)
    }

    pub(super) fn elements(&self) -> Elements {
        let Snapshot { generation, elements, .. } = self.snapshot();
        Elements { generation, elements }
    }

    /// All of one element.
    ///
    /// # Errors
    /// There is none of this name.
    pub(super) fn element(&self, name: &str) -> Result<Page, Refusal> {
        let snapshot = self.snapshot();
        let id = self.router.find(name);
        let found = id.and_then(|id| Some((id, snapshot.elements.get(id)?.clone())));
        let Some((id, element)) = found else {
            let near = or_rather(self.router.near_element(name));
            let why = format!("no element named ‘{name}’{near}");
            return Err(Refusal::new(StatusCode::NOT_FOUND, why));
        };
        let mut connections = snapshot.connections;
        connections.retain(|edge| edge.from == id || edge.to == id);
        let config = self.router.read_of(id, "config", b"").unwrap_or_default();
        Ok(Page {
            config: String::from_utf8_lossy(&config).into_owned(),
            on_threads: self.router.plan().threads_of(id).collect(),
            handlers: listed(self.router.handlers_of(id)),
            connections,
            manual: self.registry.get(&element.class).map(|info| info.manual().to_string()),
            element,
        })
    }

    pub(super) fn handlers(&self) -> Handlers {
        Handlers { handlers: listed(self.router.global_handlers()) }
    }

    pub(super) fn graph(&self) -> Graph {
        let Snapshot { generation, elements, connections, .. } = self.snapshot();
        let node = |element: Element| Node {
            id: element.id,
            name: element.name,
            class: element.class,
            information: element.information,
            inputs: element.inputs,
            outputs: element.outputs,
        };
        Graph { generation, elements: elements.into_iter().map(node).collect(), connections }
    }

    pub(super) fn layout(&self, folds: &Folds) -> Layout {
        let full = Drawing::of(&self.router);
        let folded = Folded::new(&full, |compound| folds.fold(compound));
        Layout { generation: self.router.generation(), drawing: Placed::new(&folded) }
    }

    pub(super) fn configuration(&self) -> Configuration {
        let text = |handler| {
            let read = self.router.read_global(handler, b"").unwrap_or_default();
            String::from_utf8_lossy(&read).into_owned()
        };
        Configuration {
            generation: self.router.generation(),
            text: text("config"),
            flat: text("flatconfig"),
        }
    }

    /// Reads a handler.
    ///
    /// # Errors
    /// There is none, or it refuses.
    pub(super) fn read(&self, path: &str, parameter: &[u8]) -> Result<Vec<u8>, Refusal> {
        self.router.read(path, parameter).map_err(|error| self.refusal(path, error, false))
    }

    /// Writes a handler.
    ///
    /// # Errors
    /// There is none, or it refuses.
    pub(super) fn write(&self, path: &str, text: &[u8]) -> Result<Written, Refusal> {
        let (written, warnings) = hear(|| self.router.write(path, text));
        match written {
            Ok(()) => Ok(Written { warnings }),
            Err(error) => Err(self.refusal(path, error, true)),
        }
    }

    fn refusal(&self, path: &str, error: HandlerError, writes: bool) -> Refusal {
        match &error {
            HandlerError::NoElement(_) | HandlerError::NoHandler(_) => {
                let near = or_rather(self.router.near_path(path, writes));
                Refusal::new(StatusCode::NOT_FOUND, format!("{error}{near}"))
            }
            HandlerError::WriteOnly(_) => Refusal::method("PUT, POST"),
            HandlerError::ReadOnly(_) => Refusal::method("GET, HEAD"),
            HandlerError::Refused(why) => Refusal::new(StatusCode::BAD_REQUEST, why.clone()),
        }
    }
}

fn listed(handlers: Vec<(String, bool, bool)>) -> Vec<Handler> {
    let handler = |(name, readable, writable)| Handler { name, readable, writable };
    handlers.into_iter().map(handler).collect()
}
