//! ToIPSummaryDump - writes selected packet fields to a text file, one line per packet
//!
//! # Synopsis
//! `ToIPSummaryDump(FILENAME [, keywords FIELDS, HEADER, VERBOSE, BANNER, BINARY, MULTIPACKET,
//! BAD_PACKETS, CAREFUL_TRUNC, EXTRA_LENGTH])`
//!
//! # Description
//! Writes a line for each packet to a file, with the fields that FIELDS names. A field that a packet does not have,
//! such as the port of an ICMP message, is written as `-`. File name `-` is standard output. FromIPSummaryDump creates
//! packets from such lines. Lines are in the file within a second (with `--simtime`, at the end). If the file cannot be
//! written, the element says so once and goes on.
//!
//! Packets leave by the output, if it is connected. With a pull input it pulls packets itself. As in Click, the lengths
//! of packets with an IP header come from that header from then on, and their extra length annotations become 0.
//!
//! The fields:
//!
//! | name | meaning and format |
//! |---|---|
//! | `timestamp`, `ntimestamp` | timestamp annotation, `996033261.451094` |
//! | `ts_sec`, `ts_usec` | its seconds, and its microseconds |
//! | `ts_usec1` | the whole timestamp in microseconds, a 64-bit number; as in Click, its halves are swapped |
//! | `first_timestamp`, `first_ntimestamp` | first timestamp annotation |
//! | `count` | number of packets: 1 plus the extra packets annotation |
//! | `link`, `paint` | paint annotation |
//! | `direction` | the same, but `>` for 0 and `<` for 1 |
//! | `aggregate` | aggregate annotation |
//! | `wire_len` | length of the packet |
//! | `thread` | number of the thread that writes the line; FromIPSummaryDump ignores it |
//! | `eth_src`, `eth_dst` | Ethernet addresses, `00-0A-95-A6-D9-BC` |
//! | `eth_type` | Ethernet type, `0800` |
//! | `ip_src`, `ip_dst` | IP addresses |
//! | `ip_len`, `ip_hl` | length of the datagram and of its header |
//! | `ip_capture_len` | bytes of the datagram that are present |
//! | `ip_proto` | protocol: `T` for TCP, `U` for UDP, `I` for ICMP, or its number |
//! | `ip_tos`, `ip_dscp`, `ip_ttl`, `ip_id`, `ip_sum` | numbers |
//! | `ip_ecn` | `no`, `ect1`, `ect2` or `ce` |
//! | `ip_frag` | `F` first fragment, `f` later one, `!` do not fragment, `.` none of these |
//! | `ip_fragoff` | fragment offset in bytes, with `+` for more fragments and `!` for do not fragment |
//! | `ip_opt` | IP options, see below |
//! | `sport`, `dport` | ports of TCP, UDP, DCCP and UDP-Lite |
//! | `tcp_seq`, `tcp_ack`, `tcp_off`, `tcp_window`, `tcp_urp` | numbers; `tcp_off` in bytes |
//! | `tcp_flags` | `F` FIN, `S` SYN, `R` RST, `P` PSH, `A` ACK, `U` URG, `E` ECE, `C` CWR, `N` NS; `.` none |
//! | `tcp_opt` | TCP options; `tcp_ntopt` without timestamps, `tcp_sack` only those of SACK |
//! | `udp_len` | length of the UDP header and its payload |
//! | `icmp_type`, `icmp_code` | numbers |
//! | `icmp_type_name`, `icmp_code_name` | their names, or numbers if they have none |
//! | `icmp_flowid`, `icmp_seq` | identifier and sequence number |
//! | `icmp_nextmtu` | the MTU in "fragmentation needed" |
//! | `payload` | payload of the transport header, quoted |
//! | `payload_len` | its length, according to the IP header |
//! | `payload_md5`, `payload_md5_hex` | its MD5 digest, in 22 letters or 32 hexadecimal digits |
//!
//! Names may omit `ip_` and have spaces instead of underscores (then quote them). Synonyms are `ts`, `utimestamp`,
//! `sec`, `usec`, `usec1`, `first_ts`, `first_utimestamp`, `pkt_count`, `packet_count`, `agg`, `wire_length`,
//! `ether_src`, `ether_dst`, `ether_type`, `length`, `ip_p`, `tcp_seqno`, `tcp_ackno`, `tcp_win` and `payload_length`.
//!
//! Options are separated by semicolons; padding is not shown, `.` means no options and `?` a malformed list. TCP:
//! `mss1400`, `wscale10`, `sackok`, `sack95-98` (one for each block), `ts669063908:38382731`. IP:
//! `rr{10.0.0.1,20.0.0.2}+5` (a recorded route with room for five more), `ssrr{1.0.0.1^1.0.0.3}` and `lsrr` (with the
//! pointer), `ts{1,!45}+2++3` (timestamps, `!` marking one that is not a time of day, with room for two more and an
//! overflow of 3), `ts.ip{1.0.0.1=1}` and `ts.preip{1.0.0.1=1^1.0.0.2}`. Any other option is shown as its number and
//! data: `98`, `99=0:5:10`.
//!
//! # Arguments
//! - FILENAME: the file; an existing one is replaced. If it cannot be written any more - the disk is full, or the reader
//!   of a pipe is gone - a message says so, nothing more is written, and the program fails at the end. Positional,
//!   mandatory.
//! - FIELDS, CONTENTS, DATA: names of fields, separated by spaces. Default `timestamp ip_src`.
//! - HEADER: whether the file begins with lines that describe it: `!IPSummaryDump 1.3` and `!data` with the names of
//!   the fields. Default true.
//! - VERBOSE: whether these include lines with the host's name and the time. Default false.
//! - BANNER: text of a line `!creator`. Default none.
//! - BINARY: whether records are binary. Each begins with its length in four bytes, in network order, with the highest
//!   bit set for a line of text; the fields follow, in the sizes that Click's manual gives. Default false.
//! - MULTIPACKET: whether to write several lines for a packet that stands for several, by its extra packets annotation.
//!   Default false.
//! - BAD_PACKETS: whether to write a line `!bad` that describes what is wrong with a packet, before its own line.
//!   Default false.
//! - CAREFUL_TRUNC: whether a packet is bad if it is shorter, extra length included, than its IP header states. Default
//!   true.
//! - EXTRA_LENGTH: whether extra length annotations count. Default true.
//!
//! # Ports
//! One agnostic input, one optional push output.
//!
//! # Handlers
//! - `flush` (write): writes buffered data to the file.
//! - `scheduled`, `home_thread` (read, write): with a pull input, whether its task is scheduled, and the thread that
//!   runs it.
//!
//! # Drops
//! - device error: without an output, the file cannot be written any more.
//!
//! # Example
//! ```click
//! FromIPSummaryDump(DATA "!data ip_src tcp_flags
//! 18.26.4.44 S
//! ", STOP true) -> ToIPSummaryDump(-, FIELDS ip_src tcp_flags);
//! ```
//!
//! # See also
//! FromIPSummaryDump, ToIPFlowDumps, ToDump

mod calendar;

use std::fs::File;
use std::io::{self, BufWriter, Stdout, Write};
use std::sync::{MutexGuard, OnceLock};

use millrace_core::args::{FileName, Raw};
use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Need, OutputFile, Packet, Reason,
    Refused, Router, Setup, Task, Timestamp, os_error_text, register, standard_output,
};
use millrace_lang::config::quote;

use super::fields::record::Recorder;
use super::fields::seen::Wishes;
use crate::flush_timer::FlushTimer;
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct ToIpSummaryDump {
    file_name: FileName,
    recorder: Recorder,
    header: bool,
    verbose: bool,
    banner: String,
    multipacket: bool,
    /// Locked, because several threads may write.
    output: Lock<Output>,
    /// Why nothing more is written.
    failure: OnceLock<String>,
    task: Task,
    flush: FlushTimer,
    upstream: OnceLock<Listening>,
}

/// The destination of the lines.
enum Output {
    Closed,
    /// Not changed yet.
    Opened(OutputFile),
    File(BufWriter<File>),
    Stdout(Stdout),
}

register!(ToIpSummaryDump, "to_ip_summary_dump.rs");

impl Element for ToIpSummaryDump {
    const CLASS: Class = Class::new("ToIPSummaryDump", "1/0-1", "a/h").shows_packets().phase(5);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let file_name: FileName = args.mandatory("FILENAME");
        args.needs(Need::replace(&file_name));
        let default = Raw("timestamp ip_src".to_owned());
        let fields: Raw = args.keyword("FIELDS", default);
        let fields: Raw = args.keyword("CONTENTS", fields);
        let fields: Raw = args.keyword("DATA", fields);
        let verbose = args.keyword("VERBOSE", false);
        let header = args.keyword("HEADER", true);
        let banner = args.keyword("BANNER", String::new());
        let multipacket = args.keyword("MULTIPACKET", false);
        let bad = args.keyword("BAD_PACKETS", false);
        let careful = args.keyword("CAREFUL_TRUNC", true);
        let extra_length = args.keyword("EXTRA_LENGTH", true);
        let binary = args.keyword("BINARY", false);
        let wishes = Wishes { careful, extra_length, bad };
        // As in Click, errors in other arguments suppress errors in the fields.
        args.complete()?;
        let recorder = Recorder::configure(args, &fields.0, wishes, binary);
        args.complete()?;
        Ok(Self {
            file_name,
            recorder,
            header,
            verbose,
            banner,
            multipacket,
            output: Lock::new(Output::Closed),
            failure: OnceLock::new(),
            task: setup.pull_task(0),
            flush: FlushTimer::new(setup),
            upstream: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        if self.file_name.0 == "-" {
            *self.output() = Output::Stdout(standard_output::for_data());
        } else {
            let name = &self.file_name.0;
            let file = OutputFile::open(self.file_name.as_path());
            let file = file.map_err(|error| format!("{name}: {}", os_error_text(&error)))?;
            *self.output() = Output::Opened(file);
        }
        if init.is_pull_input(0) {
            // An element is initialised once.
            let _ = self.upstream.set(init.listen(0, &self.task));
            self.task.schedule();
        }
        Ok(())
    }

    fn start(&self, router: &Router) -> Result<(), Refused> {
        let mut output = self.output();
        output.begin().map_err(|error| os_error_text(&error))?;
        if self.header {
            let header = self.header(router.clock().now());
            output.write(header.as_bytes()).map_err(|error| os_error_text(&error))?;
        }
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let written = self.write(cx, batch);
        if cx.outputs() > 0 {
            return cx.push_batch(0, batch);
        }
        cx.consumed(written);
        cx.dropped(batch.len() - written, Reason::DeviceError);
        batch.clear();
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let mut batch = cx.take_batch();
        let n = cx.pull(0, 1, &mut batch);
        self.push(cx, &mut (), 0, &mut batch);
        cx.give_batch(batch);
        if n == 0
            && let Some(upstream) = self.upstream.get()
        {
            upstream.rest(&self.task, cx.router());
        }
        n > 0
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let result = self.output().flush();
        self.go_on_if(cx, result);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("flush", |dump, _| {
            dump.output().flush().map_err(|error| os_error_text(&error).into())
        });
        task_handlers(handlers, |dump| &dump.task);
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        let mut output = std::mem::replace(&mut *self.output(), Output::Closed);
        match self.failure.get() {
            Some(failure) => Err(Refused(failure.clone())),
            None => output.flush().map_err(|error| Refused(self.failure(&error))),
        }
    }
}

impl ToIpSummaryDump {
    fn output(&self) -> MutexGuard<'_, Output> {
        self.output.lock()
    }

    /// The lines at the start of the file.
    fn header(&self, now: Timestamp) -> String {
        let mut header = "!IPSummaryDump 1.3\n".to_owned();
        if !self.banner.is_empty() {
            header += &format!("!creator {}\n", quote(self.banner.as_bytes()));
        }
        if self.verbose {
            if let Ok(host) = std::fs::read_to_string("/proc/sys/kernel/hostname") {
                header += &format!("!host {}\n", host.trim_end());
            }
            header += &format!("!runtime {now} ({})\n", calendar::ctime(Timestamp::now()));
        }
        header + &self.recorder.description()
    }

    /// Writes the lines of a batch. Returns how many packets were written: all or none.
    fn write(&self, cx: &Context, batch: &mut Batch) -> usize {
        if self.failure.get().is_some() {
            return 0;
        }
        let mut lines = Vec::new();
        for packet in batch.iter_mut() {
            if self.multipacket && packet.extra_packets() > 0 {
                self.write_several(packet, cx.thread(), &mut lines);
            } else {
                self.recorder.write(packet, cx.thread(), &mut lines);
            }
        }
        let result = self.output().write(&lines);
        if !self.go_on_if(cx, result) {
            return 0;
        }
        self.flush.written(cx);
        batch.len()
    }

    /// Returns whether lines could be written. After a failure nothing more is: a file that goes on behind a gap would
    /// look complete.
    fn go_on_if(&self, cx: &Context, result: io::Result<()>) -> bool {
        let Err(error) = result else { return true };
        if self.failure.set(self.failure(&error)).is_ok() {
            self.output().abandon();
            let router = cx.router();
            let name = router.name_of(cx.element());
            router.chatter(&format!("{name}: {}", self.failure(&error)));
        }
        false
    }

    fn failure(&self, error: &io::Error) -> String {
        format!("{}: {}", self.file_name.0, os_error_text(error))
    }

    /// Writes the packets that this one stands for, of about the same length and evenly spread over time.
    fn write_several(&self, packet: &mut Packet, thread: usize, lines: &mut Vec<u8>) {
        let count = packet.extra_packets().wrapping_add(1).max(1);
        let length = packet.len() as u32;
        let mut total = length;
        if self.recorder.wishes().extra_length {
            total = total.wrapping_add(packet.extra_length());
        }
        total = total.max(count.wrapping_mul(length));
        let end = packet.timestamp();
        let mut step = Timestamp::ZERO;
        if !packet.first_timestamp().is_zero() && count > 1 {
            let span = (end - packet.first_timestamp()).as_nanos();
            step = Timestamp::from_nanos(span / i64::from(count - 1));
            packet.set_timestamp(packet.first_timestamp());
        }
        packet.set_extra_packets(0);
        for left in (1..=count).rev() {
            let share = total / left;
            packet.set_extra_length(share.wrapping_sub(length));
            total -= share;
            self.recorder.write(packet, thread, lines);
            packet.set_timestamp(if left == 1 { end } else { packet.timestamp() + step });
        }
    }
}

impl Output {
    /// Empties the file.
    fn begin(&mut self) -> io::Result<()> {
        match std::mem::replace(self, Self::Closed) {
            Self::Opened(file) => *self = Self::File(BufWriter::new(file.begin()?)),
            begun => *self = begun,
        }
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Closed | Self::Opened(_) => Ok(()),
            Self::File(file) => file.write_all(bytes),
            Self::Stdout(stdout) => stdout.write_all(bytes),
        }
    }

    /// Closes the output without writing what is still to be written.
    fn abandon(&mut self) {
        if let Self::File(file) = std::mem::replace(self, Self::Closed) {
            drop(file.into_parts());
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Closed | Self::Opened(_) => Ok(()),
            Self::File(file) => file.flush(),
            Self::Stdout(stdout) => stdout.flush(),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn nothing_is_written_after_a_failure_and_the_program_fails() {
        let mut rig = Rig::new("ToIPSummaryDump(/dev/full)", 1, 0).unwrap();
        rig.push(0, &["a"]);
        assert!(rig.write("flush", "").is_err());
        // Enough for the buffer.
        for _ in 0..2000 {
            rig.push(0, &["b"]);
        }
        let drops = rig.stats().drops;
        assert!(matches!(*drops, [(Reason::DeviceError, 1..)]), "{drops:?}");
        assert!(!rig.stop().complaints.is_empty());
    }
}
