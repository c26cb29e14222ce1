//! ICMP.
