//! Lanes against the simulator and the host backend: order, loss, recovery, live tables, bounds.

mod bench;
mod faults;
mod flow;
mod link;
mod steering;
mod tables;
mod threads;
