//! Names, scripts, threads: elements that process no packets.

pub mod address_info;
pub mod alignment_info;
pub mod annotation_info;
pub mod change_uid;
pub mod clicky_info;
pub mod devirtualize_info;
pub mod driver_manager;
pub mod error;
pub mod flow_info;
pub mod handler_aggregate;
pub mod jiffie_clock;
pub mod kernel_handler_proxy;
pub mod message;
pub mod poke_handlers;
pub mod port_info;
pub mod progress_bar;
pub mod quit_watcher;
pub mod random_seed;
pub mod schedule_info;
pub mod script;
pub mod static_thread_sched;
pub mod tsc_clock;
