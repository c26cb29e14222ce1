//! Models of Millrace's lock-free parts.
//!
//! The source files of the parts are compiled here once more, with the types of a model checker
//! ([loom](https://docs.rs/loom)) in place of the standard library's: the files name them by `millrace_core::sync`, and
//! here that is [`sync`]. The checker then runs a scenario ([`part`]) in every order of its threads' steps, and with
//! every value that the memory model of C++ lets a load return, up to a bound on preemptions.
//!
//! What surrounds the parts is replaced (`stand_ins`): the kernel's event descriptors and barriers, keys of flows,
//! counters. Each scenario says what it leaves out.
//!
//! A scenario that holds proves nothing unless it can fail. [`weaken`](check::weaken) makes each access of a part as weak as
//! the processor knows, one at a time, and says which of these the scenarios notice.

// The files bring tests along, which are for real threads: as a test there is nothing here.
#![cfg(not(test))]
#![allow(unreachable_pub, reason = "the parts' own crates export what they call public")]
#![allow(
    unfulfilled_lint_expectations,
    reason = "what a part expects of lints may not come about here"
)]

extern crate self as arc_swap;
extern crate self as millrace_core;
extern crate self as rustix;

pub mod all;
pub mod check;
mod engine;
mod flows;
pub mod part;
mod parts;
mod rewrite;
mod rings;
mod schedule;
mod stand_ins;
pub mod sync;

use engine::Published;
use schedule::Task;
use stand_ins::kernel::{event, fd, io, thread};
use stand_ins::{ArcSwap, Guard, InRound, Timestamp, memory, moment, stats, time};
use sync::Lock;
