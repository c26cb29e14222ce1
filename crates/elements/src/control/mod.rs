//! Names, scripts, threads: elements that see no packets.

pub mod address_info;
pub mod driver_manager;
pub mod script;
pub mod static_thread_sched;
