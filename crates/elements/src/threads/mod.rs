//! Threads: handing packets over to other threads, and assigning work to threads.

pub mod balanced_thread_sched;
mod buckets;
pub mod cpu_switch;
pub mod device_balancer;
pub mod exact_cpu_switch;
mod flow_hash;
pub mod path_spinlock;
pub mod pipeliner;
mod rings;
pub mod rss_switch;
pub mod software_rss;
pub mod spinlock_acquire;
pub mod spinlock_info;
pub mod spinlock_release;
