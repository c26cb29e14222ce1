//! FromTcpdump - creates packets from the text output of tcpdump
//!
//! # Synopsis
//! `FromTcpdump(FILENAME [, keywords STOP, ACTIVE, ZERO, CHECKSUM, SAMPLE])`
//!
//! # Description
//! Reads the lines that tcpdump printed for IP packets, and creates a packet from each, with the headers that the line
//! describes. tcpdump must have been run with `-tt`, so that times are in seconds, and preferably with `-nnv`. The
//! format is that of tcpdump 3: `TIME SRC.SPORT > DST.DPORT: FLAGS FIRST:LAST(LENGTH) ack ACK win WINDOW urg URG
//! <OPTIONS> [tos 0x10] (DF) (ttl 64, id 7, len 40)` for TCP, `TIME SRC.SPORT > DST.DPORT: udp LENGTH` for UDP. The
//! information in parentheses and brackets at the end of a line goes into the IP header; the default time to live is 2.
//! Packets have no payload, but the extra length annotation and the IP header count it.
//!
//! tcpdump prints TCP sequence numbers relative to the first of a connection. They are made absolute again with those
//! of the SYN packets, unless they look absolute already (`-S`).
//!
//! Lines that begin with `#` are ignored. The first line that is not a valid packet is reported. The file may be
//! compressed with gzip, bzip2, xz or zstd; `-` is standard input. With a push output, each run of its task emits one
//! packet.
//!
//! # Arguments
//! - FILENAME: the file. Positional, mandatory.
//! - STOP: whether to stop the program at the end. Default false.
//! - ACTIVE: whether it emits packets. Default true.
//! - ZERO: accepted without effect: bytes that the line does not specify are always zero.
//! - CHECKSUM: whether to compute IP, TCP and UDP checksums, over the bytes that are present. Default false.
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
//! FromTcpdump(tcpdump.txt, STOP true, CHECKSUM true)
//!     -> ToIPSummaryDump(-, FIELDS timestamp ip_src sport ip_dst dport tcp_flags tcp_seq);
//! ```
//!
//! # See also
//! FromDump, FromIPSummaryDump, ToIPSummaryDump

use std::collections::HashMap;
use std::net::Ipv4Addr;

use millrace_core::args::{self, FileName, Kind, Scope};
use millrace_core::headers::{Header, Ipv4Header, TcpHeader, UdpHeader, protocol, tcp_flags};
use millrace_core::names::NumberKind;
use millrace_core::{Class, Failed, Need, Setup, os_error_text, register};

use super::fields::options::Cursor;
use super::fields::tcp::flag_bit;
use super::fields::text::{is_space, number};
use super::reading::feed::{Feed, LineFormat, Wishes};
use super::reading::lines::LineFile;
use super::reading::reader::{Found, Remark};
use super::reading::told::{IP_LEN, Told};
use crate::flows::key::FlowId;

/// The element; its manual is at the top of the file.
pub type FromTcpdump = Feed<TcpdumpText>;

/// A tcpdump text being read.
pub struct TcpdumpText {
    file: LineFile,
    checksums: bool,
    /// Whether sequence numbers are absolute, once that is known.
    absolute: Option<bool>,
    flows: HashMap<FlowId, Sequences, foldhash::fast::FixedState>,
    complained: bool,
    line: Vec<u8>,
}

/// Sequence numbers of a connection, for each direction.
#[derive(Default)]
struct Sequences {
    first: [u32; 2],
    last: [u32; 2],
}

register!(FromTcpdump, "from_tcpdump.rs");

impl LineFormat for TcpdumpText {
    const CLASS: Class = Class::new("FromTcpdump", "0/1", "a/a");
    const BAD_ACTIVE: &'static str = "syntax error";

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
        wishes.configure_sample(args);
        args.complete()?;
        let text = Self {
            file: LineFile::closed(&file_name.0),
            checksums,
            absolute: None,
            flows: HashMap::default(),
            complained: false,
            line: Vec::new(),
        };
        Ok((text, wishes))
    }

    fn file(&mut self) -> &mut LineFile {
        &mut self.file
    }

    fn begin(&mut self, remarks: &mut Vec<Remark>) {
        let mut line = Vec::new();
        let result = self.file.peek_line(&mut line);
        if let Err(error) = result {
            remarks.push(Remark::at(&self.file, true, os_error_text(&error)));
        } else if !line.first().is_some_and(u8::is_ascii_digit) {
            let message = "first line suspicious; is this a tcpdump output file?".to_owned();
            let landmark = self.file.name().to_owned();
            remarks.push(Remark { landmark, is_error: false, message });
        }
    }

    fn next(&mut self, scope: Scope<'_>, remarks: &mut Vec<Remark>) -> Found {
        let mut line = std::mem::take(&mut self.line);
        let found = loop {
            if !self.file.next_line(&mut line, remarks) {
                return Found::End;
            }
            if !line.starts_with(b"#") {
                break self.packet_of(&line, &scope);
            }
        };
        if found.is_none() && !self.complained && !line.iter().all(|&byte| is_space(byte)) {
            remarks.push(Remark::at(&self.file, true, "packet parse error"));
            self.complained = true;
        }
        self.line = line;
        match found {
            None => Found::Nothing,
            Some(told) => told.into_packet(self.checksums).map_or(Found::NoBuffer, Found::Packet),
        }
    }
}

impl Told {
    /// Reads the text in a pair of parentheses or brackets after the packet.
    fn read_note(&mut self, note: &[u8]) {
        let mut note = Cursor { rest: note };
        while self.read_item(&mut note).is_some() {
            while note.next().is_some_and(|byte| byte == b',' || is_space(byte)) {
                note.skip(1);
            }
        }
    }

    fn read_item(&mut self, note: &mut Cursor<'_>) -> Option<()> {
        const ECN: u8 = 3;
        let tos = self.byte(1) & !ECN;
        if note.rest.len() >= 7 && note.eat("tos 0x") {
            let tos = note.number(Some(16), u32::MAX).unwrap_or_default();
            self.set(1, &[tos as u8]);
        } else if note.eat("ECT(0)") {
            // As in Click: its ECT(0) is what RFC 3168 calls ECT(1).
            self.set(1, &[tos | 1]);
        } else if note.eat("ECT(1)") {
            self.set(1, &[tos | 2]);
        } else if note.eat("CE") {
            self.set(1, &[tos | ECN]);
        } else if note.eat("DF") {
            self.set_fragment(self.fragment() | Ipv4Header::DONT_FRAGMENT);
        } else if note.rest.len() >= 10
            && let Some(id) = number_behind(note, "frag ")
        {
            self.set(4, &(id as u16).to_be_bytes());
            self.payload_len = Some(number_behind(note, ":")?);
            let offset = number_behind(note, "@")?;
            let flags = self.fragment() & !Ipv4Header::OFFSET_MASK;
            self.set_fragment(flags | offset as u16);
            if note.eat("+") {
                self.set_fragment(self.fragment() | Ipv4Header::MORE_FRAGMENTS);
            }
        } else if let Some(ttl) = number_behind(note, "ttl ") {
            self.set(8, &[ttl as u8]);
        } else if let Some(id) = number_behind(note, "id ") {
            self.set(4, &(id as u16).to_be_bytes());
        } else {
            let length = number_behind(note, "len ")?;
            self.set_total_len(length);
        }
        Some(())
    }

    fn set_fragment(&mut self, fragment: u16) {
        self.set(6, &fragment.to_be_bytes());
    }

    /// Makes headers and payload match the datagram's length.
    fn set_total_len(&mut self, total: u32) {
        let headers = self.bytes.len();
        let payload = match self.payload_len {
            Some(payload) if total != (headers as u32).wrapping_add(payload) => payload,
            _ => return self.payload_len = Some(total.wrapping_sub(headers as u32)),
        };
        // The difference must be TCP options.
        let wanted = total.wrapping_sub(payload) as usize;
        let most = IP_LEN + 60;
        if self.protocol() == protocol::TCP && (IP_LEN + TcpHeader::LEN..=most).contains(&wanted) {
            self.bytes.resize(wanted, 0);
            let words = (wanted - IP_LEN) / 4;
            self.set(IP_LEN + 12, &[(words as u8) << 4]);
        }
    }
}

impl TcpdumpText {
    /// The packet described by a line, if any.
    fn packet_of(&mut self, line: &[u8], scope: &Scope<'_>) -> Option<Told> {
        line.first().filter(|byte| byte.is_ascii_digit())?;
        let find = |start: usize, wanted: u8| {
            let rest = line.get(start..).unwrap_or_default();
            rest.iter().position(|&byte| byte == wanted).map(|at| start + at)
        };
        let end = find(0, b' ')?;
        let timestamp = as_str(line, 0, end)?.parse().ok()?;
        let src = end + 1;
        let colon = find(src, b':')?;
        let spaces = line.get(colon + 1..)?.iter().take_while(|&&byte| byte == b' ').count();
        let rest = line.get(colon + 1 + spaces..)?;
        let found = match rest {
            [b'i', ..] => protocol::ICMP,
            [b'u', ..] | [b'[', b'u', ..] => protocol::UDP,
            [b'.' | b'A'..=b'Z', ..] => protocol::TCP,
            _ => 0,
        };
        let src_end = find(src, b' ').filter(|&end| line.get(end..end + 3) == Some(b" > "))?;
        let has_ports = matches!(found, protocol::TCP | protocol::UDP);
        let host = |start: usize, end: usize| {
            let text = as_str(line, start, end)?;
            if !has_ports {
                return Some((args::parse(text, scope).ok()?, 0));
            }
            let dot = text.rfind(['.', ':'])?;
            let (address, port) = (text.get(..dot)?, text.get(dot + 1..)?);
            let named = || scope.number_named(NumberKind::Port(found), port).map(u64::from);
            let port = number(port.as_bytes()).or_else(named)?;
            Some((args::parse(address, scope).ok()?, u16::try_from(port).ok()?))
        };
        let src: (Ipv4Addr, u16) = host(src, src_end)?;
        let dst: (Ipv4Addr, u16) = host(src_end + 3, colon)?;
        let mut bytes = vec![0x45, 0, 0, 0, 0, 0, 0, 0, 2, found, 0, 0];
        bytes.extend(src.0.octets());
        bytes.extend(dst.0.octets());
        if has_ports {
            bytes.extend(src.1.to_be_bytes());
            bytes.extend(dst.1.to_be_bytes());
        }
        let mut told = Told { timestamp, bytes, payload_len: None };
        let mut cursor = Cursor { rest };
        match found {
            protocol::TCP => {
                told.bytes.resize(IP_LEN + TcpHeader::LEN, 0);
                self.read_tcp(&mut told, &mut cursor, [src, dst]);
            }
            protocol::UDP => {
                told.bytes.resize(IP_LEN + UdpHeader::LEN, 0);
                told.payload_len = named_number(&mut cursor, "udp ");
            }
            _ => {}
        }
        read_notes(&mut told, cursor.rest);
        Some(told)
    }

    /// Parses the TCP part, as far as it is understood.
    fn read_tcp(
        &mut self,
        told: &mut Told,
        text: &mut Cursor<'_>,
        ends: [(Ipv4Addr, u16); 2],
    ) -> Option<()> {
        let mut flags = 0;
        if text.eat(".") {
            flags = tcp_flags::ACK;
        } else {
            while let Some(bit) = text.next().and_then(flag_bit) {
                flags |= (1u16 << bit) as u8;
                text.skip(1);
            }
        }
        told.set(IP_LEN + 13, &[flags]);
        text.eat(" ").then_some(())?;
        skip_remark(text, "[bad hdr");
        if !text.eat("[tcp sum ok] ") {
            skip_remark(text, "[bad tcp");
        }
        let (mut seq, mut end_seq, mut ack) = (0, 0, 0);
        if text.next().is_some_and(|byte| byte != b'a') {
            // Nothing is consumed unless all numbers are present.
            let mut numbers = Cursor { rest: text.rest };
            seq = numbers.number(None, u32::MAX)?;
            numbers.eat(":").then_some(())?;
            end_seq = numbers.number(None, u32::MAX)?;
            numbers.eat("(").then_some(())?;
            while numbers.has_digit_at(0) {
                numbers.skip(1);
            }
            text.rest = numbers.rest;
            text.eat(")").then_some(())?;
            text.eat(" ").then_some(())?;
        }
        told.payload_len = Some(end_seq.wrapping_sub(seq)).filter(|&length| length as i32 >= 0);
        if let Some(number) = named_number(text, "ack ") {
            ack = number;
            flags |= tcp_flags::ACK;
        }
        let mut sack_base = 0;
        if flags & tcp_flags::ACK != 0 {
            let reverse = (ends[0].1, ends[0].0) < (ends[1].1, ends[1].0);
            let [source, destination] = ends.map(|(address, port)| (address.to_bits(), port));
            let flow = FlowId::new(source, destination);
            let key = if reverse { flow } else { flow.reversed() };
            let flow = self.flows.entry(key).or_default();
            let (mine, other) = (usize::from(reverse), usize::from(!reverse));
            let moved = flow.place(&mut self.absolute, [mine, other], [seq, end_seq, ack], flags);
            [seq, _, ack] = moved;
            if self.absolute != Some(true) {
                sack_base = flow.first.get(other).copied().unwrap_or_default();
            }
        }
        told.set(IP_LEN + 4, &seq.to_be_bytes());
        told.set(IP_LEN + 8, &ack.to_be_bytes());
        told.set(IP_LEN + 13, &[flags]);
        if let Some(window) = named_number(text, "win ") {
            told.set(IP_LEN + 14, &(window as u16).to_be_bytes());
        }
        if let Some(urgent) = number_behind(text, "urg ") {
            told.set(IP_LEN + 18, &(urgent as u16).to_be_bytes());
            // Options after a space are not read, as in Click.
            text.skip(usize::from(text.next() != Some(b' ')));
        }
        let mut options = Vec::new();
        if text.eat("<") {
            options = read_options(text, sack_base);
            options.resize(options.len().next_multiple_of(4), 0);
            // A header has no room for more.
            options.truncate(60 - TcpHeader::LEN);
        }
        told.bytes.extend_from_slice(&options);
        let words = (TcpHeader::LEN + options.len()) / 4;
        told.set(IP_LEN + 12, &[(words as u8) << 4]);
        Some(())
    }
}

impl Sequences {
    /// Makes sequence numbers absolute: those of the first byte, of the end, and of the acknowledgement.
    fn place(
        &mut self,
        absolute: &mut Option<bool>,
        [mine, other]: [usize; 2],
        [mut seq, mut end, mut ack]: [u32; 3],
        flags: u8,
    ) -> [u32; 3] {
        let get = |numbers: &[u32; 2], index: usize| numbers.get(index).copied().unwrap_or(0);
        let set = |numbers: &mut [u32; 2], index: usize, number| {
            if let Some(place) = numbers.get_mut(index) {
                *place = number;
            }
        };
        // A connection is new where tcpdump considers it new.
        if self.first == [0, 0] || flags & tcp_flags::SYN != 0 {
            set(&mut self.first, mine, seq);
            set(&mut self.first, other, ack.wrapping_sub(1));
        } else {
            let base = get(&self.first, other);
            let is_behind = ack.wrapping_sub(base) as i32 >= 0;
            let is_absolute = *absolute.get_or_insert(is_behind && ack > 8000);
            if seq == 0 && end == 0 {
                (seq, end) = (get(&self.last, mine), get(&self.last, mine));
            } else if !is_absolute {
                seq = seq.wrapping_add(get(&self.first, mine));
                end = end.wrapping_add(get(&self.first, mine));
            }
            if !is_absolute {
                ack = ack.wrapping_add(base);
            }
        }
        let phantom = (flags & (tcp_flags::SYN | tcp_flags::FIN)).count_ones();
        set(&mut self.last, mine, end.wrapping_add(phantom));
        if get(&self.last, other) == 0 {
            set(&mut self.last, other, ack);
        }
        [seq, end, ack]
    }
}

fn as_str(line: &[u8], start: usize, end: usize) -> Option<&str> {
    std::str::from_utf8(line.get(start..end)?).ok()
}

/// Consumes a number after a word.
fn number_behind(text: &mut Cursor<'_>, word: &str) -> Option<u32> {
    let is_it = text.rest.starts_with(word.as_bytes()) && text.has_digit_at(word.len());
    is_it.then(|| text.skip(word.len()))?;
    text.number(None, u32::MAX)
}

/// Consumes a number after a word, and the space after it.
fn named_number(text: &mut Cursor<'_>, word: &str) -> Option<u32> {
    let number = number_behind(text, word);
    if number.is_some() {
        text.eat(" ");
    }
    number
}

/// Consumes a remark in brackets that begins with `start`, and the space after it.
fn skip_remark(text: &mut Cursor<'_>, start: &str) {
    let end = text.rest.iter().position(|&byte| byte == b']');
    if let Some(end) = end.filter(|_| text.rest.starts_with(start.as_bytes()))
        && text.at(end + 1) == Some(b' ')
    {
        text.skip(end + 2);
    }
}

/// Parses options up to the closing bracket.
fn read_options(text: &mut Cursor<'_>, sack_base: u32) -> Vec<u8> {
    use millrace_core::headers::tcp_option as option;
    let mut options = Vec::new();
    while text.next().is_some_and(|byte| byte != b'>') {
        let before = options.len();
        if text.eat("nop") {
            options.push(1);
        } else if text.eat("eol") {
            options.push(0);
        } else if let Some(size) = number_behind(text, "mss ") {
            options.extend_from_slice(&[option::MAXIMUM_SEGMENT_SIZE, 4]);
            options.extend_from_slice(&(size as u16).to_be_bytes());
        } else if let Some(shift) = number_behind(text, "wscale ") {
            options.extend_from_slice(&[option::WINDOW_SCALE, 3, shift as u8]);
        } else if text.eat("sackOK") {
            options.extend_from_slice(&[option::SACK_PERMITTED, 2]);
        } else if let Some(value) = number_behind(text, "timestamp ") {
            if let Some(echo) = number_behind(text, " ") {
                options.extend_from_slice(&[option::TIMESTAMPS, 10]);
                options.extend_from_slice(&value.to_be_bytes());
                options.extend_from_slice(&echo.to_be_bytes());
            }
        } else if let Some(blocks) = number_behind(text, "sack sack ") {
            options
                .extend_from_slice(&[option::SACK, (blocks as u8).wrapping_mul(8).wrapping_add(2)]);
            read_blocks(text, sack_base, &mut options);
        }
        if !text.eat(",") && text.next().is_some_and(|byte| byte != b'>') {
            // It is an unknown option.
            options.truncate(before);
            while text.next().is_some_and(|byte| byte != b',' && byte != b'>') {
                text.skip(1);
            }
        }
    }
    text.eat(">");
    options
}

/// Parses the blocks of a SACK option: ` {1:2}{4:5} `.
fn read_blocks(text: &mut Cursor<'_>, base: u32, options: &mut Vec<u8>) {
    while text.eat(" ") {}
    while text.next() == Some(b'{') && text.has_digit_at(1) {
        text.skip(1);
        let left = text.number(None, u32::MAX).unwrap_or_default();
        if text.next() == Some(b':') && text.has_digit_at(1) {
            text.skip(1);
            let right = text.number(None, u32::MAX).unwrap_or_default();
            if text.eat("}") {
                options.extend_from_slice(&left.wrapping_add(base).to_be_bytes());
                options.extend_from_slice(&right.wrapping_add(base).to_be_bytes());
            }
        }
    }
    while text.eat(" ") {}
}

/// Parses the text in parentheses and brackets at the end of a line, from the end.
fn read_notes(told: &mut Told, text: &[u8]) {
    let mut rest = text;
    loop {
        rest = rest.trim_ascii_end();
        let opener = match rest.last() {
            Some(b')') => b'(',
            Some(b']') => b'[',
            _ => return,
        };
        let Some(open) = rest.iter().rposition(|&byte| byte == opener) else { return };
        told.read_note(rest.get(open + 1..rest.len() - 1).unwrap_or_default());
        rest = rest.get(..open).unwrap_or_default();
    }
}
