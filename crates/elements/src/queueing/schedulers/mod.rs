//! Schedulers: elements that choose which of several inputs to pull from.

pub mod drr_sched;
mod inputs;
pub mod prio_sched;
pub mod round_robin_multi_sched;
pub mod round_robin_sched;
pub mod simple_prio_sched;
pub mod simple_round_robin_sched;
pub mod stride_sched;
#[cfg(test)]
mod tests;
pub mod time_sorted_sched;
