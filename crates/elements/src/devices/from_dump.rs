//! FromDump - reads packets from a capture file
//!
//! # Synopsis
//! `FromDump(FILENAME [, TIMING, keywords STOP, ACTIVE, SAMPLE, FORCE_IP, FORCE_LEN, START,
//! START_AFTER, END, END_AFTER, INTERVAL, END_CALL, FILEPOS, MMAP, PRELOAD, BURST, ACCELERATION,
//! TIMING_FNT])`
//!
//! # Description
//! Reads packets from a file written by `tcpdump -w`, Wireshark or ToDump, and emits them. It reads
//! pcap files in either byte order with microsecond or nanosecond timestamps, and pcapng files. The
//! files may be compressed with gzip, bzip2, xz or zstd. `-` is standard input.
//!
//! Packets keep their timestamps. The extra length annotation holds the number of bytes that were not
//! captured. The MAC header annotation is set or, for raw IP files, the IP header annotations.
//!
//! It emits packets as fast as the router accepts them, BURST at a time. If the output leads to Queues,
//! it waits while they are full, and emits single packets unless BURST is given, so that no packet is
//! lost.
//!
//! A truncated or corrupt file is read up to the damage. The error is reported when the program ends,
//! and the exit status indicates failure.
//!
//! # Arguments
//! - FILENAME: the file. Positional, mandatory.
//! - TIMING: whether to keep the recorded intervals between packets; the first packet is emitted at
//!   once. With a push output, the element spins for the last 0.2 ms of each wait, so that packets
//!   leave within some microseconds of their time. Positional, default false.
//! - STOP: whether to stop the program after the last packet, or at the end given by END, END_AFTER or
//!   INTERVAL. Default false.
//! - ACTIVE: whether it emits packets. Default true.
//! - SAMPLE: the probability that a packet is emitted, 0 to 1. Default 1.
//! - FORCE_IP: whether to emit only packets with an IP header, with their IP header annotations set.
//!   Others go to output 1. Default false; always true for raw IP files.
//! - FORCE_LEN: the length to give to packets, 60 to 9000 bytes including an Ethernet header; 0 for the
//!   length that they had before the capture truncated them. Longer packets are cut, shorter ones are
//!   padded with zeros, and the length in the IP header is adjusted. -1, the default, keeps the
//!   captured length.
//! - START: emits packets from this time on, in seconds since 1970.
//! - START_AFTER: skips the packets of this many seconds from the start of the file.
//! - END: ends at the first packet of this time or later.
//! - END_AFTER: ends at the first packet that is this many seconds or more after the first packet of
//!   the file.
//! - INTERVAL: ends at the first packet that is this many seconds or more after the start. At most one
//!   of START and START_AFTER and one of END, END_AFTER and INTERVAL may be given.
//! - END_CALL: write handler to call at the end, such as `"counter.reset"`. By default, if END,
//!   END_AFTER or INTERVAL is given, `active false` of this element. Not together with STOP.
//! - FILEPOS: byte of the (uncompressed) file to start at, which must be the start of a packet record.
//! - MMAP: whether to map the file instead of reading it. Default false. If another program truncates a
//!   mapped file, the program is killed.
//! - PRELOAD: bytes of packets to read into memory before the first packet is emitted; -1 for the whole
//!   file. Default 0.
//! - BURST: packets emitted at a time, 1 to 256. Default 32, or 1 in front of Queues.
//! - ACCELERATION: with TIMING, the playback speed in percent of the recorded speed. Default 100.
//! - TIMING_FNT: with TIMING, the playback speed as a function of time, in the syntax of ReplayUnqueue;
//!   when it reaches 0, the element becomes inactive and the program stops.
//!
//! # Ports
//! Output 0 is agnostic. Output 1 is push and optional: with FORCE_IP, it emits packets without an IP
//! header.
//!
//! # Handlers
//! - `count` (read): packets emitted by output 0. `reset_counts` (write): resets it to 0.
//! - `active` (read, write): whether it emits packets.
//! - `stop` (write): deactivates the element and stops the program.
//! - `encap` (read): the link type, in the form that ToDump's ENCAP accepts.
//! - `filename` (read): the file.
//! - `filesize` (read): its length in bytes; `-` if unknown, as for a compressed file.
//! - `filepos` (read, write): byte of the (uncompressed) file that is read next.
//! - `packet_filepos` (read): file position of the packet emitted last.
//! - `sampling_prob` (read): the probability SAMPLE, as rounded internally.
//! - `extend_interval` (write): moves the end by this many seconds, and activates the element.
//! - `reset_timing` (write): makes the next packet due at once; use it after writing `filepos`.
//! - `scheduled`, `home_thread` (read, write): its task, and the thread that runs it.
//!
//! # Drops
//! - filtered: with FORCE_IP, the packet has no IP header and output 1 is not connected.
//! - no buffer: there was no free packet.
//!
//! # Example
//! ```click
//! FromDump(trace.pcap, STOP true, FORCE_IP true) -> ToDump(ip-only.pcap);
//! ```
//!
//! # See also
//! ToDump, FromDevice, ReplayUnqueue

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};

use millrace_core::args::{FileName, Kind, Seconds, UFixed};
use millrace_core::element::{HandlerCall, Listening};
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, HandlerError, Handlers, Init, Lock, Need,
    Notifier, Reason, Refused, Setup, Task, Timer, register,
};
use millrace_io::pcap::{Access, Error, LinkType, Reader};

use super::playback::expression::Expression;
use super::playback::force_len::ForceLen;
use super::playback::pace::{self, Pace};
use super::playback::trace::{CERTAIN, Loaded, Pause, Trace, Wishes, print_name, refuse};
use super::playback::window::Window;
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct FromDump {
    file_name: FileName,
    access: Access,
    start_at: u64,
    wishes: Wishes,
    burst: Option<usize>,
    end: Option<End>,
    /// Whether the end has been handled.
    ended: AtomicBool,
    active: AtomicBool,
    count: AtomicU64,
    packet_position: AtomicU64,
    /// Behind a lock for the handlers; only one thread reads packets.
    trace: Lock<Trace>,
    task: Task,
    timer: Timer,
    /// Tells pullers whether there are packets.
    notifier: Notifier,
    room: OnceLock<Listening>,
}

/// The action at the end.
enum End {
    Stop,
    Deactivate,
    Call(HandlerCall),
}

const DEFAULT_BURST: usize = 32;

register!(FromDump, "from_dump.rs");

impl Element for FromDump {
    const CLASS: Class = Class::new("FromDump", "0/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let file_name: FileName = args.mandatory("FILENAME");
        args.needs(Need::read(&file_name));
        let timing = args.positional("TIMING", false);
        let stop = args.keyword("STOP", false);
        let active = args.keyword("ACTIVE", true);
        let sample = sample(args);
        let force_ip = args.keyword("FORCE_IP", false);
        let force_len = force_len(args);
        let window = Window::configure(args);
        let call: Option<HandlerCall> = args.optional_keyword("END_CALL");
        let start_at = args.keyword("FILEPOS", 0);
        let map = args.keyword("MMAP", false);
        let preload: i64 = args.keyword("PRELOAD", 0);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let pace = pace(args, timing);
        if stop && call.is_some() {
            args.error("END_CALL", "END_CALL and STOP are mutually exclusive");
        }
        args.complete()?;
        let end = match call {
            Some(call) => Some(End::Call(call)),
            None if stop => Some(End::Stop),
            None => window.has_end().then_some(End::Deactivate),
        };
        let preload = usize::try_from(preload).unwrap_or(usize::MAX);
        Ok(Self {
            file_name,
            access: if map { Access::Map } else { Access::Read },
            start_at,
            wishes: Wishes { force_ip, force_len, sample, preload },
            burst: burst.map(|burst| burst as usize),
            end,
            ended: false.into(),
            active: active.into(),
            count: 0.into(),
            packet_position: 0.into(),
            trace: Lock::new(Trace::new(window, pace)),
            task: setup.task(),
            timer: setup.timer(),
            notifier: Notifier::default(),
            room: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        if let Some(End::Call(call)) = &self.end {
            call.check_write(init.router(), init.id())
                .map_err(|error| Refused(format!("END_CALL: {error}")))?;
        }
        self.open().map_err(|error| refuse(init, print_name(&self.file_name), &error))?;
        let helper = self.trace.lock().reader.as_ref().and_then(Reader::helper);
        init.needs(helper.map(|program| Need::Run(program.to_owned())));
        if !init.is_pull_output(0) {
            // An element is initialised once.
            let _ = self.room.set(init.listen_for_room(0, &self.task));
        }
        self.wake();
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        if !self.active.load(Relaxed) {
            return self.notifier.sleep_unless(|| self.active.load(Relaxed));
        }
        match self.fill(cx, max, batch) {
            Pause::Until(time) => {
                self.notifier.sleep();
                self.timer.schedule_at(time);
            }
            Pause::End if batch.is_empty() => {
                self.notifier.sleep();
                self.end(cx);
            }
            Pause::Stop => self.stop(cx),
            Pause::Enough | Pause::End => {}
        }
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let Some(room) = self.room.get().filter(|_| self.active.load(Relaxed)) else {
            self.task.rest();
            return false;
        };
        if !room.active(cx.router()) {
            room.rest(&self.task, cx.router());
            return false;
        }
        // A queue reports that it has room, not how much.
        let default = if room.is_bounded() { 1 } else { DEFAULT_BURST };
        let mut batch = cx.take_batch();
        if self.trace.lock().pace.is_some() {
            cx.refresh_now();
        }
        let pause = self.fill(cx, self.burst.unwrap_or(default), &mut batch);
        let n = batch.len();
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        match pause {
            Pause::Until(time) => return pace::wait(cx, &self.task, &self.timer, time) || n > 0,
            Pause::Stop => {
                self.task.rest();
                self.stop(cx);
            }
            // The emitted packets arrive before the end is handled.
            Pause::End if n == 0 => {
                self.task.rest();
                self.end(cx);
            }
            Pause::Enough | Pause::End => {}
        }
        n > 0
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.wake();
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |dump, _| dump.count.load(Relaxed));
        handlers.write("reset_counts", |dump, _| {
            dump.count.store(0, Relaxed);
            Ok(())
        });
        handlers.read("active", |dump, _| dump.active.load(Relaxed));
        handlers.write("active", |dump, call| {
            dump.set_active(call.parse()?);
            Ok(())
        });
        handlers.write("stop", |dump, call| {
            dump.active.store(false, Relaxed);
            call.router().request_stop();
            Ok(())
        });
        handlers.try_read("encap", |dump, _| {
            dump.read_file(|file| {
                file.link_type().unwrap_or(LinkType::ETHER).canonical().to_string()
            })
        });
        handlers.read("filename", |dump, _| print_name(&dump.file_name).to_owned());
        handlers.try_read("filesize", |dump, _| {
            dump.read_file(|file| file.file_len().map_or("-".to_owned(), |len| len.to_string()))
        });
        handlers.try_read("filepos", |dump, _| dump.read_file(Reader::position));
        handlers.write("filepos", |dump, call| dump.seek(call.parse()?));
        handlers.read("packet_filepos", |dump, _| dump.packet_position.load(Relaxed));
        handlers.read("sampling_prob", |dump, _| UFixed::<28>(dump.wishes.sample).to_string());
        handlers.write("extend_interval", |dump, call| {
            let time: Seconds = call.parse()?;
            if !dump.trace.lock().window.extend(time.as_duration().into()) {
                return Err("there is no END, END_AFTER or INTERVAL to extend".into());
            }
            dump.set_active(true);
            Ok(())
        });
        handlers.write("reset_timing", |dump, _| {
            dump.trace.lock().pace.iter_mut().for_each(Pace::reset);
            dump.wake();
            Ok(())
        });
        task_handlers(handlers, |dump| &dump.task);
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }

    fn cleanup(&self, _router: &millrace_core::Router) -> Result<(), Refused> {
        let mut trace = self.trace.lock();
        trace.reader = None;
        trace.forget();
        Ok(())
    }
}

impl FromDump {
    fn open(&self) -> Result<(), Error> {
        let mut reader = Reader::open_with(self.file_name.as_path(), self.access)?;
        if self.start_at > 0 {
            reader.seek(self.start_at)?;
        }
        self.trace.lock().reader = Some(reader);
        Ok(())
    }

    /// Adds up to `max` packets to a batch, and emits packets without an IP header by output 1.
    fn fill(&self, cx: &mut Context, max: usize, batch: &mut Batch) -> Pause {
        let max = max.min(batch.room());
        let mut without_ip = 0;
        let mut trace = self.trace.lock();
        let pause = loop {
            // A full batch of packets for output 1 ends the burst, too.
            if batch.len() >= max || without_ip >= Batch::CAPACITY {
                break Pause::Enough;
            }
            match trace.next(&self.wishes, cx) {
                Ok(Loaded { packet, has_ip: true, position }) => {
                    self.packet_position.store(position, Relaxed);
                    // There is room.
                    let _ = batch.push(packet);
                }
                Ok(Loaded { packet, .. }) => {
                    without_ip += 1;
                    cx.push_or_drop(1, packet, Reason::Filtered);
                }
                Err(pause) => break pause,
            }
        };
        drop(trace);
        cx.created(batch.len() + without_ip);
        self.count.fetch_add(batch.len() as u64, Relaxed);
        pause
    }

    /// Performs the end action, once.
    fn end(&self, cx: &mut Context) {
        if self.ended.swap(true, Relaxed) {
            return;
        }
        let mut trace = self.trace.lock();
        if trace.has_pending() {
            // The pending packet lies beyond the end, which takes effect only once.
            trace.window.pass_end();
        }
        drop(trace);
        match &self.end {
            None => {}
            Some(End::Deactivate) => self.active.store(false, Relaxed),
            Some(End::Stop) => {
                self.active.store(false, Relaxed);
                cx.router().request_stop();
            }
            Some(End::Call(call)) => {
                let router = cx.router().clone();
                if let Err(error) = call.write(&router, cx.element()) {
                    router.chatter(&format!("{}: {error}", router.name_of(cx.element())));
                }
            }
        }
    }

    /// Stops because the pace has reached 0.
    fn stop(&self, cx: &Context) {
        if self.active.swap(false, Relaxed) {
            cx.router().request_stop();
        }
    }

    fn set_active(&self, active: bool) {
        self.active.store(active, Relaxed);
        self.ended.store(false, Relaxed);
        self.wake();
    }

    /// Starts emitting packets if the element is active.
    fn wake(&self) {
        if !self.active.load(Relaxed) {
            return;
        }
        match self.room.get() {
            Some(_) => self.task.schedule(),
            None => self.notifier.wake_unlocked(),
        }
    }

    fn read_file<T>(&self, read: impl FnOnce(&Reader) -> T) -> Result<T, HandlerError> {
        self.trace.lock().reader.as_ref().map(read).ok_or_else(|| "the file is not open".into())
    }

    fn seek(&self, position: u64) -> Result<(), HandlerError> {
        let mut trace = self.trace.lock();
        trace.forget();
        let reader = trace.reader.as_mut().ok_or("the file is not open")?;
        let result = match position {
            0 => reader.rewind(),
            _ => reader.seek(position),
        };
        drop(trace);
        result.map_err(|error| HandlerError::Refused(error.to_string()))?;
        self.ended.store(false, Relaxed);
        self.wake();
        Ok(())
    }
}

/// Reads SAMPLE.
fn sample(args: &mut Args<'_>) -> u32 {
    let probability: f64 = args.keyword("SAMPLE", 1.0);
    if probability.is_nan() || probability < 0.0 {
        args.error("SAMPLE", "SAMPLE must be between 0 and 1");
    } else if probability > 1.0 {
        args.warn("SAMPLE", "SAMPLE probability reduced to 1");
    } else if probability == 0.0 {
        args.warn("SAMPLE", "SAMPLE probability is 0; emitting no packets");
    }
    (probability.clamp(0.0, 1.0) * f64::from(CERTAIN)).round() as u32
}

/// Reads FORCE_LEN.
fn force_len(args: &mut Args<'_>) -> Option<ForceLen> {
    const LENGTHS: std::ops::RangeInclusive<i32> = 60..=9000;
    match args.keyword("FORCE_LEN", -1) {
        -1 => None,
        0 => Some(ForceLen::Original),
        length if LENGTHS.contains(&length) => Some(ForceLen::Bytes(length as usize)),
        _ => {
            args.error("FORCE_LEN", "FORCE_LEN must be -1, 0, or a length of 60 to 9000 bytes");
            None
        }
    }
}

/// Reads ACCELERATION and TIMING_FNT.
fn pace(args: &mut Args<'_>, timing: bool) -> Option<Pace> {
    let acceleration = args.in_range("ACCELERATION", Kind::Keyword, 1..=1_000_000u32);
    let text: String = args.keyword("TIMING_FNT", String::new());
    if text.trim().is_empty() {
        return timing.then(|| Pace::new(acceleration.unwrap_or(100)));
    }
    match Expression::parse(&text) {
        Ok(function) => timing.then(|| Pace::of(function)),
        Err(wrong) => {
            args.error("TIMING_FNT", format!("TIMING_FNT: {wrong}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason, Timestamp};
    use millrace_io::pcap::{LinkType, Options, Resolution, Writer};

    /// A capture whose packets contain their number, one per second starting at 100 s.
    fn trace(packets: u8, link_type: LinkType) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        let resolution = Resolution::Nanoseconds;
        let options = Options { link_type, resolution, ..Options::default() };
        let mut writer = Writer::create(file.path(), options).unwrap();
        for n in 0..packets {
            let time = (100 + u64::from(n)) * 1_000_000_000 + 1;
            writer.write(time, 70, &[n; 60]).unwrap();
        }
        writer.finish().unwrap();
        file
    }

    fn play(packets: u8, arguments: &str, outputs: usize) -> Rig {
        let file = trace(packets, LinkType::ETHER);
        let element = format!("FromDump({}, {arguments})", file.path().display());
        Rig::new(&element, 0, outputs).unwrap()
    }

    fn numbers(packets: &[Packet]) -> Vec<u8> {
        packets.iter().map(|packet| packet.data()[0]).collect()
    }

    fn now(rig: &mut Rig) -> Vec<u8> {
        numbers(&rig.pass(Timestamp::ZERO)[0])
    }

    #[test]
    fn packets_keep_their_bytes_times_and_lengths() {
        let mut rig = play(3, "", 1);
        let out = rig.pass(Timestamp::ZERO);
        assert_eq!(numbers(&out[0]), [0, 1, 2]);
        let last = &out[0][2];
        assert_eq!(last.data(), [2; 60]);
        assert_eq!(last.timestamp(), Timestamp::new(102, 1));
        assert_eq!((last.extra_length(), last.mac_header()), (10, Some(0)));
        assert!(rig.stats().balanced());
        for (handler, value) in [
            ("count", "3"),
            ("encap", "ETHER"),
            ("filesize", "252"),
            ("filepos", "252"),
            ("packet_filepos", "176"),
            ("sampling_prob", "1"),
            ("active", "true"),
        ] {
            assert_eq!(rig.read(handler).unwrap(), value, "{handler}");
        }
        rig.write("reset_counts", "").unwrap();
        assert_eq!(rig.read("count").unwrap(), "0");
    }

    #[test]
    fn keeps_the_recorded_intervals() {
        let mut rig = play(4, "TIMING true, ACCELERATION 200", 1);
        assert_eq!(now(&mut rig), [0]);
        assert_eq!(numbers(&rig.pass(Timestamp::from_millis(499))[0]), [0u8; 0]);
        assert_eq!(numbers(&rig.pass(Timestamp::from_millis(1))[0]), [1]);
        assert_eq!(numbers(&rig.pass(Timestamp::from_secs(1))[0]), [2, 3]);
        rig.write("active", "false").unwrap();
        rig.write("filepos", "24").unwrap();
        rig.write("reset_timing", "").unwrap();
        rig.write("active", "true").unwrap();
        assert_eq!(now(&mut rig), [0]);
    }

    #[test]
    fn the_pace_is_a_function_of_time() {
        // As recorded for two seconds, then twice as fast, then not at all.
        let function = "TIMING true, TIMING_FNT \"100 + 100 * (x >= 2) - 200 * floor(x / 4)\"";
        assert!(Rig::new(&format!("FromDump(x, {function})"), 0, 1).is_err());
        let function =
            "TIMING true, TIMING_FNT \"100 * (1 + min(1, floor(x / 2))) - 200 * floor(x / 4)\"";
        let mut rig = play(9, function, 1);
        assert_eq!(now(&mut rig), [0]);
        assert_eq!(numbers(&rig.pass(Timestamp::from_millis(2001))[0]), [1, 2]);
        assert_eq!(numbers(&rig.pass(Timestamp::from_millis(1000))[0]), [3, 4]);
        assert_eq!(numbers(&rig.pass(Timestamp::from_millis(2000))[0]), [5]);
        now(&mut rig);
        assert!(!rig.router().is_running());
        assert_eq!(rig.read("active").unwrap(), "false");
    }

    #[test]
    fn files_are_preloaded() {
        for (preload, position) in [("-1", "252"), ("61", "176"), ("0", "100")] {
            let mut rig = play(3, &format!("PRELOAD {preload}, TIMING true"), 1);
            assert_eq!(now(&mut rig), [0]);
            // Preloaded packets have been read from the file, and so has a packet that is not due
            // yet.
            let position = if preload == "0" { "176" } else { position };
            assert_eq!(rig.read("filepos").unwrap(), position, "{preload}");
            assert_eq!(numbers(&rig.pass(Timestamp::from_secs(2))[0]), [1, 2]);
            assert_eq!(rig.read("count").unwrap(), "3");
            rig.write("active", "false").unwrap();
            rig.write("filepos", "0").unwrap();
            rig.write("reset_timing", "").unwrap();
            rig.write("active", "true").unwrap();
            assert_eq!(now(&mut rig), [0]);
            assert!(rig.stats().balanced());
        }
    }

    #[test]
    fn lengths_are_forced() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::create(file.path(), Options::default()).unwrap();
        let mut ip = [0; 20];
        ip[0] = 0x45;
        ip[2..4].copy_from_slice(&500u16.to_be_bytes());
        let sum = millrace_core::checksum::checksum(&ip);
        ip[10..12].copy_from_slice(&sum.to_be_bytes());
        let frame = [&[0; 12][..], &[8, 0], &ip, &[7; 66]].concat();
        writer.write(1, 514, &frame).unwrap();
        writer.finish().unwrap();
        for (length, bytes, extra) in [(-1, 100, 414), (0, 514, 0), (60, 60, 454), (9000, 9000, 0)]
        {
            let element = format!("FromDump({}, FORCE_LEN {length})", file.path().display());
            let mut rig = Rig::new(&element, 0, 1).unwrap();
            let packet = &rig.pass(Timestamp::ZERO)[0][0];
            assert_eq!((packet.len(), packet.extra_length()), (bytes, extra), "{length}");
            let header = &packet.data()[14..34];
            assert!(millrace_core::checksum::verify(header), "{length}");
            let total = usize::from(u16::from_be_bytes([header[2], header[3]]));
            assert_eq!(total, if length < 0 { 500 } else { bytes - 14 }, "{length}");
            let filled = packet.data().get(100..).unwrap_or_default();
            assert!(filled.iter().all(|byte| *byte == 0), "{length}");
        }
    }

    #[test]
    fn ends_at_the_end_time_and_continues_when_extended() {
        let mut rig = play(6, "START_AFTER 1, END_AFTER 3", 1);
        assert_eq!(now(&mut rig), [1, 2]);
        assert_eq!(rig.read("active").unwrap(), "false");
        rig.write("extend_interval", "1s").unwrap();
        assert_eq!(now(&mut rig), [3]);
        rig.write("active", "true").unwrap();
        assert_eq!(now(&mut rig), [4, 5]);
        assert!(play(1, "", 1).write("extend_interval", "1").is_err());
    }

    #[test]
    fn stops_or_calls_a_handler_at_the_end() {
        let mut rig = play(3, "STOP true", 1);
        assert_eq!(now(&mut rig), [0, 1, 2]);
        now(&mut rig);
        assert!(!rig.router().is_running());
        let mut rig = play(3, "END_CALL x.reset_counts, BURST 2", 1);
        assert_eq!(now(&mut rig), [0, 1, 2]);
        assert_eq!(rig.read("count").unwrap(), "0");
        assert!(rig.router().is_running());
    }

    #[test]
    fn filepos_sets_the_read_position() {
        let mut rig = play(4, "FILEPOS 100, ACTIVE false", 1);
        assert_eq!(now(&mut rig), [0u8; 0]);
        rig.write("active", "true").unwrap();
        assert_eq!(now(&mut rig), [1, 2, 3]);
        rig.write("filepos", "0").unwrap();
        assert_eq!(now(&mut rig), [0, 1, 2, 3]);
        assert!(rig.write("filepos", "-1").is_err());
    }

    #[test]
    fn samples_packets() {
        let mut rig = play(250, "SAMPLE 0.5", 1);
        let n = now(&mut rig).len();
        assert!((75..175).contains(&n), "{n}");
        let mut rig = play(9, "SAMPLE 0", 1);
        assert_eq!(now(&mut rig), [0u8; 0]);
        assert_eq!(play(1, "SAMPLE 7", 1).read("sampling_prob").unwrap(), "1");
    }

    #[test]
    fn packets_without_ip_go_to_output_1() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let mut writer = Writer::create(file.path(), Options::default()).unwrap();
        let ip = [&[0; 12][..], &[8, 0, 0x45, 0, 0, 20], &[0; 16]].concat();
        for data in [&ip[..], &[0; 60], &ip] {
            writer.write(1, data.len() as u32, data).unwrap();
        }
        writer.finish().unwrap();
        let element = format!("FromDump({}, FORCE_IP true)", file.path().display());
        let mut rig = Rig::new(&element, 0, 2).unwrap();
        let out = rig.pass(Timestamp::ZERO);
        assert_eq!((out[0].len(), out[1].len()), (2, 1));
        assert_eq!(out[0][0].network_offset(), Some(14));
        assert_eq!(rig.read("count").unwrap(), "2");
        assert!(rig.stats().balanced());
        let mut rig = Rig::new(&element, 0, 1).unwrap();
        assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 2);
        assert_eq!(rig.stats().drops, [(Reason::Filtered, 1)]);
        // FORCE_IP always applies to raw IP files.
        let file = trace(2, LinkType::IP);
        let mut rig = Rig::new(&format!("FromDump({})", file.path().display()), 0, 1).unwrap();
        assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 0);
        assert_eq!(rig.read("encap").unwrap(), "IP");
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in [
            "FromDump",
            "FromDump(/no/such/file)",
            "FromDump(/dev/null)",
            "FromDump(x, START 1, START_AFTER 1)",
            "FromDump(x, STOP true, END_CALL x.stop)",
            "FromDump(x, SAMPLE -1)",
            "FromDump(x, BURST 0)",
            "FromDump(x, ACCELERATION 0)",
            "FromDump(x, FORCE_LEN 59)",
            "FromDump(x, TIMING true, TIMING_FNT \"2 +\")",
        ] {
            assert!(Rig::new(bad, 0, 1).is_err(), "{bad}");
        }
    }
}
