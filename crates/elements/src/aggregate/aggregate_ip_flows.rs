//! AggregateIPFlows - numbers TCP and UDP flows
//!
//! # Synopsis
//! `AggregateIPFlows([keywords TRACEINFO, SOURCE, TCP_TIMEOUT, TCP_DONE_TIMEOUT, UDP_TIMEOUT, FRAGMENT_TIMEOUT, REAP, ICMP, FRAGMENTS,
//! CAPACITY, FRAGMENT_CAPACITY])`
//!
//! # Description
//! Numbers each TCP and UDP flow in the order in which they begin, from 1, and sets the aggregate annotation of each
//! packet to its flow's number. Addresses and ports identify a flow; replies belong to the same flow. The paint
//! annotation is 0 for packets in the direction of the flow's first packet and 1 for replies. Packets of other
//! protocols, and packets too short to hold ports, leave by output 1.
//!
//! A flow ends when it is silent for longer than its timeout, by the packets' timestamps, or, for TCP, when both sides
//! have closed the connection. The same addresses and ports then begin a new flow. A packet without a timestamp gets
//! the time at which it arrives.
//!
//! Later fragments have no ports. In push context they wait for the first fragment. Everything that arrives meanwhile
//! between the same hosts waits with them, to keep the order; packets between different hosts may be reordered.
//!
//! A flow needs 100 to 200 bytes until it has ended and REAP seconds have passed. When there are CAPACITY flows, those
//! that have ended are deleted at once, at most once in a second; packets of new flows that find no room even so are
//! dropped.
//!
//! # Arguments
//! - TRACEINFO: a file that gets an XML record for each flow that has ended; `-` is standard output. Keyword.
//! - SOURCE: an element whose `filename` and `packet_filepos` handlers are recorded in TRACEINFO. Keyword.
//! - TCP_TIMEOUT: seconds of silence after which a TCP connection has ended. Keyword, default one day.
//! - TCP_DONE_TIMEOUT: the same for a closed connection. Keyword, default 30.
//! - UDP_TIMEOUT: time of silence after which a UDP flow has ended. Keyword, default one minute.
//! - FRAGMENT_TIMEOUT: how long fragments wait for the first one. Keyword, default 30 s.
//! - REAP: how often ended flows are deleted, in packet time. Keyword, default 20 min.
//! - ICMP: assign ICMP errors to the flow of the packet that they quote; their paint is 2 more than that packet's.
//!   Keyword, default false.
//! - FRAGMENTS: whether fragments wait. Keyword; default true in push context and false in pull context, where it
//!   cannot be true.
//! - CAPACITY: maximum number of flows. Keyword, default 4194304.
//! - FRAGMENT_CAPACITY: how many packets may wait for first fragments. While as many wait, further fragments are
//!   dropped, and packets that need not wait overtake those that do. Keyword, default 4096.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output for packets without a flow.
//!
//! # Handlers
//! - `clear` (write): ends all flows; emits or drops the waiting fragments.
//!
//! # Drops
//! - no match: the packet belongs to no flow, and output 1 is not connected.
//! - table full: the flow is new, and there are CAPACITY flows; or it is a fragment, and FRAGMENT_CAPACITY packets wait.
//! - fragment: its first fragment did not arrive in time.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true)
//!     -> flows :: AggregateIPFlows
//!     -> AggregateCounter
//!     -> Discard;
//! DriverManager(wait, write flows.clear);
//! ```
//!
//! # See also
//! AggregateIP, AggregateIPAddrPair, AggregateCounter, ToIPFlowDumps

mod flow_table;

use std::io::{self, BufWriter, Write};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use millrace_core::Router;
use millrace_core::args::{ElementRef, FileName, Kind, Seconds};
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Footprint, Handlers, Init, Lock, Need, Offers,
    OutputFile, Packet, Reason, Refused, Setup, Task, register, standard_output,
};

use crate::capability::{AggregateNotifier, Ended};
use crate::flows::capacity::capacity_or;
use flow_table::{FlowTable, Limits, Out, Record, Timeouts};

/// The element; its manual is at the top of the file.
pub struct AggregateIpFlows {
    icmp: bool,
    /// As configured; if it was not, the context decides.
    fragments: Option<bool>,
    with_fragments: OnceLock<bool>,
    trace_file: Option<FileName>,
    source: Option<ElementRef>,
    state: Lock<State>,
    listeners: Lock<Vec<Arc<Ended>>>,
    warned: AtomicBool,
    /// Emits the packets that `clear` has released.
    task: Task,
}

struct State {
    flows: FlowTable,
    trace: Option<Trace>,
    /// Packets waiting to leave.
    out: Vec<Out>,
}

/// The defaults of CAPACITY and FRAGMENT_CAPACITY.
const MOST_FLOWS: u32 = 1 << 22;
const MOST_WAITING: u32 = 4096;

register!(AggregateIpFlows, "aggregate_ip_flows.rs");

impl Element for AggregateIpFlows {
    const CLASS: Class = Class::new("AggregateIPFlows", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let timeouts = Timeouts {
            tcp: args.keyword("TCP_TIMEOUT", 24 * 60 * 60),
            tcp_done: args.keyword("TCP_DONE_TIMEOUT", 30),
            udp: seconds(args, "UDP_TIMEOUT", 60),
            fragment: seconds(args, "FRAGMENT_TIMEOUT", 30),
            reap: seconds(args, "REAP", 20 * 60),
        };
        let icmp = args.keyword("ICMP", false);
        let trace_file: Option<FileName> = args.optional_keyword("TRACEINFO");
        let source = args.optional_keyword("SOURCE");
        let fragments = args.optional_keyword("FRAGMENTS");
        let waiting = args.in_range("FRAGMENT_CAPACITY", Kind::Keyword, 1..=1u32 << 30);
        let limits = Limits {
            flows: capacity_or(args, MOST_FLOWS),
            waiting: waiting.unwrap_or(MOST_WAITING) as usize,
        };
        args.complete()?;
        args.needs(trace_file.as_ref().and_then(Need::write));
        let flows = FlowTable::new(timeouts, limits, trace_file.is_some());
        Ok(Self {
            icmp,
            fragments,
            with_fragments: OnceLock::new(),
            trace_file,
            source,
            state: Lock::new(State { flows, trace: None, out: Vec::new() }),
            listeners: Lock::default(),
            warned: AtomicBool::new(false),
            task: setup.task(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let is_pull = init.is_pull_input(0);
        if self.fragments == Some(true) && is_pull {
            let message =
                "‘FRAGMENTS true’ is incompatible with pull; run this element in a push context";
            return Err(Refused(message.into()));
        }
        let _ = self.with_fragments.set(self.fragments.unwrap_or(!is_pull));
        if let Some(name) = &self.trace_file {
            self.state.lock().trace =
                Some(Trace::open(name).map_err(|error| refuse(name, &error))?);
        }
        Ok(())
    }

    fn start(&self, router: &Router) -> Result<(), Refused> {
        let trace = self.state.lock().trace.take();
        if let Some((name, trace)) = self.trace_file.as_ref().zip(trace) {
            let mut trace = trace.begin().map_err(|error| refuse(name, &error))?;
            let _ = self.begin_trace(&mut trace, router);
            self.state.lock().trace = Some(Trace::Begun(trace));
        }
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let mut out = std::mem::take(&mut self.state.lock().out);
        for packet in batch.drain() {
            self.treat(cx, packet, &mut out);
        }
        self.let_go(cx, out, None);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        cx.pull(0, max, batch);
        let mut out = Vec::with_capacity(batch.len());
        for packet in batch.drain() {
            self.treat(cx, packet, &mut out);
        }
        self.let_go(cx, out, Some(batch));
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.task.rest();
        let out = std::mem::take(&mut self.state.lock().out);
        self.let_go(cx, out, None);
        true
    }

    fn footprint(&self) -> Footprint {
        self.state.lock().flows.footprint()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("clear", |flows, _| {
            let mut state = flows.state.lock();
            let State { flows: table, out, .. } = &mut *state;
            let records = table.clear(out);
            flows.note(&mut state, &records);
            if !state.out.is_empty() {
                flows.task.schedule();
            }
            Ok(())
        });
    }

    fn held(&self) -> usize {
        let state = self.state.lock();
        state.flows.waiting() + state.out.len()
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn AggregateNotifier>(self.clone());
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        let mut state = self.state.lock();
        let records = state.flows.end();
        self.note(&mut state, &records);
        let Some(Trace::Begun(mut trace)) = state.trace.take() else { return Ok(()) };
        let ended = writeln!(trace, "</trace>").and_then(|()| trace.flush());
        ended.map_err(|error| Refused(error.to_string()))
    }
}

/// Reads a time, in whole seconds.
fn seconds(args: &mut Args<'_>, name: &str, default: i64) -> i64 {
    let time: Option<Seconds> = args.optional_keyword(name);
    time.map_or(default, |time| time.as_secs().min(u32::MAX.into()) as i64)
}

fn refuse(name: &FileName, error: &io::Error) -> Refused {
    Refused(format!("{}: {error}", name.0))
}

/// The file TRACEINFO.
enum Trace {
    /// Not changed yet.
    Opened(OutputFile),
    Begun(Box<dyn Write + Send>),
}

impl Trace {
    fn open(name: &FileName) -> io::Result<Self> {
        match &*name.0 {
            "-" => Ok(Self::Begun(Box::new(standard_output::for_data()))),
            _ => OutputFile::open(name.as_path()).map(Self::Opened),
        }
    }

    fn begin(self) -> io::Result<Box<dyn Write + Send>> {
        match self {
            Self::Opened(file) => Ok(Box::new(BufWriter::new(file.begin()?))),
            Self::Begun(trace) => Ok(trace),
        }
    }
}

impl AggregateNotifier for AggregateIpFlows {
    fn listen(&self, task: Task) -> Arc<Ended> {
        let ended = Arc::new(Ended::new(task));
        self.listeners.lock().push(Arc::clone(&ended));
        ended
    }
}

impl AggregateIpFlows {
    /// Finds a packet's flow. The packet goes to `out` unless it has to wait; so do packets that it releases.
    fn treat(&self, cx: &Context, mut packet: Packet, out: &mut Vec<Out>) {
        if packet.timestamp().is_zero() {
            if !self.warned.swap(true, Relaxed) {
                let router = cx.router();
                let name = router.name_of(cx.element());
                router.chatter(&format!("{name}: warning: packet received without timestamp"));
            }
            packet.set_timestamp(cx.now());
        }
        let with_fragments = self.with_fragments.get().copied().unwrap_or(false);
        let mut state = self.state.lock();
        let file_position = || self.file_position(cx);
        let mut records = state.flows.take(packet, self.icmp, with_fragments, file_position, out);
        // Ended flows are reported before the packet that ended them is emitted.
        let last = out.pop();
        records.extend(state.flows.reap(out));
        out.extend(last);
        self.note(&mut state, &records);
    }

    fn let_go(&self, cx: &mut Context, out: Vec<Out>, mut pulled: Option<&mut Batch>) {
        for one in out {
            match (one, &mut pulled) {
                (Out::Flow(packet), None) => cx.push(0, packet),
                (Out::Flow(packet), Some(batch)) => {
                    if let Err(packet) = batch.push(packet) {
                        cx.drop(packet, Reason::NoBuffer);
                    }
                }
                (Out::Other(packet), _) => cx.push_or_drop(1, packet, Reason::NoMatch),
                (Out::Lost(packet), _) => _ = cx.drop(packet, Reason::Fragment),
                (Out::Refused(packet), _) => _ = cx.drop(packet, Reason::TableFull),
            }
        }
    }

    /// Reports flows that have ended.
    fn note(&self, state: &mut State, records: &[Record]) {
        if records.is_empty() {
            return;
        }
        for ended in self.listeners.lock().iter() {
            ended.note(records.iter().map(|record| record.aggregate));
        }
        if let Some(Trace::Begun(trace)) = &mut state.trace {
            for record in records {
                // A write error is reported at the end.
                let _ = record.write(trace);
            }
        }
    }

    fn begin_trace(&self, out: &mut impl Write, router: &Router) -> io::Result<()> {
        write!(out, "<?xml version='1.0' standalone='yes'?>\n<trace")?;
        if let Some(name) = self.read_of_source(router, "filename") {
            write!(out, " file='{}'", name.trim())?;
        }
        writeln!(out, ">")
    }

    fn file_position(&self, cx: &Context) -> u32 {
        let text = self.read_of_source(cx.router(), "packet_filepos");
        text.and_then(|text| text.trim().parse().ok()).unwrap_or(0)
    }

    fn read_of_source(&self, router: &Router, handler: &str) -> Option<String> {
        let ElementRef(source) = self.source?;
        let text = router.read_of(source, handler, &[]).ok()?;
        Some(String::from_utf8_lossy(&text).into_owned()).filter(|text| !text.trim().is_empty())
    }
}
