//! What tells packets apart by the rate at which they come.

pub mod bandwidth_meter;
pub mod meter;
mod metering;
