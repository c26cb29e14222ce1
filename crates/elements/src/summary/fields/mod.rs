//! The fields of a packet summary: reading, writing, and the packet built from them.

mod anno;
pub(crate) mod draft;
pub(crate) mod field;
mod icmp;
mod ip;
mod ip_options;
mod link;
pub(crate) mod options;
mod payload;
pub(crate) mod record;
pub(crate) mod seen;
pub(crate) mod table;
pub(crate) mod tcp;
pub(crate) mod tcp_options;
pub(crate) mod text;
mod udp;
