//! DeviceBalancer - moves flows from busy threads to others by rewriting a table of receive-side scaling
//!
//! # Synopsis
//! `DeviceBalancer(METHOD, DEV [, keywords RSSCOUNTER, TIMER, TIMER_MAX, CPUS, STARTCPU, TARGET_LOAD, IMBALANCE_THRESHOLD,
//! AUTOSCALE, UNDERLOAD, ACTIVE, VERBOSE, RETA_SIZE, CYCLES, TARGET, LOAD, OVERLOAD, IMBALANCE_ALPHA, CORE_OFFSET, MARK,
//! GROUP, DANCER, NUMA])`
//!
//! # Description
//! Receive-side scaling distributes flows by a hash, without regard to how many packets they have, so threads get
//! different loads. Like RSS++ (Barbette et al., CoNEXT 2019), this element measures the load of each thread from time to
//! time, and how much of it each bucket of the hash table causes; then it gives as few buckets as possible of the busiest
//! threads to the least busy ones.
//!
//! DEV is a SoftwareRSS, or a FromDPDKDevice whose card has an indirection table (RETA) that can be written. The kernel's
//! interfaces, and DPDK's virtual ones that have no table, are refused: a SoftwareRSS behind them does the same, on any
//! device.
//!
//! The load of a thread is the part of its time that it spends in elements, other than DEV and what polls devices. The
//! load of a bucket is the part of it that corresponds to its packets. SoftwareRSS counts them by itself; for a
//! FromDPDKDevice, name an AggregateCounterVector behind it, and set RSS_AGGREGATE. A thread keeps its buckets if its
//! load is within IMBALANCE_THRESHOLD of the mean, and as long as no move makes the difference smaller.
//!
//! While a card moves a bucket, packets of its flows that wait in the old queue may be overtaken. SoftwareRSS moves a
//! bucket only when nothing waits.
//!
//! # Arguments
//! - METHOD: `rsspp` (or `pianorss`, an old name) balances; `rss` leaves the table as it is. Positional, mandatory.
//! - DEV: the element whose table is rewritten. Positional, mandatory.
//! - RSSCOUNTER: an AggregateCounterVector that counts packets by bucket. Keyword; a SoftwareRSS needs none.
//! - TIMER: milliseconds between measurements, at least 1. Keyword, default 100.
//! - TIMER_MAX: the interval doubles up to this number of milliseconds while nothing is moved. Keyword, default TIMER.
//! - CPUS: the maximum number of threads to use. Keyword, default: all that DEV has.
//! - STARTCPU: the number of threads to use at the start; -1 means CPUS. Keyword, default -1.
//! - AUTOSCALE: whether to use more threads when the mean load exceeds TARGET_LOAD, and fewer when the least busy one is
//!   below UNDERLOAD and the others can take what it does. Keyword, default false.
//! - TARGET_LOAD: 0 to 1. Keyword, default 0.8.
//! - UNDERLOAD: 0 to 1. Keyword, default 0.25.
//! - IMBALANCE_THRESHOLD: the difference from the mean load that is left alone. Keyword, default 0.02.
//! - ACTIVE: whether it works from the start. Keyword, default true.
//! - VERBOSE: whether to print each change: 0 or false for none. Keyword, default true.
//! - RETA_SIZE: accepted without effect: DEV says how many buckets it has.
//! - CYCLES, LOAD: accepted without effect: the load is the time that threads spend in elements.
//! - TARGET, OVERLOAD, IMBALANCE_ALPHA: accepted without effect: the target is the mean load.
//! - MARK, GROUP, DANCER, NUMA: accepted without effect: flow tables are not moved with the buckets.
//! - CORE_OFFSET: accepted without effect: the threads are those of DEV.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `active`, `autoscale` (read, write): as ACTIVE and AUTOSCALE.
//! - `load` (read): one line per thread in use: its number, its load, and its number of buckets.
//! - `imbalance` (read): at the last measurement, the difference between the largest load and the mean.
//! - `moves` (read): buckets moved so far.
//! - `threads` (read): the number of threads in use.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100, BURST 32) -> rss :: SoftwareRSS -> Counter -> Discard;
//! DeviceBalancer(rsspp, rss, TIMER 100, VERBOSE false);
//! ```
//!
//! # See also
//! SoftwareRSS, AggregateCounterVector, FromDPDKDevice, BalancedThreadSched

use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use millrace_core::args::{ElementRef, Kind, Word};
use millrace_core::{
    Args, Class, Context, Element, Failed, Handlers, Init, Lock, Refused, Router, Setup, Timer,
    Timestamp, register,
};

use super::buckets::{Bucket, moves};
use crate::capability::{BucketCounts, IndirectionTable};

/// The element; its manual is at the top of the file.
pub struct DeviceBalancer {
    device: ElementRef,
    counter: Option<ElementRef>,
    ends: OnceLock<Ends>,
    balances: bool,
    interval: u32,
    longest_interval: u32,
    most: usize,
    target_load: f64,
    underload: f64,
    threshold: f64,
    verbose: bool,
    active: AtomicBool,
    autoscale: AtomicBool,
    /// The number of the device's targets in use.
    used: AtomicUsize,
    moved: AtomicU64,
    measured: Lock<Measured>,
    timer: Timer,
}

/// What is balanced, and what counts.
struct Ends {
    table: Arc<dyn IndirectionTable>,
    counter: Option<Arc<dyn BucketCounts>>,
}

/// The last measurement.
#[derive(Default)]
struct Measured {
    /// Packets of each bucket since the start.
    counts: Vec<u64>,
    /// Cycles of each thread, used and in all, since the start.
    cycles: Vec<(u64, u64)>,
    /// The load and the number of buckets of each target in use, with its thread.
    loads: Vec<(usize, f64, usize)>,
    /// Milliseconds until the next one.
    interval: u32,
}

register!(DeviceBalancer, "device_balancer.rs");

impl Element for DeviceBalancer {
    /// After the devices.
    const CLASS: Class = Class::new("DeviceBalancer", "0/0", "a/a").phase(5).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let method: Word = args.mandatory("METHOD");
        let device = args.mandatory("DEV");
        let balances = match method.as_str() {
            "rsspp" | "pianorss" => true,
            "rss" => false,
            other => {
                let message = format!("METHOD ‘{other}’ is not supported, only rsspp and rss");
                args.error("METHOD", message);
                false
            }
        };
        let counter = args.optional_keyword("RSSCOUNTER");
        let interval = args.in_range("TIMER", Kind::Keyword, 1..=3_600_000).unwrap_or(100);
        let longest = args.in_range("TIMER_MAX", Kind::Keyword, 1..=3_600_000);
        let most: Option<u32> = args.in_range("CPUS", Kind::Keyword, 1..=4096);
        let start: Option<i32> = args.in_range("STARTCPU", Kind::Keyword, -1..=4096);
        let autoscale = args.keyword("AUTOSCALE", false);
        let target_load = part(args, "TARGET_LOAD", 0.8);
        let underload = part(args, "UNDERLOAD", 0.25);
        let threshold = part(args, "IMBALANCE_THRESHOLD", 0.02);
        let active = args.keyword("ACTIVE", true);
        let verbose: Option<Word> = args.optional_keyword("VERBOSE");
        let verbose = verbose.as_ref().map_or("true", Word::as_str);
        if verbose.parse::<u32>().is_err() && verbose.parse::<bool>().is_err() {
            args.error("VERBOSE", "VERBOSE must be a number, true or false");
        }
        let verbose = !["0", "false"].contains(&verbose);
        ignore_others(args);
        args.complete()?;
        let most = most.map_or(usize::MAX, |most| most as usize);
        let start = start.and_then(|start| usize::try_from(start).ok()).filter(|start| *start > 0);
        Ok(Self {
            device,
            counter,
            ends: OnceLock::new(),
            balances,
            interval,
            longest_interval: longest.unwrap_or(interval).max(interval),
            most,
            target_load,
            underload,
            threshold,
            verbose,
            active: active.into(),
            autoscale: autoscale.into(),
            used: start.unwrap_or(most).min(most).into(),
            moved: 0.into(),
            measured: Lock::new(Measured { interval, ..Measured::default() }),
            timer: setup.timer(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let table: Arc<dyn IndirectionTable> = init.require(self.device.0)?;
        let counter = match self.counter {
            Some(counter) => Some(init.require(counter.0)?),
            None => None,
        };
        let device = init.router().name_of(self.device.0);
        if counter.is_none() && !table.count_buckets() {
            return Err(Refused(format!(
                "‘{device}’ does not count packets by bucket: set RSSCOUNTER to an AggregateCounterVector \
                 behind it"
            )));
        }
        if table.table().is_empty() {
            return Err(Refused(format!(
                "‘{device}’ has no table from hashes to queues (RETA) that can be written: put a SoftwareRSS \
                 behind it, and name that as DEV"
            )));
        }
        self.used.fetch_min(table.threads().len().max(1), Relaxed);
        // An element is initialised once.
        let _ = self.ends.set(Ends { table, counter });
        self.timer.schedule_at(init.clock().now() + Timestamp::from_millis(self.interval.into()));
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let moved = self.ends.get().map_or(0, |ends| self.measure(cx.router(), ends));
        let mut measured = self.measured.lock();
        measured.interval = match moved {
            0 => measured.interval.saturating_mul(2).min(self.longest_interval),
            _ => self.interval,
        };
        self.timer.schedule_at(cx.now() + Timestamp::from_millis(measured.interval.into()));
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        type Switch = fn(&DeviceBalancer) -> &AtomicBool;
        let switches: [(&str, Switch); 2] = [
            ("active", |balancer| &balancer.active),
            ("autoscale", |balancer| &balancer.autoscale),
        ];
        for (name, switch) in switches {
            handlers.read(name, move |balancer, _| switch(balancer).load(Relaxed));
            handlers.write(name, move |balancer, call| {
                switch(balancer).store(call.parse()?, Relaxed);
                Ok(())
            });
        }
        handlers.read("load", |balancer, _| {
            let measured = balancer.measured.lock();
            let line = |(thread, load, buckets): &(usize, f64, usize)| {
                format!("{thread} {load:.3} {buckets}\n")
            };
            measured.loads.iter().map(line).collect::<String>()
        });
        handlers.read("imbalance", |balancer, _| {
            let measured = balancer.measured.lock();
            let loads = || measured.loads.iter().map(|(_, load, _)| *load);
            loads().fold(0.0, f64::max) - loads().sum::<f64>() / loads().count().max(1) as f64
        });
        handlers.read("moves", |balancer, _| balancer.moved.load(Relaxed));
        handlers.read("threads", |balancer, _| balancer.used.load(Relaxed));
    }
}

impl DeviceBalancer {
    /// Measures loads, and moves buckets. Returns how many.
    fn measure(&self, router: &Router, ends: &Ends) -> usize {
        let threads = ends.table.threads();
        let mut table = ends.table.table();
        let counts = match &ends.counter {
            Some(counter) => fold(&counter.counts(), table.len()),
            None => ends.table.counts(),
        };
        let mut measured = self.measured.lock();
        let packets: Vec<u64> = since(&counts, &measured.counts).collect();
        measured.counts = counts;
        let cycles: Vec<(u64, u64)> =
            threads.iter().map(|&thread| self.cycles_of(router, thread)).collect();
        let busy: Vec<f64> = cycles
            .iter()
            .zip(measured.cycles.iter().chain(std::iter::repeat(&(0, 0))))
            .map(|(now, before)| {
                let all = now.1.saturating_sub(before.1);
                now.0.saturating_sub(before.0) as f64 / all.max(1) as f64
            })
            .collect();
        let first = measured.cycles.is_empty();
        measured.cycles = cycles;
        let buckets = buckets_of(&table, &packets, &busy);
        let used = self.scale(&busy);
        let mut loads = vec![0.0; used];
        for bucket in &buckets {
            if let Some(load) = loads.get_mut(bucket.target) {
                *load += bucket.load;
            }
        }
        let moves = match self.balances && self.active.load(Relaxed) && !first {
            true => moves(&buckets, &mut loads, self.threshold),
            false => Vec::new(),
        };
        for &(bucket, target) in &moves {
            if let Some(place) = table.get_mut(bucket) {
                *place = target as u16;
            }
        }
        measured.loads = (0..used)
            .map(|target| {
                let own = table.iter().filter(|&&to| usize::from(to) == target).count();
                let thread = threads.get(target).copied().unwrap_or(target);
                (thread, loads.get(target).copied().unwrap_or(0.0), own)
            })
            .collect();
        drop(measured);
        if moves.is_empty() {
            return 0;
        }
        if let Err(why) = ends.table.assign(&table) {
            self.active.store(false, Relaxed);
            let device = router.name_of(self.device.0);
            router.chatter(&format!("DeviceBalancer: ‘{device}’ refuses its new table: {why}"));
            return 0;
        }
        if self.verbose {
            let count = moves.len();
            router
                .chatter(&format!("DeviceBalancer: {count} buckets moved, {used} threads in use"));
        }
        self.moved.fetch_add(moves.len() as u64, Relaxed);
        moves.len()
    }

    /// Cycles of a thread: those spent in elements, without the device, and all.
    fn cycles_of(&self, router: &Router, thread: usize) -> (u64, u64) {
        let cycles = router.cycles_on(thread);
        let idle = cycles.last().copied().unwrap_or(0);
        let all: u64 = cycles.iter().sum();
        let device = cycles.get(self.device.0).copied().unwrap_or(0);
        (all - idle - device, all)
    }

    /// How many threads to use from now on.
    fn scale(&self, busy: &[f64]) -> usize {
        let most = busy.len().min(self.most).max(1);
        let used = self.used.load(Relaxed).clamp(1, most);
        if !self.autoscale.load(Relaxed) {
            return used;
        }
        let sum: f64 = busy.iter().sum();
        let least = busy.iter().take(used).copied().fold(f64::INFINITY, f64::min);
        let wanted = if sum > self.target_load * used as f64 {
            (used + 1).min(most)
        } else if used > 1 && least < self.underload && sum < self.target_load * (used - 1) as f64 {
            used - 1
        } else {
            used
        };
        self.used.store(wanted, Relaxed);
        wanted
    }
}

/// Reads a number from 0 to 1.
fn part(args: &mut Args<'_>, name: &str, default: f64) -> f64 {
    let value = args.keyword(name, default);
    if !(0.0..=1.0).contains(&value) {
        args.error(name, format!("{name} must be between 0 and 1"));
    }
    value
}

/// Reads FastClick's arguments that have no effect here.
fn ignore_others(args: &mut Args<'_>) {
    let measured = "the load is the time that threads spend in elements";
    let mean = "the target is the mean load";
    let tables = "flow tables are not moved with the buckets";
    args.ignored::<u32>("RETA_SIZE", Kind::Keyword, "DEV says how many buckets it has");
    args.ignored::<Word>("CYCLES", Kind::Keyword, measured);
    args.ignored::<Word>("LOAD", Kind::Keyword, measured);
    args.ignored::<Word>("TARGET", Kind::Keyword, mean);
    args.ignored::<f64>("OVERLOAD", Kind::Keyword, mean);
    args.ignored::<f64>("IMBALANCE_ALPHA", Kind::Keyword, mean);
    for keyword in ["MARK", "GROUP", "DANCER", "NUMA"] {
        args.ignored::<bool>(keyword, Kind::Keyword, tables);
    }
    args.ignored::<u32>("CORE_OFFSET", Kind::Keyword, "the threads are those of DEV");
}

/// Counts of this many buckets, from counts of more or fewer.
fn fold(counts: &[u64], buckets: usize) -> Vec<u64> {
    let mut folded = vec![0; buckets];
    // Both are powers of two: with fewer counts, the buckets that share one also share its packets.
    let sharers = (buckets / counts.len().max(1)).max(1) as u64;
    for at in 0..buckets.max(counts.len()) {
        let count = counts.get(at % counts.len().max(1)).copied().unwrap_or(0);
        if let Some(sum) = folded.get_mut(at % buckets.max(1)) {
            *sum += count / sharers;
        }
    }
    folded
}

/// What was counted since the counts `before`.
fn since<'a>(now: &'a [u64], before: &'a [u64]) -> impl Iterator<Item = u64> + 'a {
    now.iter().enumerate().map(|(at, now)| now.saturating_sub(before.get(at).copied().unwrap_or(0)))
}

/// Each bucket's part of the load of its thread.
fn buckets_of(table: &[u16], packets: &[u64], busy: &[f64]) -> Vec<Bucket> {
    let mut sums = vec![0u64; busy.len()];
    for (target, packets) in table.iter().zip(packets) {
        if let Some(sum) = sums.get_mut(usize::from(*target)) {
            *sum += packets;
        }
    }
    let bucket = |(target, packets): (&u16, &u64)| {
        let target = usize::from(*target);
        let (busy, sum) = (busy.get(target), sums.get(target).copied().unwrap_or(0));
        let load = busy.map_or(0.0, |busy| busy * *packets as f64 / sum.max(1) as f64);
        Bucket { target, load }
    };
    table.iter().zip(packets).map(bucket).collect()
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    use super::*;

    #[test]
    fn counts_of_any_number_of_aggregates_fit_the_buckets() {
        assert_eq!(fold(&[1, 2, 3, 4], 2), [4, 6]);
        assert_eq!(fold(&[2, 4], 4), [1, 2, 1, 2]);
        assert_eq!(fold(&[5, 6], 2), [5, 6]);
    }

    #[test]
    fn the_load_of_a_thread_is_divided_by_packets() {
        let loads = buckets_of(&[0, 0, 1, 1], &[30, 10, 0, 5], &[0.8, 0.5]);
        let loads: Vec<_> = loads.iter().map(|one| (one.target, one.load)).collect();
        let expected = [(0, 0.6), (0, 0.2), (1, 0.0), (1, 0.5)];
        for (one, expected) in loads.iter().zip(expected) {
            assert!(one.0 == expected.0 && (one.1 - expected.1).abs() < 1e-9, "{loads:?}");
        }
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in [
            "DeviceBalancer",
            "DeviceBalancer(rsspp)",
            "DeviceBalancer(metron, x)",
            "DeviceBalancer(rsspp, nobody)",
            "DeviceBalancer(rsspp, x, TARGET_LOAD 2)",
            "DeviceBalancer(rsspp, x, TIMER 0)",
            "DeviceBalancer(rsspp, x, VERBOSE loud)",
            "DeviceBalancer(rsspp, x)",
        ] {
            assert!(Rig::new(bad, 0, 0).is_err(), "{bad}");
        }
    }
}
