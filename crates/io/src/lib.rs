//! Receive and transmit queues: the interface between elements and devices, and its backends.

#[cfg(target_os = "linux")]
pub mod af_packet;
#[cfg(target_os = "linux")]
pub mod af_xdp;
pub mod bpf;
#[cfg(target_os = "linux")]
pub mod dpdk;
pub mod flow_rule;
mod in_use;
pub mod libpcap;
mod machine;
pub mod memory;
mod meter;
mod method;
#[cfg(target_os = "linux")]
mod netlink;
#[cfg(target_os = "linux")]
mod offload;
mod options;
pub mod pcap;
mod queue;
#[cfg(target_os = "linux")]
mod reopening;
mod rule;
pub mod socket;
pub mod tap;
#[cfg(target_os = "linux")]
mod watch;

pub use in_use::uses;
pub use machine::Machine;
pub use meter::{Ask, Meter, QueueCounts};
pub use method::{DefaultMethod, DpdkOptions, Method, Pause, XdpHook, XdpOptions};
pub use options::{Queues, RxOptions, Spread, TxOptions};
pub use queue::{
    Backend, Capabilities, DeviceError, DeviceFacts, Devices, Opened, RxQueue, TxQueue, trouble,
};
pub use rule::{Rule, RuleError};
