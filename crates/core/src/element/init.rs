//! What an element gets when it is initialised.

use std::any::Any;
use std::sync::Arc;

use millrace_lang::Diagnostic;

use crate::clock::Clock;
use crate::graph::PortKind;
use crate::needs::Need;
use crate::refusal_advice;
use crate::router::{Path, Router};
use crate::schedule::{Notifier, Task};

/// Why an element could not be initialised or cleaned up.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct Refused(pub String);

impl From<String> for Refused {
    fn from(message: String) -> Self {
        Self(message)
    }
}

impl From<&str> for Refused {
    fn from(message: &str) -> Self {
        Self(message.to_owned())
    }
}

impl From<std::io::Error> for Refused {
    fn from(error: std::io::Error) -> Self {
        Self(format!("{error}{}", refusal_advice(&error)))
    }
}

/// The input for initialising an element.
pub struct Init<'a> {
    pub(crate) id: usize,
    pub(crate) router: &'a Arc<Router>,
    pub(crate) predecessor: Option<&'a Router>,
    /// The diagnostics so far.
    pub(crate) findings: Vec<Diagnostic>,
}

impl<'a> Init<'a> {
    /// The router, to be stored. An element must store it as a weak reference, or neither is ever freed.
    pub fn shared_router(&self) -> &'a Arc<Router> {
        self.router
    }

    /// The element with this name in the running configuration that this one replaces, whose state it will
    /// [take](super::Element::take_state). If only one of the two can have an address or a device, leave it
    /// to the old one until then.
    pub fn predecessor<E: Any + Send + Sync>(&self) -> Option<Arc<E>> {
        let old = self.predecessor?;
        old.element(old.find(self.name())?)
    }

    /// The element's index.
    pub fn id(&self) -> usize {
        self.id
    }

    /// The router: elements, handlers, threads.
    pub fn router(&self) -> &'a Router {
        self.router
    }

    /// The element's full name.
    pub fn name(&self) -> &'a str {
        self.router.name_of(self.id)
    }

    /// Declares what the element [needs](crate::needs) while the router runs, as far as its arguments did not tell.
    pub fn needs(&self, needs: impl IntoIterator<Item = Need>) {
        self.router.add_needs(self.id, needs);
    }

    /// Records a warning about the element's configuration.
    pub fn warn(&mut self, message: impl Into<String>) {
        self.findings.push(Diagnostic::warning(None, message));
    }

    /// Records a warning about a place outside the configuration, such as a line of a file.
    pub fn warn_at(&mut self, landmark: impl Into<String>, message: impl Into<String>) {
        self.findings.push(Diagnostic::warning(None, message).landmark(landmark));
    }

    /// The reason why the element cannot run, with a place outside the configuration.
    pub fn refuse_at(
        &mut self,
        landmark: impl Into<String>,
        message: impl Into<String>,
    ) -> Refused {
        self.findings.push(Diagnostic::error(None, message).landmark(landmark));
        Refused(String::new())
    }

    /// The router's clock.
    pub fn clock(&self) -> &'a Clock {
        self.router.clock()
    }

    /// A service of the program: devices, standard output.
    pub fn service<T: Any + Send + Sync>(&self) -> Option<Arc<T>> {
        self.router.services().get()
    }

    /// The threads whose packets can reach this element, one bit each.
    pub fn threads(&self) -> u64 {
        self.router.plan().reach[self.id]
    }

    /// Whether packets are pulled through input `port`.
    pub fn is_pull_input(&self, port: usize) -> bool {
        self.router.input_kind(self.id, port) == Some(PortKind::Pull)
    }

    /// Whether packets are pulled through output `port`.
    pub fn is_pull_output(&self, port: usize) -> bool {
        self.router.output_kind(self.id, port) == Some(PortKind::Pull)
    }

    /// Schedules `task` whenever a queue upstream of pull input `port` has packets.
    pub fn listen(&self, port: usize, task: &Task) -> Listening {
        self.listen_to(Path::upstream(self.router, self.id, port), task)
    }

    /// The state of the queues upstream of pull input `port`, without waiting for them.
    pub fn upstream(&self, port: usize) -> Listening {
        Listening { path: Path::upstream(self.router, self.id, port) }
    }

    /// Schedules `task` whenever a queue downstream of push output `port` has room again.
    pub fn listen_for_room(&self, port: usize, task: &Task) -> Listening {
        self.listen_to(Path::downstream(self.router, self.id, port), task)
    }

    /// Checks, without listening, whether a queue upstream of pull input `port` has packets.
    pub fn watch(&self, port: usize) -> Listening {
        Listening { path: Path::upstream(self.router, self.id, port) }
    }

    fn listen_to(&self, path: Path, task: &Task) -> Listening {
        for notifier in path.wakers(self.router) {
            notifier.listen(task.clone());
        }
        Listening { path }
    }
}

/// What a task knows about the queues that it pulls from or pushes to.
#[derive(Clone, Debug, Default)]
pub struct Listening {
    path: Path,
}

impl Listening {
    /// Unschedules a running task that has no work, until it may have some.
    pub fn rest(&self, task: &Task, router: &Router) {
        if !self.active(router) {
            task.rest();
            // What changed between the look and the rest has told nobody.
            if self.active(router) {
                task.schedule();
            }
        }
    }

    /// True when there is a queue that reports its packets, or its room.
    pub fn is_bounded(&self) -> bool {
        self.path.has_ends()
    }

    /// True when a queue may have packets, or room: the task must then not rest.
    pub fn active(&self, router: &Router) -> bool {
        !self.path.all_tell || self.path.notifiers(router).any(Notifier::is_active)
    }
}
