//! Elements that choose the way of packets by a setting, by turns or by chance.

pub mod bypass;
pub mod pull_switch;
pub mod round_robin_switch;
mod selection;
pub mod simple_pull_switch;
