//! Addresses, ports and protocols.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::number::Integer;
use crate::args::{Arg, ArgError, ArgText, Scope};
use crate::names::NumberKind;
use crate::net::{
    EtherAddress, Ipv4Prefix, Ipv6Prefix, parse_ipv4, parse_length6, parse_mask, partial_ipv4,
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

/// Addresses with spaces between.
impl Arg for Vec<Ipv4Addr> {
    const EXPECTS: &'static str = "IP addresses, separated by spaces";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let mut addresses = Self::new();
        for (word, place) in text.words_with_places() {
            let address = ipv4(&word, scope).ok_or_else(|| ArgError::default().at(place))?;
            addresses.push(address);
        }
        Ok(addresses)
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

/// An IPv4 prefix, or an address, which is a prefix of 32 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ipv4Network(pub Ipv4Prefix);

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

fn ipv4(text: &str, scope: &Scope<'_>) -> Option<Ipv4Addr> {
    parse_ipv4(text).or_else(|| scope.ipv4_named(text))
}

/// `ADDRESS/LENGTH` or `ADDRESS/MASK`, either of them perhaps by name.
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

/// An IPv6 prefix, or an address, which is a prefix of 128 bits.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Ipv6Network(pub Ipv6Prefix);

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
    Ipv6Prefix::new(ipv6(address, scope)?, parse_length6(length)?)
}

/// An IP protocol by number or name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct IpProtocol(pub u8);

impl Arg for IpProtocol {
    const EXPECTS: &'static str = "an IP protocol by number or name";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        number(NumberKind::IpProtocol, text, scope, u8::MAX.into()).map(|n| Self(n as u8))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A TCP port by number or name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct TcpPort(pub u16);

impl Arg for TcpPort {
    const EXPECTS: &'static str = "a TCP port by number or name";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        number(NumberKind::Port(6), text, scope, u16::MAX.into()).map(|n| Self(n as u16))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A UDP port by number or name.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct UdpPort(pub u16);

impl Arg for UdpPort {
    const EXPECTS: &'static str = "a UDP port by number or name";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        number(NumberKind::Port(17), text, scope, u16::MAX.into()).map(|n| Self(n as u16))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A number up to `max` or the name of one.
fn number(kind: NumberKind, text: &ArgText, scope: &Scope<'_>, max: u32) -> Result<u32, ArgError> {
    let number = match scope.number_named(kind, text.as_str()) {
        Some(number) => number,
        None => Integer::parse(text.as_str(), false)
            .ok_or_else(ArgError::default)?
            .value()
            .and_then(|value| value.try_into().ok())
            .unwrap_or(u32::MAX),
    };
    let error = || ArgError::new(format!("out of range, bound {max}"));
    if number <= max { Ok(number) } else { Err(error()) }
}
