//! Elements that pull packets and push them on.

pub mod bandwidth_rated_unqueue;
pub mod burster;
pub mod delay_unqueue;
pub mod link_unqueue;
pub mod rated_unqueue;
pub mod timed_unqueue;
pub mod unqueue;
pub mod unqueue2;
