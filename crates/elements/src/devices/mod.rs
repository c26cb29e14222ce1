//! Network devices and capture files.

mod backend;
mod force_ip;
pub mod from_device;
pub mod from_dump;
mod method;
mod pace;
mod receive;
mod threading;
pub mod to_device;
pub mod to_dump;
mod transmit;
mod window;
