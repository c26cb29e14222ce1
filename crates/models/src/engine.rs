//! The engine's parts: `crates/core/src/engine`.

#![allow(dead_code, unused_imports, reason = "the scenarios do not use all of it")]

#[path = "../../core/src/engine/biased.rs"]
pub(crate) mod biased;
#[path = "../../core/src/engine/published.rs"]
pub(crate) mod published;

pub(crate) use published::Published;
