//! Names that stand for addresses, ports and other numbers in arguments.
//!
//! A name that an AddressInfo or PortInfo element defines is known in the compound element where
//! that element stands, and in the compounds within. Names of network devices stand for the
//! addresses of the devices when nothing else has their name.
//!
//! A suffix makes clear which address is meant, for one name can have one of each kind: `NAME:ip`,
//! `NAME:ipnet`, `NAME:ip6`, `NAME:ip6net`, `NAME:eth`; `NAME:bcast` is the broadcast address of
//! its IPv4 network and `NAME:gw` a device's gateway.

mod builtin;
mod device;
mod kind;
mod services;
mod table;

pub use builtin::name_of;
pub use device::DeviceAddresses;
pub(crate) use kind::PORT_PROTOCOLS;
pub use kind::{NumberKind, PAYLOAD, TCP_OR_UDP, TRANSPORT};
pub(crate) use table::enclosing;
pub use table::{Addresses, NameTable};
