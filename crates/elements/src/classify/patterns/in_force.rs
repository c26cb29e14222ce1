//! The patterns or rules that a classifier currently uses, and the handlers that show and replace them.

use std::ops::Deref;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard};

use millrace_core::InRound;
use millrace_core::element::HandlerError;
use millrace_core::{Call, Element, Handlers, Lock, Published};

/// The value in force, which can be replaced while packets are classified.
pub(crate) struct InForce<T> {
    current: Published<Version<T>>,
    /// The number of versions after the first.
    changes: AtomicU64,
    /// Held while the next version is derived from the current one.
    writing: Lock<()>,
}

/// The value in force from one change to the next.
pub(crate) struct Version<T> {
    what: T,
    /// The configuration that a handler wrote, except for the first version.
    written: Option<String>,
    /// Different for each version, 0 for the first.
    pub(crate) number: u64,
}

impl<T: Send + Sync + 'static> InForce<T> {
    pub(crate) fn new(what: T) -> Self {
        let current = Published::new(Version { what, written: None, number: 0 });
        Self { current, changes: 0.into(), writing: Lock::default() }
    }

    /// The value in force, for packets of this round.
    #[inline(always)]
    pub(crate) fn get<'a>(&'a self, at: &'a impl InRound) -> &'a Version<T> {
        self.current.get(at)
    }

    /// Prevents other threads from replacing the value.
    pub(crate) fn lock(&self) -> MutexGuard<'_, ()> {
        self.writing.lock()
    }

    /// The value in force, for longer than a round.
    pub(crate) fn keep(&self) -> Arc<Version<T>> {
        self.current.load()
    }

    /// Replaces the value in force; `written` is the configuration that it came from.
    pub(crate) fn exchange(&self, what: T, written: Option<String>) {
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
pub(crate) trait Exchangeable: Element {
    /// The compiled form of its configuration.
    type Rules: Send + Sync + 'static;

    fn in_force(&self) -> &InForce<Self::Rules>;

    /// Compiles the configuration written to a handler.
    fn recompile(&self, call: &Call<'_>) -> Result<Self::Rules, HandlerError>;

    /// The text of the decision program.
    fn program(rules: &Self::Rules) -> String;

    /// The configuration for the value in force, if it differs from what was configured or written.
    fn config(_rules: &Self::Rules) -> Option<String> {
        None
    }
}

/// The handlers `program` and `config`.
pub(crate) fn handlers<E: Exchangeable>(handlers: &mut Handlers<E>) {
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

/// The element's configuration string in the router's configuration.
fn original_config(call: &Call<'_>) -> String {
    let element = call.router().elements().nth(call.element());
    element.map(|element| element.config.to_owned()).unwrap_or_default()
}
