//! IPClassifier - classifies IP packets by tcpdump-like patterns
//!
//! # Synopsis
//! `IPClassifier(PATTERN_1, ..., PATTERN_N)`
//!
//! # Description
//! Sends each packet to the output of the first pattern that it matches, and drops packets that match none. Patterns
//! resemble those of tcpdump(1) and consist of conditions:
//!
//! - `[ip] proto PROTO`: packets of a protocol, by name or number.
//! - `[SD] [ip] host ADDR`: packets from or to an address. SD is `src`, `dst`, `src or dst` (the default), or
//!   `src and dst`.
//! - `[SD] [ip] net NET`: packets from or to a network, `ADDR/BITS` or `ADDR mask MASK`.
//! - `[SD] [tcp | udp] port PORT`: packets from or to a TCP or UDP port, by name or number.
//! - `ip vers N`, `ip hl N`, `ip tos N`, `ip dscp N`, `ip len N`, `ip id N`, `ip ttl N`: packets with this value in the
//!   IP header. `hl` is in four-byte words.
//! - `ip ect [N]`, `ip ce`: packets with ECN enabled (or N in its two bits); with congestion experienced.
//! - `ip frag`, `ip unfrag`: fragments; packets that are not fragments.
//! - `tcp opt FLAG`: TCP packets with a flag, `ack`, `fin`, `psh`, `rst`, `syn` or `urg`.
//! - `tcp win N`: TCP packets with this window.
//! - `icmp type TYPE`: ICMP packets of a type, by name or number.
//! - `ip[POS:LEN] N`: packets in which the LEN (1 to 4) bytes from byte POS of the IP header on have this value.
//!   `ip[POS]` is one byte. The bytes must lie in one aligned word.
//! - `transp[POS:LEN] N`, `tcp[POS:LEN] N`, `udp[POS:LEN] N`, `icmp[POS:LEN] N`: the same for the transport header.
//! - `[SD] ether host ETH`: packets from or to an Ethernet address.
//! - `true`, `false`: all packets; none.
//!
//! Conditions on the transport header hold only for first fragments.
//!
//! All conditions but `tcp opt` accept `==` (optional) or `!=` before the value; those with numbers also accept `<`,
//! `<=`, `>` and `>=`, and most a mask: `src port & 10 == 8`. `port != 5` differs from `not port 5`: it requires that
//! the packet has a port, and a different one.
//!
//! Conditions are combined with `and` (`&&`, or nothing at all), `or` (`||`), `not` (`!`), `? :` and parentheses. Words
//! may be omitted where the meaning is clear: `tcp` for `ip proto tcp`, `www` for `port www`, `syn`, `10.0.0.0/8`, and
//! `src port 80 or 81` for `src port 80 or src port 81`. A pattern that is `-`, `any` or `all` matches every packet.
//!
//! A condition on bytes that the packet does not have does not hold, and `not` of it does.
//!
//! Without words for IPv6 or states, patterns read every header as an IPv4 header, as Click's do. With one such word in any
//! pattern, all of them tell the versions apart: `ip`, IPv4 addresses, `icmp`, `len`, `id` and `hl` hold for IPv4 only, the
//! words below for IPv6 only, and conditions without any of these - `tcp dst port 22`, `proto`, `ttl`, `tos`, `dscp`,
//! `frag` - for both.
//!
//! - `ip6`: IPv6 packets; `ip`: IPv4 packets.
//! - `[SD] [ip6] host ADDR6`, `[SD] [ip6] net NET6`: packets from or to an IPv6 address or network, `ADDR6/BITS`.
//! - `ip6 hlim N`, `ip6 tos N`, `ip6 dscp N`, `ip6 frag`: as for IPv4; `hlim` is the hop limit.
//! - `ip6 ext EXT`: packets with an extension header: `hop`, `routing`, `frag`, `auth`, `dest`, or its number.
//! - `icmp6 type TYPE`: ICMPv6 packets of a type, by name or number.
//! - `ip6[POS:LEN] N`: bytes of the IPv6 header.
//! - `new`, `established`, `related`, `invalid`, `untracked`: what a ConnectionTracker upstream found the packet to be to its
//!   connection.
//!
//! Protocol and ports of an IPv6 packet are those behind its extension headers.
//!
//! Packets must have their IP header position set (by CheckIPHeader, CheckIP6Header or MarkIPHeader). Others are dropped, unless the
//! patterns treat all packets alike.
//!
//! # Arguments
//! - PATTERN: one for each output.
//!
//! # Ports
//! One push input; as many push outputs as there are patterns.
//!
//! # Handlers
//! - `program` (read): the decision program; see IPFilter, also for the case of many patterns.
//! - `config` (read, write): the patterns. New ones take effect at once, or, if any has an error, not at all.
//! - `patternN` (read, write): pattern N, counted from 0.
//!
//! # Drops
//! - no match: the packet matches no pattern.
//! - header not set: the packet's IP header position is not set.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<45000028 00000000 4006b0ce 0a000001 0a000002
//!                       04d20050 00000000 00000000 50020000 00000000>, LIMIT 10)
//!     -> MarkIPHeader
//!     -> c :: IPClassifier(10.0.0.0/24 and syn, tcp, -);
//! c [0] -> Counter -> Discard;  // the first packets of connections
//! c [1] -> Discard;  // other TCP
//! c [2] -> Discard;  // others
//! ```
//!
//! # See also
//! IPFilter, ConnectionTracker, Classifier, CheckIPHeader, CheckIP6Header, MarkIPHeader, AddressInfo

use millrace_core::args::Args;
use millrace_core::element::{ANY_HANDLER, HandlerError, Inspection};
use millrace_core::memory::Ports;
use millrace_core::{
    Batch, Call, Class, Context, Element, Failed, Handlers, Packet, Reason, Setup, isa, register,
};

use super::patterns::arguments::Patterns;
use super::patterns::in_force::{self, Exchangeable, InForce};
use super::patterns::states::missing_tracker;
use super::program::{DROP, FilterProgram, IpSections, Otherwise};

/// The element; its manual is at the top of the file.
pub struct IpClassifier {
    outputs: usize,
    current: InForce<Current>,
}

/// The patterns in force and their compiled form.
pub(crate) struct Current {
    patterns: Vec<String>,
    program: FilterProgram,
}

register!(IpClassifier, "ip_classifier.rs");

impl Element for IpClassifier {
    const CLASS: Class = Class::new("IPClassifier", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        let current = compile(&mut setup.args, outputs)?;
        Ok(Self { outputs, current: InForce::new(current) })
    }

    fn inspect(&self, inspection: &mut Inspection<'_>) {
        let current = self.current.keep();
        if let Some(warning) = missing_tracker(&current.program, || inspection.offered_upstream(0))
        {
            inspection.warn(warning);
        }
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let mut ports: Ports = [0; Batch::CAPACITY];
        let program = &self.current.get(cx).program;
        let ports = classify_all(program, batch, Reason::NoMatch, &mut ports);
        cx.route_by(batch, ports);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        in_force::handlers(handlers);
        handlers.try_read(ANY_HANDLER, |classifier, call| {
            let current = classifier.current.keep();
            Ok(current.patterns.get(classifier.pattern(call)?).cloned().unwrap_or_default())
        });
        handlers.write(ANY_HANDLER, |classifier, call| {
            let changed = classifier.pattern(call)?;
            let mut patterns = classifier.current.keep().patterns.clone();
            if let Some(pattern) = patterns.get_mut(changed) {
                *pattern = call.text().into_owned();
            }
            let compiled = FilterProgram::compile_patterns(&patterns, &call.scope());
            let (program, _) = compiled.map_err(|findings| {
                let errors = findings.iter().filter(|finding| finding.is_error);
                errors.map(ToString::to_string).collect::<Vec<_>>().join("\n")
            })?;
            let written = Some(patterns.join(", "));
            classifier.current.exchange(Current { patterns, program }, written);
            Ok(())
        });
    }
}

impl Exchangeable for IpClassifier {
    type Rules = Current;

    fn in_force(&self) -> &InForce<Current> {
        &self.current
    }

    fn recompile(&self, call: &Call<'_>) -> Result<Current, HandlerError> {
        let mut args = call.args();
        let current = compile(&mut args, self.outputs).map_err(|Failed| args.messages())?;
        let upstream = || call.router().offered_upstream(call.element(), 0);
        if let Some(warning) = missing_tracker(&current.program, upstream) {
            call.warn(warning);
        }
        Ok(current)
    }

    fn program(current: &Current) -> String {
        current.program.to_string()
    }
}

impl IpClassifier {
    /// The pattern that a handler is for.
    fn pattern(&self, call: &Call<'_>) -> Result<usize, HandlerError> {
        let name = call.handler();
        let number = name.strip_prefix("pattern").and_then(|number| number.parse().ok());
        let unknown = || HandlerError::NoHandler(name.to_owned());
        number.filter(|&number| number < self.outputs).ok_or_else(unknown)
    }
}

/// Compiles the patterns in the arguments.
fn compile(args: &mut Args<'_>, outputs: usize) -> Result<Current, Failed> {
    let patterns = Patterns::take(args);
    patterns.expect(outputs, args);
    let compiled = FilterProgram::compile_patterns(&patterns.plain, args.scope());
    let (Ok((_, findings)) | Err(findings)) = &compiled;
    patterns.report(findings, args);
    args.complete()?;
    let (program, _) = compiled.map_err(|_| Failed)?;
    patterns.warn_of_unused(|output| program.reaches(output), args);
    Ok(Current { patterns: patterns.plain, program })
}

/// The port of each packet of a batch, for [`Context::route_by`], according to the program. Packets without an output
/// are dropped for the reason `otherwise`.
pub(super) fn classify_all<'p>(
    program: &FilterProgram,
    batch: &Batch,
    otherwise: Reason,
    ports: &'p mut Ports,
) -> &'p [u16] {
    let ports = ports.get_mut(..batch.len()).unwrap_or_default();
    let otherwise = Otherwise {
        dropped: Context::port_to_drop(otherwise),
        no_sections: Context::port_to_drop(Reason::NoHeader),
    };
    if program.looks_at_state() {
        classify_by_state(program, batch, otherwise, ports);
        return ports;
    }
    let parts = Parts::of(program);
    isa::run(
        #[inline(always)]
        || {
            program.classify_all(
                batch,
                #[inline(always)]
                |packet| parts.take(packet),
                otherwise,
                ports,
            );
        },
    );
    ports
}

/// The same for rules that ask for the state of connections, apart from those that do not, which it would slow down.
#[inline(never)]
fn classify_by_state(
    program: &FilterProgram,
    batch: &Batch,
    otherwise: Otherwise,
    ports: &mut [u16],
) {
    let parts = Parts::of(program);
    program.classify_all(batch, |packet| parts.take_with_state(packet), otherwise, ports);
}

/// The output for a packet, or the reason for dropping it: `otherwise`, if the program drops it.
#[inline]
pub(super) fn classify(
    program: &FilterProgram,
    packet: &Packet,
    otherwise: Reason,
) -> Result<usize, Reason> {
    let sections = if program.is_constant() {
        IpSections::default()
    } else {
        let parts = Parts::of(program);
        let sections = match program.looks_at_state() {
            true => parts.take_with_state(packet),
            false => parts.take(packet),
        };
        sections.ok_or(Reason::NoHeader)?
    };
    match program.classify(&sections) {
        DROP => Err(otherwise),
        output => Ok(output),
    }
}

/// The parts of packets that a program tests, besides the network header.
#[derive(Clone, Copy)]
struct Parts {
    mac: bool,
    transport: bool,
}

impl Parts {
    #[inline(always)]
    fn of(program: &FilterProgram) -> Self {
        Self { mac: program.looks_at_mac(), transport: program.looks_at_transport() }
    }

    /// The parts of a packet; `None` if its IP header position is not set.
    #[inline(always)]
    fn take(self, packet: &Packet) -> Option<IpSections<'_>> {
        let mac = if self.mac { packet.mac_data() } else { None };
        let transport = if self.transport { packet.transport_data() } else { None };
        Some(IpSections {
            mac: mac.unwrap_or_default(),
            network: packet.network_data()?,
            transport: transport.unwrap_or_default(),
            state: 0,
        })
    }

    /// The same with the state of the packet's connection.
    fn take_with_state(self, packet: &Packet) -> Option<IpSections<'_>> {
        Some(IpSections { state: packet.connection(), ..self.take(packet)? })
    }
}

/// The fields that the packets of a flow share: protocol and fragment fields, addresses, and the first word after the
/// IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowKey([u8; 15]);

impl FlowKey {
    /// The key of a packet; `None` if a part of it is missing.
    #[inline]
    pub(super) fn of(packet: &Packet) -> Option<Self> {
        let ip: &[u8; 20] = packet.network_data()?.first_chunk()?;
        let ports: &[u8; 4] = packet.transport_data()?.first_chunk()?;
        let mut key = [0; 15];
        let parts = [&ip[6..8], &ip[9..10], &ip[12..20], &ports[..]];
        for (to, from) in key.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        // The "don't fragment" flag does not identify a flow.
        key[0] &= 0x3f;
        Some(Self(key))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    use crate::test_packets::ip::{Datagram, withstands};

    fn datagrams() -> Vec<Packet> {
        let udp = Datagram::default();
        let tcp = Datagram::tcp(b"data");
        let ping = Datagram::icmp(8, 0, [0; 4], b"ping");
        let other = Datagram::of(47);
        [udp, tcp, ping, other].iter().map(Datagram::packet).collect()
    }

    fn protocols(out: &[Vec<Packet>]) -> Vec<Vec<u8>> {
        out.iter().map(|port| port.iter().map(|packet| packet.data()[9]).collect()).collect()
    }

    #[test]
    fn packets_leave_by_the_first_pattern_that_matches() {
        let mut rig =
            Rig::new("IPClassifier(dst port www, icmp type echo, tcp, udp)", 1, 4).unwrap();
        let out = rig.push_packets(0, datagrams());
        assert_eq!(protocols(&out), [vec![6], vec![1], vec![], vec![17]]);
        assert_eq!(rig.stats().drops, [(Reason::NoMatch, 1)]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn headers_with_options_are_classified() {
        let mut rig = Rig::new("IPClassifier(dst udp port 5678, -)", 1, 2).unwrap();
        let with_options = Datagram { options: vec![1; 12], ..Datagram::default() };
        let fragment = Datagram { fragment_offset: 10, ..Datagram::default() };
        let out = rig.push_packets(0, vec![with_options.packet(), fragment.packet()]);
        assert_eq!((out[0].len(), out[1].len()), (1, 1));
    }

    #[test]
    fn patterns_can_be_exchanged() {
        let mut rig = Rig::new("IPClassifier(udp, -)", 1, 2).unwrap();
        assert_eq!(rig.read("pattern0").unwrap(), "udp");
        rig.write("pattern0", "tcp or icmp").unwrap();
        assert_eq!(rig.read("pattern0").unwrap(), "tcp or icmp");
        assert_eq!(rig.read("config").unwrap(), "tcp or icmp, -");
        assert_eq!(protocols(&rig.push_packets(0, datagrams())), [vec![6, 1], vec![17, 47]]);
        rig.write("config", "all, udp").unwrap();
        assert_eq!(rig.read("pattern1").unwrap(), "udp");
        assert_eq!(rig.read("program").unwrap(), "all->[0]\nsafe length 0\nalignment offset 0\n");
        for (handler, wrong) in [("pattern0", "tpc"), ("config", "tcp"), ("pattern2", "tcp")] {
            assert!(rig.write(handler, wrong).is_err());
        }
        assert!(rig.read("pattern2").is_err());
        assert_eq!(rig.read("config").unwrap(), "all, udp");
    }

    #[test]
    fn errors_are_reported() {
        let Err(diagnostics) = Rig::new("IPClassifier(tcp, port, -)", 1, 2) else {
            panic!("accepted");
        };
        let messages: Vec<&str> = diagnostics.iter().map(|it| it.message.as_str()).collect();
        assert_eq!(
            messages,
            [
                "need 2 arguments, one per output port",
                "pattern 1: ‘src or dst port’: value missing",
            ]
        );
    }

    #[test]
    fn no_packet_causes_a_panic() {
        withstands("IPClassifier(tcp[13] & 2 != 0, src port 5 or ip[8] > 3, not icmp)", 3);
    }
}
