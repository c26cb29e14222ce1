//! Streams: TCP connections whose bytes elements read and change on their way.
//!
//! TCPIn follows a connection and puts its segments in order; elements behind it see each byte once, in order, whatever
//! the segments are; TCPOut turns what they left into segments again. See `connection` for the numbers, and `tap` for
//! elements.

pub(crate) mod connection;
pub(crate) mod http;
pub mod http_in;
pub mod http_out;
pub mod ip_in;
pub mod ip_out;
pub(crate) mod mark;
pub(crate) mod path;
pub(crate) mod positions;
pub(crate) mod segment;
pub(crate) mod tap;
pub mod tcp_in;
pub mod tcp_out;
pub mod tcp_retransmitter;
pub mod udp_in;
pub mod udp_out;
pub mod word_matcher;

#[cfg(test)]
mod tests;
