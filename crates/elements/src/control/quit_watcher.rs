//! QuitWatcher - stops the program when an element is no longer scheduled
//!
//! # Synopsis
//! `QuitWatcher(ELEMENT, ...)`
//!
//! # Description
//! Checks every 10 milliseconds whether all ELEMENTs are still scheduled. When one is not, it asks the program to stop.
//!
//! # Arguments
//! - ELEMENT: an element with a `scheduled` read handler, such as a source. Any number of them.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! s :: InfiniteSource(LIMIT 10) -> Discard;
//! QuitWatcher(s);
//! ```
//!
//! # See also
//! DriverManager, InfiniteSource

use millrace_core::args::ElementRef;
use millrace_core::{
    Arg, Class, Context, Element, Failed, Init, Refused, Setup, Timer, Timestamp, register,
};

/// The element; its manual is at the top of the file.
pub struct QuitWatcher {
    watched: Vec<usize>,
    timer: Timer,
}

register!(QuitWatcher, "quit_watcher.rs");

/// The time between checks.
const PAUSE: Timestamp = Timestamp::from_millis(10);

impl Element for QuitWatcher {
    const CLASS: Class = Class::new("QuitWatcher", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let scope = *setup.args.scope();
        let mut watched = Vec::new();
        for argument in setup.args.rest() {
            match ElementRef::parse(&argument, &scope) {
                Ok(ElementRef(id)) => watched.push(id),
                Err(_) => setup.args.error(&argument, format!("no element named ‘{argument}’")),
            }
        }
        setup.args.complete()?;
        Ok(Self { watched, timer: setup.timer() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        for &id in &self.watched {
            let access = init.router().access_of(Some(id), "scheduled");
            if !access.is_some_and(|(readable, _)| readable) {
                let name = init.router().name_of(id);
                return Err(Refused(format!("no ‘{name}.scheduled’ read handler")));
            }
        }
        self.timer.schedule_at(init.clock().now() + PAUSE);
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let done = |&id: &usize| {
            let scheduled = cx.router().read_of(id, "scheduled", b"");
            scheduled.is_ok_and(|text| text.trim_ascii() == b"false")
        };
        match self.watched.iter().any(done) {
            true => cx.router().request_stop(),
            false => self.timer.schedule_at(cx.now() + PAUSE),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn watched_elements_must_exist() {
        assert!(Rig::new("QuitWatcher", 0, 0).is_ok());
        assert!(Rig::new("QuitWatcher(nobody)", 0, 0).is_err());
    }
}
