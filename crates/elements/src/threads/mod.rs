//! Threads: handing packets over to other threads, and assigning work to threads.

pub mod balanced_thread_sched;
pub mod cpu_switch;
pub mod exact_cpu_switch;
mod flow_hash;
pub mod pipeliner;
mod rings;
pub mod rss_switch;
pub mod software_rss;
