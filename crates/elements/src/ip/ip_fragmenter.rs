//! IPFragmenter - splits IP packets longer than the MTU into fragments
//!
//! # Synopsis
//! `IPFragmenter(MTU [, HONOR_DF, VERBOSE, keyword HEADROOM])`
//!
//! # Description
//! Passes IP packets of up to MTU bytes unchanged. Splits longer ones into fragments of up to MTU bytes each (RFC 791,
//! 3.2) and sends them in order, starting with the first. A packet that must not be fragmented, or whose header leaves
//! no room for data, goes to output 1, usually to an ICMPError for "unreachable, needfrag".
//!
//! The first fragment is the original packet, truncated. The others are new packets that start with their IP header. A
//! link-layer header in front of the IP header is not copied, so strip it first. New fragments have those IP options
//! that must be copied to every fragment, and all of the packet's annotations. Padding after the IP datagram is
//! removed.
//!
//! A message is printed for the first five packets that cannot be fragmented.
//!
//! # Arguments
//! - MTU: maximum length of a fragment in bytes, at least 8. Positional, mandatory.
//! - HONOR_DF: whether to send packets whose don't-fragment flag is set to output 1. If false, they are fragmented,
//!   without the flag and with a new random identification. Positional, default true.
//! - VERBOSE: whether to print a message for every packet that cannot be fragmented. Positional, default false.
//! - HEADROOM: headroom of new fragments in bytes, up to 32768. Keyword, default 128.
//!
//! # Ports
//! One push input. Output 0, push: packets and fragments. Output 1, push, optional: packets that are too long and
//! cannot be fragmented.
//!
//! # Handlers
//! - `drops` (read): number of packets that could not be fragmented, dropped or sent to output 1.
//! - `fragments` (read): number of fragments sent.
//!
//! # Drops
//! - too big: the packet is too long and cannot be fragmented, and output 1 is not connected.
//! - header not set: the packet's network header is not set.
//! - bad length: the packet is too long, and its length fields contradict each other or the packet.
//! - no buffer: there was no memory for a fragment.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 1400, LIMIT 10)
//!     -> IPEncap(udp, 1.0.0.1, 2.0.0.2)
//!     -> fits :: IPFragmenter(576)
//!     -> Discard;
//! fits[1] -> ICMPError(18.26.4.24, unreachable, needfrag, PMTU 576) -> Discard;
//! ```
//!
//! # See also
//! ICMPError, IPReassembler, CheckLength

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::headers::{Header, Ipv4Header, Options, ipv4_option};
use millrace_core::memory::DEFAULT_HEADROOM;
use millrace_core::{
    Class, Context, Count, Element, Failed, Handlers, Moment, Packet, PerPacket, PerThread, Reason,
    Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct IpFragmenter {
    mtu: usize,
    honor_df: bool,
    verbose: bool,
    headroom: usize,
    counts: PerThread<Counts>,
    reported: AtomicU32,
}

#[derive(Default)]
struct Counts {
    drops: Count,
    fragments: Count,
}

register!(IpFragmenter, "ip_fragmenter.rs");

impl Element for IpFragmenter {
    const CLASS: Class = Class::new("IPFragmenter", "1/1-2", "h/h");
    /// The fragments after the first one, while a packet is being split.
    type Local = Vec<Packet>;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let mtu: u32 = args.mandatory("MTU");
        let honor_df = args.positional("HONOR_DF", true);
        let verbose = args.positional("VERBOSE", false);
        let headroom = args.in_range("HEADROOM", Kind::Keyword, 0..=32_768);
        if mtu < 8 && !args.has_errors() {
            args.error("MTU", "MTU must be at least 8");
        }
        args.complete()?;
        Ok(Self {
            mtu: mtu as usize,
            honor_df,
            verbose,
            headroom: headroom.unwrap_or(DEFAULT_HEADROOM),
            counts: PerThread::default(),
            reported: AtomicU32::new(0),
        })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |element, _| element.sum(|counts| &counts.drops));
        handlers.read("fragments", |element, _| element.sum(|counts| &counts.fragments));
    }
}

impl PerPacket for IpFragmenter {
    #[inline(always)]
    fn treat(&self, _: &mut Vec<Packet>, packet: &mut View, _: &mut Moment) -> Way {
        match packet.network_data() {
            Some(bytes) if bytes.len() <= self.mtu => Way::ON,
            _ => Way::aside(0),
        }
    }

    fn aside(
        &self,
        cx: &mut Context,
        rest: &mut Vec<Packet>,
        packet: Packet,
        _way: Way,
    ) -> Option<Packet> {
        self.send_in_fragments(cx, rest, packet);
        None
    }
}

impl IpFragmenter {
    fn send_in_fragments(&self, cx: &mut Context, rest: &mut Vec<Packet>, mut packet: Packet) {
        match self.cut(cx, &mut packet, rest) {
            Ok(()) => {
                self.counts.mine(cx).fragments.add(1 + rest.len() as u64);
                cx.created(rest.len());
                cx.push(0, packet);
                rest.drain(..).for_each(|fragment| cx.push(0, fragment));
            }
            Err(Uncut::Whole) => cx.push(0, packet),
            Err(Uncut::TooBig) => self.refuse(cx, packet),
            Err(Uncut::Bad(reason)) => {
                rest.clear();
                cx.drop(packet, reason);
            }
        }
    }

    /// Turns `packet` into its own first fragment, and puts the others into `rest`.
    fn cut(
        &self,
        cx: &mut Context,
        packet: &mut Packet,
        rest: &mut Vec<Packet>,
    ) -> Result<(), Uncut> {
        let bytes = packet.network_data().ok_or(Uncut::Bad(Reason::NoHeader))?;
        let parts = Ipv4Header::split(bytes).ok_or(Uncut::Bad(Reason::BadLength))?;
        let (&ip, options, payload) = parts;
        let header_len = ip.header_len();
        let padding = bytes.len() - header_len - payload.len();
        if header_len + payload.len() <= self.mtu {
            return if packet.trim(padding) { Err(Uncut::Whole) } else { Err(NO_DATA) };
        }
        let first_len = self.data_room(header_len);
        if (ip.dont_fragment() && self.honor_df) || first_len == 0 {
            return Err(Uncut::TooBig);
        }
        if ip.fragment_offset() + payload.len() > usize::from(u16::MAX) {
            return Err(Uncut::Bad(Reason::BadLength));
        }

        let mut ip = ip;
        if ip.dont_fragment() {
            // Senders that set the flag need not choose unique identifications (RFC 6864).
            ip.id.set(cx.random().u16(..));
            ip.flags_fragment.set(ip.flags_fragment.get() & !Ipv4Header::DONT_FRAGMENT);
        }
        let copied = copied_options(options);
        let rest_len = self.data_room(Ipv4Header::LEN + copied.len());
        let (_, behind) = payload.split_at(first_len);
        let mut offset = first_len;
        for data in behind.chunks(rest_len) {
            let more = offset + data.len() < payload.len() || ip.more_fragments();
            let header = fragment_header(&ip, offset, more);
            let fragment =
                self.fragment(header, &copied, data).ok_or(Uncut::Bad(Reason::NoBuffer))?;
            rest.push(fragment);
            offset += data.len();
        }
        rest.iter_mut().for_each(|fragment| fragment.copy_annotations(packet));

        if !packet.trim(padding + behind.len()) {
            return Err(NO_DATA);
        }
        ip = fragment_header(&ip, 0, true);
        ip.total_len.set((header_len + first_len) as u16);
        if let Some(bytes) = packet.network_data_mut() {
            if let Some((header, _)) = Ipv4Header::view_mut(bytes) {
                *header = ip;
            }
            Ipv4Header::fill_checksum(bytes);
        }
        Ok(())
    }

    /// How many bytes of data fit in a fragment with a header of `header_len` bytes: a multiple of 8.
    fn data_room(&self, header_len: usize) -> usize {
        self.mtu.saturating_sub(header_len) & !7
    }

    /// Builds a fragment from these parts; `None` if there is no memory.
    fn fragment(&self, mut header: Ipv4Header, options: &[u8], data: &[u8]) -> Option<Packet> {
        let header_len = Ipv4Header::LEN + options.len();
        let len = header_len + data.len();
        header.set_header_len(header_len);
        header.total_len.set(len as u16);
        let mut packet = Packet::stale(self.headroom, len, 0)?;
        let bytes = packet.data_mut();
        let (start, rest) = Ipv4Header::view_mut(bytes)?;
        *start = header;
        let (option_area, data_area) = rest.split_at_mut_checked(options.len())?;
        option_area.copy_from_slice(options);
        data_area.copy_from_slice(data);
        Ipv4Header::fill_checksum(bytes);
        packet.set_network_header(0, header_len);
        Some(packet)
    }

    #[cold]
    fn refuse(&self, cx: &mut Context, packet: Packet) {
        self.counts.mine(cx).drops.add(1);
        if self.verbose || self.reported.load(Relaxed) < 5 {
            self.reported.fetch_add(1, Relaxed);
            if let Some((ip, _)) = packet.network_data().and_then(Ipv4Header::view) {
                let (mtu, from, to) = (self.mtu, ip.source(), ip.destination());
                let len = packet.len();
                cx.router().chatter(&format!("IPFragmenter({mtu}) DF {from} {to} len={len}"));
            }
        }
        cx.push_or_drop(1, packet, Reason::TooBig);
    }

    fn sum(&self, which: fn(&Counts) -> &Count) -> u64 {
        self.counts.iter().map(|counts| which(counts).get()).sum()
    }
}

/// Why a packet was not fragmented.
enum Uncut {
    /// Only its padding made it too long. The padding is now removed.
    Whole,
    TooBig,
    Bad(Reason),
}

/// The packet's data starts after the end of what should become its first fragment.
const NO_DATA: Uncut = Uncut::Bad(Reason::NoHeader);

/// The header of the fragment whose data starts `offset` bytes into the packet's data.
fn fragment_header(ip: &Ipv4Header, offset: usize, more: bool) -> Ipv4Header {
    let mut header = *ip;
    let flags = ip.flags_fragment.get() & Ipv4Header::RESERVED;
    let more = if more { Ipv4Header::MORE_FRAGMENTS } else { 0 };
    // The caller has checked that the datagram is at most 65,535 bytes long.
    let place = ((ip.fragment_offset() + offset) / 8) as u16;
    header.flags_fragment.set(flags | more | place);
    header
}

/// The options to copy to every fragment, padded to a multiple of 4 bytes. Stops at the first malformed option.
fn copied_options(options: Options<'_>) -> Vec<u8> {
    let mut copied = Vec::new();
    for option in options.map_while(Result::ok) {
        if option.kind & ipv4_option::COPIED != 0 {
            copied.extend_from_slice(option.bytes);
        }
    }
    copied.resize(copied.len().next_multiple_of(4), ipv4_option::END);
    copied
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};
    use proptest::prelude::*;

    use crate::test_packets::ip::{Datagram, read, withstands};

    fn data(packets: &[Packet]) -> Vec<Vec<u8>> {
        packets.iter().map(|packet| packet.data().to_vec()).collect()
    }

    fn fragments(element: &str, packet: Packet) -> Vec<Packet> {
        Rig::new(element, 1, 1).unwrap().push_packets(0, vec![packet]).remove(0)
    }

    #[test]
    fn options_not_to_be_copied_stay_in_the_first_fragment() {
        let payload = [0, 30, 0, 40, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0, 0, 0, 0x8f, 0x55, 0, 0];
        for options in [vec![1, 1, 0, 0], vec![2, 0, 0, 0], vec![7, 4, 4, 0]] {
            let datagram = Datagram { options, payload: payload.to_vec(), ..Datagram::of(6) };
            let out = fragments("IPFragmenter(40, HONOR_DF false)", datagram.packet());
            let first = Datagram {
                payload: payload[..16].to_vec(),
                more_fragments: true,
                ..datagram.clone()
            };
            let second = Datagram {
                payload: payload[16..].to_vec(),
                options: Vec::new(),
                fragment_offset: 2,
                ..datagram
            };
            assert_eq!(data(&out), [first.bytes(), second.bytes()]);
        }
    }

    #[test]
    fn options_for_every_fragment_are_copied() {
        let options = vec![1, 0x83, 7, 4, 1, 2, 3, 4, 7, 3, 4, 0x88, 4, 9, 9, 0];
        let datagram = Datagram { options, payload: vec![5; 200], ..Datagram::of(17) };
        let out = fragments("IPFragmenter(100)", datagram.packet());
        for fragment in &out[1..] {
            let (header, _) = read(fragment.data());
            assert_eq!(header.options.as_slice(), [0x83, 7, 4, 1, 2, 3, 4, 0x88, 4, 9, 9, 0]);
            assert_eq!(fragment.transport_offset(), Some(32));
        }
    }

    #[test]
    fn packets_that_must_not_be_fragmented_go_to_output_1() {
        let whole = Datagram { dont_fragment: true, ..Datagram::udp(&[0; 200]) };
        let mut rig = Rig::new("IPFragmenter(100)", 1, 2).unwrap();
        let out = rig.push_packets(0, vec![whole.packet()]);
        assert_eq!((out[0].len(), data(&out[1])), (0, vec![whole.bytes()]));
        assert_eq!(rig.read("drops").unwrap(), "1");

        let mut rig = Rig::new("IPFragmenter(27)", 1, 1).unwrap();
        rig.push_packets(0, vec![Datagram::udp(&[0; 200]).packet()]);
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 1)]);
    }

    #[test]
    fn the_dont_fragment_flag_can_be_ignored() {
        let whole = Datagram { dont_fragment: true, ..Datagram::udp(&[0; 200]) };
        let out = fragments("IPFragmenter(100, false)", whole.packet());
        let headers: Vec<_> = out.iter().map(|packet| read(packet.data()).0).collect();
        assert_eq!(headers.len(), 3);
        for header in &headers {
            assert!(!header.dont_fragment);
            assert_eq!(header.identification, headers[0].identification);
        }
    }

    #[test]
    fn order_annotations_and_counts_are_kept() {
        let small = Datagram::udp(&[1; 10]);
        let mut large = Datagram::udp(&[2; 100]).packet();
        large.set_paint(7);
        let mut rig = Rig::new("IPFragmenter(60, HEADROOM 40)", 1, 1).unwrap();
        let out = rig.push_packets(0, vec![small.packet(), large, small.packet()]).remove(0);
        assert_eq!(out.len(), 5);
        assert_eq!(data(&out)[0], small.bytes());
        assert_eq!(data(&out)[4], small.bytes());
        for fragment in &out[1..4] {
            assert_eq!((fragment.paint(), fragment.dst_ip()), (7, Datagram::DESTINATION));
        }
        assert_eq!(out[2].headroom(), 40);
        assert_eq!(rig.read("fragments").unwrap(), "3");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn padding_beyond_the_mtu_is_removed() {
        let small = Datagram::udp(&[1; 10]);
        let mut padded = small.packet();
        padded.push_back(&[0; 100]);
        assert_eq!(data(&fragments("IPFragmenter(60)", padded)), [small.bytes()]);
    }

    #[test]
    fn malformed_packets_are_dropped() {
        let mut unmarked = Datagram::udp(&[0; 100]).packet();
        unmarked.clear_network_header();
        let mut cut = Datagram::udp(&[0; 100]).packet();
        cut.truncate(100);
        let beyond = Datagram { fragment_offset: 8191, ..Datagram::udp(&[0; 100]) };
        let mut rig = Rig::new("IPFragmenter(60)", 1, 1).unwrap();
        rig.push_packets(0, vec![unmarked, cut, beyond.packet()]);
        assert_eq!(rig.stats().drops, [(Reason::BadLength, 2), (Reason::NoHeader, 1)]);
        assert!(Rig::new("IPFragmenter(7)", 1, 1).is_err());
    }

    proptest! {
        /// For any sizes, the fragments reassemble into the datagram, and so do fragments of fragments.
        #[test]
        fn fragments_reassemble(
            payload in prop::collection::vec(any::<u8>(), 0..3000),
            mtu in 68usize..1600,
            smaller in 68usize..400,
            options in prop::sample::select(vec![vec![], vec![0x83, 3, 4, 0], vec![7, 3, 4, 0]]),
            shared: bool,
        ) {
            let datagram = Datagram { options, payload, ..Datagram::of(17) };
            let packet = datagram.packet();
            let twin = shared.then(|| packet.share().unwrap());
            let once = fragments(&format!("IPFragmenter({mtu})"), packet);
            let mut rig = Rig::new(&format!("IPFragmenter({smaller})"), 1, 1).unwrap();
            let twice = rig.push_packets(0, once.iter().map(|f| f.copy().unwrap()).collect());
            prop_assert!(rig.stats().balanced());
            for (fragments, mtu) in [(&once, mtu), (&twice[0], smaller)] {
                let mut whole = Vec::new();
                for (n, fragment) in fragments.iter().enumerate() {
                    prop_assert!(fragment.len() <= mtu);
                    let (header, payload) = read(fragment.data());
                    prop_assert_eq!(header.identification, datagram.id);
                    prop_assert_eq!(usize::from(header.fragment_offset.value()) * 8, whole.len());
                    prop_assert_eq!(header.more_fragments, n + 1 < fragments.len());
                    whole.extend(payload);
                }
                prop_assert_eq!(&whole, &datagram.payload);
            }
            if let Some(twin) = twin {
                prop_assert_eq!(twin.data(), datagram.bytes());
            }
        }
    }

    #[test]
    fn withstands_anything() {
        withstands("IPFragmenter(68)", 1);
        withstands("IPFragmenter(30, false)", 2);
    }
}
