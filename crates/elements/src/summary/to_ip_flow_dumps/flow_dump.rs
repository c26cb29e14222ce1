//! The summary of one flow.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::net::SocketAddrV4;

use millrace_core::headers::tcp_option as option;
use millrace_core::headers::{Header, Ipv4Header, TcpHeader, UdpHeader, protocol, tcp_flags};
use millrace_core::{Packet, Timestamp, os_error_text, standard_output};

use crate::summary::fields::field::append;
use crate::summary::fields::seen::{u8_at, u16_at, u32_at};
use crate::summary::fields::tcp_options::{self, Which};

/// What to write about packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Style {
    pub(super) absolute_time: bool,
    pub(super) absolute_seq: bool,
    pub(super) binary: bool,
    pub(super) options: Options,
    pub(super) window: bool,
    pub(super) ip_id: bool,
}

/// Which TCP options to write.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Options {
    None,
    /// Maximum segment size, window scale and SACK.
    NotTimestamps,
    /// The same, and timestamps.
    All,
}

/// A flow, and its lines that are not yet written.
pub(super) struct FlowDump {
    pub(super) file_name: String,
    style: Style,
    aggregate: u32,
    protocol: u8,
    src: SocketAddrV4,
    dst: SocketAddrV4,
    first_time: Timestamp,
    /// The base of each direction's sequence numbers.
    first_seq: [Option<u32>; 2],
    packets: u32,
    /// Lines or records, and the numbers of packets and notes in them.
    pending: Vec<u8>,
    pending_packets: usize,
    pending_notes: usize,
    was_written: bool,
}

/// The numbers kept before they are written.
const MAX_PACKETS: usize = 128;
const MAX_NOTES: usize = 32;

/// The highest bit of a record's length: the record is a line of text.
const TEXT: u32 = 1 << 31;

/// A packet's headers, as far as they were captured.
#[derive(Clone, Copy)]
struct Headers<'p> {
    ip: &'p Ipv4Header,
    transport: &'p [u8],
}

impl<'p> Headers<'p> {
    fn of(network: &'p [u8]) -> Option<Self> {
        let (ip, _) = Ipv4Header::view(network)?;
        let header_len = ip.header_len();
        let is_ip = ip.version() == 4 && header_len >= Ipv4Header::LEN;
        is_ip.then_some(Self { ip, transport: network.get(header_len..).unwrap_or_default() })
    }

    fn is_transport(&self) -> bool {
        matches!(self.ip.protocol, protocol::TCP | protocol::UDP)
    }

    fn ends(&self) -> [SocketAddrV4; 2] {
        let port = |offset| u16_at(self.transport, offset) as u16;
        [
            SocketAddrV4::new(self.ip.src.into(), port(0)),
            SocketAddrV4::new(self.ip.dst.into(), port(2)),
        ]
    }
}

impl FlowDump {
    /// The flow that a packet begins, if it is TCP or UDP.
    pub(super) fn begin(packet: &Packet, style: Style) -> Option<Self> {
        const ICMP_LEN: usize = 8;
        let headers = Headers::of(packet.network_data()?)?;
        let headers = match headers.ip.protocol {
            // An ICMP error belongs to the flow of the packet that it quotes.
            protocol::ICMP => Headers::of(headers.transport.get(ICMP_LEN..)?)?,
            _ => headers,
        };
        if !headers.is_transport() {
            return None;
        }
        let [mut src, mut dst] = headers.ends();
        if packet.paint() & 1 != 0 {
            std::mem::swap(&mut src, &mut dst);
        }
        let first_time = match style.absolute_time {
            true => Timestamp::ZERO,
            // The first packet is one microsecond after the start.
            false => packet.timestamp() - Timestamp::from_micros(1),
        };
        Some(Self {
            file_name: String::new(),
            style,
            aggregate: packet.aggregate(),
            protocol: headers.ip.protocol,
            src,
            dst,
            first_time,
            first_seq: [style.absolute_seq.then_some(0); 2],
            packets: 0,
            pending: Vec::new(),
            pending_packets: 0,
            pending_notes: 0,
            was_written: false,
        })
    }

    /// Bytes that wait to be written.
    pub(super) fn pending(&self) -> usize {
        self.pending.len()
    }

    /// The number of packets of the flow.
    pub(super) fn packets(&self) -> u32 {
        self.packets
    }

    fn is_tcp(&self) -> bool {
        self.protocol == protocol::TCP
    }

    /// Adds a packet; an ICMP error becomes a note.
    pub(super) fn add(&mut self, packet: &Packet) -> Result<(), String> {
        let Some(headers) = packet.network_data().and_then(Headers::of) else { return Ok(()) };
        if packet.paint() >= 2 || headers.ip.protocol == protocol::ICMP {
            self.packets = self.packets.saturating_add(1);
            let direction = if packet.paint() & 1 != 0 { '>' } else { '<' };
            return self.note(&format!("{} {direction} ICMP_error", packet.timestamp()));
        }
        if headers.ip.protocol != self.protocol {
            return Ok(());
        }
        if self.pending_packets >= MAX_PACKETS {
            self.write()?;
        }
        self.pending_packets += 1;
        self.packets = self.packets.saturating_add(1);
        let direction = packet.paint() & 1;
        let time = packet.timestamp() - self.first_time;
        match self.style.binary {
            true => self.add_record(headers, direction, time),
            false => self.add_line(headers, direction, time),
        }
        Ok(())
    }

    /// Adds a line of text that is not a packet.
    fn note(&mut self, text: &str) -> Result<(), String> {
        if self.pending_notes >= MAX_NOTES {
            self.write()?;
        }
        self.pending_notes += 1;
        if self.style.binary {
            let length = (text.len() + 6) as u32 | TEXT;
            self.pending.extend_from_slice(&length.to_be_bytes());
        }
        append(&mut self.pending, format_args!("#{text}\n"));
        Ok(())
    }

    fn add_line(&mut self, headers: Headers<'_>, direction: u8, time: Timestamp) {
        let mark = if direction == 0 { '>' } else { '<' };
        let mut line = format!("{time} {mark} ").into_bytes();
        if self.style.ip_id {
            // Click prints the two bytes in the machine's byte order.
            append(&mut line, format_args!("{} ", headers.ip.id.get().swap_bytes()));
        }
        if self.is_tcp() {
            let [seq, ack] = self.sequence(headers.transport, direction);
            show_flags(&mut line, u8_at(headers.transport, 13) as u8);
            append(&mut line, format_args!(" {seq} {} {ack}", self.payload_len(headers)));
            if self.style.window {
                append(&mut line, format_args!(" {}", u16_at(headers.transport, 14)));
            }
            if let Some(options) = self.options(headers.transport, direction) {
                line.push(b' ');
                tcp_options::show(&mut line, &options, Which::All);
            }
        } else {
            append(&mut line, format_args!("{}", self.payload_len(headers)));
        }
        line.push(b'\n');
        self.pending.append(&mut line);
    }

    fn add_record(&mut self, headers: Headers<'_>, direction: u8, time: Timestamp) {
        let mut record = Vec::new();
        let mut put = |number: u32| record.extend_from_slice(&number.to_be_bytes());
        put(time.sec() as u32);
        put(time.usec());
        if self.is_tcp() {
            let [seq, ack] = self.sequence(headers.transport, direction);
            put(seq);
            put(self.payload_len(headers).into());
            put(ack);
        } else {
            put(self.payload_len(headers).into());
        }
        if self.style.ip_id {
            record.extend_from_slice(&headers.ip.id.get().to_be_bytes());
        }
        if self.is_tcp() {
            if self.style.window {
                let window = u16_at(headers.transport, 14) as u16;
                record.extend_from_slice(&window.to_be_bytes());
            }
            record.push(u8_at(headers.transport, 13) as u8);
        }
        record.push(direction);
        let options = self.is_tcp().then(|| self.options(headers.transport, direction)).flatten();
        if let Some(options) = options {
            record.push(options.len() as u8);
            record.extend_from_slice(&options);
        }
        self.pending.extend_from_slice(&((record.len() + 4) as u32).to_be_bytes());
        self.pending.append(&mut record);
    }

    /// The length of the payload. For UDP, Click counts the IP header as payload.
    fn payload_len(&self, headers: Headers<'_>) -> u16 {
        let header = match self.is_tcp() {
            true => headers.ip.header_len() + (u8_at(headers.transport, 12) >> 4) as usize * 4,
            false => UdpHeader::LEN,
        };
        headers.ip.total_len.get().wrapping_sub(header as u16)
    }

    /// Sequence and acknowledgement number of a packet, relative to the first ones.
    fn sequence(&mut self, tcp: &[u8], direction: u8) -> [u32; 2] {
        let (mine, other) = self.bases(direction);
        let (seq, ack) = (u32_at(tcp, 4) as u32, u32_at(tcp, 8) as u32);
        let seq = seq.wrapping_sub(*mine.get_or_insert(seq));
        let ack = match u8_at(tcp, 13) as u8 & tcp_flags::ACK {
            0 => 0,
            _ => ack.wrapping_sub(*other.get_or_insert(ack)),
        };
        [seq, ack]
    }

    /// The first sequence numbers of this direction and of the other.
    fn bases(&mut self, direction: u8) -> (&mut Option<u32>, &mut Option<u32>) {
        let [forth, back] = &mut self.first_seq;
        if direction == 0 { (forth, back) } else { (back, forth) }
    }

    /// The options to write; `None` if there are none, or some are malformed.
    fn options(&mut self, tcp: &[u8], direction: u8) -> Option<Vec<u8>> {
        const ALIGNED_TIMESTAMP: &[u8] = &[1, 1, 8, 10];
        let with_timestamps = match self.style.options {
            Options::None => return None,
            Options::NotTimestamps => false,
            Options::All => true,
        };
        let header_len = (u8_at(tcp, 12) >> 4) as usize * 4;
        let options = tcp.get(TcpHeader::LEN..header_len)?;
        if !with_timestamps && header_len == 32 && options.starts_with(ALIGNED_TIMESTAMP) {
            return None;
        }
        let mut told = Vec::new();
        for one in crate::summary::fields::options::each(options) {
            let one = one?;
            let is_sound = tcp_options::is_sound(one);
            match one.first().copied()? {
                option::SACK => {
                    is_sound.then_some(())?;
                    self.tell_blocks(one, direction, &mut told);
                }
                option::TIMESTAMPS if !with_timestamps => is_sound.then_some(())?,
                option::MAXIMUM_SEGMENT_SIZE
                | option::WINDOW_SCALE
                | option::SACK_PERMITTED
                | option::TIMESTAMPS => {
                    is_sound.then_some(())?;
                    told.extend_from_slice(one);
                }
                _ => {}
            }
        }
        (!told.is_empty()).then_some(told)
    }

    /// Adds the blocks of a SACK option, relative to the other direction's sequence numbers.
    fn tell_blocks(&mut self, sack: &[u8], direction: u8, told: &mut Vec<u8>) {
        let (_, other) = self.bases(direction);
        let (head, blocks) = sack.split_at_checked(2).unwrap_or_default();
        told.extend_from_slice(head);
        for edge in blocks.as_chunks::<4>().0 {
            let edge = u32::from_be_bytes(*edge);
            let edge = edge.wrapping_sub(*other.get_or_insert(edge));
            told.extend_from_slice(&edge.to_be_bytes());
        }
    }

    /// The lines at the start of the file.
    fn header(&self) -> String {
        let letter = if self.is_tcp() { 'T' } else { 'U' };
        let (src, dst) = (self.src, self.dst);
        let mut header = format!(
            "!IPSummaryDump 1.3\n!flowid {} {} {} {} {letter}\n!aggregate {}\n!data timestamp",
            src.ip(),
            src.port(),
            dst.ip(),
            dst.port(),
            self.aggregate
        );
        let ip_id = if self.style.ip_id { " ip_id" } else { "" };
        let options = if self.style.options == Options::All { " tcp_opt" } else { " tcp_ntopt" };
        header += &match (self.style.binary, self.is_tcp()) {
            (true, true) => {
                let window = if self.style.window { " tcp_window" } else { "" };
                format!(" tcp_seq payload_len tcp_ack{ip_id}{window} tcp_flags direction{options}")
            }
            (true, false) => format!(" payload_len{ip_id} direction"),
            // Click does not name the window here.
            (false, true) => {
                format!(" direction{ip_id} tcp_flags tcp_seq payload_len tcp_ack{options}")
            }
            (false, false) => format!(" direction{ip_id} payload_len"),
        };
        header.push('\n');
        for (mark, first) in [('>', self.first_seq[0]), ('<', self.first_seq[1])] {
            if let Some(first) = first.filter(|&first| first != 0 && self.is_tcp()) {
                header += &format!("!firstseq {mark} {first}\n");
            }
        }
        if !self.first_time.is_zero() {
            header += &format!("!firsttime {}\n", self.first_time);
        }
        if self.style.binary {
            header += "!binary\n";
        }
        header
    }

    /// Writes what is not written yet.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub(super) fn write(&mut self) -> Result<(), String> {
        let mut bytes = match self.was_written {
            true => Vec::new(),
            false => self.header().into_bytes(),
        };
        bytes.append(&mut self.pending);
        self.pending_packets = 0;
        self.pending_notes = 0;
        let describe = |error: io::Error| format!("{}: {}", self.file_name, os_error_text(&error));
        if self.file_name == "-" {
            self.was_written = true;
            return standard_output::for_data().lock().write_all(&bytes).map_err(describe);
        }
        let mut file = match self.was_written {
            true => OpenOptions::new().append(true).open(&self.file_name),
            false => self.create()?,
        }
        .map_err(describe)?;
        self.was_written = true;
        file.write_all(&bytes)
            .map_err(|error| format!("{}: {}", self.file_name, os_error_text(&error)))
    }

    /// Creates the file, and the directories that contain it.
    fn create(&self) -> Result<io::Result<File>, String> {
        if let Some(folder) = std::path::Path::new(&self.file_name).parent() {
            std::fs::create_dir_all(folder).map_err(|error| {
                format!("making directory {}: {}", folder.display(), os_error_text(&error))
            })?;
        }
        Ok(File::create(&self.file_name))
    }

    /// Removes the file, if there is one.
    pub(super) fn remove(&self) -> Result<(), String> {
        if !self.was_written || self.file_name == "-" {
            return Ok(());
        }
        let result = std::fs::remove_file(&self.file_name);
        result.map_err(|error| format!("{}: {}", self.file_name, os_error_text(&error)))
    }
}

/// Writes the letters of TCP flags; CWR has none here, as in Click.
fn show_flags(out: &mut Vec<u8>, flags: u8) {
    const PUSH_ACK: u8 = tcp_flags::PSH | tcp_flags::ACK;
    match flags {
        0 => out.push(b'.'),
        PUSH_ACK => out.extend_from_slice(b"PA"),
        _ => out.extend(
            (0..).zip(b"FSRPAUE").filter(|(bit, _)| flags >> bit & 1 == 1).map(|(_, &l)| l),
        ),
    }
}
