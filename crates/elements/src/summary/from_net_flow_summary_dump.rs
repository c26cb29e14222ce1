//! FromNetFlowSummaryDump - creates packets from the lines of a NetFlow summary
//!
//! # Synopsis
//! `FromNetFlowSummaryDump(FILENAME [, keywords STOP, ACTIVE, ZERO, MULTIPACKET, TIMING, LINK])`
//!
//! # Description
//! Reads text with one flow record per line, of 15 or more fields separated by `|`: source and destination address,
//! next hop, input and output interface, packets, bytes, first and last second, source and destination port, an unused
//! field, TCP flags, protocol, type of service. Creates one packet per record, with the IP and TCP or UDP headers that
//! the record describes. Its timestamp annotation is the last second and its first timestamp the first; its extra
//! packets and extra length annotations make it stand for the whole flow, and its paint is an interface number.
//!
//! Lines that begin with `!` or `#` are ignored. It stops at a line that has fewer than 15 fields, or fewer than 10
//! valid ones; the first such line is reported. As in Click, the 15th field is valid only if another follows. The file
//! may be compressed with gzip, bzip2, xz or zstd; `-` is standard input. With a push output, each run of its task
//! emits one packet.
//!
//! # Arguments
//! - FILENAME: the file. Positional, mandatory.
//! - STOP: whether to stop the program at the end. Default false.
//! - ACTIVE: whether it emits packets. Default true.
//! - ZERO: accepted without effect: bytes that the record does not specify are always zero.
//! - MULTIPACKET: whether to emit as many packets as the flow has, of about the same length and evenly spread over its
//!   time. Default false.
//! - TIMING: whether to keep the intervals between packets given by their timestamps; the first is emitted at once.
//!   Default false.
//! - LINK: which interface becomes the paint: `input`, `output`, or `both`, with `input` in the upper four bits.
//!   Numbers that do not fit are replaced by the largest that does. Default `input`.
//!
//! # Ports
//! One agnostic output.
//!
//! # Handlers
//! - `active` (read, write): whether it emits packets.
//! - `encap` (read): `IP`, for ToDump's USE_ENCAP_FROM.
//! - `filename` (read): the file.
//! - `filesize` (read): its length in bytes; `-` if unknown, as for a compressed file.
//! - `filepos` (read): offset in the (uncompressed) file of the next byte to read.
//! - `scheduled`, `home_thread` (read, write): whether its task is scheduled, and the thread that runs it.
//!
//! # Drops
//! - no buffer: there was no memory for a packet.
//!
//! # Example
//! ```click
//! FromNetFlowSummaryDump(flows.txt, STOP true)
//!     -> ToIPSummaryDump(-, FIELDS first_timestamp timestamp ip_src ip_dst ip_proto count ip_len);
//! ```
//!
//! # See also
//! FromIPSummaryDump, ToIPSummaryDump

use std::net::Ipv4Addr;

use millrace_core::args::{self, FileName, Kind, Scope};
use millrace_core::headers::{Header, Ipv4Header, TcpHeader, UdpHeader, protocol};
use millrace_core::{Class, Failed, Need, Packet, Setup, Timestamp, os_error_text, register};

use super::fields::text::number;
use super::reading::feed::{Feed, LineFormat, Wishes};
use super::reading::lines::LineFile;
use super::reading::reader::{Found, Remark};

/// The element; its manual is at the top of the file.
pub type FromNetFlowSummaryDump = Feed<NetFlowText>;

/// A NetFlow summary being read.
pub struct NetFlowText {
    file: LineFile,
    link: Link,
    complained: bool,
    line: Vec<u8>,
}

/// The interface that becomes the paint.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Link {
    Input,
    Output,
    Both,
}

register!(FromNetFlowSummaryDump, "from_net_flow_summary_dump.rs");

impl LineFormat for NetFlowText {
    const CLASS: Class = Class::new("FromNetFlowSummaryDump", "0/1", "a/a");
    const IS_SAMPLED: bool = false;

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Wishes), Failed> {
        let args = &mut setup.args;
        let file_name: FileName = args.mandatory("FILENAME");
        args.needs(Need::read(&file_name));
        let mut wishes = Wishes::configure(args);
        args.ignored::<bool>(
            "ZERO",
            Kind::Keyword,
            "bytes that the record does not specify are always zero",
        );
        wishes.multipacket = args.keyword("MULTIPACKET", false);
        let link: String = args.keyword("LINK", "input".to_owned());
        wishes.timing = args.keyword("TIMING", false);
        args.complete()?;
        let link = match link.to_ascii_lowercase().as_str() {
            "input" => Link::Input,
            "output" => Link::Output,
            "both" => Link::Both,
            _ => {
                args.error((), "'LINK' should be 'input', 'output', or 'both'");
                Link::Input
            }
        };
        args.complete()?;
        let file = LineFile::closed(&file_name.0);
        Ok((Self { file, link, complained: false, line: Vec::new() }, wishes))
    }

    fn file(&mut self) -> &mut LineFile {
        &mut self.file
    }

    fn begin(&mut self, remarks: &mut Vec<Remark>) {
        if let Err(error) = self.file.peek_line(&mut self.line) {
            remarks.push(Remark::at(&self.file, true, os_error_text(&error)));
        }
    }

    fn next(&mut self, scope: Scope<'_>, remarks: &mut Vec<Remark>) -> Found {
        loop {
            if !self.file.next_line(&mut self.line, remarks) {
                return Found::End;
            }
            if !matches!(self.line.first(), Some(b'!' | b'#')) {
                break;
            }
        }
        if let Some(record) = Record::of(&self.line, self.link, &scope) {
            return record.into_packet().map_or(Found::NoBuffer, Found::Packet);
        }
        if !self.complained {
            remarks.push(Remark::at(&self.file, true, "bad format"));
            self.complained = true;
        }
        Found::End
    }
}

/// A flow; fields that are not valid are 0.
#[derive(Debug, Default)]
struct Record {
    first: Timestamp,
    last: Timestamp,
    extra_packets: u32,
    bytes: u32,
    paint: u8,
    ends: [Option<Ipv4Addr>; 2],
    ports: [u16; 2],
    flags: u8,
    protocol: u8,
    tos: u8,
}

impl Record {
    /// The record of a line, if enough of its fields are valid.
    fn of(line: &[u8], link: Link, scope: &Scope<'_>) -> Option<Self> {
        const FIELDS: usize = 15;
        const GOOD: usize = 10;
        let fields: Vec<&[u8]> = line.split(|&byte| byte == b'|').take(FIELDS).collect();
        let fields: &[&[u8]; FIELDS] = fields.first_chunk()?;
        let mut good = 0;
        let mut count = |is_good: bool| good += usize::from(is_good);
        let up_to = |index: usize, most: u32| {
            let text = fields.get(index).copied().unwrap_or_default();
            let number = number(text).and_then(|number| u32::try_from(number).ok());
            number.filter(|&number| number <= most)
        };
        let mut read = |index: usize, most: u32| {
            let number = up_to(index, most);
            count(number.is_some());
            number.unwrap_or_default()
        };
        let time = |seconds: u32| Timestamp::from_secs(seconds.into());
        let mut record = Self {
            first: time(read(7, u32::MAX)),
            last: time(read(8, u32::MAX)),
            extra_packets: read(5, u32::MAX).saturating_sub(1),
            bytes: read(6, u32::MAX),
            protocol: read(13, 0xff) as u8,
            tos: read(14, 0xff) as u8,
            ports: [read(9, 0xffff) as u16, read(10, 0xffff) as u16],
            flags: read(12, 0xff) as u8,
            ..Self::default()
        };
        if record.last.is_zero() {
            record.last = record.first;
        }
        let most = if link == Link::Both { 0xf } else { 0xff };
        let interface = |index: usize| up_to(index, u32::MAX).map(|number| number.min(most) as u8);
        let paint = match link {
            Link::Input => interface(3),
            Link::Output => interface(4),
            Link::Both => interface(3).zip(interface(4)).map(|(input, output)| input << 4 | output),
        };
        count(paint.is_some());
        record.paint = paint.unwrap_or_default();
        let address = |text: &[u8]| args::parse(std::str::from_utf8(text).ok()?, scope).ok();
        record.ends = [address(fields[0]), address(fields[1])];
        record.ends.iter().for_each(|end| count(end.is_some()));
        (good >= GOOD).then_some(record)
    }

    fn into_packet(self) -> Option<Packet> {
        let length = u16::try_from(self.bytes).unwrap_or(u16::MAX);
        let mut bytes = vec![0x45, self.tos];
        bytes.extend(length.to_be_bytes());
        bytes.extend([0, 0, 0, 0, 0, self.protocol, 0, 0]);
        for end in self.ends {
            bytes.extend(end.unwrap_or(Ipv4Addr::UNSPECIFIED).octets());
        }
        let [src_port, dst_port] = self.ports.map(u16::to_be_bytes);
        match self.protocol {
            protocol::TCP => {
                bytes.extend([src_port, dst_port].concat());
                bytes.resize(Ipv4Header::LEN + 12, 0);
                bytes.extend([0x50, self.flags]);
                bytes.resize(Ipv4Header::LEN + TcpHeader::LEN, 0);
            }
            protocol::UDP => {
                let udp_len = length.wrapping_sub(Ipv4Header::LEN as u16).to_be_bytes();
                bytes.extend([src_port, dst_port, udp_len].concat());
                bytes.resize(Ipv4Header::LEN + UdpHeader::LEN, 0);
            }
            _ => {}
        }
        let mut packet = Packet::from_bytes(&bytes)?;
        packet.set_network_header(0, Ipv4Header::LEN);
        packet.set_timestamp(self.last);
        packet.set_first_timestamp(self.first);
        packet.set_extra_packets(self.extra_packets);
        packet.set_extra_length(self.bytes.wrapping_sub(bytes.len() as u32));
        packet.set_paint(self.paint);
        Some(packet)
    }
}
