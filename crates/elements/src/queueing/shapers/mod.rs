//! Elements that limit rates or delay packets, and the arithmetic of rates.

pub mod bandwidth_rated_splitter;
pub mod bandwidth_shaper;
pub mod delay_shaper;
pub(crate) mod rate;
pub mod rated_splitter;
pub mod shaper;
