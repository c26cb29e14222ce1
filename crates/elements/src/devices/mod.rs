//! Network devices and capture files.

mod force_ip;
pub mod from_dump;
mod pace;
pub mod to_dump;
mod window;
