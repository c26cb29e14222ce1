//! Network devices and capture files.

pub mod dpdk_info;
pub mod from_device;
pub mod from_dpdk_device;
pub mod from_dump;
pub mod from_host;
pub mod from_netmap_device;
pub mod from_xdp_device;
pub mod interface;
pub mod kernel_tap;
pub mod kernel_tun;
pub mod mcast_socket;
pub(crate) mod playback;
pub mod raw_socket;
pub mod replay;
pub mod replay_unqueue;
pub mod socket;
mod sockets;
pub mod to_device;
pub mod to_dpdk_device;
pub mod to_dump;
pub mod to_host;
pub mod to_netmap_device;
pub mod to_xdp_device;
