//! Network devices and capture files.

mod backend;
mod force_ip;
pub mod from_device;
pub mod from_dump;
mod method;
mod pace;
pub mod to_device;
pub mod to_dump;
mod window;
