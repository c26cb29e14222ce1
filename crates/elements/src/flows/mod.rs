//! Flows: elements that number them, and elements that act per flow.

pub(crate) mod balance;
pub(crate) mod capacity;
pub(crate) mod checksum;
pub mod connection_tracker;
mod connections;
pub(crate) mod contexts;
pub mod ctx_dispatcher;
pub mod ctx_manager;
pub mod flow_counter;
pub mod flow_ip_load_balancer;
pub mod flow_ip_load_balancer_reverse;
pub mod flow_ip_manager;
pub mod flow_round_robin_switch;
pub mod flow_switch;
pub(crate) mod key;
pub mod store_flow_id;
pub(crate) mod table;
pub(crate) mod words;
