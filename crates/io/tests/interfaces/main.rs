//! The backends of the kernel on virtual interfaces, in network namespaces of their own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod packet;
mod rig;
mod tap;
mod xdp;
