//! Names for addresses, ports and other numbers in arguments.
//!
//! A name that an AddressInfo or PortInfo element defines is known in that element's compound element, and in
//! the compound elements inside it. Names of network devices stand for the addresses of the devices, unless
//! another definition has the same name.
//!
//! One name can have an address of each kind. A suffix selects one: `NAME:ip`, `NAME:ipnet`, `NAME:ip6`,
//! `NAME:ip6net`, `NAME:eth`; `NAME:bcast` is the broadcast address of its IPv4 network and `NAME:gw` a
//! device's gateway.

mod builtin;
mod device;
mod kind;
mod services;
mod table;

pub use builtin::{name_of, names_of};
pub use device::DeviceAddresses;
pub(crate) use kind::PORT_PROTOCOLS;
pub use kind::{NumberKind, PAYLOAD, TCP_OR_UDP, TRANSPORT};
pub(crate) use table::enclosing;
pub use table::{Addresses, NameTable};
