//! Beside the table stand its policies, which change it with a lock.

#[path = "../../../elements/src/rewrite/mappings/flow_table.rs"]
pub(crate) mod flow_table;
