//! The elements that define names: AddressInfo and PortInfo.

use std::net::{Ipv4Addr, Ipv6Addr};

use super::{Arg, ArgText, Args, Scope};
use crate::names::{Addresses, NameTable, NumberKind, PORT_PROTOCOLS, TCP_OR_UDP};
use crate::net::{EtherAddress, Ipv4Prefix, Ipv6Prefix};

/// Reads the arguments of an AddressInfo element, `NAME ADDRESS [ADDRESS...]` each, and returns the names
/// that it defines.
///
/// An address is of any kind, or a known name: an earlier one of the same element, one of its scope, or a
/// network device.
pub fn address_info(args: &mut Args<'_>) -> NameTable {
    let scope = *args.scope();
    let mut fresh = NameTable::new();
    for argument in args.rest() {
        let words = argument.words();
        let Some((name, addresses)) = words.split_first() else { continue };
        if addresses.is_empty() {
            args.error(&argument, "expected ‘NAME [ADDRS]’");
        }
        let mut all = Addresses::default();
        for word in addresses {
            let found = recognize(word, &scope.with_fresh(&fresh));
            let kinds = found.kinds();
            if kinds == 0 {
                args.error(word, format!("‘{word}’ is not a recognizable address"));
            }
            // What is only one thing was meant as that; what may be several things adds what is
            // missing.
            all = if kinds == 1 { found.or(all) } else { all.or(found) };
            fresh.define(scope.prefix(), name.as_str(), all);
        }
    }
    fresh
}

/// Reads the arguments of a PortInfo element, `NAME PORT[/PROTOCOL] [NAME...]` each, and returns the names
/// that it defines. Without a protocol, a name stands for both TCP and UDP. A `#` starts a comment, as in
/// services(5).
pub fn port_info(args: &mut Args<'_>) -> NameTable {
    let scope = *args.scope();
    let mut fresh = NameTable::new();
    for argument in args.rest() {
        let mut words = argument.words();
        let comment = words.iter().position(|word| word.as_str().starts_with('#'));
        words.truncate(comment.unwrap_or(words.len()));
        if words.is_empty() {
            continue;
        }
        let place = words.get(1).and_then(|word| port_and_protocol(word, &scope));
        let Some((port, protocols)) = place else {
            args.error(&argument, format!("expected ‘NAME PORT/PROTO’, got ‘{argument}’"));
            continue;
        };
        words.remove(1);
        for name in &words {
            for &protocol in &protocols {
                let kind = NumberKind::Port(protocol);
                fresh.define_number(kind, scope.prefix(), name.as_str(), port.into());
            }
        }
    }
    fresh
}

/// The addresses of all kinds that a word can be.
fn recognize(word: &ArgText, scope: &Scope<'_>) -> Addresses {
    let mut found =
        Addresses { ether: EtherAddress::parse(word, scope).ok(), ..Default::default() };
    if let Ok(address) = Ipv4Addr::parse(word, scope) {
        found.ipv4 = Some(address);
    } else if let Ok(prefix) = Ipv4Prefix::parse(word, scope) {
        found.ipv4_prefix = Some(prefix);
        found.ipv4 = Some(prefix.address()).filter(|&address| address != prefix.network());
    }
    if let Ok(address) = Ipv6Addr::parse(word, scope) {
        found.ipv6 = Some(address);
    } else if let Ok(prefix) = Ipv6Prefix::parse(word, scope) {
        found.ipv6_prefix = Some(prefix);
        found.ipv6 = Some(prefix.address()).filter(|&address| address != prefix.network());
    }
    found
}

/// Reads `PORT` or `PORT/PROTOCOL`.
fn port_and_protocol(word: &ArgText, scope: &Scope<'_>) -> Option<(u16, Vec<u8>)> {
    let text = word.as_str();
    let (port, protocol) = match text.split_once('/') {
        Some((port, protocol)) => (port, Some(protocol)),
        None => (text, None),
    };
    let port = u16::parse(&port.into(), scope).ok()?;
    let protocol = match protocol {
        None => TCP_OR_UDP,
        Some(name) => scope
            .number_named(NumberKind::IpProtocol, name)
            .or_else(|| u8::parse(&name.into(), scope).ok().map(u32::from))?,
    };
    let protocols = match protocol {
        TCP_OR_UDP => PORT_PROTOCOLS.to_vec(),
        one => vec![u8::try_from(one).ok()?],
    };
    Some((port, protocols))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::{Failed, parse};

    /// Reads the arguments of an AddressInfo named `element`.
    fn addresses(element: &str, config: &str) -> Result<NameTable, String> {
        let names = NameTable::new();
        let scope = Scope::new(element, &names, &|_: &str| None);
        let mut args = Args::of_text(config, scope);
        let table = address_info(&mut args);
        match args.complete() {
            Ok(()) => Ok(table),
            Err(Failed) => Err(args.messages()),
        }
    }

    fn see<T: Arg + ToString>(names: &NameTable, element: &str, text: &str) -> Option<String> {
        let scope = Scope::new(element, names, &|_: &str| None).with_devices(&Devices);
        parse::<T>(text, &scope).ok().map(|value| value.to_string())
    }

    /// A machine whose `eth0` is 192.0.2.7/24.
    struct Devices;

    impl crate::names::DeviceAddresses for Devices {
        fn ether(&self, device: &str) -> Option<EtherAddress> {
            (device == "eth0").then_some(EtherAddress([2, 0, 0, 0, 0, 7]))
        }

        fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
            (device == "eth0").then(|| "192.0.2.7/24".parse().unwrap())
        }

        fn ipv6(&self, device: &str) -> Option<Ipv6Prefix> {
            (device == "eth0").then(|| "2001:db8::7/64".parse().unwrap())
        }
    }

    #[test]
    fn a_name_has_an_address_of_each_kind() {
        let config = "a 10.0.0.1/24 00:50:BA:85:84:A9 2001:db8::1/64, b 10.0.0.2, , net 10.1/16,
            c a";
        let names = addresses("info", config).unwrap();
        let v4 = |text| see::<Ipv4Addr>(&names, "e", text);
        let net = |text| see::<Ipv4Prefix>(&names, "e", text);
        let v6 = |text| see::<Ipv6Addr>(&names, "e", text);
        let net6 = |text| see::<Ipv6Prefix>(&names, "e", text);
        let ether = |text| see::<EtherAddress>(&names, "e", text);
        for (found, expected) in [
            (v4("a"), Some("10.0.0.1")),
            (v4("a:ip"), Some("10.0.0.1")),
            (v4("a:IP4"), Some("10.0.0.1")),
            (v4("a:bcast"), Some("10.0.0.255")),
            (v4("a:gw"), Some("10.0.0.1")),
            (v4("a:eth"), None),
            (v4("b"), Some("10.0.0.2")),
            (v4("b:bcast"), None),
            (v4("net"), None),
            (v4("net:gw"), Some("10.1.0.1")),
            (v4("c"), Some("10.0.0.1")),
            (net("a"), Some("10.0.0.1/24")),
            (net("a:ipnet"), Some("10.0.0.1/24")),
            (net("net:net"), Some("10.1.0.0/16")),
            (net("b"), None),
            (net("b/30"), Some("10.0.0.2/30")),
            (net("c"), None),
            (v6("a"), Some("2001:db8::1")),
            (v6("a:ip6"), Some("2001:db8::1")),
            (net6("a:ip6net"), Some("2001:db8::1/64")),
            (net6("a/48"), Some("2001:db8::1/48")),
            (ether("a"), Some("00-50-BA-85-84-A9")),
            (ether("a:ethernet"), Some("00-50-BA-85-84-A9")),
            (ether("c:eth"), Some("00-50-BA-85-84-A9")),
            (ether("a:ip"), None),
            (v4("eth0"), Some("192.0.2.7")),
            (v4("eth0:gw"), Some("192.0.2.1")),
            (v4("eth0:bcast"), Some("192.0.2.255")),
            (net("eth0"), Some("192.0.2.7/24")),
            (v6("eth0"), Some("2001:db8::7")),
            (net6("eth0"), Some("2001:db8::7/64")),
            (ether("eth0:eth"), Some("02-00-00-00-00-07")),
            (ether("eth1:eth"), None),
        ] {
            assert_eq!(found.as_deref(), expected);
        }
    }

    #[test]
    fn names_are_known_in_their_compound_and_within() {
        let mut names = addresses("info", "a 10.0.0.1, b 10.0.0.2").unwrap();
        names.extend(addresses("x/info", "a 10.0.1.1 2:2:2:2:2:2").unwrap());
        let v4 = |element, text| see::<Ipv4Addr>(&names, element, text);
        let ether = |element, text| see::<EtherAddress>(&names, element, text);
        for (found, expected) in [
            (v4("e", "a"), Some("10.0.0.1")),
            (v4("x/e", "a"), Some("10.0.1.1")),
            (v4("x/y/e", "a"), Some("10.0.1.1")),
            (v4("xx/e", "a"), Some("10.0.0.1")),
            (v4("x/e", "b"), Some("10.0.0.2")),
            (ether("x/e", "a"), Some("02-02-02-02-02-02")),
            (ether("e", "a"), None),
        ] {
            assert_eq!(found.as_deref(), expected);
        }
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for (config, errors) in [
            ("a", "expected ‘NAME [ADDRS]’"),
            (
                "a 10.0.0.256, b x",
                "‘10.0.0.256’ is not a recognizable address\n\
                ‘x’ is not a recognizable address",
            ),
        ] {
            assert_eq!(addresses("info", config).unwrap_err(), errors);
        }
    }

    #[test]
    fn ports_have_names() {
        let names = NameTable::new();
        let scope = Scope::new("x/info", &names, &|_: &str| None);
        let config = "mine 7777/tcp alias, both 0x10 # comment, # all, game 5/udp, q 9/132";
        let mut args = Args::of_text(config, scope);
        let table = port_info(&mut args);
        args.complete().unwrap();
        let port = |protocol, name| table.number(NumberKind::Port(protocol), "x/", name);
        for (protocol, name, expected) in [
            (6, "mine", Some(7777)),
            (6, "alias", Some(7777)),
            (17, "mine", None),
            (6, "both", Some(16)),
            (17, "both", Some(16)),
            (17, "comment", None),
            (17, "game", Some(5)),
            (132, "q", Some(9)),
            (6, "ssh", Some(22)),
            (132, "ssh", None),
        ] {
            assert_eq!(port(protocol, name), expected, "{name}");
        }
        assert_eq!(table.number(NumberKind::Port(6), "", "mine"), None);
        let mut args = Args::of_text("a b, c 70000, d 1/nothing", scope);
        port_info(&mut args);
        assert_eq!(
            args.messages(),
            "expected ‘NAME PORT/PROTO’, got ‘a b’\nexpected ‘NAME PORT/PROTO’, got ‘c 70000’\n\
             expected ‘NAME PORT/PROTO’, got ‘d 1/nothing’"
        );
    }
}
