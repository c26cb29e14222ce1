//! FromIPSummaryDump - creates packets from the lines of a summary dump
//!
//! # Synopsis
//! `FromIPSummaryDump(FILENAME [, keywords STOP, TIMING, ACTIVE, ZERO, CHECKSUM, PROTO, MULTIPACKET,
//! SAMPLE, CONTENTS, FLOWID, ALLOW_NONEXISTENT, DATA, BURST, MIGRATE])`
//!
//! # Description
//! Reads a file that ToIPSummaryDump wrote, or one like it, and creates a packet from each line. A line `!data` names
//! the fields of the lines that follow; ToIPSummaryDump's manual lists them. A field that is `-`, or missing at the end
//! of a line, is not set. Packets are IPv4; unless a field sets them, their protocol is TCP and their time to live 100.
//! Headers are as long as the fields require. The extra length annotation counts the bytes of the original packet that
//! no field describes. The file may be compressed with gzip, bzip2, xz or zstd; `-` is standard input.
//!
//! Other lines: after `!flowid SRC SPORT DST DPORT [PROTO]` packets have an IP header even if no field belongs to it;
//! `!proto PROTO` sets the protocol, `!aggregate NUMBER` the aggregate annotation; after `!binary` the file consists of
//! binary records. Lines that begin with `#`, and others that begin with `!`, are ignored. The first line that is not a
//! valid packet is reported.
//!
//! With a push output, each run of its task emits one packet, or up to BURST.
//!
//! Two details follow Click's newest code, not its manual. The addresses and ports of `!flowid` are checked and not
//! used; only its protocol is. If a field gives a packet length greater than that of headers and payload, the headers
//! grow; the payload is then placed where it would be without that, among the options, not at the end.
//!
//! # Arguments
//! - FILENAME: the file. Positional; it or DATA is required.
//! - STOP: whether to stop the program at the end. Default false.
//! - TIMING: whether to keep the intervals between packets given by their timestamps; the first is emitted at once.
//!   Default false.
//! - ACTIVE: whether it emits packets. Default true.
//! - ZERO: accepted without effect: bytes that no field sets are always zero.
//! - CHECKSUM: whether to compute IP, TCP, UDP and ICMP checksums, and to extend packets to the length in their IP
//!   header. Default false.
//! - PROTO: the protocol of packets that do not specify one. Default 6, TCP.
//! - MULTIPACKET: whether to emit several packets for a line that stands for several, by its field `count`. Default
//!   false.
//! - SAMPLE: the probability that a packet is emitted, 0 to 1. Default 1.
//! - CONTENTS, DEFAULT_CONTENTS, FIELDS, DEFAULT_FIELDS: names of fields, for files without a `!data` line before their
//!   first packet.
//! - FLOWID, DEFAULT_FLOWID: the content of a `!flowid` line; its first word is ignored.
//! - ALLOW_NONEXISTENT: whether to treat a missing or empty file as one without packets, not as an error. Default
//!   false.
//! - DATA: the lines themselves, instead of a file.
//! - BURST: how many packets a run of the task emits at most, 1 to 256. Default 1.
//! - MIGRATE: accepted without effect: flow tables belong to all threads.
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
//! FromIPSummaryDump(DATA "!data ip_src ip_dst ip_proto sport dport payload
//! 1.0.0.1 2.0.0.2 U 53 4000 \"hello\"
//! ", STOP true, CHECKSUM true) -> CheckIPHeader -> Discard;
//! ```
//!
//! # See also
//! ToIPSummaryDump, FromDump, FromTcpdump

use millrace_core::args::{FileName, Kind, Raw, Scope};
use millrace_core::{Batch, Class, Failed, Need, Setup, register};

use super::reading::feed::{Feed, LineFormat, Wishes};
use super::reading::lines::LineFile;
use super::reading::reader::{Found, Remark, SummaryReader};

/// The element; its manual is at the top of the file.
pub type FromIpSummaryDump = Feed<SummaryReader>;

register!(FromIpSummaryDump, "from_ip_summary_dump.rs");

impl LineFormat for SummaryReader {
    const CLASS: Class = Class::new("FromIPSummaryDump", "0/1", "a/a");

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Wishes), Failed> {
        let args = &mut setup.args;
        let file_name: FileName = args.positional("FILENAME", FileName::default());
        args.needs(Need::read(&file_name));
        let mut wishes = Wishes::configure(args);
        args.ignored::<bool>("ZERO", Kind::Keyword, "bytes that no field sets are always zero");
        wishes.timing = args.keyword("TIMING", false);
        let checksums = args.keyword("CHECKSUM", false);
        wishes.configure_sample(args);
        let protocol: u8 = args.keyword("PROTO", 6);
        wishes.multipacket = args.keyword("MULTIPACKET", false);
        let mut fields = Raw::default();
        for name in ["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"] {
            fields = args.keyword(name, fields);
        }
        let flow: Raw = args.keyword("DEFAULT_FLOWID", Raw::default());
        let flow: Raw = args.keyword("FLOWID", flow);
        wishes.allow_nonexistent = args.keyword("ALLOW_NONEXISTENT", false);
        let data: Option<Vec<u8>> = args.optional_keyword("DATA");
        wishes.burst = args.keyword("BURST", 1);
        if !(1..=Batch::CAPACITY).contains(&wishes.burst) {
            args.error("BURST", format!("BURST must be between 1 and {}", Batch::CAPACITY));
        }
        args.ignored::<bool>("MIGRATE", Kind::Keyword, "flow tables belong to all threads");
        args.complete()?;
        let file_name = file_name.0;
        let file = match data {
            Some(_) if !file_name.is_empty() => {
                args.error("DATA", "FILENAME and DATA conflict");
                LineFile::closed(&file_name)
            }
            Some(data) => LineFile::of_text("<data>", data),
            None if file_name.is_empty() => {
                args.error((), "FILENAME: required argument missing");
                LineFile::closed(&file_name)
            }
            None => LineFile::closed(&file_name),
        };
        let mut reader = SummaryReader::new(file, protocol, checksums);
        let mut remarks = Vec::new();
        if !fields.0.is_empty() {
            reader.set_fields(fields.0.as_bytes(), &mut remarks);
        }
        if !flow.0.is_empty() {
            reader.set_flow(flow.0.as_bytes(), *args.scope(), &mut remarks);
        }
        for Remark { landmark, message, .. } in remarks {
            // Click continues after what it calls an error here.
            args.warn_at(landmark, message);
        }
        args.complete()?;
        Ok((reader, wishes))
    }

    fn file(&mut self) -> &mut LineFile {
        &mut self.file
    }

    fn begin(&mut self, remarks: &mut Vec<Remark>) {
        self.read_banner(remarks);
    }

    fn next(&mut self, scope: Scope<'_>, remarks: &mut Vec<Remark>) -> Found {
        self.next_line(scope, remarks)
    }
}
