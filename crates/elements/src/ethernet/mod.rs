//! Ethernet and ARP.
