//! ToIPFlowDumps - writes a summary dump file for each flow
//!
//! # Synopsis
//! `ToIPFlowDumps([FILEPATTERN, keywords OUTPUT_PATTERN, NOTIFIER, ABSOLUTE_TIME, ABSOLUTE_SEQ, BINARY,
//! GZIP, ALL_TCP_OPT, TCP_OPT, TCP_WINDOW, IP_ID, MINCOUNT, CAPACITY])`
//!
//! # Description
//! Writes a line for each TCP and UDP packet in the format of ToIPSummaryDump, with one file per flow. Aggregate
//! annotations, which AggregateIPFlows sets, identify flows, and paint annotations their directions. Packets with
//! aggregate 0, and those that are neither TCP nor UDP, are not written. An ICMP error that AggregateIPFlows assigned
//! to a flow becomes a comment.
//!
//! A file names its flow in a line `!flowid`. Times are relative to one microsecond before the first packet, recorded
//! in `!firsttime`; sequence numbers are relative to the first of each direction, recorded in `!firstseq`. The fields
//! are `timestamp direction tcp_flags tcp_seq payload_len tcp_ack` for TCP, followed by TCP options if requested and
//! present, and `timestamp direction payload_len` for UDP.
//!
//! A flow is written when it ends, when 128 packets have accumulated, when the lines of all flows together take more
//! than 64 MiB, and when the program ends. A flow ends a quarter of a second after NOTIFIER reports its end.
//!
//! Files are as Click writes them, including these details: the payload length of UDP includes the IP header; in text,
//! IP_ID is printed with its bytes swapped, and the line `!data` does not name TCP_WINDOW; the flag CWR has no letter.
//!
//! While there are CAPACITY flows that have not ended, packets of new flows are not written. The first one gets a
//! message.
//!
//! # Arguments
//! - FILEPATTERN, OUTPUT_PATTERN: the file names, with escapes for the variable parts: `%n` is the aggregate, `%x` and
//!   `%X` the same in hexadecimal, `%.0n` to `%.3n` its bytes and `%.4n`, `%.5n` its halves; `%s` and `%d` are the
//!   source and destination addresses, `%.0s` to `%.3s` their bytes; `%S` and `%D` are ports, `%p` is the protocol, `T`
//!   or `U`, and `%%` a percent sign. A width, as in `%6n` or `%06n`, pads with `_` or 0. `-` is standard output.
//!   Directories are created as needed. Positional or keyword, default `-`.
//! - NOTIFIER: an AggregateIPFlows element; a flow is written and forgotten when that element reports its end.
//! - ABSOLUTE_TIME: whether times are absolute, not relative to the first packet. Default false.
//! - ABSOLUTE_SEQ: whether sequence numbers are absolute, not relative to the first. Default false.
//! - BINARY: whether records are binary. Default false.
//! - GZIP: whether to compress files with the program `gzip`, which adds `.gz` to their names. Default false.
//! - ALL_TCP_OPT: whether to write TCP options: maximum segment size, window scale, SACK, timestamps. Default false.
//! - TCP_OPT: the same without timestamps. Default false.
//! - TCP_WINDOW: whether to write the window, after the acknowledgement number. Default false.
//! - IP_ID: whether to write the IP identification, after the direction. Default false.
//! - MINCOUNT: flows with fewer packets are not written. Default 0.
//! - CAPACITY: maximum number of flows at a time. Default 1048576.
//!
//! # Ports
//! One agnostic input, one optional agnostic output. With a pull input and no output it pulls packets itself.
//!
//! # Handlers
//! - `unwritten` (read): the number of packets that were not written because there were CAPACITY flows.
//! - `clear` (write): writes all flows and forgets them.
//!
//! # Drops
//! None: without an output, packets end here.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true)
//!     -> flows :: AggregateIPFlows
//!     -> ToIPFlowDumps(/tmp/flow%03n, NOTIFIER flows);
//! ```
//!
//! # See also
//! AggregateIPFlows, FromIPSummaryDump, ToIPSummaryDump

mod flow_dump;
mod flow_file_name;

use std::cmp::Reverse;
use std::collections::{HashMap, VecDeque};
use std::process::{Child, Command};
use std::sync::{Arc, MutexGuard, OnceLock};

use millrace_core::args::{ElementRef, FileName};
use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Footprint, Handlers, Init, Lock, Need, Packet, Refused,
    Router, Setup, Task, Timer, Timestamp, register,
};

use crate::capability::{AggregateNotifier, Ended};
use crate::flows::capacity::capacity;
use flow_dump::{FlowDump, Options, Style};
use flow_file_name::expand;

/// The element; its manual is at the top of the file.
pub struct ToIpFlowDumps {
    pattern: String,
    notifier: Option<ElementRef>,
    style: Style,
    min_count: u32,
    /// The maximum number of flows.
    capacity: usize,
    state: Lock<State>,
    ended: OnceLock<Arc<Ended>>,
    /// Pulls packets, if the input is pull.
    task: Task,
    /// Runs when flows have ended.
    bell: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
    /// Its name and class, for messages at the end.
    declaration: OnceLock<String>,
}

struct State {
    flows: HashMap<u32, Known, foldhash::fast::FixedState>,
    /// The number of packets seen with an aggregate, which dates a flow's last use, and without.
    with_aggregate: u64,
    without_aggregate: u64,
    /// Packets of flows for which there was no room.
    unwritten: u64,
    /// Bytes that wait to be written.
    pending: usize,
    /// Flows that have ended, and when.
    ending: VecDeque<(u32, Timestamp)>,
    gzip: Option<Gzip>,
}

struct Known {
    dump: FlowDump,
    used: u64,
}

/// How long a flow that has ended is kept.
const GRACE: Timestamp = Timestamp::from_nanos(250_000_000);
/// The maximum of what waits to be written, in bytes.
const MOST_PENDING: usize = 64 << 20;
/// At the end, flows are written in this many groups, the most recently used first in each.
const GROUPS: u32 = 1024;

register!(ToIpFlowDumps, "to_ip_flow_dumps.rs");

impl Element for ToIpFlowDumps {
    const CLASS: Class = Class::new("ToIPFlowDumps", "1/0-1", "a/a").ordered();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let pattern: FileName = args.positional("FILEPATTERN", FileName::default());
        let pattern: FileName = args.keyword("OUTPUT_PATTERN", pattern);
        let notifier = args.optional_keyword("NOTIFIER");
        let absolute_time = args.keyword("ABSOLUTE_TIME", false);
        let absolute_seq = args.keyword("ABSOLUTE_SEQ", false);
        let binary = args.keyword("BINARY", false);
        let all_options = args.keyword("ALL_TCP_OPT", false);
        let some_options = args.keyword("TCP_OPT", false);
        let window = args.keyword("TCP_WINDOW", false);
        let gzip = args.keyword("GZIP", false);
        let ip_id = args.keyword("IP_ID", false);
        let min_count = args.keyword("MINCOUNT", 0);
        let capacity = capacity(args);
        args.complete()?;
        let options = match (all_options, some_options) {
            (true, _) => Options::All,
            (false, true) => Options::NotTimestamps,
            (false, false) => Options::None,
        };
        if !pattern.0.contains('%') {
            let message = "OUTPUT_PATTERN has no % escapes, so output files will get overwritten";
            args.warn("OUTPUT_PATTERN", message);
        }
        let pattern = if pattern.0.is_empty() { "-".to_owned() } else { pattern.0 };
        args.needs(files_of(&pattern, gzip, gzip || min_count > 0));
        args.needs(gzip.then(|| Need::Run("gzip".to_owned())));
        Ok(Self {
            pattern,
            notifier,
            style: Style { absolute_time, absolute_seq, binary, options, window, ip_id },
            min_count,
            capacity,
            state: Lock::new(State {
                flows: HashMap::default(),
                with_aggregate: 0,
                without_aggregate: 0,
                unwritten: 0,
                pending: 0,
                ending: VecDeque::new(),
                gzip: gzip.then(Gzip::default),
            }),
            ended: OnceLock::new(),
            task: setup.pull_task(0),
            bell: setup.task(),
            timer: setup.timer(),
            upstream: OnceLock::new(),
            declaration: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let name = init.router().name_of(init.id());
        let _ = self.declaration.set(format!("{name} :: ToIPFlowDumps"));
        if let Some(ElementRef(id)) = self.notifier {
            let flows = init.require::<dyn AggregateNotifier>(id)?;
            let _ = self.ended.set(flows.listen(self.bell.clone()));
        }
        if init.is_pull_input(0) && !init.is_pull_output(0) {
            let _ = self.upstream.set(init.listen(0, &self.task));
            self.task.schedule();
        }
        Ok(())
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        self.note_ended(cx);
        self.tell(cx.router(), batch);
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.process(cx, &mut (), batch);
        if cx.outputs() > 0 {
            return cx.push_batch(0, batch);
        }
        cx.consumed(batch.len());
        batch.clear();
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.bell.rest();
        self.note_ended(cx);
        let Some(upstream) = self.upstream.get() else { return true };
        let mut batch = cx.take_batch();
        let n = cx.pull(0, 1, &mut batch);
        self.push(cx, &mut (), 0, &mut batch);
        cx.give_batch(batch);
        if n == 0 {
            upstream.rest(&self.task, cx.router());
        }
        n > 0
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let mut state = self.state();
        while let Some((aggregate, _)) =
            state.ending.pop_front_if(|(_, at)| *at + GRACE <= cx.now())
        {
            if let Some(Known { dump, .. }) = state.flows.remove(&aggregate) {
                self.end(cx.router(), &mut state, dump);
            }
        }
        if !state.ending.is_empty() {
            self.timer.schedule_at(cx.now() + GRACE);
        }
    }

    fn footprint(&self) -> Footprint {
        /// The name of the file, with what the allocator adds, and a flow's place among those that end.
        const NAME: usize = 128 + 2 * size_of::<(u32, Timestamp)>();
        Footprint::hash_table(self.capacity, size_of::<(u32, Known)>())
            .and(Footprint::tables(self.capacity.saturating_mul(NAME)))
            .and(Footprint::tables(2 * MOST_PENDING))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("unwritten", |dumps, _| dumps.state().unwritten);
        handlers.write("clear", |dumps, call| {
            dumps.end_all(call.router());
            Ok(())
        });
    }

    fn cleanup(&self, router: &Router) -> Result<(), Refused> {
        self.end_all(router);
        let mut state = self.state();
        if state.without_aggregate > 0 && state.with_aggregate == 0 {
            self.say(router, "warning: saw no packets with aggregate annotations");
        }
        if let Some(mut gzip) = state.gzip.take()
            && let Err(problem) = gzip.finish()
        {
            self.say(router, &problem);
        }
        Ok(())
    }
}

impl ToIpFlowDumps {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn say(&self, router: &Router, message: &str) {
        let declaration = self.declaration.get().map_or("", String::as_str);
        router.chatter(&format!("{declaration}: {message}"));
    }

    /// Records which flows have ended since the last call.
    fn note_ended(&self, cx: &Context) {
        let Some(ended) = self.ended.get() else { return };
        let ended = ended.take();
        if ended.is_empty() {
            return;
        }
        let mut state = self.state();
        let State { flows, ending, .. } = &mut *state;
        let was_empty = ending.is_empty();
        let known = ended.into_iter().filter(|aggregate| flows.contains_key(aggregate));
        ending.extend(known.map(|aggregate| (aggregate, cx.now())));
        if was_empty && !ending.is_empty() {
            self.timer.schedule_at(cx.now() + GRACE);
        }
    }

    /// Adds the packets of a batch to their flows.
    fn tell(&self, router: &Router, batch: &Batch) {
        let mut state = self.state();
        for packet in batch {
            let result = self.tell_one(router, &mut state, packet);
            if let Err(problem) = result {
                router.chatter(&problem);
            }
        }
    }

    fn tell_one(&self, router: &Router, state: &mut State, packet: &Packet) -> Result<(), String> {
        let aggregate = packet.aggregate();
        let known = match aggregate {
            0 => None,
            _ if state.flows.contains_key(&aggregate) => state.flows.get_mut(&aggregate),
            _ if state.flows.len() >= self.capacity => {
                state.unwritten += 1;
                if state.unwritten == 1 {
                    self.say(
                        router,
                        "there are CAPACITY flows; packets of new ones are not written",
                    );
                }
                return Ok(());
            }
            _ => FlowDump::begin(packet, self.style).map(|mut dump| {
                let mut errors = Vec::new();
                dump.file_name = expand(&self.pattern, packet, &mut errors);
                errors.iter().for_each(|error| router.chatter(error));
                state.flows.entry(aggregate).or_insert(Known { dump, used: 0 })
            }),
        };
        let Some(known) = known else {
            state.without_aggregate += 1;
            return Ok(());
        };
        state.with_aggregate += 1;
        known.used = state.with_aggregate;
        let before = known.dump.pending();
        let mut result = known.dump.add(packet);
        if state.pending - before + known.dump.pending() > MOST_PENDING {
            result = result.and(known.dump.write());
        }
        state.pending = state.pending - before + known.dump.pending();
        result
    }

    fn end_all(&self, router: &Router) {
        let mut state = self.state();
        let mut flows: Vec<(u32, Known)> = state.flows.drain().collect();
        flows.sort_by_key(|(aggregate, known)| (aggregate % GROUPS, Reverse(known.used)));
        for (_, known) in flows {
            self.end(router, &mut state, known.dump);
        }
    }

    fn end(&self, router: &Router, state: &mut State, mut dump: FlowDump) {
        state.pending -= dump.pending();
        let is_wanted = dump.packets() >= self.min_count;
        let result = if is_wanted { dump.write() } else { dump.remove() };
        if let Err(problem) = result {
            router.chatter(&problem);
        }
        if is_wanted
            && dump.file_name != "-"
            && let Some(gzip) = &mut state.gzip
            && let Err(problem) = gzip.add(dump.file_name)
        {
            self.say(router, &problem);
            state.gzip = None;
        }
    }
}

/// The files of a pattern: one if there are no escapes, else all in the innermost folder that has none in its name.
fn files_of(pattern: &str, adds: bool, removes: bool) -> Option<Need> {
    let mut rest = pattern;
    let mut fixed = String::new();
    let varies = loop {
        let Some((plain, escape)) = rest.split_once('%') else {
            fixed += rest;
            break false;
        };
        fixed += plain;
        match escape.strip_prefix('%') {
            Some(after) => rest = after,
            None => {
                // It begins with the first escape.
                rest = escape;
                break true;
            }
        }
        fixed.push('%');
    };
    if !varies && !adds {
        return Need::write(fixed);
    }
    if pattern == "-" {
        return None;
    }
    let folder = match fixed.rsplit_once('/') {
        None => ".",
        Some(("", _)) => "/",
        Some((folder, _)) => folder,
    };
    let nests = varies && rest.contains('/');
    Some(Need::Create { folder: folder.into(), nests, removes })
}

/// Compresses files in the background.
#[derive(Default)]
struct Gzip {
    waiting: Vec<String>,
    child: Option<Child>,
}

impl Gzip {
    /// The number of files for one process; more when it was busy.
    const GROUP: usize = 10;

    fn add(&mut self, name: String) -> Result<(), String> {
        // Keeps a name from being taken for an option.
        self.waiting.push(if name.starts_with('-') { format!("./{name}") } else { name });
        if self.waiting.len() < Self::GROUP {
            return Ok(());
        }
        if let Some(child) = &mut self.child {
            match child.try_wait() {
                Ok(None) => return Ok(()),
                Ok(Some(_)) => {}
                Err(error) => return Err(format!("compressor: {error}")),
            }
        }
        self.wait()?;
        self.start()
    }

    fn start(&mut self) -> Result<(), String> {
        // This many names fit into a command line.
        const MOST: usize = 1000;
        let rest = self.waiting.split_off(self.waiting.len().min(MOST));
        let names = std::mem::replace(&mut self.waiting, rest);
        let child = Command::new("gzip").arg("-f").args(names).spawn();
        self.child = Some(child.map_err(|error| format!("gzip failed: {error}"))?);
        Ok(())
    }

    fn wait(&mut self) -> Result<(), String> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let status = child.wait().map_err(|error| format!("compressor: {error}"))?;
        if !status.success() {
            return Err("compressor did not exit normally;\ncancelling compression".to_owned());
        }
        Ok(())
    }

    /// Compresses all remaining files.
    fn finish(&mut self) -> Result<(), String> {
        self.wait()?;
        while !self.waiting.is_empty() {
            self.start()?;
            self.wait()?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;
    use std::fmt::Write;

    use millrace_core::testing::Rig;
    use proptest::prelude::*;

    use super::*;

    /// A TCP packet: aggregate, direction, sequence and acknowledgement number, flags, payload.
    type Told = (u32, u8, u32, u32, u8, u16);

    fn packet(index: usize, &(aggregate, direction, seq, ack, flags, payload): &Told) -> Packet {
        let mut bytes = vec![0x45, 0];
        bytes.extend((40 + payload).to_be_bytes());
        bytes.extend([0, 0, 0, 0, 9, 6, 0, 0]);
        let flow = aggregate as u8;
        let (src, dst) = ([10, 0, 0, flow, 3, 0], [10, 0, 1, flow, 4, 0]);
        let [src, dst] = if direction == 0 { [src, dst] } else { [dst, src] };
        bytes.extend([&src[..4], &dst[..4], &src[4..], &dst[4..]].concat());
        bytes.extend([seq.to_be_bytes(), ack.to_be_bytes()].concat());
        bytes.extend([0x50, flags, 0, 9, 0, 0, 0, 0]);
        let mut packet = Packet::from_bytes(&bytes).unwrap();
        packet.set_network_header(0, 20);
        packet.set_timestamp(Timestamp::from_millis(5_000 + index as i64));
        packet.set_aggregate(aggregate);
        packet.set_paint(direction);
        packet
    }

    /// The expected files: packets grouped by aggregate, with numbers relative to each group's first.
    fn expected(told: &[Told]) -> BTreeMap<u32, String> {
        let mut groups: BTreeMap<u32, Vec<(usize, &Told)>> = BTreeMap::new();
        for (index, one) in told.iter().enumerate() {
            groups.entry(one.0).or_default().push((index, one));
        }
        groups.remove(&0);
        groups.iter().map(|(&aggregate, packets)| (aggregate, text(aggregate, packets))).collect()
    }

    fn text(aggregate: u32, packets: &[(usize, &Told)]) -> String {
        let first = |direction: u8, until: usize| {
            packets.iter().take(until).find_map(|(_, one)| match one.1 == direction {
                true => Some(one.2),
                false => (one.4 & 0x10 != 0).then_some(one.3),
            })
        };
        let mut text = format!(
            "!IPSummaryDump 1.3\n!flowid 10.0.0.{aggregate} 768 10.0.1.{aggregate} 1024 T\n\
             !aggregate {aggregate}\n\
             !data timestamp direction tcp_flags tcp_seq payload_len tcp_ack tcp_ntopt\n"
        );
        for (mark, direction) in [('>', 0), ('<', 1)] {
            // The header of the file is written with the first 128 packets.
            if let Some(first) = first(direction, 128).filter(|&first| first != 0) {
                writeln!(text, "!firstseq {mark} {first}").unwrap();
            }
        }
        let start = 5_000_000 + packets[0].0 as u64 * 1000 - 1;
        writeln!(text, "!firsttime {}.{:06}", start / 1_000_000, start % 1_000_000).unwrap();
        for (count, (index, one)) in packets.iter().enumerate() {
            let time = 5_000_000 + *index as u64 * 1000 - start;
            let mark = if one.1 == 0 { '>' } else { '<' };
            let letters = "FSRPAUE".chars().enumerate();
            let mut flags: String = letters
                .filter(|(bit, _)| one.4 >> bit & 1 == 1)
                .map(|(_, letter)| letter)
                .collect();
            if one.4 == 0 {
                flags.push('.');
            }
            let seq = one.2.wrapping_sub(first(one.1, count + 1).unwrap());
            let ack = match one.4 & 0x10 {
                0 => 0,
                _ => one.3.wrapping_sub(first(1 - one.1, count + 1).unwrap()),
            };
            let length = one.5;
            writeln!(text, "0.{time:06} {mark} {flags} {seq} {length} {ack}").unwrap();
        }
        text
    }

    #[test]
    fn no_wider_folder_is_opened_than_its_files_need() {
        let create = |folder: &str, nests, removes| {
            Some(Need::Create { folder: folder.into(), nests, removes })
        };
        let plain = |pattern| files_of(pattern, false, false);
        assert_eq!(plain("-"), None);
        // Without escapes there is one file.
        assert_eq!(plain("/tmp/flows"), Some(Need::Write("/tmp/flows".into())));
        assert_eq!(plain("100%%"), Some(Need::Write("100%".into())));
        // A percent sign is a part of the folder's name.
        assert_eq!(plain("/data/100%%/flow%n"), create("/data/100%", false, false));
        assert_eq!(plain("/data/x%n"), create("/data", false, false));
        assert_eq!(plain("x%n"), create(".", false, false));
        assert_eq!(plain("/%n"), create("/", false, false));
        assert_eq!(plain("/data/%s/%n"), create("/data", true, false));
        assert_eq!(files_of("/data/%n", false, true), create("/data", false, true));
        // A program makes another file beside it.
        assert_eq!(files_of("/data/flows", true, true), create("/data", false, true));
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(32))]
        #[test]
        fn files_hold_packets_grouped_by_flow(
            told in prop::collection::vec(
                (0..4u32, 0..2u8, any::<u32>(), any::<u32>(), any::<u8>(), 0..1000u16),
                0..600,
            ),
        ) {
            let folder = tempfile::tempdir().unwrap();
            let element = format!("ToIPFlowDumps({}/sub/%n)", folder.path().display());
            let mut rig = Rig::new(&element, 1, 0).unwrap();
            let packets: Vec<Packet> =
                told.iter().enumerate().map(|(index, one)| packet(index, one)).collect();
            for packet in packets {
                rig.push_packets(0, vec![packet]);
            }
            rig.write("clear", "").unwrap();
            prop_assert!(rig.stats().balanced());
            let mut found = BTreeMap::new();
            for entry in std::fs::read_dir(folder.path().join("sub")).into_iter().flatten() {
                let path = entry.unwrap().path();
                let name = path.file_name().unwrap().to_str().unwrap().parse::<u32>().unwrap();
                found.insert(name, std::fs::read_to_string(&path).unwrap());
            }
            prop_assert_eq!(found, expected(&told));
        }
    }
}
