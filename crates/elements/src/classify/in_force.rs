//! The patterns or rules by which a classifier classifies right now, and the handlers that show and
//! exchange them.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard};

use millrace_core::InRound;
use millrace_core::element::HandlerError;
use millrace_core::{Call, Element, Handlers, Lock, Published};

/// What is in force, and can be exchanged while packets come.
pub(super) struct InForce<T> {
    current: Published<Version<T>>,
    /// How many versions there have been after the first.
    changes: AtomicU64,
    /// Held by whoever makes the next version of the current one.
    writing: Lock<()>,
}

/// What was in force from one change to the next.
pub(crate) struct Version<T> {
    what: T,
    /// The configuration that a handler wrote, unless it is the first.
    written: Option<String>,
    /// Different for each version, 0 for the first.
    pub(crate) number: u64,
}

impl<T: Send + Sync + 'static> InForce<T> {
    pub(super) fn new(what: T) -> Self {
        let current = Published::new(Version { what, written: None, number: 0 });
        Self { current, changes: 0.into(), writing: Lock::default() }
    }

    /// What is in force, for packets of this round.
    #[inline(always)]
    pub(super) fn get<'a>(&'a self, at: &'a impl InRound) -> &'a Version<T> {
        self.current.get(at)
    }

    /// Keeps others from putting something else in force.
    pub(super) fn lock(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    /// What is in force, for longer than a moment.
    pub(super) fn keep(&self) -> Arc<Version<T>> {
        self.current.load()
    }

    /// Puts something else in force; `written` is the configuration that says so.
    pub(super) fn exchange(&self, what: T, written: Option<String>) {
        let number = self.changes.fetch_add(1, Relaxed) + 1;
        self.current.store(Arc::new(Version { what, written, number }));
    }
}

impl<T> Deref for Version<T> {
    type Target = T;

    #[inline]
    fn deref(&self) -> &T {
        &self.what
    }
}

/// A classifier whose configuration can be written.
pub(super) trait Exchangeable: Element {
    /// What its configuration becomes.
    type Rules: Send + Sync + 'static;

    fn in_force(&self) -> &InForce<Self::Rules>;

    /// Compiles the configuration that a handler is given.
    fn recompile(&self, call: &Call<'_>) -> Result<Self::Rules, HandlerError>;

    /// The text of the decision program.
    fn program(rules: &Self::Rules) -> String;

    /// The configuration that says what is in force, if that is no longer what was configured.
    fn config(_rules: &Self::Rules) -> Option<String> {
        None
    }
}

/// The handlers `program` and `config`.
pub(super) fn handlers<E: Exchangeable>(handlers: &mut Handlers<E>) {
    handlers.read("program", |element, _| E::program(&element.in_force().keep()));
    handlers.read("config", |element, call| {
        let rules = element.in_force().keep();
        let written = E::config(&rules).or_else(|| rules.written.clone());
        written.unwrap_or_else(|| original_config(call))
    });
    handlers.write("config", |element, call| {
        let rules = element.recompile(call)?;
        let _writing = element.in_force().lock();
        element.in_force().exchange(rules, Some(call.text().into_owned()));
        Ok(())
    });
}

/// The configuration string that an element has by the configuration.
fn original_config(call: &Call<'_>) -> String {
    let element = call.router().elements().nth(call.element());
    element.map(|element| element.config.to_owned()).unwrap_or_default()
}
