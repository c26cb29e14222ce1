//! Addresses, ports and protocols.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use crate::args::{Arg, ArgError, ArgText, Scope};
use crate::names::NumberKind;
use crate::net::{
    EtherAddress, Ipv4Prefix, Ipv6Prefix, mask_length, parse_ipv4, parse_length6, parse_mask,
    partial_ipv4,
};

/// `00:11:22:33:44:55`, `00-11-22-33-44-55`, or a name.
impl Arg for EtherAddress {
    const EXPECTS: &'static str = "an Ethernet address";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let text = text.as_str();
        let address = text.parse().ok().or_else(|| scope.ether_named(text));
        address.ok_or_else(ArgError::default)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// `10.0.0.1`, or a name.
impl Arg for Ipv4Addr {
    const EXPECTS: &'static str = "an IP address";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        ipv4(text.as_str(), scope).ok_or_else(ArgError::default)
    }

    fn placeholder() -> Self {
        Self::UNSPECIFIED
    }
}

/// Addresses separated by spaces.
impl Arg for Vec<Ipv4Addr> {
    const EXPECTS: &'static str = "IP addresses, separated by spaces";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        each_word(text, |word| ipv4(word, scope))
    }

    fn placeholder() -> Self {
        Self::new()
    }
}

/// `ADDRESS/LENGTH`, `ADDRESS/MASK`, or the name of a network.
impl Arg for Ipv4Prefix {
    const EXPECTS: &'static str = "an IP prefix such as ‘10.0.0.0/8’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let text = text.as_str();
        let prefix = slashed4(text, scope).or_else(|| scope.ipv4_prefix_named(text));
        prefix.ok_or_else(ArgError::default)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// An IPv4 prefix, or an address, which counts as a prefix of 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ipv4Network(pub Ipv4Prefix);

/// Only the address when the prefix is a host.
impl fmt::Display for Ipv4Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.length() {
            Some(32) => self.0.address().fmt(f),
            _ => self.0.fmt(f),
        }
    }
}

impl Arg for Ipv4Network {
    const EXPECTS: &'static str = "an IP address or prefix";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let text = text.as_str();
        let host = |address| Ipv4Prefix::with_mask(address, Ipv4Addr::BROADCAST);
        let prefix = slashed4(text, scope)
            .or_else(|| ipv4(text, scope).map(host))
            .or_else(|| scope.ipv4_prefix_named(text));
        prefix.map(Self).ok_or_else(ArgError::default)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// Reads a list separated by spaces; an error names the invalid word.
fn each_word<T>(text: &ArgText, read: impl Fn(&str) -> Option<T>) -> Result<Vec<T>, ArgError> {
    let mut words = Vec::new();
    for place in text.places_of_words() {
        let word = read(text.part(place.clone()).as_str());
        words.push(word.ok_or_else(|| ArgError::default().at(place))?);
    }
    Ok(words)
}

fn ipv4(text: &str, scope: &Scope<'_>) -> Option<Ipv4Addr> {
    parse_ipv4(text).or_else(|| scope.ipv4_named(text))
}

/// `ADDRESS/LENGTH` or `ADDRESS/MASK`, where each part may be a name.
fn slashed4(text: &str, scope: &Scope<'_>) -> Option<Ipv4Prefix> {
    let (address, mask) = text.rsplit_once('/')?;
    let named = || Some((scope.ipv4_named(address)?, 4));
    let (address, bytes) = partial_ipv4(address).or_else(named)?;
    let mask = parse_mask(mask).or_else(|| scope.ipv4_named(mask))?;
    Ipv4Prefix::with_mask(address, mask).given_by(bytes)
}

/// `2001:db8::1`, or a name.
impl Arg for Ipv6Addr {
    const EXPECTS: &'static str = "an IPv6 address";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        ipv6(text.as_str(), scope).ok_or_else(ArgError::default)
    }

    fn placeholder() -> Self {
        Self::UNSPECIFIED
    }
}

/// Addresses separated by spaces.
impl Arg for Vec<Ipv6Addr> {
    const EXPECTS: &'static str = "IPv6 addresses, separated by spaces";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        each_word(text, |word| ipv6(word, scope))
    }

    fn placeholder() -> Self {
        Self::new()
    }
}

/// `ADDRESS/LENGTH`, `ADDRESS/MASK`, or the name of a network.
impl Arg for Ipv6Prefix {
    const EXPECTS: &'static str = "an IPv6 prefix such as ‘2001:db8::/32’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let text = text.as_str();
        let prefix = slashed6(text, scope).or_else(|| scope.ipv6_prefix_named(text));
        prefix.ok_or_else(ArgError::default)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// An IPv6 prefix, or an address, which counts as a prefix of 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ipv6Network(pub Ipv6Prefix);

/// Only the address when the prefix is a host.
impl fmt::Display for Ipv6Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.length() {
            128 => self.0.address().fmt(f),
            _ => self.0.fmt(f),
        }
    }
}

impl Arg for Ipv6Network {
    const EXPECTS: &'static str = "an IPv6 address or prefix";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let text = text.as_str();
        let prefix = slashed6(text, scope)
            .or_else(|| Ipv6Prefix::new(ipv6(text, scope)?, 128))
            .or_else(|| scope.ipv6_prefix_named(text));
        prefix.map(Self).ok_or_else(ArgError::default)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

fn ipv6(text: &str, scope: &Scope<'_>) -> Option<Ipv6Addr> {
    text.parse().ok().or_else(|| scope.ipv6_named(text))
}

fn slashed6(text: &str, scope: &Scope<'_>) -> Option<Ipv6Prefix> {
    let (address, length) = text.rsplit_once('/')?;
    let named = || mask_length(scope.ipv6_named(length)?);
    Ipv6Prefix::new(ipv6(address, scope)?, parse_length6(length).or_else(named)?)
}

/// An IP protocol by number or name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IpProtocol(pub u8);

/// The number.
impl fmt::Display for IpProtocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Arg for IpProtocol {
    const EXPECTS: &'static str = "an IP protocol by number or name";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        byte(NumberKind::IpProtocol, text, scope).map(Self)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A TCP port by number or name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpPort(pub u16);

/// The number.
impl fmt::Display for TcpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Arg for TcpPort {
    const EXPECTS: &'static str = "a TCP port by number or name";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        port(6, text, scope).map(Self)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A UDP port by number or name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UdpPort(pub u16);

/// The number.
impl fmt::Display for UdpPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Arg for UdpPort {
    const EXPECTS: &'static str = "a UDP port by number or name";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        port(17, text, scope).map(Self)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// An ICMP type by number or name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IcmpType(pub u8);

/// The number.
impl fmt::Display for IcmpType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl Arg for IcmpType {
    const EXPECTS: &'static str = "an ICMP type by number or name";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        byte(NumberKind::IcmpType, text, scope).map(Self)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

impl IcmpType {
    /// Reads a code for this type by number or name.
    ///
    /// # Errors
    /// The text is not such a code.
    pub fn parse_code(self, text: &ArgText, scope: &Scope<'_>) -> Result<u8, ArgError> {
        byte(NumberKind::IcmpCode(self.0), text, scope)
    }
}

/// Reads a port of the given transport protocol.
///
/// # Errors
/// The text is neither a port nor the name of one.
pub fn port(protocol: u8, text: &ArgText, scope: &Scope<'_>) -> Result<u16, ArgError> {
    let number = number(NumberKind::Port(protocol), text, scope)?;
    number.try_into().map_err(|_| ArgError::new("overflow, range 0-65535"))
}

fn byte(kind: NumberKind, text: &ArgText, scope: &Scope<'_>) -> Result<u8, ArgError> {
    let number = number(kind, text, scope)?;
    number.try_into().map_err(|_| ArgError::new("out of range, bound 255"))
}

/// Reads a number or the name of one.
///
/// # Errors
/// The text is neither.
pub fn number(kind: NumberKind, text: &ArgText, scope: &Scope<'_>) -> Result<u32, ArgError> {
    match scope.number_named(kind, text.as_str()) {
        Some(number) => Ok(number),
        None => u32::parse(text, scope),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::values::tests::{accepts, rejects, rereads};
    use proptest::prelude::*;

    #[test]
    fn ethernet_addresses() {
        let address = EtherAddress([0, 0x11, 0x22, 0xaa, 0xbb, 0xc]);
        for text in ["00:11:22:aa:BB:0C", "0-11-22-AA-bb-c"] {
            accepts(text, address);
        }
        for wrong in [
            "1:2:3:4:5",
            "1:2:3:4:5:6:7",
            "1:2:3:4:5:g",
            "1:2-3:4:5:6",
            "1:2:3:4:5:666",
            "1::3:4:5:6",
            "1:2:3:4:5:+6",
            "00112233445566",
        ] {
            rejects::<EtherAddress>(wrong, "parse error");
        }
    }

    #[test]
    fn ipv4_addresses() {
        accepts("18.26.4.9", Ipv4Addr::new(18, 26, 4, 9));
        accepts("018.026.004.009", Ipv4Addr::new(18, 26, 4, 9));
        for wrong in ["1.2.3", "1.2.3.4.5", "1.2.3.256", "1.2.3.", "a", "1.2.3.4/24", "0x1.2.3.4"] {
            rejects::<Ipv4Addr>(wrong, "parse error");
        }
        accepts("1.1.1.1  2.2.2.2", vec![Ipv4Addr::new(1, 1, 1, 1), Ipv4Addr::new(2, 2, 2, 2)]);
        let list = ArgText::from("1.1.1.1 2.2.2");
        let error = ArgError::default().at(8..13);
        assert_eq!(Vec::<Ipv4Addr>::parse(&list, &Scope::builtin()), Err(error));
    }

    #[test]
    fn ipv4_prefixes() {
        let net =
            |address: [u8; 4], mask: [u8; 4]| Ipv4Prefix::with_mask(address.into(), mask.into());
        for (text, prefix) in [
            ("10.0.0.1/24", net([10, 0, 0, 1], [255, 255, 255, 0])),
            ("10/8", net([10, 0, 0, 0], [255, 0, 0, 0])),
            ("18.26/16", net([18, 26, 0, 0], [255, 255, 0, 0])),
            ("0/0", net([0, 0, 0, 0], [0, 0, 0, 0])),
            ("10.0.0.1/255.255.255.0", net([10, 0, 0, 1], [255, 255, 255, 0])),
            ("10.0.0.1/255.0.255.0", net([10, 0, 0, 1], [255, 0, 255, 0])),
            ("10.0.0.1/32", net([10, 0, 0, 1], [255; 4])),
        ] {
            accepts(text, prefix);
            accepts(text, Ipv4Network(prefix));
        }
        for wrong in
            ["10.0.0.1", "10/9", "10.1.0/25", "10.0.0.0/33", "/8", "10.0.0.0/", "10.0.0.0/x"]
        {
            rejects::<Ipv4Prefix>(wrong, "parse error");
        }
        accepts("10.0.0.1", Ipv4Network(net([10, 0, 0, 1], [255; 4])));
        rejects::<Ipv4Network>("10.0.0", "parse error");
    }

    #[test]
    fn ipv6_addresses_and_prefixes() {
        let address: Ipv6Addr = "2001:db8::1".parse().unwrap();
        accepts("2001:DB8:0::1", address);
        accepts("::ffff:1.2.3.4", Ipv4Addr::new(1, 2, 3, 4).to_ipv6_mapped());
        accepts("2001:db8::1/48", Ipv6Prefix::new(address, 48).unwrap());
        accepts("2001:db8::1/ffff:ffff:ffff::", Ipv6Prefix::new(address, 48).unwrap());
        accepts("2001:db8::1", Ipv6Network(Ipv6Prefix::new(address, 128).unwrap()));
        for wrong in ["2001:db8::1/129", "2001:db8::1/ffff:0:ffff::", "2001:db8::1/", "::1"] {
            rejects::<Ipv6Prefix>(wrong, "parse error");
        }
        rejects::<Ipv6Addr>("1:2:3", "parse error");
        let list = ArgText::from("2001:db8::1  10.0.0.1");
        let error = ArgError::default().at(13..21);
        assert_eq!(Vec::<Ipv6Addr>::parse(&list, &Scope::builtin()), Err(error));
        let list = ArgText::from(" 2001:db8::1 ::1 ");
        let addresses = vec![address, Ipv6Addr::LOCALHOST];
        assert_eq!(Vec::<Ipv6Addr>::parse(&list, &Scope::builtin()), Ok(addresses));
    }

    #[test]
    fn protocols_and_ports_have_names() {
        accepts("tcp", IpProtocol(6));
        accepts("0x11", IpProtocol(17));
        rejects::<IpProtocol>("tcpudp", "out of range, bound 255");
        rejects::<IpProtocol>("256", "out of range, bound 255");
        rejects::<IpProtocol>("no-such-protocol", "parse error");
        accepts("ssh", TcpPort(22));
        accepts("53", UdpPort(53));
        accepts("dns", UdpPort(53));
        rejects::<TcpPort>("65536", "overflow, range 0-65535");
        rejects::<TcpPort>("no-such-port", "parse error");
        accepts("unreachable", IcmpType(3));
        let code =
            |kind: u8, text: &str| IcmpType(kind).parse_code(&text.into(), &Scope::builtin());
        assert_eq!(code(3, "needfrag"), Ok(4));
        assert_eq!(code(5, "host"), Ok(1));
        assert_eq!(code(11, "transit"), Ok(0));
        assert_eq!(code(12, "length"), Ok(2));
        assert_eq!(code(8, "host"), Err(ArgError::default()));
        assert_eq!(code(3, "300"), Err(ArgError::new("out of range, bound 255")));
    }

    proptest! {
        #[test]
        fn addresses_print_as_they_are_read(bits: u128, length in 0..=128u8) {
            let v4 = Ipv4Addr::from_bits(bits as u32);
            let v6 = Ipv6Addr::from_bits(bits);
            rereads(v4);
            rereads(v6);
            rereads(Ipv4Prefix::new(v4, length % 33).unwrap());
            rereads(Ipv4Prefix::with_mask(v4, Ipv4Addr::from_bits((bits >> 64) as u32)));
            rereads(Ipv4Network(Ipv4Prefix::new(v4, length % 33).unwrap()));
            rereads(Ipv6Prefix::new(v6, length).unwrap());
            rereads(Ipv6Network(Ipv6Prefix::new(v6, length).unwrap()));
            rereads(TcpPort(bits as u16));
            rereads(UdpPort(bits as u16));
            rereads(IpProtocol(bits as u8));
            let [.., a, b, c, d, e, f] = bits.to_be_bytes();
            let ether = EtherAddress([a, b, c, d, e, f]);
            rereads(ether);
            prop_assert_eq!(ether.to_string().replace('-', ":").parse(), Ok(ether));
        }
    }
}
