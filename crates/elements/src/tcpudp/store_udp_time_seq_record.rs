//! StoreUDPTimeSeqRecord - writes sequence numbers and timestamps into UDP payloads
//!
//! # Synopsis
//! `StoreUDPTimeSeqRecord(OFFSET [, keyword DELTA])`
//!
//! # Description
//! Writes a sequence number and the current time into UDP packets. A second such element on their way, with DELTA, then
//! writes how long they took. Works for IPv4, and for IPv6 without extension headers; no header position needs to be
//! set. The UDP checksum is updated; a packet without one (0) stays without one.
//!
//! The payload then begins with five 32-bit numbers in network byte order: the packet's number, from 1 on; the seconds
//! and the nanoseconds of the time; and the seconds and the nanoseconds of the difference.
//!
//! # Arguments
//! - OFFSET: the position of the IP header, in bytes from the packet's start. Positional, mandatory.
//! - DELTA: whether to write the difference from the time in the packet, instead of the number and the time. Keyword,
//!   default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `count` (read): packets written to. `reset` (write): sets it to 0.
//!
//! # Drops
//! - bad length: the UDP payload is shorter than 20 bytes.
//! - bad version: the packet is neither IPv4 nor IPv6; a message is printed.
//! - filtered: the next header of an IPv6 packet is not UDP (the protocol of an IPv4 packet is not checked).
//!
//! # Example
//! ```click
//! RatedSource(DATASIZE 22, RATE 10, LIMIT 100)
//!     -> UDPIPEncap(10.0.0.1, 6667, 20.0.0.2, 6667)
//!     -> StoreUDPTimeSeqRecord(0)
//!     -> Queue
//!     -> DelayUnqueue(100ms)
//!     -> StoreUDPTimeSeqRecord(0, DELTA true)
//!     -> Discard;
//! ```
//!
//! # See also
//! SetTimestamp, RecordTimestamp

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::checksum::checksum;
use millrace_core::headers::protocol;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Moment, Packet, PerPacket, Reason, Setup, Timestamp,
    View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct StoreUdpTimeSeqRecord {
    offset: u32,
    delta: bool,
    count: AtomicU64,
}

/// Length of the record in bytes.
const RECORD: usize = 20;
const UDP: usize = 8;

register!(StoreUdpTimeSeqRecord, "store_udp_time_seq_record.rs");

impl Element for StoreUdpTimeSeqRecord {
    const CLASS: Class = Class::new("StoreUDPTimeSeqRecord", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let offset = setup.args.mandatory("OFFSET");
        let delta = setup.args.keyword("DELTA", false);
        setup.args.complete()?;
        Ok(Self { offset, delta, count: 0.into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |record, _| record.count.load(Relaxed));
        handlers.write("reset", |record, _| {
            record.count.store(0, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for StoreUdpTimeSeqRecord {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        match self.store(packet, at.now()) {
            Ok(()) => Way::ON,
            Err(reason) => Way::drop(reason),
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        if way.reason() == Reason::BadVersion {
            cx.router().chatter("Unknown IP version!");
        }
        cx.send_or_drop(packet, way)
    }
}

impl StoreUdpTimeSeqRecord {
    fn store(&self, packet: &mut View, now: Timestamp) -> Result<(), Reason> {
        let udp = self.udp(packet.data())?;
        let datagram = packet.data_mut().get_mut(udp..).unwrap_or_default();
        let Some((header, rest)) = datagram.split_first_chunk_mut::<UDP>() else {
            return Err(Reason::BadLength);
        };
        let record = rest.first_chunk_mut::<RECORD>().ok_or(Reason::BadLength)?;
        let number = self.count.fetch_add(1, Relaxed).wrapping_add(1);
        let [_, _, _, _, _, _, high, low] = header;
        let before = u16::from_be_bytes([*high, *low]);
        let mut sum = i64::from(before);
        if self.delta {
            let word = |at: usize| {
                let bytes = record.get(at..).and_then(<[u8]>::first_chunk).copied();
                u32::from_be_bytes(bytes.unwrap_or_default())
            };
            let difference = now - Timestamp::new(word(4).into(), word(8));
            put(record, 12, difference);
            // These bytes were zero before.
            sum += i64::from(checksum(record.get(12..).unwrap_or_default()));
        } else {
            sum -= i64::from(checksum(record));
            record.fill(0);
            if let Some(place) = record.first_chunk_mut() {
                *place = (number as u32).to_be_bytes();
            }
            put(record, 4, now);
            sum += i64::from(checksum(record));
        }
        if before != 0 {
            // Reduced in ones' complement. 0 means no checksum; all ones has the same value (RFC 768).
            let sum = sum.rem_euclid(0xffff) as u16;
            [*high, *low] = if sum == 0 { u16::MAX } else { sum }.to_be_bytes();
        }
        Ok(())
    }

    /// Returns the position of the UDP header, if the packet has room for the record after it.
    fn udp(&self, data: &[u8]) -> Result<usize, Reason> {
        let offset = self.offset as usize;
        let ip = data.get(offset..).filter(|ip| ip.len() >= 8).ok_or(Reason::BadLength)?;
        let first = ip.first().copied().unwrap_or_default();
        let header = match first >> 4 {
            4 => usize::from(first & 0xf) * 4,
            6 if ip.get(6) == Some(&protocol::UDP) => 40,
            6 => return Err(Reason::Filtered),
            _ => return Err(Reason::BadVersion),
        };
        match ip.len() >= header + UDP + RECORD {
            true => Ok(offset + header),
            false => Err(Reason::BadLength),
        }
    }
}

/// Writes seconds and nanoseconds.
fn put(record: &mut [u8], at: usize, time: Timestamp) {
    let seconds = (time.sec() as u32).to_be_bytes();
    let nanos = time.nsec().to_be_bytes();
    if let Some(place) = record.get_mut(at..at + 8) {
        place.copy_from_slice(&[seconds, nanos].concat());
    }
}
