//! Conversions from text to packets and back, for all values.

use millrace_core::Packet;
use millrace_core::args::Scope;
use millrace_lang::config::quote;
use proptest::prelude::*;

use super::fields::record::Recorder;
use super::fields::seen::Wishes;
use super::fields::table;
use super::reading::lines::LineFile;
use super::reading::reader::{Found, SummaryReader};

const WISHES: Wishes = Wishes { careful: true, extra_length: true, bad: false };

/// The packet created from a line.
fn packet(names: &str, line: &str) -> Packet {
    let text = format!("!data {names}\n{line}\n");
    let mut reader = SummaryReader::new(LineFile::of_text("x", text.into_bytes()), 6, true);
    let mut remarks = Vec::new();
    let Found::Packet(packet) = reader.next_line(Scope::builtin(), &mut remarks) else {
        panic!("{names}: {line}");
    };
    assert!(remarks.is_empty());
    packet
}

/// The record of a packet.
fn record(names: &str, packet: &mut Packet, binary: bool) -> Vec<u8> {
    let fields = names.split(' ').map(|name| table::find(name).unwrap()).collect();
    let mut out = Vec::new();
    Recorder::new(fields, WISHES, binary).write(packet, 0, &mut out);
    out
}

const TCP: &str = "timestamp direction aggregate count ip_src ip_dst ip_tos ip_ttl ip_id sport dport \
                   tcp_seq tcp_ack tcp_window tcp_urp tcp_flags tcp_opt payload";

proptest! {
    #[test]
    fn lines_are_written_as_they_were_read(
        times in (0..1u32 << 31, 0..1_000_000u32),
        annos in (any::<u8>(), any::<u32>(), 1..u32::MAX),
        ip in any::<([u8; 4], [u8; 4], u8, u8, u16)>(),
        ports in any::<(u16, u16)>(),
        tcp in any::<(u32, u32, u16, u16)>(),
        option in prop::option::of((any::<u16>(), any::<u8>())),
        payload in prop::collection::vec(any::<u8>(), 0..60),
    ) {
        let address = |[a, b, c, d]: [u8; 4]| format!("{a}.{b}.{c}.{d}");
        let direction = match annos.0 {
            0 => ">".to_owned(),
            1 => "<".to_owned(),
            paint => paint.to_string(),
        };
        let option = option.map(|(mss, shift)| format!("mss{mss};wscale{shift}"));
        let line = [
            format!("{}.{:06} {direction} {} {}", times.0, times.1, annos.1, annos.2),
            format!("{} {} {} {} {}", address(ip.0), address(ip.1), ip.2, ip.3, ip.4),
            format!("{} {} {} {} {} {}", ports.0, ports.1, tcp.0, tcp.1, tcp.2, tcp.3),
            format!("SA {} {}", option.as_deref().unwrap_or("."), quote(&payload)),
        ].join(" ");
        let mut made = packet(TCP, &line);
        // An independent parser finds the same.
        let bytes = made.data().to_vec();
        let sliced = etherparse::SlicedPacket::from_ip(&bytes).unwrap();
        let Some(etherparse::TransportSlice::Tcp(header)) = &sliced.transport else {
            panic!("not TCP");
        };
        prop_assert_eq!((header.source_port(), header.destination_port()), ports);
        prop_assert_eq!((header.sequence_number(), header.acknowledgment_number()), (tcp.0, tcp.1));
        prop_assert!(header.syn() && header.ack() && !header.fin());
        prop_assert_eq!(header.payload(), &payload[..]);
        let Some(etherparse::NetSlice::Ipv4(v4)) = &sliced.net else { panic!("not IPv4") };
        prop_assert_eq!(v4.header().source(), ip.0);
        let right = header.to_header().calc_checksum_ipv4(&v4.header().to_header(), &payload);
        prop_assert_eq!(header.checksum(), right.unwrap());
        prop_assert_eq!(v4.header().header_checksum(), v4.header().to_header().calc_header_checksum());
        let written = record(TCP, &mut made, false);
        prop_assert_eq!(String::from_utf8(written).unwrap(), line + "\n");
    }

    #[test]
    fn no_line_of_any_field_causes_a_panic(
        name in 0..80usize,
        text in "[ -~]{0,40}",
        more in prop::collection::vec(any::<u8>(), 0..80),
    ) {
        let Some(field) = table::fields().nth(name) else { return Ok(()) };
        let mut line = format!("!data {} ip_len payload_len\n{text} 70 9\n", field.name).into_bytes();
        line.extend_from_slice(&more);
        let mut reader = SummaryReader::new(LineFile::of_text("x", line), 17, true);
        let mut remarks = Vec::new();
        loop {
            match reader.next_line(Scope::builtin(), &mut remarks) {
                Found::Packet(mut packet) => {
                    record(field.name, &mut packet, false);
                    record(field.name, &mut packet, true);
                }
                Found::End => break,
                _ => {}
            }
        }
    }

    #[test]
    fn no_packet_causes_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..100), at in 0..20isize) {
        for field in table::fields() {
            let mut packet = Packet::from_bytes(&bytes).unwrap();
            if let Some(first) = packet.data_mut().get_mut(at as usize) {
                *first = 0x45 + *first % 3;
            }
            let length = usize::from(packet.data().get(at as usize).copied().unwrap_or(0x45) & 0xf) * 4;
            packet.set_network_header(at, length);
            record(field.name, &mut packet, false);
            record(field.name, &mut packet, true);
        }
    }
}
