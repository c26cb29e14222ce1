//! Elements that choose an output by the measured packet rate.

pub mod bandwidth_meter;
pub mod meter;
