//! Network devices and capture files.

mod backend;
mod expression;
mod force_ip;
mod force_len;
pub mod from_device;
pub mod from_dump;
pub mod from_netmap_device;
pub mod from_xdp_device;
mod method;
mod netmap;
mod pace;
mod receive;
mod recording;
pub mod replay;
pub mod replay_unqueue;
mod threading;
pub mod to_device;
pub mod to_dump;
pub mod to_netmap_device;
pub mod to_xdp_device;
mod trace;
mod transmit;
mod window;
mod xdp;
