//! What names of numbers count.

/// What kind of number a name stands for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum NumberKind {
    /// IP protocol number (0 to 255), or [`TCP_OR_UDP`], [`TRANSPORT`] and [`PAYLOAD`], which classifiers
    /// use.
    IpProtocol,
    /// Port of the transport protocol with this number.
    Port(u8),
    /// ICMP type.
    IcmpType,
    /// ICMP code under this type.
    IcmpCode(u8),
    /// Offset of a packet annotation in bytes, its length in the upper 16 bits (0: any).
    Annotation,
    /// Lock that a configuration declares, which needs no number.
    Lock,
}

/// The number of the name `tcpudp`: TCP or UDP.
pub const TCP_OR_UDP: u32 = 256;
/// The number of the name `transp`: TCP, UDP, or another protocol with ports.
pub const TRANSPORT: u32 = 257;
/// The number of the name `payload`: the bytes after the transport header.
pub const PAYLOAD: u32 = 258;

const TCP: u8 = 6;
const UDP: u8 = 17;

/// The transport protocols that ports are named for.
pub(crate) const PORT_PROTOCOLS: [u8; 2] = [TCP, UDP];
