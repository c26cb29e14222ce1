//! Common parts of the tests of lanes: stages, numbered packets, and a lane with a source and a sink.

use std::cell::RefCell;
use std::net::Ipv6Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use fastrand::Rng;
use millrace_core::testing::Rig;
use millrace_core::{
    Batch, Class, ClassInfo, Context, Element, Failed, Init, Lock, Packet, Refused, Setup, Task,
};

use super::super::pause::Pause;
use super::super::{Lane, Section, Settings, Source};
use crate::kernel::{DROP, Kernel, NONE};
use crate::plan::{Edge, Limits, Node, Plan};
use crate::region::{Access, Base, Region};
use crate::table::{Changes, Decisions, Lpm6, Route};
use crate::{Results, Rows, Snapshot, Stage, StageSpec, StageTable};

/// Longer than anything takes, even on a machine with a high load.
pub(super) const LONG: Duration = Duration::from_secs(60);

type Work = Box<dyn FnOnce(&mut Context)>;

thread_local! {
    static WORK: RefCell<Option<Work>> = const { RefCell::new(None) };
}

/// Runs a test in the context of an element. Time is virtual.
pub(super) fn in_context(test: impl FnOnce(&mut Context) + 'static) {
    const CLASS: ClassInfo = millrace_core::class_info!(Stand, "");
    WORK.set(Some(Box::new(test)));
    let mut rig = Rig::with_class(&CLASS, "Stand", 0, 0).unwrap();
    rig.pass(millrace_core::Timestamp::ZERO);
    assert!(WORK.take().is_none(), "the test has run");
}

struct Stand(Task);

impl Element for Stand {
    const CLASS: Class = Class::new("Stand", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self(setup.task()))
    }

    fn initialize(&self, _: &mut Init<'_>) -> Result<(), Refused> {
        self.0.schedule();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.0.unschedule();
        if let Some(work) = WORK.take() {
            work(cx);
        }
        true
    }
}

/// A stage that routes by the first 16 bits of the address: `n` leads to hop `HOPS * epoch + n % HOPS`, and by that
/// to output `n % HOPS`, or for the last hop to a drop.
pub(super) struct Routes {
    table: Lock<(u64, Arc<Vec<u32>>, Changes)>,
    /// True if the routes change whenever the twin has run.
    pub(super) restless: AtomicBool,
}

pub(super) const PREFIXES: u16 = 32;
pub(super) const HOPS: u32 = 3;
/// Maximum number of changes of the routes.
pub(super) const EPOCHS: u64 = 64;
/// The annotation for the results of the stages.
const ROUTED: usize = 40;
const TURNED: usize = 44;

impl Routes {
    fn new() -> Self {
        Self {
            table: Lock::new((0, table(0), Changes::default())),
            restless: AtomicBool::new(false),
        }
    }

    /// Changes to the routes of the next epoch, if there is one.
    pub(super) fn change_at_most(&self) {
        if self.table.lock().0 + 1 < EPOCHS {
            self.change();
        }
    }

    /// Changes to the routes of the next epoch.
    pub(super) fn change(&self) {
        let mut now = self.table.lock();
        let (epoch, words, changes) = &mut *now;
        *epoch += 1;
        let before = std::mem::replace(words, table(*epoch));
        let differs = |&at: &usize| before.get(at) != words.get(at);
        changes.note(*epoch, (0..words.len()).filter(differs).map(|at| at..at + 1).collect());
    }
}

fn table(epoch: u64) -> Arc<Vec<u32>> {
    let outputs: Vec<u32> = (0..EPOCHS as u32 * HOPS)
        .map(|hop| if hop % HOPS == HOPS - 1 { DROP } else { hop % HOPS })
        .collect();
    let routes = (0..PREFIXES).map(|n| Route {
        prefix: u128::from(n) << 112,
        length: 16,
        hop: epoch as u32 * HOPS + u32::from(n) % HOPS,
    });
    Lpm6::build(routes, Decisions { hops: &outputs, miss: DROP }).unwrap().words().clone()
}

impl Stage for Routes {
    fn name(&self) -> &str {
        "routes"
    }

    fn spec(&self) -> StageSpec {
        StageSpec {
            kernel: Kernel::Lpm6,
            regions: vec![Region::read(Base::Annotation, 0, 16)],
            constants: [0; 4],
            table: true,
            outputs: HOPS - 1,
        }
    }

    fn table(&self) -> Option<StageTable> {
        let (epoch, words, changes) = self.table.lock().clone();
        Some(StageTable {
            epoch,
            words,
            changes: Arc::new(changes),
            snapshot: Snapshot::of(Arc::new(epoch)),
        })
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::of(Arc::new(self.table.lock().0))
    }

    fn run(&self, snapshot: &Snapshot, rows: &mut Rows<'_>) {
        let epoch = *snapshot.get::<u64>().unwrap() as u32;
        for row in 0..rows.len() {
            let prefix = rows.packets()[row].dst_ip6().segments()[0];
            let turn = u32::from(prefix) % HOPS;
            let known = prefix < PREFIXES;
            rows.set_result(row, if known { epoch * HOPS + turn } else { NONE });
            rows.decide(row, if known && turn < HOPS - 1 { turn } else { Rows::DROP });
        }
        if self.restless.load(Relaxed) {
            self.change_at_most();
        }
    }

    fn deliver(
        &self,
        _: &mut Context,
        snapshot: &Snapshot,
        packets: &mut [Packet],
        results: &Results<'_>,
    ) {
        assert_eq!(packets.len(), results.len());
        let epoch = *snapshot.get::<u64>().unwrap() as u32;
        for (packet, result) in packets.iter_mut().zip(results.iter()) {
            assert!(*result == NONE || result / HOPS == epoch, "results of the snapshot's epoch");
            packet.set_anno_u32(ROUTED, *result);
        }
    }
}

/// Inverts the eight bytes after the Ethernet header of packets that take output 0 of the routes.
struct Turn {
    writes: bool,
}

impl Turn {
    fn region(&self) -> Region {
        Region {
            access: if self.writes { Access::ReadWrite } else { Access::Read },
            ..Region::read(Base::Ethernet, 14, 8)
        }
    }
}

impl Stage for Turn {
    fn name(&self) -> &str {
        "turn"
    }

    fn spec(&self) -> StageSpec {
        StageSpec {
            kernel: Kernel::Invert,
            regions: vec![self.region()],
            constants: [8, 0, 0, 0],
            table: false,
            outputs: 0,
        }
    }

    fn table(&self) -> Option<StageTable> {
        None
    }

    fn run(&self, _: &Snapshot, rows: &mut Rows<'_>) {
        let region = self.region();
        for row in (0..rows.len()).filter(|&row| rows.is_active(row)).collect::<Vec<_>>() {
            let len = rows.slice(row, &region).len();
            if self.writes {
                rows.slice_mut(row, &region).iter_mut().for_each(|byte| *byte = !*byte);
            }
            rows.set_result(row, len as u32);
        }
    }

    fn deliver(
        &self,
        _: &mut Context,
        _: &Snapshot,
        packets: &mut [Packet],
        results: &Results<'_>,
    ) {
        for (packet, result) in packets.iter_mut().zip(results.iter()) {
            packet.set_anno_u32(TURNED, *result);
        }
    }
}

/// A section of both stages. `writes` says whether packets are changed.
pub(super) fn section(
    source: Option<Arc<Source>>,
    writes: bool,
    settings: Settings,
) -> (Arc<Section>, Arc<Routes>) {
    let routes = Arc::new(Routes::new());
    let stages: Vec<Arc<dyn Stage>> = vec![routes.clone(), Arc::new(Turn { writes })];
    let nodes = [
        Node { stage: stages[0].clone(), from: vec![], only: None },
        Node { stage: stages[1].clone(), from: vec![Edge { node: 0, output: 0 }], only: None },
    ];
    let plan = Plan::new(&nodes, Limits { packets: CAPACITY, payload: 0 }).unwrap();
    (Section::new(Arc::new(plan), stages, source, settings), routes)
}

pub(super) const CAPACITY: usize = 512;

/// Feeds numbered packets into a lane, and checks those that come out.
pub(super) struct Traffic {
    rng: Rng,
    sent: u32,
    came: u32,
    /// Epochs of the routes by which packets were processed, newest last.
    pub(super) epochs: Vec<u32>,
}

impl Traffic {
    pub(super) fn new(seed: u64) -> Self {
        Self { rng: Rng::with_seed(seed), sent: 0, came: 0, epochs: Vec::new() }
    }

    /// The number of packets in flight.
    pub(super) fn under_way(&self) -> u32 {
        self.sent - self.came
    }

    /// The number of packets that came out.
    pub(super) fn came(&self) -> u32 {
        self.came
    }

    /// The next packets; a few are truncated.
    pub(super) fn few(&mut self, count: usize, batch: &mut Batch) {
        for _ in 0..count {
            let mut bytes = [0; 30];
            bytes[..4].copy_from_slice(&self.sent.to_ne_bytes());
            bytes[14..22].copy_from_slice(&u64::from(self.sent).wrapping_mul(0x9e37).to_ne_bytes());
            let len = if self.sent.is_multiple_of(13) { 18 } else { 30 };
            let mut packet = Packet::from_bytes(&bytes[..len]).unwrap();
            let prefix = (self.sent.wrapping_mul(2_654_435_761) >> 16) as u16 % (PREFIXES + 2);
            packet.set_dst_ip6(Ipv6Addr::new(prefix, 0, 0, 0, 0, 0, 0, self.sent as u16));
            packet.set_anno_u32(ROUTED, NONE - 1);
            batch.push(packet).unwrap();
            self.sent += 1;
        }
    }

    /// Pushes a burst into the lane, which must have room.
    pub(super) fn push(&mut self, cx: &Context, lane: &mut Lane) {
        let mut batch = Batch::new();
        let count = self.rng.usize(1..=Batch::CAPACITY).min(lane.room());
        self.few(count, &mut batch);
        lane.add(cx.now(), &mut batch);
        assert!(batch.is_empty());
    }

    /// Ticks, and takes the finished batches.
    pub(super) fn take(&mut self, cx: &mut Context, lane: &mut Lane, writes: bool) {
        lane.tick(cx.now());
        while self.take_one(cx, lane, writes) {}
    }

    /// Takes the oldest batch if it is done. Each packet must be the next one, with the right results.
    pub(super) fn take_one(&mut self, cx: &mut Context, lane: &mut Lane, writes: bool) -> bool {
        let mut epoch = None;
        lane.take(cx, |_, batch, part| {
            let predicates = part.predicates();
            assert_eq!(batch.len(), predicates.len());
            for (packet, predicate) in batch.iter().zip(predicates) {
                let of = self.check(packet, *predicate, writes);
                if let Some(of) = of {
                    assert_eq!(*epoch.get_or_insert(of), of, "a batch sees one epoch");
                }
            }
            batch.clear();
        }) && {
            self.epochs.extend(epoch);
            true
        }
    }

    /// Checks a packet that comes out; returns the epoch of its route.
    fn check(&mut self, packet: &Packet, predicate: u32, writes: bool) -> Option<u32> {
        let number = self.came;
        let data = packet.data();
        assert_eq!(data[..4], number.to_ne_bytes(), "packets come in order, and all of them");
        self.came += 1;
        let prefix = packet.dst_ip6().segments()[0];
        let turn = u32::from(prefix) % HOPS;
        let routed = packet.anno_u32(ROUTED);
        let (output, epoch) = match prefix < PREFIXES {
            true => {
                assert_eq!(routed % HOPS, turn, "packet {number}");
                (Some(turn).filter(|turn| *turn < HOPS - 1), Some(routed / HOPS))
            }
            false => {
                assert_eq!(routed, NONE, "packet {number}");
                (None, None)
            }
        };
        assert_eq!(predicate, output.map_or(3, |output| output + 1), "packet {number}");
        let mut bytes = u64::from(number).wrapping_mul(0x9e37).to_ne_bytes();
        if writes && output == Some(0) {
            bytes = bytes.map(|byte| !byte);
        }
        let turned = &data[14..data.len().min(22)];
        assert_eq!(turned, &bytes[..turned.len()], "packet {number}");
        let result = if output == Some(0) { turned.len() as u32 } else { NONE };
        assert_eq!(packet.anno_u32(TURNED), result, "packet {number}");
        epoch
    }

    /// Pushes bursts until `enough` returns true. Fails if nothing comes out for a long time. The total duration is
    /// not limited, because the machine may have a high load.
    pub(super) fn run(
        &mut self,
        cx: &mut Context,
        lane: &mut Lane,
        writes: bool,
        mut enough: impl FnMut(&Self, &Lane) -> bool,
    ) {
        let (mut came, mut last, began) = (self.came, Instant::now(), Instant::now());
        let mut pause = Pause::default();
        while !enough(self, lane) {
            if lane.room() >= Batch::CAPACITY {
                self.push(cx, lane);
            }
            self.take(cx, lane, writes);
            if self.came > came {
                (came, last, pause) = (self.came, Instant::now(), Pause::default());
            }
            assert!(last.elapsed() < LONG, "nothing comes: {:?}", self.under_way());
            assert!(began.elapsed() < 10 * LONG, "it does not come to an end");
            pause.take();
        }
    }

    /// Takes all packets in flight; checks that none is left.
    pub(super) fn drain(&mut self, cx: &mut Context, lane: &mut Lane, writes: bool) {
        let mut pause = Pause::default();
        while self.under_way() > 0 {
            lane.flush();
            self.take(cx, lane, writes);
            pause.take();
        }
        assert_eq!((self.under_way(), lane.held()), (0, 0));
    }
}
