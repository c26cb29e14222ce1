//! FromIPSummaryDump - makes packets of the lines of a summary dump
//!
//! # Synopsis
//! `FromIPSummaryDump(FILENAME [, keywords STOP, TIMING, ACTIVE, ZERO, CHECKSUM, PROTO, MULTIPACKET,
//! SAMPLE, CONTENTS, FLOWID, ALLOW_NONEXISTENT, DATA])`
//!
//! # Description
//! Reads a file that ToIPSummaryDump wrote, or one like it, and makes a packet of each line. A line
//! `!data` names the fields of the lines that follow; ToIPSummaryDump's manual says which there are. A
//! field that is `-`, or missing at the end of a line, is left as it is. Packets are of IP version 4,
//! their protocol is TCP and their time to live 100 unless a field says otherwise; headers are as long as
//! the fields demand. What the packet had beyond the bytes that the fields tell is its extra length
//! annotation. The file may be packed with gzip, bzip2, xz or zstd; `-` is standard input.
//!
//! Other lines: `!flowid SRC SPORT DST DPORT [PROTO]` gives addresses and ports to packets that have no
//! others, `!proto PROTO` a protocol, `!aggregate NUMBER` an aggregate annotation; after `!binary` the
//! file consists of binary records. Lines that begin with `#`, and others that begin with `!`, are passed
//! over. The first line that is no packet is complained of.
//!
//! It sends one packet each time that it is its turn.
//!
//! # Arguments
//! - FILENAME: the file. Positional; it or DATA must be given.
//! - STOP: whether to stop the program at the end. Default false.
//! - TIMING: whether to keep the distances between packets that their timestamps tell; the first is sent
//!   at once. Default false.
//! - ACTIVE: whether it sends. Default true.
//! - ZERO: whether bytes that no field tells are zero. Here they always are. Default true.
//! - CHECKSUM: whether IP, TCP, UDP and ICMP checksums are computed, and packets are as long as their IP
//!   header says. Default false.
//! - PROTO: the protocol of packets that do not tell theirs. Default 6, TCP.
//! - MULTIPACKET: whether a line that stands for several packets, by its field `count`, is sent as so
//!   many. Default false.
//! - SAMPLE: the probability with which each packet is sent, 0 to 1. Default 1.
//! - CONTENTS, DEFAULT_CONTENTS, FIELDS, DEFAULT_FIELDS: names of fields, for files without a `!data`
//!   line before their first packet.
//! - FLOWID, DEFAULT_FLOWID: what a line `!flowid` would say.
//! - ALLOW_NONEXISTENT: whether a file that is not there, or empty, is as good as one without packets.
//!   Default false.
//! - DATA: the lines themselves, instead of a file.
//!
//! # Ports
//! One agnostic output.
//!
//! # Handlers
//! - `sampling_prob` (read): the probability of SAMPLE, as it is rounded.
//! - `active` (read, write): whether it sends.
//! - `encap` (read): `IP`, for ToDump's USE_ENCAP_FROM.
//! - `filename` (read): the file.
//! - `filesize` (read): its length in bytes; `-` where it has none, such as a packed file.
//! - `filepos` (read): byte of the (unpacked) file that is read next.
//! - `stop` (write): deactivates it and stops the program.
//! - `scheduled`, `home_thread` (read, write): its task, and the thread that runs it.
//!
//! # Drops
//! - no buffer: there was no memory for a packet.
//! - filtered: a packet of several, which SAMPLE left out.
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

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};

use millrace_core::args::{FileName, Raw, UFixed};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Notifier, Packet, Reason, Refused,
    Router, Setup, Task, Timer, register,
};

use super::lines::{Failure, LineFile};
use super::reader::{Found, Remark, SummaryReader};
use super::several::{Several, Split};
use crate::devices::pace::{self, Due, Pace};
use crate::standard::supply::task_handlers;

/// The element; its manual is at the top of the file.
pub struct FromIpSummaryDump {
    /// Empty where DATA is given.
    file_name: String,
    stop: bool,
    multipacket: bool,
    allow_nonexistent: bool,
    /// The probability of a packet, in [`CERTAIN`]ths.
    sample: u32,
    active: AtomicBool,
    /// Behind a lock for the handlers; only one thread reads packets.
    state: Mutex<State>,
    task: Task,
    timer: Timer,
    notifier: Notifier,
    is_push: OnceLock<bool>,
}

struct State {
    reader: SummaryReader,
    pace: Option<Pace>,
    /// A packet that waits for its time, or stands for several.
    pending: Option<Several>,
}

/// A probability of 1, in fixed point.
const CERTAIN: u32 = 1 << 28;

register!(FromIpSummaryDump, "from_ip_summary_dump.rs");

impl Element for FromIpSummaryDump {
    const CLASS: Class = Class::new("FromIPSummaryDump", "0/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let file_name: FileName = args.positional("FILENAME", FileName::default());
        let stop = args.keyword("STOP", false);
        let active = args.keyword("ACTIVE", true);
        let _zero: bool = args.keyword("ZERO", true);
        let timing = args.keyword("TIMING", false);
        let checksums = args.keyword("CHECKSUM", false);
        let sample: UFixed<28> = args.keyword("SAMPLE", UFixed(CERTAIN));
        let protocol: u8 = args.keyword("PROTO", 6);
        let multipacket = args.keyword("MULTIPACKET", false);
        let mut fields = Raw::default();
        for name in ["DEFAULT_CONTENTS", "DEFAULT_FIELDS", "CONTENTS", "FIELDS"] {
            fields = args.keyword(name, fields);
        }
        let flow: Raw = args.keyword("DEFAULT_FLOWID", Raw::default());
        let flow: Raw = args.keyword("FLOWID", flow);
        let allow_nonexistent = args.keyword("ALLOW_NONEXISTENT", false);
        let data: Option<Vec<u8>> = args.optional_keyword("DATA");
        args.complete()?;
        if sample.0 > CERTAIN {
            args.warn("SAMPLE", "SAMPLE probability reduced to 1");
        } else if sample.0 == 0 {
            args.warn("SAMPLE", "SAMPLE probability is 0; emitting no packets");
        }
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
            // Click goes on after what it calls an error here.
            args.warn_at(landmark, message);
        }
        args.complete()?;
        Ok(Self {
            file_name,
            stop,
            multipacket,
            allow_nonexistent,
            sample: sample.0.min(CERTAIN),
            active: active.into(),
            state: Mutex::new(State {
                reader,
                pace: timing.then(|| Pace::new(100)),
                pending: None,
            }),
            task: setup.task(),
            timer: setup.timer(),
            notifier: Notifier::default(),
            is_push: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.is_push.set(!init.is_pull_output(0));
        self.wake();
        let mut state = self.state();
        if !self.file_name.is_empty() {
            match LineFile::open(&self.file_name) {
                Ok(file) => state.reader.file = file,
                Err(Failure::Missing(_) | Failure::Empty) if self.allow_nonexistent => {
                    return Ok(());
                }
                Err(failure) => return Err(failure.refuse(init, &self.file_name)),
            }
        }
        let mut remarks = Vec::new();
        state.reader.read_banner(&mut remarks);
        for Remark { landmark, is_error, message } in remarks {
            match is_error {
                true => return Err(init.refuse_at(landmark, message)),
                false => init.warn_at(landmark, message),
            }
        }
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        while batch.len() < max.min(batch.room()) {
            if !self.active.load(Relaxed) {
                return self.notifier.sleep_unless(|| self.active.load(Relaxed));
            }
            match self.step(cx, batch) {
                Step::Sent => {}
                Step::Nothing => return,
                Step::Wait(time) => {
                    self.notifier.sleep();
                    self.timer.schedule_at(time);
                    return;
                }
                Step::End => {
                    // What was given arrives before the program stops.
                    if batch.is_empty() {
                        self.notifier.sleep();
                        self.end(cx);
                    }
                    return;
                }
            }
        }
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        if !self.active.load(Relaxed) {
            self.task.rest();
            return false;
        }
        let mut batch = cx.take_batch();
        let step = self.step(cx, &mut batch);
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        match step {
            Step::Sent | Step::Nothing => true,
            Step::Wait(time) => pace::wait(cx, &self.task, &self.timer, time),
            Step::End => {
                self.task.rest();
                self.end(cx);
                false
            }
        }
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.wake();
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("sampling_prob", |dump, _| UFixed::<28>(dump.sample).to_string());
        handlers.read("active", |dump, _| dump.active.load(Relaxed));
        handlers.write("active", |dump, call| {
            let active = call.parse().map_err(|_| "type mismatch")?;
            dump.active.store(active, Relaxed);
            dump.wake();
            Ok(())
        });
        handlers.read("encap", |_, _| "IP");
        handlers.write("stop", |dump, call| {
            dump.active.store(false, Relaxed);
            call.router().request_stop();
            Ok(())
        });
        handlers.read("filename", |dump, _| dump.state().reader.file.name().to_owned());
        handlers.read("filesize", |dump, _| {
            dump.state().reader.file.len().map_or("-".to_owned(), |length| length.to_string())
        });
        handlers.read("filepos", |dump, _| dump.state().reader.file.position());
        task_handlers(handlers, |dump| &dump.task);
    }

    fn held(&self) -> usize {
        usize::from(self.state().pending.is_some())
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        let mut state = self.state();
        state.reader.file.close();
        state.pending = None;
        Ok(())
    }
}

/// What one turn brought.
enum Step {
    Sent,
    /// A line that is no packet.
    Nothing,
    /// A packet that is due at this time.
    Wait(millrace_core::Timestamp),
    End,
}

impl FromIpSummaryDump {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds the next packet to a batch, if it is due.
    fn step(&self, cx: &mut Context, batch: &mut Batch) -> Step {
        let mut state = self.state();
        loop {
            let Some(several) = state.pending.take().or_else(|| None) else {
                match self.read(cx, &mut state) {
                    Found::Packet(packet) => {
                        cx.created(1);
                        state.pending = Some(Several::new(packet));
                        continue;
                    }
                    Found::Nothing => return Step::Nothing,
                    Found::NoBuffer => {
                        cx.created(1);
                        cx.dropped(1, Reason::NoBuffer);
                        return Step::Nothing;
                    }
                    Found::End => return Step::End,
                }
            };
            if let Some(pace) = &mut state.pace {
                cx.refresh_now();
                if let Due::At(time) = pace.due(several.timestamp(), cx.now()) {
                    state.pending = Some(several);
                    return Step::Wait(time);
                }
            }
            let packet = match self.multipacket {
                true => {
                    let Split { packet, rest } = several.split();
                    if rest.is_some() {
                        cx.created(1);
                    }
                    state.pending = rest;
                    packet
                }
                false => Some(several.into_packet()),
            };
            let Some(packet) = packet else {
                cx.dropped(1, Reason::NoBuffer);
                continue;
            };
            if self.sample < CERTAIN && cx.random().u32(0..CERTAIN) >= self.sample {
                let _: Option<Packet> = cx.drop(packet, Reason::Filtered);
                continue;
            }
            // There is room.
            let _ = batch.push(packet);
            return Step::Sent;
        }
    }

    fn read(&self, cx: &mut Context, state: &mut State) -> Found {
        if !state.reader.file.is_open() {
            return Found::End;
        }
        let mut remarks = Vec::new();
        let found = state.reader.next(cx.router().scope_of(cx.element()), &mut remarks);
        for remark in remarks {
            cx.router().chatter(&remark.text());
        }
        found
    }

    fn end(&self, cx: &Context) {
        if self.stop {
            cx.router().request_stop();
        }
    }

    /// Lets packets flow if there are to be any.
    fn wake(&self) {
        if !self.active.load(Relaxed) {
            return;
        }
        match self.is_push.get() {
            Some(true) => self.task.schedule(),
            _ => self.notifier.wake_unlocked(),
        }
    }
}
