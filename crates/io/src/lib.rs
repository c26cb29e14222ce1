//! Receive and transmit queues: the seam between elements and devices, and its backends.

#[cfg(target_os = "linux")]
pub mod af_packet;
pub mod memory;
pub mod pcap;
mod queue;

pub use queue::{
    Backend, Capabilities, DeviceError, Devices, Opened, QueueCounts, RxOptions, RxQueue,
    TxOptions, TxQueue,
};
