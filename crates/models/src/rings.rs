//! Rings between threads: `crates/elements/src/threads/rings`.

#[path = "../../elements/src/threads/rings/calling.rs"]
pub(crate) mod calling;
