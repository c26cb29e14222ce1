//! ToDump - writes packets to a capture file
//!
//! # Synopsis
//! `ToDump(FILENAME [, SNAPLEN, ENCAP, keywords USE_ENCAP_FROM, EXTRA_LENGTH, UNBUFFERED, NANO])`
//!
//! # Description
//! Writes packets with their timestamps to a pcap file that tcpdump, Wireshark and FromDump can read.
//! Packets without a timestamp get the current time. A file whose name ends in `.gz`, `.bz2`, `.xz` or
//! `.zst` is compressed; `-` is standard output.
//!
//! Packets leave by the output, if it is connected. With a pull input and no output, the element pulls
//! packets.
//!
//! If the file cannot be written any further (the disk is full), the element reports this at once and
//! again when the program ends, and the exit status indicates failure. Later packets are not written;
//! without an output they are dropped. The file ends with a complete packet. The element buffers
//! packets, up to 256 KiB and for up to a second, before it writes them; the message reports how many of
//! these are lost. With UNBUFFERED, none is lost this way. (With `--simtime`, where a second may take no time,
//! packets are written when the buffer is full and at the end.)
//!
//! Two elements of a router cannot write one file, and none can write a file that another one reads: `millrace check`
//! says so, too.
//!
//! An existing file is emptied when all elements of the router are initialised, so that it is still there if another
//! one refuses. After a hot swap, the element of the same name goes on with the same file.
//!
//! # Arguments
//! - FILENAME: the file; an existing one is replaced. Positional, mandatory.
//! - SNAPLEN: maximum number of bytes of a packet that are written; 0 writes whole packets. Positional,
//!   default 2000.
//! - ENCAP: the link type of the packets, which is recorded in the file's header: ETHER, IP, FDDI, ATM,
//!   802_11, 802_11_RADIO, SLL, AIRONET, HDLC, PPP_HDLC, PPP, SUNATM, PRISM, NULL, or `#` and a
//!   `LINKTYPE_` number. Positional, default ETHER.
//! - USE_ENCAP_FROM: names of elements, separated by spaces; the link type is the value of their
//!   `encap` handlers, which must agree. Not together with ENCAP.
//! - EXTRA_LENGTH: whether a packet's recorded length includes its extra length annotation. Default
//!   true.
//! - UNBUFFERED: whether each batch is passed to the operating system at once. Default false.
//! - NANO: whether timestamps are written in nanoseconds; otherwise in microseconds, which older
//!   programs need. Default false.
//!
//! # Ports
//! One agnostic input, one optional agnostic output.
//!
//! # Handlers
//! - `count` (read): packets written. `reset_counts` (write): resets it to 0.
//! - `filename` (read): the file.
//! - `scheduled`, `home_thread` (read, write): its task, and the thread that runs it.
//!
//! # Drops
//! - device error: the file cannot be written, and the output is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10, STOP true) -> ToDump(out.pcap, SNAPLEN 0, NANO true);
//! ```
//!
//! # See also
//! FromDump, ToDevice

use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::{ArgError, ArgText, ElementRef, FileName, Kind, Scope};
use millrace_core::element::Listening;
use millrace_core::{
    Arg, Args, Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Need, Packet, Reason,
    Refused, Router, Setup, Task, Timestamp, os_error_text, register,
};
use millrace_io::pcap::{
    Destination, Error, ErrorKind, LinkType, MAX_CAPTURED, Options, Resolution, Writer,
};

use crate::flush_timer::FlushTimer;
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct ToDump {
    file_name: FileName,
    snap_len: u32,
    encap: Encap,
    resolution: Resolution,
    extra_length: bool,
    unbuffered: bool,
    count: AtomicU64,
    /// What is open, and not changed before the run starts.
    destination: Lock<Option<(Destination, Options)>>,
    /// Behind a lock because several threads may write. None before the run starts and after it
    /// ends.
    writer: Lock<Option<Writer>>,
    task: Task,
    flush: FlushTimer,
    upstream: OnceLock<Listening>,
}

/// Where the link type comes from.
enum Encap {
    Given(LinkType),
    /// The `encap` handlers of these elements.
    From(Vec<usize>),
}

register!(ToDump, "to_dump.rs");

impl Element for ToDump {
    // FromDump and FromDevice know their link types when they are initialised.
    const CLASS: Class = Class::new("ToDump", "1/0-1", "a/a").ordered().phase(5);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let file_name: FileName = args.mandatory("FILENAME");
        args.needs(Need::replace(&file_name));
        let snap_len = match args.positional("SNAPLEN", 2000) {
            0 => MAX_CAPTURED,
            length => length,
        };
        let encap = Encap::configure(args);
        let extra_length = args.keyword("EXTRA_LENGTH", true);
        let unbuffered = args.keyword("UNBUFFERED", false);
        let nano = args.keyword("NANO", false);
        args.complete()?;
        Ok(Self {
            file_name,
            snap_len,
            encap,
            resolution: if nano { Resolution::Nanoseconds } else { Resolution::Microseconds },
            extra_length,
            unbuffered,
            count: 0.into(),
            destination: Lock::new(None),
            writer: Lock::new(None),
            task: setup.pull_task(0),
            flush: FlushTimer::new(setup),
            upstream: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let link_type = self.encap.link_type(init.router())?;
        let options = Options { link_type, snap_len: self.snap_len, resolution: self.resolution };
        if init.predecessor::<Self>().is_none_or(|old| !self.goes_on_from(&old, options)) {
            let opened = Destination::open(self.file_name.as_path());
            let opened = opened.map_err(|error| self.refuse(&error))?;
            init.needs(opened.helper().map(|program| Need::Run(program.to_owned())));
            *self.destination.lock() = Some((opened, options));
        }
        if init.is_pull_input(0) && !init.is_pull_output(0) {
            // An element is initialised once.
            let _ = self.upstream.set(init.listen(0, &self.task));
            self.task.schedule();
        }
        Ok(())
    }

    fn start(&self, _router: &Router) -> Result<(), Refused> {
        let Some((destination, options)) = self.destination.lock().take() else { return Ok(()) };
        let writer = Writer::begin(destination, options).map_err(|error| self.refuse(&error))?;
        *self.writer.lock() = Some(writer);
        Ok(())
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        let mut writer = self.writer.lock();
        if writer.is_none() {
            *writer = old.writer.lock().take();
            self.count.store(old.count.load(Relaxed), Relaxed);
            self.flush.set(init.router());
        }
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        self.write(cx, batch);
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let written = self.write(cx, batch);
        if cx.outputs() > 0 {
            cx.push_batch(0, batch);
            return;
        }
        cx.consumed(written);
        cx.dropped(batch.len() - written, Reason::DeviceError);
        batch.clear();
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let mut batch = cx.take_batch();
        let n = cx.pull(0, Batch::CAPACITY, &mut batch);
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
        if let Some(writer) = self.writer.lock().as_mut().filter(|writer| writer.error().is_none())
            && let Err(error) = writer.flush()
        {
            self.failed(cx, &error, writer.lost(), writer.lost());
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |dump, _| dump.count.load(Relaxed));
        handlers.write("reset_counts", |dump, _| {
            dump.count.store(0, Relaxed);
            Ok(())
        });
        handlers.read("filename", |dump, _| match dump.file_name.0.as_str() {
            "-" => "<stdout>".to_owned(),
            name => name.to_owned(),
        });
        task_handlers(handlers, |dump| &dump.task);
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        let Some(mut writer) = self.writer.lock().take() else {
            return Ok(());
        };
        // `finish` reports the error.
        let _ = writer.flush();
        let lost = writer.lost();
        writer.finish().map_err(|error| Refused(failure(&error, lost)))
    }
}

impl ToDump {
    /// Whether this element is to go on with the file of the one that it replaces, after the packets in it.
    fn goes_on_from(&self, old: &Self, options: Options) -> bool {
        let same = |writer: &Writer| writer.error().is_none() && writer.options() == options;
        self.file_name == old.file_name && old.writer.lock().as_ref().is_some_and(same)
    }

    fn refuse(&self, error: &Error) -> Refused {
        match error.kind() {
            ErrorKind::Io { action: "create" | "open", error } => {
                Refused(format!("{}: {}", self.file_name.0, os_error_text(error)))
            }
            _ => Refused(error.to_string()),
        }
    }

    /// Writes the packets of a batch. Returns how many of the first packets were written.
    fn write(&self, cx: &mut Context, batch: &Batch) -> usize {
        let mut writer = self.writer.lock();
        let Some(writer) = writer.as_mut().filter(|writer| writer.error().is_none()) else {
            return 0;
        };
        let mut written = 0_u64;
        let mut result = Ok(());
        for packet in batch {
            result = self.write_packet(writer, packet, cx.now());
            if result.is_err() {
                break;
            }
            written += 1;
        }
        if self.unbuffered && result.is_ok() {
            result = writer.flush();
        }
        if let Err(error) = result {
            // The packets buffered last are lost, which may include packets of earlier batches.
            let lost = writer.lost();
            let of_batch = lost.min(written);
            written -= of_batch;
            self.failed(cx, &error, lost, lost - of_batch);
        }
        self.count.fetch_add(written, Relaxed);
        if written > 0 && !self.unbuffered {
            self.flush.written(cx);
        }
        written as usize
    }

    /// Reports that the file cannot be written, and how many packets are lost; so many of them were counted already.
    fn failed(&self, cx: &Context, error: &Error, lost: u64, counted: u64) {
        let count = |count: u64| Some(count.saturating_sub(counted));
        let _ = self.count.fetch_update(Relaxed, Relaxed, count);
        let router = cx.router();
        let failure = failure(error, lost);
        router.chatter(&format!("{}: {failure}", router.name_of(cx.element())));
    }

    fn write_packet(
        &self,
        writer: &mut Writer,
        packet: &Packet,
        now: Timestamp,
    ) -> Result<(), Error> {
        let time = if packet.timestamp().is_zero() { now } else { packet.timestamp() };
        let extra = if self.extra_length { packet.extra_length() } else { 0 };
        let length = u32::try_from(packet.len()).unwrap_or(u32::MAX).saturating_add(extra);
        writer.write(u64::try_from(time.as_nanos()).unwrap_or(0), length, packet.data())
    }
}

/// Describes why nothing more is written, and how many packets that lost.
fn failure(error: &Error, lost: u64) -> String {
    match lost {
        0 => error.to_string(),
        1 => format!("{error}; a packet that was still to be written is lost"),
        _ => format!("{error}; {lost} packets that were still to be written are lost"),
    }
}

impl Encap {
    /// Reads ENCAP and USE_ENCAP_FROM.
    fn configure(args: &mut Args<'_>) -> Self {
        let given = args.with(
            "ENCAP",
            Kind::Positional,
            "a link type, such as ‘ETHER’ or ‘IP’",
            |text: &ArgText, _: &Scope<'_>| {
                text.as_str().parse::<LinkType>().map_err(|error| ArgError::new(error.to_string()))
            },
        );
        let sources = args.with(
            "USE_ENCAP_FROM",
            Kind::Keyword,
            "names of elements",
            |text: &ArgText, scope: &Scope<'_>| {
                let words = text.words();
                words
                    .iter()
                    .map(|word| ElementRef::parse(word, scope).map(|element| element.0))
                    .collect::<Result<Vec<usize>, ArgError>>()
            },
        );
        if args.is_given("ENCAP") && args.is_given("USE_ENCAP_FROM") {
            args.error("USE_ENCAP_FROM", "specify at most one of ‘ENCAP’ and ‘USE_ENCAP_FROM’");
        }
        match sources {
            Some(sources) => Self::From(sources),
            None => Self::Given(given.unwrap_or(LinkType::ETHER)),
        }
    }

    fn link_type(&self, router: &Router) -> Result<LinkType, Refused> {
        let sources = match self {
            Self::Given(link_type) => return Ok(*link_type),
            Self::From(sources) => sources,
        };
        let mut types = Vec::new();
        for &source in sources {
            let name = router.name_of(source);
            let encap = router
                .read_of(source, "encap", b"")
                .map_err(|error| Refused(format!("‘{name}’: {error}")))?;
            let encap = String::from_utf8_lossy(&encap).into_owned();
            let link_type = encap.parse::<LinkType>().map_err(|_| {
                Refused(format!("‘{name}.encap’ did not return a valid encapsulation type"))
            })?;
            types.push((name, link_type));
        }
        let (_, link_type) = *types
            .first()
            .ok_or_else(|| Refused("element names missing after ‘USE_ENCAP_FROM’".to_owned()))?;
        if types.iter().all(|&(_, other)| other == link_type) {
            return Ok(link_type);
        }
        let types: Vec<String> =
            types.iter().map(|(name, link_type)| format!("‘{name}’ has {link_type}")).collect();
        Err(Refused(format!("source encapsulation types disagree: {}", types.join(", "))))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_io::pcap::Reader;

    use super::*;

    fn write(arguments: &str, outputs: usize, packets: Vec<Packet>) -> (Rig, Reader) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("out.pcap");
        let element = format!("ToDump({} {arguments})", path.display());
        let mut rig = Rig::new(&element, 1, outputs).unwrap();
        let n = packets.len();
        let out = rig.push_packets(0, packets);
        assert!(out.iter().all(|port| port.len() == n));
        assert!(rig.stats().balanced());
        assert_eq!(rig.read("count").unwrap(), n.to_string());
        let reader = Reader::open(&path);
        // Even an unflushed file has its header.
        (rig, reader.unwrap())
    }

    fn packet(length: usize, nanos: i64) -> Packet {
        let mut packet = Packet::with_len(length).unwrap();
        packet.set_timestamp(Timestamp::from_nanos(nanos));
        packet
    }

    #[test]
    fn writes_times_and_lengths() {
        let time = 1_700_000_000_123_456_789;
        let mut long = packet(60, time);
        long.set_extra_length(40);
        let arguments = ", NANO true, UNBUFFERED true";
        let (_rig, mut file) = write(arguments, 0, vec![long, packet(2100, 0)]);
        let record = file.next().unwrap().unwrap();
        assert_eq!(record.timestamp, time as u64);
        assert_eq!((record.data.len(), record.original_len), (60, 100));
        let record = file.next().unwrap().unwrap();
        // Virtual time starts at this time.
        assert_eq!(record.timestamp, 1_000_000_000_000_000_000);
        assert_eq!((record.data.len(), record.original_len), (2000, 2100));
        assert!(file.next().unwrap().is_none());
    }

    #[test]
    fn passes_packets_on() {
        let mut long = packet(3000, 1_234_567);
        long.set_extra_length(40);
        let arguments = ", 0, IP, EXTRA_LENGTH false, UNBUFFERED true";
        let (_rig, mut file) = write(arguments, 1, vec![long]);
        assert_eq!((file.link_type(), file.snap_len()), (Some(LinkType::IP), MAX_CAPTURED));
        let record = file.next().unwrap().unwrap();
        assert_eq!(record.timestamp, 1_234_000);
        assert_eq!((record.data.len(), record.original_len), (3000, 3000));
    }

    #[test]
    fn packets_are_dropped_when_the_file_cannot_be_written() {
        let mut rig = Rig::new("ToDump(/dev/full)", 1, 0);
        assert!(rig.is_err(), "the file header is written at once");
        // A pipe without a reader fails later.
        let (reader, writer) = std::io::pipe().unwrap();
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        rig = Rig::new(&format!("ToDump({path}, UNBUFFERED true)"), 1, 0);
        let mut rig = rig.unwrap();
        drop(reader);
        rig.push(0, &["a", "b"]);
        rig.push(0, &["c"]);
        assert_eq!(rig.stats().drops, [(Reason::DeviceError, 3)]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn buffered_packets_that_cannot_be_written_count_as_lost() {
        let (reader, writer) = std::io::pipe().unwrap();
        let path = format!("/dev/fd/{}", std::os::fd::AsRawFd::as_raw_fd(&writer));
        let mut rig = Rig::new(&format!("ToDump({path})"), 1, 0).unwrap();
        drop(reader);
        // 256 KiB are buffered before the first write.
        let packets = |n: usize| (0..n).map(|_| packet(2000, 1)).collect::<Vec<_>>();
        rig.push_packets(0, packets(100));
        assert_eq!(rig.read("count").unwrap(), "100");
        rig.push_packets(0, packets(100));
        assert_eq!(rig.read("count").unwrap(), "0");
        // Packets buffered from batches before the failing one had been counted as written.
        let drops = rig.stats().drops;
        let [(Reason::DeviceError, dropped)] = drops[..] else { panic!("{drops:?}") };
        assert!((70..=100).contains(&dropped), "{dropped}");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn rejects_bad_link_types() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().display();
        let refused = |arguments: &str| Rig::new(&format!("ToDump({path}, {arguments})"), 1, 0);
        assert!(refused("ENCAP NOTHING").is_err());
        assert!(refused("USE_ENCAP_FROM nobody").is_err());
        // The test's own feed has no such handler.
        assert!(refused("USE_ENCAP_FROM feed0").is_err());
        assert!(refused("ENCAP IP, USE_ENCAP_FROM x").is_err());
    }
}
