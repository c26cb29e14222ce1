//! Rates: token buckets, gaps between packets, and the arguments that set them.

pub(crate) mod gap_rate;
pub(crate) mod pace;
pub(crate) mod token_bucket;
