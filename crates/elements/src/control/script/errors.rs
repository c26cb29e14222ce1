//! The errors of a script's run, and where they are reported.

use std::cell::{Cell, RefCell};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::Router;

/// Collects the errors of one run.
pub(super) struct Errors<'a> {
    router: &'a Router,
    count: Cell<usize>,
    hears: Hears<'a>,
}

enum Hears<'a> {
    /// Printed for the user, below a line of context, if there is one; and counted, for the program to fail at its end.
    User { context: Option<String>, said: Cell<bool>, failures: &'a AtomicU64 },
    /// Returned to the caller.
    Caller(RefCell<Vec<String>>),
}

impl<'a> Errors<'a> {
    /// Prints errors at once, and adds them to `failures`.
    pub(super) fn to_user(router: &'a Router, failures: &'a AtomicU64) -> Self {
        let hears = Hears::User { context: None, said: Cell::new(false), failures };
        Self { router, count: Cell::new(0), hears }
    }

    /// Prints errors at once, with the context that `element` was executing, and adds them to `failures`.
    pub(super) fn executing(router: &'a Router, element: usize, failures: &'a AtomicU64) -> Self {
        let context = Some(format!("While executing ‘{}’:", declaration(router, element)));
        let hears = Hears::User { context, said: Cell::new(false), failures };
        Self { router, count: Cell::new(0), hears }
    }

    /// Keeps errors for the caller.
    pub(super) fn to_caller(router: &'a Router) -> Self {
        Self { router, count: Cell::new(0), hears: Hears::Caller(RefCell::default()) }
    }

    /// The number of errors.
    pub(super) fn count(&self) -> usize {
        self.count.get()
    }

    /// Reports an error of one or more lines.
    pub(super) fn error(&self, message: &str) {
        self.add();
        match &self.hears {
            Hears::Caller(kept) => kept.borrow_mut().extend(message.lines().map(str::to_owned)),
            Hears::User { context: None, .. } => self.router.chatter(message),
            Hears::User { context: Some(context), said, .. } => {
                if !said.replace(true) {
                    self.router.chatter(context);
                }
                self.router.chatter(&indented(message));
            }
        }
    }

    /// Reports an error that happened in a call.
    pub(super) fn in_call(&self, call: &str, message: &str) {
        match message {
            "" => self.add(),
            _ => self.error(&format!("While calling ‘{call}’:\n{}", indented(message))),
        }
    }

    fn add(&self) {
        self.count.set(self.count.get() + 1);
        if let Hears::User { failures, .. } = &self.hears {
            failures.fetch_add(1, Relaxed);
        }
    }

    /// The errors kept for the caller.
    pub(super) fn into_messages(self) -> String {
        match self.hears {
            Hears::Caller(kept) => kept.into_inner().join("\n"),
            Hears::User { .. } => String::new(),
        }
    }
}

/// An element as a configuration declares it.
pub(super) fn declaration(router: &Router, element: usize) -> String {
    format!("{} :: {}", router.name_of(element), router.class_of(element))
}

fn indented(text: &str) -> String {
    let lines: Vec<String> = text.lines().map(|line| format!("  {line}")).collect();
    lines.join("\n")
}
