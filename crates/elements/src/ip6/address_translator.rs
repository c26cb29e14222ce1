//! AddressTranslator - translates the addresses and ports of IPv6 packets
//!
//! # Synopsis
//! `AddressTranslator(STATIC [, STATIC_PORTS, INNER [PORT] MAPPED [PORT], ...], DYNAMIC [, DYNAMIC_PORTS, INWARD,
//! MAPPED ...] [, keyword TIMEOUT])`
//!
//! # Description
//! Stands between inner hosts and the outside, and gives each inner address another one outside. Packets must start
//! with their IPv6 header, and be TCP, UDP or ICMPv6 without extension headers.
//!
//! - Input 0 is for outward packets: the source address, and perhaps the source port, is translated. They leave by
//!   output 0.
//! - Input 1 is for inward packets: the destination address, and perhaps the destination port, is translated back. They
//!   leave by output 1.
//!
//! Static mappings count first. Without one, a packet of the direction that may begin mappings begins a dynamic one: it
//! takes an address, or a port, that no other mapping has. All other packets without a mapping are dropped. Where ports
//! are translated, the identifier of an echo is its port, and other ICMPv6 messages are dropped. Checksums are updated.
//! The packet quoted in an ICMPv6 error is not translated.
//!
//! Before ProtocolTranslator64 and behind ProtocolTranslator46, this connects IPv6 hosts to the IPv4 world. An
//! IPv4-compatible address (`::10.0.0.1`) counts as the IPv4-mapped one (`::ffff:10.0.0.1`), which
//! ProtocolTranslator46 makes.
//!
//! # Arguments
//! All arguments but TIMEOUT are positional.
//!
//! - STATIC: number of static mappings.
//! - STATIC_PORTS: whether static mappings have ports. Only if STATIC is not 0; then that many mappings follow, each an
//!   inner address and a mapped address, each with a port behind it if STATIC_PORTS.
//! - DYNAMIC: whether there are dynamic mappings. The following arguments exist only then.
//! - DYNAMIC_PORTS: whether a dynamic mapping is that of a flow, to a port, instead of that of an address.
//! - INWARD: whether inward packets begin dynamic mappings, instead of outward ones. Then MAPPED is inside.
//! - MAPPED: with DYNAMIC_PORTS an address, the first port and the last port; otherwise the addresses, one per argument.
//! - TIMEOUT: how long a dynamic mapping is kept at least after its last packet. When nothing else is free, a new mapping
//!   takes the place of one that is silent for longer. 0 means forever, as in Click. Keyword, seconds, default 300.
//!
//! # Ports
//! Two push inputs, two push outputs.
//!
//! # Handlers
//! - `table` (read): the mappings, one per line, `INNER => MAPPED`, static ones first.
//! - `count` (read): number of dynamic mappings.
//! - `clear` (write): forgets the dynamic mappings.
//!
//! # Drops
//! - no match: there is no mapping, and the packet may not begin one; or it is not of a protocol that is translated.
//! - table full: no address or port is free.
//! - bad length: the IPv6 packet is incomplete.
//! - truncated: the transport header is incomplete.
//!
//! # Example
//! ```click
//! at :: AddressTranslator(0, true, true, false, 2001:db8::1 6000 6010);
//! InfiniteSource(LENGTH 64, LIMIT 10) -> UDPIP6Encap(fd00::2, 1234, 2001:db8:1::9, 53) -> at;
//! at[0] -> IP6Mirror -> [1]at;
//! at[1] -> Discard;
//! ```
//!
//! # See also
//! ProtocolTranslator46, ProtocolTranslator64, IPRewriter

mod mappings;
mod transport;

use millrace_core::args::{Arg, ArgText, Args, Seconds};
use millrace_core::headers::{Header, Ipv6Header};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Footprint, Handlers, Init, Lock, Packet, Reason, Setup,
    Timestamp, register,
};

use mappings::{Direction, End, Mappings, Pool};

/// The element; its manual is at the top of the file.
pub struct AddressTranslator {
    mappings: Lock<Mappings>,
}

register!(AddressTranslator, "address_translator.rs");

impl Element for AddressTranslator {
    const CLASS: Class = Class::new("AddressTranslator", "2/2", "h/h").flow("xy/xy");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let timeout: Seconds = args.keyword("TIMEOUT", Seconds::new(300));
        let timeout = Timestamp::from_millis(i64::try_from(timeout.as_millis()).unwrap_or(0));
        let texts = args.rest();
        let mappings = Reader { args, texts: texts.iter() }.mappings(timeout);
        args.complete()?;
        let mappings = Lock::new(mappings.ok_or(Failed)?);
        Ok(Self { mappings })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        let now = cx.now();
        let direction = if port == 0 { Direction::Outward } else { Direction::Inward };
        let mut mappings = self.mappings.lock();
        batch.map_filter(|mut packet| {
            match translate(&mut mappings, direction, &mut packet, now) {
                Ok(()) => Some(packet),
                Err(reason) => cx.drop(packet, reason),
            }
        });
        drop(mappings);
        cx.push_batch(port, batch);
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        let (mut new, mut old) = (self.mappings.lock(), old.mappings.lock());
        new.take(&mut old);
    }

    fn footprint(&self) -> Footprint {
        Footprint::tables(self.mappings.lock().bytes_when_full())
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("table", |element, _| element.mappings.lock().table());
        handlers.read("count", |element, _| element.mappings.lock().count());
        handlers.write("clear", |element, _| {
            element.mappings.lock().clear();
            Ok(())
        });
    }
}

/// Reads the arguments, whose number depends on those before.
struct Reader<'r, 'a> {
    args: &'r mut Args<'a>,
    texts: std::slice::Iter<'r, ArgText>,
}

impl Reader<'_, '_> {
    fn mappings(mut self, timeout: Timestamp) -> Option<Mappings> {
        let mut mappings = Mappings::new(timeout);
        let count: u16 = self.next("STATIC")?;
        if count > 0 {
            let with_ports = self.next("STATIC_PORTS")?;
            mappings.static_ports = with_ports;
            for _ in 0..count {
                let (inner, mapped) = self.pair(with_ports)?;
                mappings.add_static(inner, mapped);
            }
        }
        if self.next("DYNAMIC")? {
            let with_ports: bool = self.next("DYNAMIC_PORTS")?;
            let begins = if self.next("INWARD")? { Direction::Inward } else { Direction::Outward };
            mappings.begins = Some(begins);
            mappings.pool = match with_ports {
                true => self.port_range()?,
                false => self.addresses()?,
            };
        }
        if let Some(surplus) = self.texts.next() {
            self.args.error(surplus, "too many arguments");
            return None;
        }
        Some(mappings)
    }

    fn next<T: Arg>(&mut self, name: &str) -> Option<T> {
        match self.texts.next() {
            Some(text) => self.args.parse_as(name, text),
            None => {
                self.args.error((), format!("{name}: required argument missing"));
                None
            }
        }
    }

    fn pair(&mut self, with_ports: bool) -> Option<(End, End)> {
        let words = self.texts.next().map(ArgText::words).unwrap_or_default();
        let parsed = match (words.as_slice(), with_ports) {
            ([inner, mapped], false) => self.end(inner, None).zip(self.end(mapped, None)),
            ([inner, inner_port, mapped, mapped_port], true) => {
                self.end(inner, Some(inner_port)).zip(self.end(mapped, Some(mapped_port)))
            }
            _ => None,
        };
        if parsed.is_none() && !self.args.has_errors() {
            let form = if with_ports { "INNER PORT MAPPED PORT" } else { "INNER MAPPED" };
            self.args.error((), format!("a static mapping should be ‘{form}’"));
        }
        parsed
    }

    fn end(&mut self, address: &ArgText, port: Option<&ArgText>) -> Option<End> {
        let address = self.args.parse_as("", address)?;
        let port = match port {
            Some(port) => self.args.parse_as("", port)?,
            None => 0,
        };
        Some(End { address, port })
    }

    fn port_range(&mut self) -> Option<Pool> {
        let words = self.texts.next().map(ArgText::words).unwrap_or_default();
        let [address, first, last] = words.as_slice() else {
            self.args.error((), "MAPPED should be ‘ADDRESS FIRST_PORT LAST_PORT’");
            return None;
        };
        let first = self.end(address, Some(first))?;
        let last: u16 = self.args.parse_as("", last)?;
        if first.port > last {
            self.args.error((), "the first port is behind the last one");
            return None;
        }
        Some(Pool::Ports { first, last })
    }

    fn addresses(&mut self) -> Option<Pool> {
        let mut pool = Vec::new();
        for text in self.texts.by_ref() {
            let address = self.args.parse_as("MAPPED", text)?;
            if !pool.contains(&address) {
                pool.push(address);
            }
        }
        Some(Pool::Addresses(pool))
    }
}

fn translate(
    mappings: &mut Mappings,
    direction: Direction,
    packet: &mut Packet,
    now: Timestamp,
) -> Result<(), Reason> {
    let (ip, payload) = Ipv6Header::split(packet.data()).ok_or(Reason::BadLength)?;
    let (ip, ports) = (*ip, transport::ports(ip.next_header, payload)?);
    let source = End { address: ip.source(), port: ports.map_or(0, |ports| ports.source) };
    let destination =
        End { address: ip.destination(), port: ports.map_or(0, |ports| ports.destination) };
    let (near, far) = match direction {
        Direction::Outward => (source, destination),
        Direction::Inward => (destination, source),
    };
    let new = mappings.find(direction, near, far, ports.is_some(), now)?;
    transport::write_end(packet.data_mut(), direction, near, new);
    packet.set_network_header(0, Ipv6Header::LEN);
    Ok(())
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Reason, Timestamp};

    use crate::test_packets::ip6::Datagram;

    fn rig(arguments: &str) -> Rig {
        Rig::new(&format!("AddressTranslator({arguments})"), 2, 2).unwrap()
    }

    fn udp(from: (&str, u16), to: (&str, u16)) -> Datagram {
        let whole = Datagram {
            source: from.0.parse().unwrap(),
            destination: to.0.parse().unwrap(),
            ..Datagram::default()
        };
        whole.with_udp(from.1, to.1, b"data")
    }

    /// Source and destination, as `[address]:port`, of the packet that comes out of output `port`.
    fn passes(rig: &mut Rig, port: usize, packet: &Datagram) -> Option<(String, String)> {
        let out = rig.push(port, &[packet.bytes()]);
        let bytes = out[port].first()?;
        let packet = etherparse::SlicedPacket::from_ip(bytes).unwrap();
        let Some(etherparse::NetSlice::Ipv6(ip)) = &packet.net else { panic!("no IPv6") };
        let (source, destination) = (ip.header().source_addr(), ip.header().destination_addr());
        let Some(etherparse::TransportSlice::Udp(udp)) = &packet.transport else {
            panic!("no UDP")
        };
        let sum = udp.to_header().calc_checksum_ipv6(&ip.header().to_header(), udp.payload());
        assert_eq!(sum.unwrap(), udp.checksum());
        Some((
            format!("[{source}]:{}", udp.source_port()),
            format!("[{destination}]:{}", udp.destination_port()),
        ))
    }

    fn ends(source: &str, destination: &str) -> Option<(String, String)> {
        Some((source.to_owned(), destination.to_owned()))
    }

    #[test]
    fn static_mappings_translate_both_ways() {
        let mut rig = rig("1, false, fd00::2 2001:db8::1, false");
        let out = passes(&mut rig, 0, &udp(("fd00::2", 7), ("2001:db8:9::9", 53)));
        assert_eq!(out, ends("[2001:db8::1]:7", "[2001:db8:9::9]:53"));
        let back = passes(&mut rig, 1, &udp(("2001:db8:9::9", 53), ("2001:db8::1", 7)));
        assert_eq!(back, ends("[2001:db8:9::9]:53", "[fd00::2]:7"));
        assert_eq!(passes(&mut rig, 0, &udp(("fd00::3", 7), ("2001:db8:9::9", 53))), None);
        assert_eq!(rig.stats().drops, [(Reason::NoMatch, 1)]);
        assert_eq!(rig.read("table").unwrap(), "fd00::2 => 2001:db8::1\n");
    }

    #[test]
    fn static_mappings_with_ports_match_only_these() {
        let mut rig = rig("1, true, fd00::2 80 2001:db8::1 8080, false");
        let out = passes(&mut rig, 0, &udp(("fd00::2", 80), ("2001:db8:9::9", 53)));
        assert_eq!(out, ends("[2001:db8::1]:8080", "[2001:db8:9::9]:53"));
        assert_eq!(passes(&mut rig, 0, &udp(("fd00::2", 81), ("2001:db8:9::9", 53))), None);
    }

    #[test]
    fn each_inner_address_gets_one_of_the_pool() {
        let mut rig = rig("0, true, false, false, 2001:db8::1, 2001:db8::2, TIMEOUT 10");
        let send = |rig: &mut Rig, host: &str| {
            passes(rig, 0, &udp((host, 7), ("2001:db8:9::9", 53))).map(|(source, _)| source)
        };
        assert_eq!(send(&mut rig, "fd00::2").unwrap(), "[2001:db8::1]:7");
        assert_eq!(send(&mut rig, "fd00::3").unwrap(), "[2001:db8::2]:7");
        assert_eq!(send(&mut rig, "fd00::2").unwrap(), "[2001:db8::1]:7");
        assert_eq!(send(&mut rig, "fd00::4"), None);
        assert_eq!(rig.stats().drops, [(Reason::TableFull, 1)]);
        rig.pass(Timestamp::from_secs(6));
        send(&mut rig, "fd00::3");
        rig.pass(Timestamp::from_secs(6));
        // The first mapping has been silent for longer than the timeout, the other one has not.
        assert_eq!(send(&mut rig, "fd00::4").unwrap(), "[2001:db8::1]:7");
        assert_eq!(rig.read("count").unwrap(), "2");
        rig.write("clear", "").unwrap();
        assert_eq!(rig.read("count").unwrap(), "0");
    }

    #[test]
    fn each_flow_gets_a_port_of_its_own() {
        let mut rig = rig("0, true, true, false, 2001:db8::1 6000 6001");
        let send = |rig: &mut Rig, port| passes(rig, 0, &udp(("fd00::2", port), ("fd01::9", 53)));
        assert_eq!(send(&mut rig, 7), ends("[2001:db8::1]:6000", "[fd01::9]:53"));
        assert_eq!(send(&mut rig, 8), ends("[2001:db8::1]:6001", "[fd01::9]:53"));
        assert_eq!(send(&mut rig, 7), ends("[2001:db8::1]:6000", "[fd01::9]:53"));
        assert_eq!(send(&mut rig, 9), None);
        let back = passes(&mut rig, 1, &udp(("fd01::9", 53), ("2001:db8::1", 6001)));
        assert_eq!(back, ends("[fd01::9]:53", "[fd00::2]:8"));
        // Another host outside is not part of the flow.
        assert_eq!(passes(&mut rig, 1, &udp(("fd01::8", 53), ("2001:db8::1", 6001))), None);
    }

    #[test]
    fn inward_packets_can_begin_mappings() {
        let mut rig = rig("0, true, true, true, fd00::1 6000 6010");
        let inward = passes(&mut rig, 1, &udp(("fd01::9", 53), ("2001:db8::1", 80)));
        assert_eq!(inward, ends("[fd01::9]:53", "[fd00::1]:6000"));
        let reply = passes(&mut rig, 0, &udp(("fd00::1", 6000), ("fd01::9", 53)));
        assert_eq!(reply, ends("[2001:db8::1]:80", "[fd01::9]:53"));
        assert_eq!(passes(&mut rig, 0, &udp(("fd00::1", 6001), ("fd01::9", 53))), None);
    }

    #[test]
    fn the_identifier_of_an_echo_is_its_port() {
        let mut rig = rig("0, true, true, false, 2001:db8::1 6000 6010");
        let echo = |kind| vec![kind, 0, 0, 0, 0, 5, 0, 1];
        let request =
            Datagram { next_header: 58, payload: echo(128), ..udp(("fd00::2", 0), ("fd01::9", 0)) };
        let out = rig.push(0, &[request.bytes()]).remove(0).remove(0);
        assert_eq!(out[44..46], 6000u16.to_be_bytes());
        let unreachable = Datagram { payload: echo(1), ..request };
        assert!(rig.push(0, &[unreachable.bytes()])[0].is_empty());
    }

    #[test]
    fn wrong_arguments_are_refused() {
        for arguments in [
            "",
            "x",
            "0",
            "1",
            "1, false",
            "1, false, fd00::2",
            "1, true, fd00::2 2001:db8::1, false",
            "0, false, 5",
            "0, true",
            "0, true, true, false",
            "0, true, true, false, ::1 9 8",
            "0, true, false, false, nobody",
            "0, true, true, false, ::1 1 70000",
        ] {
            let config = format!("AddressTranslator({arguments})");
            assert!(Rig::new(&config, 2, 2).is_err(), "{config}");
        }
    }
}
