//! The rewriters' table of mappings: `crates/elements/src/rewrite/mappings/flow_table.rs`.

#![allow(dead_code, unused_imports, reason = "the scenarios do not use all of it")]

pub(crate) mod mappings;
