//! Code shared by all rewriters: arguments, mappings, processing of batches, handlers.

pub(crate) mod handlers;
pub(crate) mod input;
pub(crate) mod pattern;
mod takeover;

use std::marker::PhantomData;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, MutexGuard, OnceLock};

use millrace_core::args::{Annotation, ArgText, Kind, Scope, Seconds, Word};
use millrace_core::memory::Ports;
use millrace_core::{
    Batch, Capability, Class, Context, Element, Failed, Footprint, HandlerError, Handlers, Init,
    Lock, Offers, Packet, Random, Reason, Refused, Router, Setup, Timer, Timestamp,
};

use super::mappings::family::Family;
pub(super) use super::mappings::flow_set::Seen;
use super::mappings::flow_set::{FlowSet, Policy, Wanted, protocol_of};
use super::mappings::flow_table::{ANNO_SHIFT, SHIFTED, View};
use crate::capability::{FlowTable, Mapping, Request};
use crate::flows::key::{FlowId, Key};
use crate::flows::table::index::{Found, Hash, Index};
use crate::flows::table::millis;
use crate::per_port::one_per_port;
use input::{Input, Named, Wrong};

/// A rewriter of any kind.
pub(super) struct Rewriter {
    pub(super) family: Family,
    pub(super) outputs: usize,
    pub(super) annotations: Annotations,
    inputs: Lock<Vec<Input>>,
    /// What inputs do with unknown flows if they make no mappings; all threads can read this.
    gates: Vec<AtomicU32>,
    /// The policy of each map.
    policies: Vec<Policy>,
    /// The mappings, unless this rewriter shares the capacity of another one.
    own: Arc<FlowSet>,
    /// The element whose capacity it shares.
    shares: Option<usize>,
    placed: OnceLock<Placed>,
    /// The mappings of the rewriter that this one replaced.
    adopted: OnceLock<Placed>,
    reap_interval: Timestamp,
    timer: Timer,
    named: Arc<Named>,
    random: OnceLock<Arc<Random>>,
}

/// Where a rewriter's mappings are: the set, and the numbers of its maps.
pub(super) struct Placed {
    pub(super) set: Arc<FlowSet>,
    pub(super) maps: Vec<u32>,
}

/// What a rewriter does with annotations.
#[derive(Clone, Copy, Debug)]
pub(super) struct Annotations {
    /// Whether the destination annotation is set.
    pub(super) destination: bool,
    /// The annotation that replies get from the first packet of the mapping.
    pub(super) reply: Option<usize>,
    /// Whether the aggregate annotation is set to the number of the mapping.
    pub(super) aggregate: bool,
}

/// The arguments that only one class reads.
pub(super) struct Own {
    pub(super) family: Family,
    pub(super) annotations: Annotations,
    pub(super) policies: Vec<Policy>,
}

/// A class of rewriters.
pub(super) trait Dialect: Sized + Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;

    /// Reads the arguments that only this class has.
    fn configure(setup: &mut Setup<'_>) -> Own;

    /// Declares the handlers that not every rewriter has.
    fn handlers(handlers: &mut Handlers<Rewriting<Self>>) {
        handlers::tables(handlers, ["table", "mappings"], 0);
    }

    /// The flow of a packet, and the map that it belongs to.
    fn read(packet: &Packet) -> Result<Seen, Reason>;

    /// The flow under which a packet's mapping is stored, and an alternative, if there is one.
    #[inline(always)]
    fn keys(flow: FlowId) -> (FlowId, Option<FlowId>) {
        (flow, None)
    }

    /// Whether a packet of this flow may create a mapping.
    #[inline(always)]
    fn may_begin(flow: FlowId) -> bool {
        let _ = flow;
        true
    }

    /// Rewrites a packet, and returns the new state of the flow.
    fn apply(rewriter: &Rewriter, set: &FlowSet, packet: &mut Packet, view: &View<'_>) -> u32;
}

/// An element of a class of rewriters.
pub(super) struct Rewriting<D>(Arc<Rewriter>, PhantomData<D>);

impl<D: Dialect> Element for Rewriting<D> {
    const CLASS: Class = D::CLASS;
    type Local = Lanes;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let own = D::configure(setup);
        Ok(Self(Rewriter::configure(setup, own)?, PhantomData))
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.0.initialize(init)
    }

    fn push(&self, cx: &mut Context, lanes: &mut Lanes, port: usize, batch: &mut Batch) {
        self.0.push::<D>(cx, lanes, port, batch);
    }

    fn run_timer(&self, cx: &mut Context, _: &mut Lanes) {
        self.0.run_timer(cx);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        D::handlers(handlers);
        handlers::common(handlers);
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide(self.0.clone());
        offers.provide::<dyn FlowTable>(self.0.clone());
    }

    fn footprint(&self) -> Footprint {
        self.0.footprint()
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        self.0.take_state(&old.0, init);
    }
}

/// The state of a batch's packets during lookup.
#[derive(Default)]
pub(super) struct Lanes(Vec<Lane>);

#[derive(Clone, Copy)]
struct Lane {
    key: Key,
    hash: Hash,
    found: Option<Found>,
    seen: Result<Seen, Reason>,
}

/// A gate that requires the lock.
const CLOSED: u32 = 0;
const DROP: u32 = 1;
/// Plus the output of packets that pass.
const PASS: u32 = 1 << 16;

/// The default of MAPPING_CAPACITY.
const MOST_MAPPINGS: i32 = 1 << 20;

/// What elements of this folder use of a rewriter, beside what [`FlowTable`] offers everybody.
impl Capability for Rewriter {
    const NAME: &'static str = "sequence numbers and a capacity to share";
}

impl FlowTable for Rewriter {
    fn outputs(&self) -> usize {
        self.outputs
    }

    fn mapping(&self, protocol: u8, flow: FlowId, reply: bool) -> Option<Mapping> {
        let (set, found, key) = self.lookup(protocol, flow, reply, None)?;
        let view = set.table.view(found, key)?;
        Some(Mapping {
            from: key.flow,
            to: view.to,
            output: view.output,
            is_reply: found.reply,
            annotation: (view.state >> ANNO_SHIFT) as u8,
        })
    }
}

impl Rewriter {
    /// Reads the arguments that every rewriter has, after the class has read its own. The rest are the inputs.
    fn configure(setup: &mut Setup<'_>, own: Own) -> Result<Arc<Self>, Failed> {
        let named: Arc<Named> = setup.shared();
        let capacity: Option<Word> = setup.args.optional_keyword("CAPACITY");
        let capacity = setup.args.optional_keyword("MAPPING_CAPACITY").or(capacity);
        let interval = setup.args.optional_keyword("REAP_INTERVAL");
        let old: Option<Seconds> = setup.args.optional_keyword("REAP_TIME");
        let interval = interval.or(old).unwrap_or(Seconds::new(900));
        let (mut limit, mut shares) = (MOST_MAPPINGS, None);
        if let Some(word) = capacity {
            match word.as_str().parse() {
                Ok(number) => limit = number,
                Err(_) => match setup.args.scope().find_element(word.as_str()) {
                    None => setup.args.error("MAPPING_CAPACITY", "bad MAPPING_CAPACITY"),
                    element => shares = element,
                },
            }
        }
        let (texts, outputs) = (setup.args.rest(), setup.outputs());
        let ports = setup.inputs();
        one_per_port(&mut setup.args, &texts, ports, "input", "specification");
        let mut inputs = Vec::new();
        for (number, text) in texts.iter().enumerate() {
            match Input::parse(text, outputs, &named, setup.args.scope()) {
                Ok(input) => inputs.push(input),
                Err(Wrong { message, help }) => {
                    let message = format!("input spec {number}: {message}");
                    setup.args.error_with_help(text, message, help);
                }
            }
        }
        setup.args.complete()?;
        Ok(Arc::new(Self {
            family: own.family,
            outputs,
            annotations: own.annotations,
            gates: inputs.iter().map(|input| AtomicU32::new(gate_of(input))).collect(),
            inputs: Lock::new(inputs),
            policies: own.policies,
            own: Arc::new(FlowSet::new(limit)),
            shares,
            placed: OnceLock::new(),
            adopted: OnceLock::new(),
            reap_interval: Timestamp::from_secs(interval.as_secs().min(1 << 32).cast_signed()),
            timer: setup.timer(),
            named,
            random: OnceLock::new(),
        }))
    }

    /// What the mappings take when there are as many as there may be. Those that count against another rewriter's
    /// capacity are that one's.
    pub(super) fn footprint(&self) -> Footprint {
        match self.shares {
            Some(_) => Footprint::default(),
            None => self.own.lock().footprint(),
        }
    }

    /// Finds the set of mappings, and starts reaping.
    fn initialize(&self, init: &Init<'_>) -> Result<(), Refused> {
        let set = self.set(init.router(), 0)?;
        // An element is initialised once.
        let _ = self.random.set(init.router().random().clone());
        let inputs = self.inputs().clone();
        for (number, input) in inputs.iter().enumerate() {
            let Input::Mapper(mapper) = input else { continue };
            let too_high =
                |ports: &[u16; 2]| ports.iter().any(|&port| usize::from(port) >= self.outputs);
            if let Some(pattern) = mapper.outputs().iter().position(too_high) {
                let message = format!(
                    "input spec {number}: output port out of range in mapper pattern {pattern}; \
                     the outputs are 0 to {}",
                    self.outputs.saturating_sub(1)
                );
                return Err(message.into());
            }
        }
        let mut changing = set.lock();
        let maps = self.policies.iter().map(|&policy| changing.add_map(policy, inputs.len()));
        let maps = maps.collect();
        drop(changing);
        // An element is initialised only once.
        let _ = self.placed.set(Placed { set, maps });
        if !self.reap_interval.is_zero() {
            self.timer.schedule_at(init.clock().now() + self.reap_interval);
        }
        Ok(())
    }

    /// The mappings that count against this rewriter's capacity.
    fn set(&self, router: &Router, depth: usize) -> Result<Arc<FlowSet>, Refused> {
        let Some(other) = self.shares else { return Ok(self.own.clone()) };
        let other: Option<Arc<Self>> = router.offered(other).filter(|_| depth < 64);
        other.ok_or(Refused("bad MAPPING_CAPACITY".to_owned()))?.set(router, depth + 1)
    }

    /// Removes expired mappings when the timer runs.
    fn run_timer(&self, cx: &Context) {
        self.reap(cx.now());
        self.timer.schedule_at(cx.now() + self.reap_interval);
    }

    fn reap(&self, now: Timestamp) {
        if let Some(placed) = self.placed() {
            placed.set.lock().reap(millis(now));
        }
    }

    /// Where the mappings are, once the rewriter is initialised.
    #[inline(always)]
    pub(super) fn placed(&self) -> Option<&Placed> {
        self.adopted.get().or_else(|| self.placed.get())
    }

    /// Continues with the mappings of another rewriter.
    pub(super) fn adopt(&self, placed: Placed) {
        // A rewriter replaces only one other.
        let _ = self.adopted.set(placed);
    }

    pub(super) fn policies(&self) -> &[Policy] {
        &self.policies
    }

    pub(super) fn inputs(&self) -> MutexGuard<'_, Vec<Input>> {
        self.inputs.lock()
    }

    /// Replaces the argument of an input, and removes the mappings that the old argument made.
    pub(super) fn exchange(
        &self,
        number: usize,
        text: &ArgText,
        scope: &Scope<'_>,
    ) -> Result<(), HandlerError> {
        let new = Input::parse(text, self.outputs, &self.named, scope);
        let new = new.map_err(|wrong| format!("input spec {number}: {}", wrong.message))?;
        let mut inputs = self.inputs();
        if let Some(placed) = self.placed() {
            placed.set.lock().clear_input(&placed.maps, number);
        }
        if let (Some(input), Some(gate)) = (inputs.get_mut(number), self.gates.get(number)) {
            gate.store(gate_of(&new), Relaxed);
            *input = new;
        }
        Ok(())
    }
}

fn gate_of(input: &Input) -> u32 {
    match input {
        Input::Drop => DROP,
        Input::Pass(output) => PASS | u32::from(*output),
        Input::Keep(_) | Input::Pattern(..) | Input::Mapper(_) => CLOSED,
    }
}

/// Packet processing.
impl Rewriter {
    /// Rewrites the packets of a batch that arrived at input `port`, and forwards them.
    #[inline]
    fn push<D: Dialect>(
        &self,
        cx: &mut Context,
        lanes: &mut Lanes,
        port: usize,
        batch: &mut Batch,
    ) {
        let Some(placed) = self.placed() else {
            return cx.drop_batch(batch, Reason::Unclaimed);
        };
        let table = &placed.set.table;
        let index = table.index();
        let index: &Index = &index;
        let lanes = &mut lanes.0;
        lanes.clear();
        batch.for_each(|packet| {
            let seen = D::read(packet);
            let (key, hash) = match &seen {
                Ok(seen) => {
                    let key = Key { flow: D::keys(seen.flow).0, space: placed.map(seen.map) };
                    let hash = index.hash(key);
                    index.prefetch(hash);
                    (key, hash)
                }
                Err(_) => (Key::default(), Hash::default()),
            };
            lanes.push(Lane { key, hash, found: None, seen });
        });
        for lane in lanes.iter_mut().filter(|lane| lane.seen.is_ok()) {
            lane.found = index.probe(lane.hash);
            if let Some(record) = lane.found.and_then(|found| table.record(found.record)) {
                millrace_core::memory::prefetch(record);
            }
        }
        let now = millis(cx.now());
        let mut ports: Ports = [0; Batch::CAPACITY];
        let ways = ports.iter_mut().zip(lanes.iter());
        for (packet, (way, lane)) in batch.iter_mut().zip(ways) {
            let view = lane.found.and_then(|found| table.view(found, lane.key));
            *way = match view {
                Some(view) => self.apply::<D>(placed, packet, &view, now),
                None => self.take_unknown::<D>(placed, packet, lane, port, now),
            };
        }
        cx.route_by(batch, ports.get(..batch.len()).unwrap_or_default());
    }

    /// Rewrites a packet; returns its output.
    #[inline(always)]
    fn apply<D: Dialect>(
        &self,
        placed: &Placed,
        packet: &mut Packet,
        view: &View<'_>,
        now: u64,
    ) -> u16 {
        let Annotations { destination, reply, aggregate } = self.annotations;
        if destination && self.family.annotates(view.found.reply) {
            packet.set_dst_ip(view.to.destination().into());
        }
        if let Some(reply) = reply.filter(|_| view.found.reply) {
            packet.set_anno_u8(reply, (view.state >> ANNO_SHIFT) as u8);
        }
        if aggregate {
            packet.set_aggregate(view.record.born.load(Relaxed));
        }
        let state = D::apply(self, &placed.set, packet, view);
        if view.record.touched.load(Relaxed) != now {
            view.record.touched.store(now, Relaxed);
        }
        if state != view.state {
            self.note(placed, view, state, now);
        }
        view.output
    }

    /// Records the new state of a flow; its mapping may then expire earlier than before.
    #[inline(never)]
    fn note(&self, placed: &Placed, view: &View<'_>, state: u32, now: u64) {
        view.record.state.fetch_or(state & !view.state, Relaxed);
        view.record.state.fetch_and(!(view.state & !state), Relaxed);
        let map = placed.maps.iter().position(|map| *map == view.record.map());
        if let Some(policy) = map.and_then(|map| self.policies.get(map))
            && policy.timeouts.of(state) < policy.timeouts.of(view.state)
        {
            placed.set.lock().requeue(view.found.record, now);
        }
    }

    /// Processes a packet for which the first lookup found no mapping; returns its output.
    #[cold]
    fn take_unknown<D: Dialect>(
        &self,
        placed: &Placed,
        packet: &mut Packet,
        lane: &Lane,
        port: usize,
        now: u64,
    ) -> u16 {
        let gate = self.gates.get(port).map_or(DROP, |gate| gate.load(Relaxed));
        let seen = match lane.seen {
            Ok(seen) => seen,
            Err(_) if gate >= PASS => return gate as u16,
            Err(reason) => return Context::port_to_drop(reason),
        };
        let table = &placed.set.table;
        let second = D::keys(seen.flow).1.map(|flow| Key { flow, ..lane.key });
        let known = table.find(lane.key).or_else(|| table.find(second?));
        if let Some(view) = known {
            return self.apply::<D>(placed, packet, &view, now);
        }
        match gate {
            DROP => return Context::port_to_drop(Reason::Filtered),
            PASS.. => return gate as u16,
            _ if !D::may_begin(seen.flow) => return Context::port_to_drop(Reason::Unexpected),
            _ => {}
        }
        let seen = Seen { flow: lane.key.flow, ..seen };
        let anno = self.annotations.reply.map_or(0, |anno| packet.anno_u8(anno));
        let made = self.make(placed, &seen, port, anno, now);
        let view = made.and_then(|found| table.view(found, lane.key));
        match view {
            Some(view) => self.apply::<D>(placed, packet, &view, now),
            None => Context::port_to_drop(Reason::TableFull),
        }
    }

    /// Makes a mapping by an input's argument, unless another thread has made one meanwhile. Returns `None` if the
    /// input makes none or there is no room.
    fn make(&self, placed: &Placed, seen: &Seen, port: usize, anno: u8, now: u64) -> Option<Found> {
        let inputs = self.inputs();
        let input = inputs.get(port)?;
        let mut changing = placed.set.lock();
        let map = placed.map(seen.map);
        let known = changing.find(Key { flow: seen.flow, space: map }).map(|view| view.found);
        if known.is_some() {
            return known;
        }
        let taken = |reply: FlowId| changing.contains(map, self.family.reply_of(reply));
        let mut request = Request { taken: &taken, random: self.random.get_or_init(Arc::default) };
        let to = match input {
            Input::Drop | Input::Pass(_) => return None,
            Input::Keep(outputs) => Some((seen.flow, *outputs)),
            Input::Pattern(pattern, outputs) => {
                request.by(pattern, seen.flow).map(|to| (to, *outputs))
            }
            Input::Mapper(mapper) => mapper.rewrite(seen.flow, &mut request),
        };
        let Some((to, outputs)) = to else {
            changing.count_failure(map, port);
            return None;
        };
        let to = self.family.accept(to)?;
        let wanted = Wanted {
            map,
            from: seen.flow,
            to,
            outputs,
            input: port,
            protocol: seen.protocol,
            anno,
            deltas: self.family.deltas(seen.flow, to),
        };
        let record = changing.add(&wanted, now)?;
        // The first packet of a flow that is its own reply counts as forward.
        Some(Found { record, reply: false })
    }

    /// Looks up the mapping of a flow for another element. If there is none and `make` names an input, makes one.
    pub(super) fn lookup(
        &self,
        protocol: u8,
        flow: FlowId,
        reply: bool,
        make: Option<(usize, Timestamp)>,
    ) -> Option<(Arc<FlowSet>, Found, Key)> {
        let placed = self.placed()?;
        let set = &placed.set;
        let (map, flows) = self.family.lookup(protocol, flow, reply)?;
        let keys = flows.into_iter().flatten().map(|flow| Key { flow, space: placed.map(map) });
        for key in keys {
            if let Some(view) = set.table.find(key) {
                let known = protocol_of(view.state);
                if known != 0 && protocol != 0 && known != protocol {
                    return None;
                }
                return Some((set.clone(), view.found, key));
            }
        }
        let (port, now) = make?;
        let flow = flows.into_iter().flatten().next()?;
        let seen = Seen { flow, map, protocol };
        let found = self.make(placed, &seen, port, 0, millis(now))?;
        Some((set.clone(), found, Key { flow, space: placed.map(map) }))
    }

    /// Marks a mapping whose sequence numbers are shifted.
    pub(super) fn mark_shifted(view: &View<'_>) {
        view.record.state.fetch_or(SHIFTED, Relaxed);
    }
}

impl Placed {
    /// The number of one of the rewriter's maps.
    #[inline(always)]
    pub(super) fn map(&self, which: usize) -> u32 {
        self.maps.get(which).copied().unwrap_or_default()
    }
}

/// Reads the arguments about annotations that most classes have.
pub(super) fn annotations(setup: &mut Setup<'_>, with_destination: bool) -> Annotations {
    let destination = match with_destination {
        true => setup.args.keyword("DST_ANNO", true),
        false => true,
    };
    let reply: Option<Annotation<1>> = setup.args.optional_keyword("REPLY_ANNO");
    let aggregate = setup.args.keyword("SET_AGGREGATE", false);
    setup.args.ignored::<bool>("HANDLE_MIGRATION", Kind::Keyword, "all threads share the mappings");
    Annotations { destination, reply: reply.map(|anno| anno.0), aggregate }
}
