//! Network interfaces: their arguments, and receiving and transmitting.

pub(crate) mod backend;
pub(crate) mod dpdk;
pub(crate) mod force_ip;
pub(crate) mod method;
pub mod netmap;
pub(crate) mod receive;
pub(crate) mod tap_port;
#[cfg(test)]
pub(crate) mod test_rig;
pub(crate) mod threading;
pub(crate) mod transmit;
pub(crate) mod xdp;
