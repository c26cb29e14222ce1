//! What wakes threads: `crates/core/src/schedule`.

#![allow(dead_code, unused_imports, reason = "the scenarios do not use all of it")]

#[path = "../../core/src/schedule/mod.rs"]
mod all;

pub(crate) use all::{Inbox, Move, Notifier, Task, Timer, TimerQueue, Waker};
