//! Packet timestamps: changing them, measuring with them and filtering by them.

pub mod adjust_timestamp;
pub mod set_timestamp_delta;
pub mod store_timestamp;
pub mod time_filter;
pub mod time_range;
pub mod timestamp_accum;
