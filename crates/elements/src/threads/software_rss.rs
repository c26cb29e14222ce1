//! SoftwareRSS - distributes flows over threads by a hash (receive-side scaling in software)
//!
//! # Synopsis
//! `SoftwareRSS([keywords MAXTHREADS, THREADOFFSET, SYMMETRIC, HASH, INNER, PORTS, ENCAP, CAPACITY, BURST])`
//!
//! # Description
//! Provides receive-side scaling for inputs that do not distribute packets themselves: devices with one
//! queue, files, sockets, and tunnels that look like one flow to a card. It hashes the innermost flow
//! of each packet and hands the packet over to the thread selected by the hash, which emits it. All
//! packets of a flow go to one thread, so they stay in order. Packets whose thread is the one they
//! arrive on pass straight through; the others wait in rings, one for each pair of threads. Packets are
//! not copied.
//!
//! The flow consists of addresses and ports. The element looks for it inside VLAN tags (802.1Q,
//! 802.1ad), IP in IP, GRE, VXLAN and GTP-U, with IPv4 and IPv6. Fragments are hashed without ports, so
//! that the fragments of one datagram stay together; a flow with both fragmented and unfragmented
//! datagrams goes to two threads, unless PORTS is false. Packets that are not IP are hashed by their
//! Ethernet addresses. The packet keeps the hash, as if a device had computed it.
//!
//! The hash selects one of 512 buckets, and a table says which thread gets the packets of the bucket. At the start, each
//! thread has the same number of buckets; a DeviceBalancer moves them by load. A bucket moves when the thread that it had
//! has taken the packets that wait there, so packets of a flow are not overtaken in the rings.
//!
//! # Arguments
//! - MAXTHREADS: maximum number of threads to distribute packets over. Default: all.
//! - THREADOFFSET: the first of them. Default 0.
//! - SYMMETRIC: whether both directions of a connection go to the same thread. Default false.
//! - HASH: FAST, or TOEPLITZ, the hash of network cards (with a symmetric key if SYMMETRIC is true).
//!   Default FAST.
//! - INNER: whether to look inside tunnels. Default true.
//! - PORTS: whether ports are part of the flow. Default true.
//! - ENCAP: ETHER, or IP for packets that begin with an IP header. Default ETHER.
//! - CAPACITY: maximum number of packets that wait in each ring, at least 4. Default 1024.
//! - BURST: maximum number of packets taken from each ring at a time, 1 to 256. Default 32.
//!
//! # Ports
//! One push input, one push output.
//!
//! # Handlers
//! - `table` (read, write): the thread of each of the 512 buckets, separated by spaces. One number alone gives all buckets
//!   to one thread.
//! - `spread` (read): one line per thread, with its number and the number of packets assigned to it.
//! - `dropped` (read): packets that found no room.
//! - `length` (read): packets waiting.
//!
//! # Drops
//! - queue full: a ring had no room.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100, BURST 32) -> SoftwareRSS(SYMMETRIC true) -> Counter -> Discard;
//! ```
//!
//! # See also
//! RSSSwitch, Pipeliner, DeviceBalancer, FromDevice

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use millrace_core::args::Kind;
use millrace_core::element::Receiver;
use millrace_core::memory::Ports;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, HandlerError, Handlers, Init, Offers, PerThread,
    Reason, Refused, Setup, Task, register,
};

use super::flow_hash::FlowHash;
use super::rings::{Inlet, Rings, call, rest};
use crate::capability::IndirectionTable;

/// The element; its manual is at the top of the file.
pub struct SoftwareRss {
    hash: FlowHash,
    capacity: usize,
    burst: usize,
    /// A task on each thread that packets are distributed over.
    receiver: Receiver,
    /// The rings to each of these threads; set by `initialize`.
    rings: OnceLock<Vec<Rings>>,
    /// Which of these threads each bucket goes to.
    table: Vec<AtomicU16>,
    /// The number of changes of the table.
    version: AtomicU64,
    fallen: PerThread<Fallen>,
    /// Whether to count the packets of each bucket.
    counts_buckets: AtomicBool,
    buckets: PerThread<Fallen>,
    dropped: PerThread<Count>,
}

/// The number of buckets is two to this power.
const BUCKET_BITS: u32 = 9;

/// The bucket of a hash.
fn bucket(hash: u32) -> usize {
    (hash >> (32 - BUCKET_BITS)) as usize
}

/// The number of packets assigned to each thread, or that fell into each bucket.
#[derive(Default)]
struct Fallen(OnceLock<Vec<Count>>);

/// The state of each thread.
#[derive(Default)]
pub struct Local {
    /// One lane for each thread that packets are distributed over: its inlet, and the packets on
    /// their way into it.
    lanes: Vec<(Inlet, Batch)>,
    /// The target of each bucket, as far as this thread has followed the changes of the table.
    table: Vec<u16>,
    /// The change that `table` has followed completely.
    followed: u64,
    /// The last change that this thread has seen, and how many packets it had given to each lane then.
    seen: (u64, Vec<u64>),
    first: usize,
    idle: u32,
}

/// Number of fruitless visits after which a task rests.
const PATIENCE: u32 = 64;

register!(SoftwareRss, "software_rss.rs");

impl Element for SoftwareRss {
    const CLASS: Class = Class::new("SoftwareRSS", "1/1", "h/h").crosses_threads();
    type Local = Local;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let most = args.in_range("MAXTHREADS", Kind::Keyword, 1..=u32::MAX);
        let first: Option<u32> = args.optional_keyword("THREADOFFSET");
        let hash = FlowHash::configure(args);
        let capacity = args.in_range("CAPACITY", Kind::Keyword, 4..=1u32 << 24).unwrap_or(1024);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32).unwrap_or(32);
        args.complete()?;
        let receiver = setup.tasks_on_threads(most.map(|n| n as usize), first.map(|n| n as usize));
        Ok(Self {
            hash,
            capacity: capacity as usize,
            burst: burst as usize,
            receiver,
            rings: OnceLock::new(),
            table: (0..1 << BUCKET_BITS).map(|_| AtomicU16::new(0)).collect(),
            version: 1.into(),
            fallen: PerThread::default(),
            counts_buckets: false.into(),
            buckets: PerThread::default(),
            dropped: PerThread::default(),
        })
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        let rings = self.tasks().iter().map(|_| Rings::new(self.capacity)).collect();
        // An element is initialised once.
        let _ = self.rings.set(rings);
        // Each thread has an equal share. There are at most 64 threads.
        let threads = self.tasks().len();
        for (bucket, target) in self.table.iter().enumerate() {
            target.store(((bucket * threads) >> BUCKET_BITS) as u16, Ordering::Relaxed);
        }
        Ok(())
    }

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn IndirectionTable>(self.clone());
    }

    fn push(&self, cx: &mut Context, local: &mut Local, _port: usize, batch: &mut Batch) {
        let tasks = self.tasks();
        let count = tasks.len();
        local.lanes.resize_with(count, Default::default);
        if local.followed != self.version.load(Ordering::Acquire) {
            self.follow(local);
        }
        let buckets = self.counts_buckets.load(Ordering::Relaxed).then(|| {
            self.buckets
                .mine(cx)
                .0
                .get_or_init(|| self.table.iter().map(|_| Count::default()).collect())
        });
        let Local { table, lanes, .. } = local;
        let mut targets: Ports = [0; Batch::CAPACITY];
        batch.classify(&mut targets, |packet| {
            let hash = self.hash.of(packet.data());
            packet.set_device_hash(hash);
            let bucket = bucket(hash);
            if let Some(count) = buckets.and_then(|buckets| buckets.get(bucket)) {
                count.add(1);
            }
            table.get(bucket).copied().unwrap_or_default()
        });
        let targets = targets.get(..batch.len()).unwrap_or_default();
        batch.distribute(targets, |target, run| {
            if let Some((_, lane)) = lanes.get_mut(usize::from(target)) {
                // A lane has as much room as the batch had packets.
                run.move_to(lane);
            }
        });
        self.count(cx, lanes);
        for ((task, rings), (inlet, lane)) in tasks.iter().zip(self.rings()).zip(lanes) {
            if lane.is_empty() {
                continue;
            }
            // Packets must not overtake those that this thread put into the ring before the task
            // moved here.
            if task.home() == cx.thread() && inlet.is_empty() {
                cx.push_batch(0, lane);
                continue;
            }
            rings.give(cx, inlet, lane);
            call(task);
            if !lane.is_empty() {
                self.dropped.mine(cx).add(lane.len() as u64);
                cx.drop_batch(lane, Reason::QueueFull);
            }
        }
    }

    fn run_task(&self, cx: &mut Context, local: &mut Local) -> bool {
        let slot = self.receiver.slot(cx.index());
        let (Some(rings), Some(task)) = (self.rings().get(slot), self.tasks().get(slot)) else {
            return false;
        };
        let n = self.pass_on(rings, cx, local);
        local.idle = if n > 0 { 0 } else { local.idle.saturating_add(1) };
        if local.idle >= PATIENCE {
            local.idle = 0;
            rest(task, rings);
        }
        n > 0
    }

    fn handed_over(&self, local: &Local, _thread: usize, rings: &mut Vec<(u64, u64)>) {
        rings.extend(local.lanes.iter().map(|(inlet, _)| inlet.handed_over()));
    }

    fn drain(&self, cx: &mut Context, local: &mut Local) -> bool {
        let mut left = false;
        for (task, rings) in self.tasks().iter().zip(self.rings()) {
            left |= task.home() == cx.thread() && self.pass_on(rings, cx, local) > 0;
        }
        left
    }

    fn held(&self) -> usize {
        self.rings().iter().map(Rings::held).sum()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("table", |rss, _| {
            let threads = IndirectionTable::threads(rss);
            let thread = |target: &u16| threads.get(usize::from(*target)).copied().unwrap_or(0);
            let table: Vec<_> =
                rss.table().iter().map(|target| thread(target).to_string()).collect();
            table.join(" ")
        });
        handlers.write("table", |rss, call| {
            let threads = IndirectionTable::threads(rss);
            let target = |word: &str| {
                let thread: Option<usize> = word.parse().ok();
                let target =
                    thread.and_then(|thread| threads.iter().position(|&one| one == thread));
                target.map(|target| target as u16).ok_or_else(|| {
                    HandlerError::Refused(format!("‘{word}’ is none of the threads {threads:?}"))
                })
            };
            let text = call.text();
            let mut table: Vec<u16> =
                text.split_whitespace().map(target).collect::<Result<_, _>>()?;
            if let [all] = table[..] {
                table = vec![all; 1 << BUCKET_BITS];
            }
            rss.assign(&table).map_err(HandlerError::Refused)
        });
        handlers.read("spread", |rss, _| rss.spread());
        handlers.read("dropped", |rss, _| rss.dropped.total());
        handlers.read("length", |rss, _| rss.rings().iter().map(Rings::len).sum::<usize>());
    }
}

impl SoftwareRss {
    fn tasks(&self) -> &[Task] {
        self.receiver.tasks()
    }

    fn rings(&self) -> &[Rings] {
        self.rings.get().map_or(&[], Vec::as_slice)
    }

    /// Follows changes of the table. A bucket whose packets wait for the thread that it had keeps that one for now.
    #[cold]
    fn follow(&self, local: &mut Local) {
        let version = self.version.load(Ordering::Acquire);
        if local.table.is_empty() {
            local.table = self.table();
            local.followed = version;
            return;
        }
        let progress: Vec<(u64, u64)> =
            local.lanes.iter().map(|(inlet, _)| inlet.handed_over()).collect();
        if local.seen.0 != version {
            local.seen = (version, progress.iter().map(|(given, _)| *given).collect());
        }
        let mut complete = true;
        for (mine, wanted) in local.table.iter_mut().zip(&self.table) {
            let wanted = wanted.load(Ordering::Relaxed);
            let lane = usize::from(*mine);
            let taken = progress.get(lane).map_or(0, |(_, taken)| *taken);
            let given = local.seen.1.get(lane).copied().unwrap_or(0);
            match taken >= given {
                true => *mine = wanted,
                false => complete &= *mine == wanted,
            }
        }
        if complete {
            local.followed = version;
        }
    }

    /// Sends a burst from each of these rings on. Returns how many packets.
    #[inline]
    fn pass_on(&self, rings: &Rings, cx: &mut Context, local: &mut Local) -> usize {
        let mut batch = cx.take_batch();
        let n = rings.take(&mut local.first, self.burst, &mut batch);
        batch.prefetch_data();
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        n
    }

    fn count(&self, cx: &Context, lanes: &[(Inlet, Batch)]) {
        let fallen =
            self.fallen.mine(cx).0.get_or_init(|| lanes.iter().map(|_| Count::default()).collect());
        for (count, (_, lane)) in fallen.iter().zip(lanes) {
            count.add(lane.len() as u64);
        }
    }

    fn spread(&self) -> String {
        let fallen = |slot: usize| {
            let counts = self.fallen.iter().filter_map(|fallen| fallen.0.get()?.get(slot));
            counts.map(Count::get).sum::<u64>()
        };
        let lines = self.tasks().iter().enumerate();
        lines.map(|(slot, task)| format!("{}\t{}\n", task.home(), fallen(slot))).collect()
    }
}

impl IndirectionTable for SoftwareRss {
    fn table(&self) -> Vec<u16> {
        self.table.iter().map(|target| target.load(Ordering::Relaxed)).collect()
    }

    fn threads(&self) -> Vec<usize> {
        self.tasks().iter().map(Task::home).collect()
    }

    fn assign(&self, table: &[u16]) -> Result<(), String> {
        let targets = self.tasks().len();
        if table.len() != self.table.len() || table.iter().any(|&to| usize::from(to) >= targets) {
            let (has, wanted) = (table.len(), self.table.len());
            return Err(format!("the table has {has} buckets for {targets} threads, not {wanted}"));
        }
        for (target, new) in self.table.iter().zip(table) {
            target.store(*new, Ordering::Relaxed);
        }
        self.version.fetch_add(1, Ordering::Release);
        Ok(())
    }

    fn count_buckets(&self) -> bool {
        self.counts_buckets.store(true, Ordering::Relaxed);
        true
    }

    fn counts(&self) -> Vec<u64> {
        let mut sums = vec![0; self.table.len()];
        for counts in self.buckets.iter().filter_map(|counts| counts.0.get()) {
            sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count.get());
        }
        sums
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn on_one_thread_packets_pass_through() {
        let mut rig = Rig::new("SoftwareRSS", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0], [b"a", b"b"]);
        assert_eq!(rig.read("spread").unwrap(), "0\t2\n");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in ["SoftwareRSS(HASH CRC)", "SoftwareRSS(ENCAP ATM)", "SoftwareRSS(CAPACITY 1)"] {
            assert!(Rig::new(bad, 1, 1).is_err(), "{bad}");
        }
    }
}
