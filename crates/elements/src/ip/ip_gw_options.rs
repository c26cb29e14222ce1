//! IPGWOptions - processes the Record Route and Timestamp IP options as a router
//!
//! # Synopsis
//! `IPGWOptions(MYADDR [, OTHERADDRS])`
//!
//! # Description
//! Fills in the Record Route and Timestamp options of passing packets (RFC 791, 3.1), and recomputes the header
//! checksum of the packets that it changes. Other options, including source routes, are ignored. Belongs on the output
//! path, because MYADDR must be the address of the interface that the packet leaves by (RFC 1812, 4.2.2.2).
//!
//! A packet goes to output 1 unchanged if an option is malformed, if an option that is not full has no room for a whole
//! entry, or if a timestamp option's overflow count overflows. Its ICMP parameter problem annotation then points to the
//! wrong byte, so that an ICMPError can report it.
//!
//! # Arguments
//! - MYADDR: the outgoing interface's address. Positional, mandatory.
//! - OTHERADDRS: the router's other addresses, separated by spaces. If the sender asks one of these addresses for a
//!   timestamp, it is filled in too. Positional, default none.
//!
//! # Ports
//! One agnostic input. Output 0, agnostic: packets to forward. Output 1, push, optional: packets with wrong options.
//!
//! # Handlers
//! - `drops` (read): number of packets with wrong options, dropped or sent to output 1.
//!
//! # Drops
//! - bad option: an option is wrong, and output 1 is not connected.
//! - header not set: the packet's network header is not set.
//! - bad header length: the packet ends before its header does.
//!
//! # Example
//! ```click
//! InfiniteSource(DATA \<4700001c 00000000 40116ac8 01000001 02000002 07070400 00000000>, LIMIT 10)
//!     -> CheckIPHeader
//!     -> options :: IPGWOptions(18.26.4.24, 18.26.7.1 10.0.0.1)
//!     -> Discard;
//! options[1] -> ICMPError(18.26.4.24, parameterproblem) -> Discard;
//! ```
//!
//! # See also
//! ICMPError, FixIPSrc

use std::net::Ipv4Addr;

use millrace_core::headers::{Header, Ipv4Header, Options, ipv4_option};
use millrace_core::{
    Class, Context, Count, Element, Failed, Handlers, Moment, Packet, PerPacket, PerThread, Reason,
    Setup, Timestamp, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct IpGwOptions {
    address: Ipv4Addr,
    all_addresses: Vec<Ipv4Addr>,
    drops: PerThread<Count>,
}

register!(IpGwOptions, "ip_gw_options.rs");

impl Element for IpGwOptions {
    const CLASS: Class = Class::new("IPGWOptions", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let address = setup.args.mandatory("MYADDR");
        let mut all_addresses: Vec<Ipv4Addr> = setup.args.positional("OTHERADDRS", Vec::new());
        setup.args.complete()?;
        all_addresses.push(address);
        Ok(Self { address, all_addresses, drops: PerThread::default() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |element, _| element.drops.total());
    }
}

impl PerPacket for IpGwOptions {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        match packet.ipv4() {
            Some(ip) if ip.has_no_options() => Way::ON,
            Some(_) => Way::aside(0),
            None => Way::drop(Reason::NoHeader),
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        match way.note() {
            Some(_) => self.treat_options(cx, packet),
            None => cx.send_or_drop(packet, way),
        }
    }
}

/// The options of one packet.
impl IpGwOptions {
    #[cold]
    fn treat_options(&self, cx: &mut Context, mut packet: Packet) -> Option<Packet> {
        if packet.network_data().and_then(option_area).is_none() {
            return cx.drop(packet, Reason::BadHeaderLength);
        }
        let signed = self.sign(&mut packet, cx.now());
        match signed {
            Ok(()) => Some(packet),
            Err(wrong) => {
                self.drops.mine(cx).add(1);
                packet.set_icmp_param_prob(wrong);
                cx.push_or_drop(1, packet, Reason::BadOption);
                None
            }
        }
    }

    /// For an element that fills in only this address.
    pub(super) fn of(address: Ipv4Addr) -> Self {
        Self { address, all_addresses: vec![address], drops: PerThread::default() }
    }

    /// Fills in the options of a packet; on error, returns which byte of the header is wrong.
    pub(super) fn sign(&self, packet: &mut Packet, now: Timestamp) -> Result<(), u8> {
        let Some(area) = packet.network_data().and_then(option_area) else { return Ok(()) };
        let rewritten = self.rewrite(area, midnight_millis(now));
        // A header has 60 bytes at most.
        let Some(rewritten) = rewritten.map_err(|wrong| (Ipv4Header::LEN + wrong) as u8)? else {
            return Ok(());
        };
        if let Some(header) = packet.network_data_mut() {
            let area = header.iter_mut().skip(Ipv4Header::LEN);
            area.zip(rewritten).for_each(|(byte, new)| *byte = new);
            Ipv4Header::fill_checksum(header);
        }
        Ok(())
    }

    /// The new option area, if it changes; on error, where it is wrong.
    fn rewrite(&self, area: &[u8], now: u32) -> Result<Option<Vec<u8>>, usize> {
        let mut rewritten = area.to_vec();
        let mut changed = false;
        for option in Options::new(area) {
            let option = option.map_err(|offset| offset + LENGTH)?;
            let range = option.offset..option.offset + option.bytes.len();
            let bytes = rewritten.get_mut(range).unwrap_or_default();
            let treated = match option.kind {
                ipv4_option::RECORD_ROUTE => self.record_route(bytes),
                ipv4_option::TIMESTAMP => self.stamp(bytes, now),
                _ => Ok(false),
            };
            changed |= treated.map_err(|wrong| option.offset + wrong)?;
        }
        Ok(changed.then_some(rewritten))
    }

    /// Adds our address to a Record Route option. Returns whether there was room; on error, the byte that is wrong.
    fn record_route(&self, option: &mut [u8]) -> Result<bool, usize> {
        let place = entry_place(option)?;
        if place == option.len() {
            return Ok(false);
        }
        if place < RECORD_ROUTE_START || !write(option, place, &self.address.octets()) {
            return Err(POINTER);
        }
        advance(option, 4);
        Ok(true)
    }

    /// Adds the time to a Timestamp option. Returns whether the option changed; on error, the byte that is wrong.
    fn stamp(&self, option: &mut [u8], now: u32) -> Result<bool, usize> {
        let place = entry_place(option)?;
        let flags = *option.get(FLAGS).ok_or(LENGTH)?;
        if place < TIMESTAMP_START {
            return Err(POINTER);
        }
        let stamp = now.to_be_bytes();
        let entry = [self.address.octets(), stamp].concat();
        match flags & 0xf {
            STAMPS_ONLY if write(option, place, &stamp) => advance(option, 4),
            WITH_ADDRESS if write(option, place, &entry) => advance(option, 8),
            STAMPS_ONLY | WITH_ADDRESS => {
                let overflowed = flags.checked_add(1 << 4).ok_or(FLAGS)?;
                write(option, FLAGS, &[overflowed]);
            }
            // RFC 791: a packet whose address list is complete is forwarded.
            ADDRESSES_GIVEN if place >= option.len() => return Ok(false),
            ADDRESSES_GIVEN if place + 8 <= option.len() => {
                if !self.is_mine(option.get(place..).unwrap_or_default()) {
                    return Ok(false);
                }
                write(option, place + 4, &stamp);
                advance(option, 8);
            }
            _ => return Err(FLAGS),
        }
        Ok(true)
    }

    fn is_mine(&self, bytes: &[u8]) -> bool {
        bytes.first_chunk::<4>().is_some_and(|&octets| self.all_addresses.contains(&octets.into()))
    }
}

/// The offset of an option's length.
const LENGTH: usize = 1;
/// The offset of an option's pointer: the number of the byte where the next entry begins, counted from 1.
const POINTER: usize = 2;
/// The offset of a Timestamp option's overflow count (4 bits) and kind (4 bits).
const FLAGS: usize = 3;
/// The offset of the first entry of a Record Route option.
const RECORD_ROUTE_START: usize = 3;
/// The offset of the first entry of a Timestamp option.
const TIMESTAMP_START: usize = 4;

/// Timestamp option: timestamps only.
const STAMPS_ONLY: u8 = 0;
/// Timestamp option: each timestamp is preceded by the address of the router that made it.
const WITH_ADDRESS: u8 = 1;
/// Timestamp option: the sender listed the addresses that are to add timestamps.
const ADDRESSES_GIVEN: u8 = 3;

/// The options of an IP header, if the packet contains all of it.
fn option_area(bytes: &[u8]) -> Option<&[u8]> {
    let (ip, _) = Ipv4Header::view(bytes)?;
    bytes.get(Ipv4Header::LEN..ip.header_len())
}

/// The offset of the next entry in an option; on error, the byte that is wrong.
fn entry_place(option: &[u8]) -> Result<usize, usize> {
    let pointer = *option.get(POINTER).ok_or(LENGTH)?;
    usize::from(pointer).checked_sub(1).ok_or(POINTER)
}

/// Advances the pointer past an entry that was written.
fn advance(option: &mut [u8], len: u8) {
    if let Some(pointer) = option.get_mut(POINTER) {
        *pointer = pointer.wrapping_add(len);
    }
}

/// Writes bytes into an option, if there is room.
fn write(option: &mut [u8], place: usize, bytes: &[u8]) -> bool {
    let room = option.get_mut(place..).and_then(|rest| rest.get_mut(..bytes.len()));
    let Some(room) = room else { return false };
    room.copy_from_slice(bytes);
    true
}

/// Milliseconds since midnight UT.
fn midnight_millis(now: Timestamp) -> u32 {
    const DAY: i64 = 86_400_000;
    (now.as_millis().rem_euclid(DAY)) as u32
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    use crate::test_packets::ip::{Datagram, read, withstands};

    /// The virtual clock starts at 1,000,000,000 s: 01:46:40 UT.
    const NOW: [u8; 4] = 6_400_000u32.to_be_bytes();

    fn with_options(options: &[u8]) -> Datagram {
        Datagram { options: options.to_vec(), ..Datagram::default() }
    }

    /// What happens to options: how they come out, or the byte where they are wrong.
    fn treated(options: &[u8]) -> Result<Vec<u8>, u8> {
        let mut rig = Rig::new("IPGWOptions(18.26.4.24, 10.0.0.1 10.0.0.2)", 1, 2).unwrap();
        let out = rig.push_packets(0, vec![with_options(options).packet()]);
        match (out[0].first(), out[1].first()) {
            (Some(packet), None) => Ok(read(packet.data()).0.options.as_slice().to_vec()),
            (None, Some(packet)) => {
                assert_eq!(packet.data(), with_options(options).bytes(), "sent on unchanged");
                assert_eq!(rig.read("drops").unwrap(), "1");
                Err(packet.icmp_param_prob())
            }
            _ => panic!("the packet left by one output"),
        }
    }

    #[test]
    fn records_the_route() {
        let once = treated(&[7, 11, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
        assert_eq!(once, [7, 11, 8, 18, 26, 4, 24, 0, 0, 0, 0, 0]);
        let twice = treated(&once).unwrap();
        assert_eq!(twice, [7, 11, 12, 18, 26, 4, 24, 18, 26, 4, 24, 0]);
        assert_eq!(treated(&twice), Ok(twice.clone()), "full");
    }

    #[test]
    fn stamps_the_time() {
        let [a, b, c, d] = NOW;
        assert_eq!(treated(&[68, 8, 5, 0, 0, 0, 0, 0]), Ok(vec![68, 8, 9, 0, a, b, c, d]));
        let with_address = treated(&[68, 12, 5, 1, 0, 0, 0, 0, 0, 0, 0, 0]);
        assert_eq!(with_address, Ok(vec![68, 12, 13, 1, 18, 26, 4, 24, a, b, c, d]));
        let mine = treated(&[68, 12, 5, 3, 10, 0, 0, 2, 0, 0, 0, 0]);
        assert_eq!(mine, Ok(vec![68, 12, 13, 3, 10, 0, 0, 2, a, b, c, d]));
        let of_another = vec![68, 12, 5, 3, 10, 0, 0, 3, 0, 0, 0, 0];
        assert_eq!(treated(&of_another), Ok(of_another.clone()));
        let signed_by_all = vec![68, 12, 13, 3, 10, 0, 0, 2, 9, 9, 9, 9];
        assert_eq!(treated(&signed_by_all), Ok(signed_by_all.clone()));
        let full = treated(&[68, 8, 9, 0x20, 9, 9, 9, 9]);
        assert_eq!(full, Ok(vec![68, 8, 9, 0x30, 9, 9, 9, 9]));
    }

    #[test]
    fn the_annotation_points_to_the_wrong_byte() {
        for (options, wrong) in [
            (&[7, 1, 4, 0][..], 21),
            (&[7, 5, 4, 0], 21),
            (&[1, 1, 1, 7], 24),
            (&[7, 2, 0, 0], 21),
            (&[7, 3, 0, 0], 22),
            (&[7, 3, 3, 0], 22),
            (&[7, 7, 5, 0, 0, 0, 0, 0], 22),
            (&[7, 7, 12, 0, 0, 0, 0, 0], 22),
            (&[1, 68, 3, 5], 22),
            (&[68, 8, 4, 0, 0, 0, 0, 0], 22),
            (&[68, 8, 9, 0xf0, 0, 0, 0, 0], 23),
            (&[68, 8, 5, 2, 0, 0, 0, 0], 23),
            (&[68, 8, 5, 3, 0, 0, 0, 0], 23),
            // The change to the first option is undone.
            (&[7, 7, 4, 0, 0, 0, 0, 68, 4, 1, 0, 0], 29),
        ] {
            assert_eq!(treated(options), Err(wrong), "{options:?}");
        }
    }

    #[test]
    fn other_options_and_bytes_after_the_end_option_are_not_changed() {
        for options in [&[1, 1, 1, 0][..], &[137, 7, 4, 1, 2, 3, 4, 0], &[0, 7, 1, 1]] {
            assert_eq!(treated(options).as_deref(), Ok(options));
        }
    }

    #[test]
    fn wrong_packets_are_dropped_without_output_1() {
        let mut rig = Rig::new("IPGWOptions(18.26.4.24)", 1, 1).unwrap();
        let mut unmarked = Datagram::default().packet();
        unmarked.clear_network_header();
        let mut cut = with_options(&[7, 7, 4, 0, 0, 0, 0, 0]).packet();
        cut.truncate(24);
        let wrong = with_options(&[7, 1, 4, 0]).packet();
        let out = rig.push_packets(0, vec![unmarked, cut, wrong, Datagram::default().packet()]);
        assert_eq!(out[0].len(), 1);
        assert_eq!(
            rig.stats().drops,
            [(Reason::BadHeaderLength, 1), (Reason::BadOption, 1), (Reason::NoHeader, 1)]
        );
    }

    #[test]
    fn withstands_anything() {
        withstands("IPGWOptions(18.26.4.24)", 1);
        withstands("IPGWOptions(18.26.4.24, 1.0.0.1)", 2);
    }
}
