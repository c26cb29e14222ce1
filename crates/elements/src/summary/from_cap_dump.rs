//! FromCapDump - creates TCP packets from the text output of `cap`
//!
//! # Synopsis
//! `FromCapDump(FILENAME [, keywords STOP, ACTIVE, ZERO, CHECKSUM, AGGREGATE, SAMPLE])`
//!
//! # Description
//! Reads the record of a connection written by Mark Allman's `cap`, a program that measures TCP throughput, and creates
//! TCP packets from it. Each line `SYN`, `DAT` or `ACK` describes a packet: `DAT > 1046102982.931941 1 1 1500 1460` is
//! direction, time, packet number, sequence number in packets, length of the datagram, and length of the payload; flags
//! may follow. Sequence numbers in packets are converted to bytes with the lengths of the preceding packets, of which
//! there may be up to four million. The flags `FIN`, `SACK:FIRST-LAST` and `DSACK:NUMBER` are added to the TCP header.
//! `RCV` and `SND` state on which side `cap` ran. Any other line is ignored.
//!
//! The packets go between 1.0.0.1, port 1, and 2.0.0.2, port 2. Their paint annotation is the direction, 0 for data,
//! and their packet number annotation is the packet number. They have no payload, but the extra length annotation and
//! the IP header count it. The file may be compressed with gzip, bzip2, xz or zstd; `-` is standard input. With a push
//! output, each run of its task emits one packet.
//!
//! # Arguments
//! - FILENAME: the file. Positional, mandatory.
//! - STOP: whether to stop the program at the end. Default false.
//! - ACTIVE: whether it emits packets. Default true.
//! - ZERO: accepted without effect: bytes that the line does not specify are always zero.
//! - CHECKSUM: whether to compute IP and TCP checksums, over the bytes that are present. Default false.
//! - AGGREGATE: the aggregate annotation of the packets. Default 1.
//! - SAMPLE: the probability that a packet is emitted, 0 to 1. Default 1.
//!
//! # Ports
//! One agnostic output.
//!
//! # Handlers
//! - `sampling_prob` (read): SAMPLE, as rounded.
//! - `active` (read, write): whether it emits packets.
//! - `encap` (read): `IP`, for ToDump's USE_ENCAP_FROM.
//! - `filename` (read): the file.
//! - `filesize` (read): its length in bytes; `-` if unknown, as for a compressed file.
//! - `filepos` (read): offset in the (uncompressed) file of the next byte to read.
//! - `stop` (write): deactivates it and stops the program.
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled, and the thread that runs it.
//!
//! # Drops
//! - no buffer: there was no memory for a packet.
//! - filtered: SAMPLE excluded the packet.
//!
//! # Example
//! ```click
//! FromCapDump(cap.txt, STOP true) -> ToIPSummaryDump(-, FIELDS timestamp direction tcp_seq tcp_ack);
//! ```
//!
//! # See also
//! FromIPSummaryDump, ToIPSummaryDump

use millrace_core::args::{FileName, Kind, Scope};
use millrace_core::headers::{tcp_flags, tcp_option};
use millrace_core::{Class, Failed, Need, Packet, Setup, Timestamp, register};

use super::fields::options::Cursor;
use super::fields::text::is_space;
use super::reading::feed::{Feed, LineFormat, Wishes};
use super::reading::lines::LineFile;
use super::reading::reader::{Found, Remark};
use super::reading::told::Told;

/// The element; its manual is at the top of the file.
pub type FromCapDump = Feed<CapText>;

/// A `cap` file being read.
pub struct CapText {
    file: LineFile,
    checksums: bool,
    aggregate: u32,
    /// Whether the file is the receiver's.
    of_receiver: bool,
    /// The start offsets of packets in bytes.
    starts: Starts,
    line: Vec<u8>,
}

register!(FromCapDump, "from_cap_dump.rs");

impl LineFormat for CapText {
    const CLASS: Class = Class::new("FromCapDump", "0/1", "a/a");

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Wishes), Failed> {
        let args = &mut setup.args;
        let file_name: FileName = args.mandatory("FILENAME");
        args.needs(Need::read(&file_name));
        let mut wishes = Wishes::configure(args);
        args.ignored::<bool>(
            "ZERO",
            Kind::Keyword,
            "bytes that the line does not specify are always zero",
        );
        let checksums = args.keyword("CHECKSUM", false);
        let aggregate = args.keyword("AGGREGATE", 1);
        wishes.configure_sample(args);
        args.complete()?;
        let file = LineFile::closed(&file_name.0);
        let starts = Starts(vec![Some(0)]);
        let text =
            Self { file, checksums, aggregate, of_receiver: false, starts, line: Vec::new() };
        Ok((text, wishes))
    }

    fn file(&mut self) -> &mut LineFile {
        &mut self.file
    }

    fn begin(&mut self, _remarks: &mut Vec<Remark>) {}

    fn next(&mut self, _scope: Scope<'_>, remarks: &mut Vec<Remark>) -> Found {
        loop {
            let mut line = std::mem::take(&mut self.line);
            if !self.file.next_line(&mut line, remarks) {
                return Found::End;
            }
            let told = self.packet_of(&line);
            self.line = line;
            if let Some(found) = told {
                return found.map_or(Found::NoBuffer, Found::Packet);
            }
        }
    }
}

impl CapText {
    /// The packet described by a line, if any; the inner option is `None` when there is no memory for it.
    fn packet_of(&mut self, line: &[u8]) -> Option<Option<Packet>> {
        let (word, rest) = line.split_first_chunk::<3>()?;
        rest.first().filter(|&&byte| is_space(byte))?;
        if matches!(word, b"RCV" | b"SND") {
            self.of_receiver = word == b"RCV";
        }
        let mut flags = match word {
            b"SYN" => tcp_flags::SYN,
            b"DAT" | b"ACK" => 0,
            _ => return None,
        };
        let mut text = Cursor { rest };
        skip_space(&mut text);
        let is_forth = match text.next()? {
            b'>' => true,
            b'<' => false,
            _ => return None,
        };
        let paint = is_forth == self.of_receiver;
        text.skip(1);
        let timestamp = take_time(&mut text)?;
        let number = take_number(&mut text).unwrap_or_default();
        let index = take_number(&mut text).unwrap_or_default();
        let _ip_len = take_number(&mut text);
        let payload_len = take_number(&mut text)?;
        let mut options = Vec::new();
        self.read_flags(&mut text, &mut flags, &mut options)?;
        let phantom = (flags & (tcp_flags::SYN | tcp_flags::FIN)).count_ones();
        let length = payload_len.wrapping_add(phantom);
        let (mut seq, mut ack) = (1, 1);
        match word {
            b"DAT" => seq = self.starts.of_packet(index, length)?,
            b"ACK" => ack = self.starts.get(index.checked_add(1)?)?,
            _ => {
                seq = 0;
                ack = u32::from(self.of_receiver != paint);
                self.starts.of_packet(index, length)?;
            }
        }
        if ack > 0 || word == b"ACK" {
            flags |= tcp_flags::ACK;
        }
        // From 1.0.0.1 to 2.0.0.2, or back.
        let mut ends = [[1, 0, 0, 1, 0, 1], [2, 0, 0, 2, 0, 2]];
        if paint != self.of_receiver {
            ends.reverse();
        }
        let [src, dst] = &ends;
        let (src, dst) = (src.split_at(4), dst.split_at(4));
        let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 0, 6, 0, 0];
        bytes.extend([src.0, dst.0, src.1, dst.1].concat());
        bytes.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
        let words = 5 + options.len() / 4;
        bytes.extend([(words as u8) << 4, flags, 0xff, 0xff, 0, 0, 0, 0]);
        bytes.append(&mut options);
        let told = Told { timestamp, bytes, payload_len: Some(payload_len) };
        let mut packet = told.into_packet(self.checksums);
        if let Some(packet) = &mut packet {
            packet.set_paint(paint.into());
            packet.set_aggregate(self.aggregate);
            packet.set_packet_number(number);
        }
        Some(packet)
    }

    /// Reads the flags after the numbers. `None` if a packet's number is too large.
    fn read_flags(
        &mut self,
        text: &mut Cursor<'_>,
        flags: &mut u8,
        options: &mut Vec<u8>,
    ) -> Option<()> {
        // A header has no room for more options.
        const MAX_BLOCKS: usize = 4;
        loop {
            skip_space(text);
            let mut blocks = Vec::new();
            if text.eat("DSACK:") {
                let (index, length) = super::fields::text::leading_number(text.rest, Some(10));
                text.skip(length);
                blocks.push([index, index.checked_add(1)?]);
            } else if text.eat_before("SACK:") {
                let mut more = true;
                while more {
                    let (first, length) = super::fields::text::leading_number(text.rest, Some(10));
                    let is_range = length > 0 && text.at(length) == Some(b'-');
                    if !is_range || !text.has_digit_at(length + 1) {
                        break;
                    }
                    text.skip(length + 1);
                    let last = text.number(Some(10), u32::MAX)?;
                    blocks.push([first, last.checked_add(1)?]);
                    more = text.eat(":");
                }
            } else if text.eat("FIN") {
                *flags |= tcp_flags::FIN;
            } else {
                let words = ["FR", "RTO", "SACK_NEW", "SACK_REXMT", "TIM"];
                if !words.iter().any(|word| text.eat(word)) {
                    return Some(());
                }
            }
            if blocks.is_empty() || !options.is_empty() {
                continue;
            }
            blocks.truncate(MAX_BLOCKS);
            options.extend([1, 1, tcp_option::SACK, (2 + 8 * blocks.len()) as u8]);
            for index in blocks.concat() {
                options.extend_from_slice(&self.starts.get(index)?.to_be_bytes());
            }
        }
    }
}

/// The start offsets of packets in the byte stream, where known.
struct Starts(Vec<Option<u32>>);

impl Starts {
    const MOST: usize = 1 << 22;

    /// The start of a packet. Packets of unknown length are as long as the one before.
    fn get(&mut self, index: u32) -> Option<u32> {
        let index = index as usize;
        if index >= Self::MOST {
            return None;
        }
        if self.0.len() < index + 2 {
            self.0.resize(index + 2, None);
        }
        let known = self.0.get(..=index)?.iter().rposition(Option::is_some)?;
        let at = |index: usize| self.0.get(index).copied().flatten();
        let mut start = at(known)?;
        let length = match known.checked_sub(1).and_then(at) {
            Some(before) => start.wrapping_sub(before),
            None => 1460,
        };
        for place in self.0.get_mut(known + 1..=index)? {
            start = start.wrapping_add(length);
            *place = Some(start);
        }
        Some(start)
    }

    /// The start of a packet of this length.
    fn of_packet(&mut self, index: u32, length: u32) -> Option<u32> {
        let start = self.get(index)?;
        *self.0.get_mut(index as usize + 1)? = Some(start.wrapping_add(length));
        Some(start)
    }
}

fn skip_space(text: &mut Cursor<'_>) {
    while text.next().is_some_and(is_space) {
        text.skip(1);
    }
}

fn take_number(text: &mut Cursor<'_>) -> Option<u32> {
    skip_space(text);
    text.number(Some(10), u32::MAX)
}

/// Reads seconds with decimals, of which six count.
fn take_time(text: &mut Cursor<'_>) -> Option<Timestamp> {
    let seconds = take_number(text)?;
    let mut micros = 0;
    if text.eat_before(".") {
        let mut digits = 0;
        while let Some(digit) = text.next().filter(u8::is_ascii_digit) {
            if digits < 6 {
                micros = micros * 10 + i64::from(digit - b'0');
                digits += 1;
            }
            text.skip(1);
        }
        micros *= 10i64.pow(6 - digits);
    }
    Some(Timestamp::from_secs(seconds.into()) + Timestamp::from_micros(micros))
}
