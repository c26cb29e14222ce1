//! AF_XDP on pairs of virtual interfaces in a network namespace of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

mod frames;
mod life;
mod offloads;
mod queues;
mod rig;
