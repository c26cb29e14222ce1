//! The types that arguments are read as.

mod address;
mod number;
mod reference;
mod string;
mod unit;

pub use address::{IpProtocol, Ipv4Network, Ipv6Network, TcpPort, UdpPort};
pub use number::{Decimal, Fixed, UDecimal, UFixed};
pub use reference::{ElementRef, HandlerRef};
pub use string::{FileName, Raw, Word};
pub use unit::{Bandwidth, Seconds, Timestamp};
