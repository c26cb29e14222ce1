//! Names, scripts, threads: elements that see no packets.

pub mod address_info;
pub mod static_thread_sched;
