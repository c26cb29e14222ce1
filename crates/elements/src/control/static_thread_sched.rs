//! StaticThreadSched - assigns elements to threads
//!
//! # Synopsis
//! `StaticThreadSched(ELEMENT THREAD, ...)`
//!
//! # Description
//! Runs the tasks and timers of ELEMENT on thread THREAD. If ELEMENT is a compound element, this applies to every
//! element in it. A later argument overrides an earlier one. Threads are numbered from 0; numbers beyond the last
//! thread wrap around, and `millrace plan` reports it. -1 leaves the choice to the plan, as if the element were not
//! listed.
//!
//! Devices that are not listed here receive only on threads that are not named here, if there are any.
//!
//! # Arguments
//! - ELEMENT THREAD: an element and a thread, or -1. Any number of them. THREAD may be written
//!   NODE/NUMBER, as in FastClick, and then means thread NUMBER: the plan, not NODE, says on which NUMA node it runs.
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
//! s :: InfiniteSource(LIMIT 10) -> Queue -> u :: Unqueue -> Discard;
//! StaticThreadSched(s 0, u 1);
//! ```
//!
//! # See also
//! BalancedThreadSched, Pipeliner

use millrace_core::args::ArgText;
use millrace_core::topology::Topology;
use millrace_core::{Args, Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct StaticThreadSched;

register!(StaticThreadSched, "static_thread_sched.rs");

impl Element for StaticThreadSched {
    const CLASS: Class = Class::new("StaticThreadSched", "0/0", "a/a").information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        for argument in setup.args.rest() {
            let (name, thread) = argument.split_first_word();
            let Some(element) = setup.args.scope().find_group(name.as_str()) else {
                let message = format!("no element named ‘{}’", name.as_str());
                setup.args.error(&name, message);
                continue;
            };
            let thread = without_node(&mut setup.args, thread);
            match setup.args.parse_as::<i32>("THREAD", &thread) {
                Some(-1) => setup.pin(&element, None),
                Some(number) => match usize::try_from(number) {
                    Ok(number) => setup.pin(&element, Some(number)),
                    Err(_) => setup.args.error(&thread, "THREAD must be -1 or more"),
                },
                None => {}
            }
        }
        setup.args.complete()?;
        Ok(Self)
    }
}

/// The number of the thread in NODE/NUMBER.
fn without_node(args: &mut Args<'_>, thread: ArgText) -> ArgText {
    let Some((node, number)) = thread.as_str().split_once('/') else { return thread };
    if node.parse::<u8>().is_err() {
        args.error(&thread, "THREAD must be a number, or NODE/NUMBER");
    }
    if Topology::machine().nodes().len() > 1 {
        args.advise(&thread, "the NUMA node is not considered, only the number of the thread");
    }
    let end = thread.as_str().len();
    thread.part(end - number.len()..end)
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn unknown_elements_and_invalid_threads_are_refused() {
        assert!(Rig::new("StaticThreadSched(x 0)", 0, 0).is_ok());
        assert!(Rig::new("StaticThreadSched(x 0, x -1)", 0, 0).is_ok());
        assert!(Rig::new("StaticThreadSched(x 0/1)", 0, 0).is_ok());
        assert!(Rig::new("StaticThreadSched(x a/1)", 0, 0).is_err());
        assert!(Rig::new("StaticThreadSched(x 0/)", 0, 0).is_err());
        assert!(Rig::new("StaticThreadSched(x -2)", 0, 0).is_err());
        assert!(Rig::new("StaticThreadSched(y 0)", 0, 0).is_err());
        assert!(Rig::new("StaticThreadSched(x first)", 0, 0).is_err());
        assert!(Rig::new("StaticThreadSched(x)", 0, 0).is_err());
    }
}
