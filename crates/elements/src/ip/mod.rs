//! IPv4.
