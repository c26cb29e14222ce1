//! GPU sections: elements that process batches of packets on a device, or on the CPU instead.

pub mod balancer;
pub mod batcher;
pub mod debatcher;
pub mod device_to_host_memcpy;
pub mod dispatcher;
pub mod gpu_completion_queue;
pub mod gpu_ids_matcher;
pub mod gpu_ip6_lookup;
pub mod gpu_ip_lookup;
pub mod gpu_runtime;
pub mod gpu_sdn_classifier;
pub mod host_to_device_memcpy;
mod lookup;
mod section;
