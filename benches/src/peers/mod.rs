//! Other programs that do the same work, measured in turns with this one.

mod capture;
mod plain;
mod program;
mod reference;
mod subject;
pub(crate) mod targets;
mod telemetry;
pub(crate) mod testpmd;
