//! Tests the balancer with an event simulation of lanes, a device and their costs.
//!
//! Each lane has a thread that always has packets to process. The thread pays for gathering, submitting and
//! delivering, or for the twins. The device serves the batches of all lanes one after the other. A lane has six slots
//! and holds a limited number of packets. If it is full, its thread waits for the oldest batch. The reference is the
//! fastest fixed split, found by trying all, with and without sending batches to the CPU when the device has no slot.

use std::collections::VecDeque;

use fastrand::Rng;

use super::super::Mode;
use super::*;

const SLOTS: usize = 6;
const LENGTH: usize = 12;
const BATCH: usize = 1024;
const BUDGET: f64 = 200_000.0;
const MILLISECOND: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MILLISECOND;
const WEATHER: usize = 10_000_000;
/// The duration over which the best split is measured. The noise repeats after it, so that all splits meet the same
/// noise.
const SEASON: u64 = 400 * MILLISECOND;

/// Costs in nanoseconds.
#[derive(Clone, Copy, Debug)]
struct Costs {
    /// The twins' cost per packet.
    cpu: f64,
    /// Gathering and delivering, per packet.
    gather: f64,
    deliver: f64,
    /// Submitting a batch, and noticing that it is done.
    submit: f64,
    /// The device's time per batch and per packet.
    service: f64,
    each: f64,
    /// The minimum time from a batch's submission to its end on an idle device.
    latency: f64,
}

/// Small slices and a cheap kernel: a lookup. The CPU is faster.
const LOOKUP: Costs = Costs {
    cpu: 10.0,
    gather: 9.0,
    deliver: 5.0,
    submit: 2_500.0,
    service: 4_000.0,
    each: 0.3,
    latency: 20_000.0,
};
/// A classifier of many rules.
const CLASSIFY: Costs = Costs { cpu: 250.0, gather: 14.0, each: 2.0, ..LOOKUP };
/// Pattern matching of large packets on a device that is too slow for the lanes.
const MATCH: Costs = Costs { cpu: 1_500.0, gather: 120.0, each: 400.0, ..LOOKUP };
/// A device that is only a little faster than the twins.
const SLOW_DEVICE: Costs = Costs { cpu: 100.0, gather: 15.0, each: 60.0, ..LOOKUP };
/// Text that nearly matches patterns everywhere.
const HOSTILE: Costs = Costs { cpu: 20_000.0, gather: 120.0, each: 300.0, ..LOOKUP };
/// A device with a high latency.
const DISTANT: Costs = Costs { latency: 900_000.0, ..CLASSIFY };

/// Random variations.
#[derive(Clone, Copy, Debug, Default)]
struct Noise {
    /// The relative variation of the cost of each batch.
    batch: f64,
    /// The relative variation of all costs within ten milliseconds; it repeats after [`SEASON`].
    traffic: f64,
    /// The number of batches per thousand that take a millisecond longer on the device.
    stalls: f64,
    /// After each [`SLICE`] of work, the thread loses its core for this number of milliseconds on average. For one
    /// batch in 20 to 400, the measured cost is 5 to 150 times the actual one.
    preempted: f64,
}

const QUIET: Noise = Noise { batch: 0.0, traffic: 0.0, stalls: 0.0, preempted: 0.0 };
const NOISY: Noise = Noise { batch: 0.3, traffic: 0.4, stalls: 1.0, preempted: 0.0 };
/// A machine with a high load.
const BUSY: Noise = Noise { preempted: 1.0, ..NOISY };
const SLICE: f64 = 4e6;

/// Who chooses the path.
#[derive(Clone)]
enum Policy {
    Balanced(Box<Balancer>),
    Fixed { share: f64, owed: f64, strict: bool },
}

impl Policy {
    fn choose(&self) -> Path {
        match self {
            Self::Balanced(balancer) => balancer.choose(Mode::Adaptive),
            Self::Fixed { owed, .. } if *owed >= 0.0 => Path::Gpu,
            Self::Fixed { .. } => Path::Cpu,
        }
    }

    fn most_for_cpu(&self, cpu: f64) -> usize {
        match self {
            Self::Balanced(balancer) => balancer.most_for_cpu(),
            Self::Fixed { .. } => ((BUDGET / cpu) as usize).clamp(FEWEST, TILE),
        }
    }

    fn gone(&mut self, way: Path, packets: usize) {
        match self {
            Self::Balanced(balancer) => balancer.gone(way, packets),
            Self::Fixed { share, owed, .. } => {
                let taken = if way == Path::Gpu { packets as f64 } else { 0.0 };
                *owed = (*owed + *share * packets as f64 - taken).min(BATCH as f64);
            }
        }
    }
}

struct Flight {
    way: Path,
    packets: usize,
    done: f64,
    cost: f64,
}

struct Lane {
    policy: Policy,
    time: f64,
    /// The thread's work since it got its core.
    worked: f64,
    /// The pause at the end of this round.
    lost: f64,
    queue: VecDeque<Flight>,
    held: usize,
    delivered: u64,
}

impl Lane {
    /// Works for `cost`. If the thread loses its core meanwhile, the measured time is longer. The pause itself is
    /// added at the end of the round, because lanes take their rounds in order of time, and a lane that does nothing
    /// after a pause does not affect others.
    fn work(&mut self, cost: f64, pause: f64) -> f64 {
        self.worked += cost;
        let lost = if self.worked >= SLICE { pause } else { 0.0 };
        self.worked %= SLICE;
        self.time += cost;
        self.lost += lost;
        cost + lost
    }
}

struct Model {
    costs: Costs,
    noise: Noise,
    lanes: Vec<Lane>,
    /// The time at which the device has finished its batches.
    device: f64,
    random: Rng,
    weather: Vec<f64>,
}

impl Model {
    fn new(costs: Costs, noise: Noise, lanes: usize, policy: &Policy, seed: u64) -> Self {
        let lane = || Lane {
            policy: policy.clone(),
            time: 0.0,
            worked: 0.0,
            lost: 0.0,
            queue: VecDeque::new(),
            held: 0,
            delivered: 0,
        };
        Self {
            costs,
            noise,
            lanes: std::iter::repeat_with(lane).take(lanes).collect(),
            device: 0.0,
            weather: weather(noise.traffic, seed),
            random: Rng::with_seed(seed),
        }
    }

    /// Runs until all lanes have reached `end`; returns the number of packets delivered.
    fn run_until(&mut self, end: u64) -> u64 {
        loop {
            let next = self.lanes.iter().enumerate().min_by(|a, b| a.1.time.total_cmp(&b.1.time));
            match next {
                Some((lane, first)) if first.time < end as f64 => self.step(lane),
                _ => return self.lanes.iter().map(|lane| lane.delivered).sum(),
            }
        }
    }

    /// One round of a lane's thread: delivers finished batches, then processes a batch.
    fn step(&mut self, lane: usize) {
        let about = self.about(lane);
        let Costs { cpu, gather, deliver, submit, service, each, latency } = self.costs;
        let stalls = self.random.f64() * 1000.0 < self.noise.stalls;
        let pause = self.noise.preempted * MILLISECOND as f64 * around(&mut self.random, 0.5);
        let lane = &mut self.lanes[lane];

        if lane.held + BATCH > LENGTH * BATCH {
            let waited = (lane.queue[0].done - lane.time).max(0.0);
            lane.time += waited;
            if let Policy::Balanced(balancer) = &mut lane.policy {
                balancer.waited(waited);
            }
        }
        while lane.queue.front().is_some_and(|flight| flight.done <= lane.time) {
            let Some(mut flight) = lane.queue.pop_front() else { break };
            if flight.way == Path::Gpu {
                flight.cost += lane.work(deliver * flight.packets as f64 * about, pause);
            }
            lane.held -= flight.packets;
            lane.delivered += flight.packets as u64;
            if let Policy::Balanced(balancer) = &mut lane.policy {
                balancer.note(flight.way, flight.packets, flight.cost);
            }
        }
        if let Policy::Balanced(balancer) = &mut lane.policy {
            balancer.tick(lane.time as u64);
        }

        let mut way = lane.policy.choose();
        let under_way = lane.queue.iter().filter(|flight| flight.way == Path::Gpu).count();
        if way == Path::Gpu && under_way == SLOTS {
            if matches!(lane.policy, Policy::Fixed { strict: true, .. }) {
                let first = lane.queue.iter().find(|flight| flight.way == Path::Gpu);
                lane.time = first.map_or(lane.time, |first| first.done.max(lane.time)) + 1.0;
                return;
            }
            way = Path::Cpu;
            if let Policy::Balanced(balancer) = &mut lane.policy {
                balancer.crowded();
            }
        }
        let (packets, cost) = match way {
            Path::Gpu => (BATCH, gather * BATCH as f64 + submit),
            Path::Cpu => {
                let packets = lane.policy.most_for_cpu(cpu);
                (packets, cpu * packets as f64)
            }
        };
        let cost = lane.work(cost * about, pause);
        lane.policy.gone(way, packets);
        let done = match way {
            Path::Cpu => lane.time,
            Path::Gpu => {
                let more = if stalls { MILLISECOND as f64 } else { 0.0 };
                let takes = (service + each * packets as f64) * about + more;
                self.device = self.device.max(lane.time) + takes;
                self.device.max(lane.time + latency)
            }
        };
        lane.held += packets;
        lane.queue.push_back(Flight { way, packets, done, cost });
        lane.time += std::mem::take(&mut lane.lost);
    }

    /// The current factor of all costs.
    fn about(&mut self, lane: usize) -> f64 {
        let now = self.lanes[lane].time as usize / WEATHER;
        self.weather[now % self.weather.len()] * around(&mut self.random, self.noise.batch)
    }

    fn share(&self) -> f64 {
        let shares = self.lanes.iter().map(|lane| match &lane.policy {
            Policy::Balanced(balancer) => balancer.share(),
            Policy::Fixed { share, .. } => *share,
        });
        shares.sum::<f64>() / self.lanes.len() as f64
    }
}

fn weather(part: f64, seed: u64) -> Vec<f64> {
    let mut random = Rng::with_seed(seed);
    (0..SEASON as usize / WEATHER).map(|_| around(&mut random, part)).collect()
}

fn around(random: &mut Rng, part: f64) -> f64 {
    1.0 + part * (2.0 * random.f64() - 1.0)
}

fn balanced() -> Policy {
    Policy::Balanced(Box::new(Balancer::new(PERIOD, PROBE, BUDGET)))
}

/// The rate of the best fixed split in packets per nanosecond, and the split.
fn best(costs: Costs, noise: Noise, lanes: usize, seed: u64) -> (f64, f64) {
    let free = (0..=10).map(|tenths| (tenths, false));
    let strict = [3, 5, 8, 10].map(|tenths| (tenths, true));
    let splits = free.chain(strict).map(|(tenths, strict)| {
        let share = f64::from(tenths) / 10.0;
        let policy = Policy::Fixed { share, owed: 0.0, strict };
        let mut model = Model::new(costs, noise, lanes, &policy, seed);
        let before = model.run_until(50 * MILLISECOND);
        let after = model.run_until(50 * MILLISECOND + SEASON);
        ((after - before) as f64 / SEASON as f64, share)
    });
    splits.max_by(|a, b| a.0.total_cmp(&b.0)).unwrap()
}

const STRETCH: u64 = 100 * MILLISECOND;

/// For each stretch from the model's present time to `end`: the rate in packets per nanosecond, and the share at its
/// end.
fn stretches(model: &mut Model, from: u64, end: u64) -> Vec<(f64, f64)> {
    let mut before = model.run_until(from);
    let ends = (1..=(end - from) / STRETCH).map(|n| from + n * STRETCH);
    ends.map(|end| {
        let after = model.run_until(end);
        let rate = (after - std::mem::replace(&mut before, after)) as f64 / STRETCH as f64;
        (rate, model.share())
    })
    .collect()
}

/// The mean rate of stretches.
fn mean(stretches: &[(f64, f64)]) -> f64 {
    stretches.iter().map(|stretch| stretch.0).sum::<f64>() / stretches.len() as f64
}

/// The time in milliseconds after which no season is below 95% of `best`.
fn settled(stretches: &[(f64, f64)], best: f64) -> u64 {
    let slow =
        stretches.windows((SEASON / STRETCH) as usize).rposition(|row| mean(row) < 0.95 * best);
    slow.map_or(0, |at| (at as u64 + 1) * STRETCH / MILLISECOND)
}

/// Runs a model for three seconds. Returns its rate after the second one, relative to `best`, the time when it
/// settled, and the model.
fn course(model: &mut Model, best: f64) -> (f64, u64) {
    let course = stretches(model, 0, 3 * SECOND);
    (mean(&course[20..]) / best, settled(&course, best))
}

#[test]
fn within_two_seconds_it_is_as_fast_as_the_best_split() {
    for (name, costs) in [
        ("lookup", LOOKUP),
        ("classify", CLASSIFY),
        ("match", MATCH),
        ("slow device", SLOW_DEVICE),
        ("hostile", HOSTILE),
        ("distant", DISTANT),
    ] {
        for lanes in [1, 3] {
            for (noise, seed) in [(QUIET, 0), (NOISY, lanes as u64), (BUSY, 9)] {
                let (best, split) = best(costs, noise, lanes, seed);
                let mut model = Model::new(costs, noise, lanes, &balanced(), seed);
                let (reached, settled) = course(&mut model, best);
                println!(
                    "{name:11} lanes {lanes} seed {seed}: best split {split:.2}, at {reached:.3} of its rate \
                     with {:.2} meant for the device, settled after {settled} ms",
                    model.share(),
                );
                assert!(reached >= 0.95, "{name}, {lanes} lanes, seed {seed}: {reached}");
                assert!(settled <= 2000, "{name}, {lanes} lanes, seed {seed}: {settled} ms");
            }
        }
    }
}

#[test]
fn the_cpu_gets_what_it_does_cheaper() {
    for seed in 0..6 {
        let noise = [QUIET, NOISY, BUSY][seed as usize % 3];
        let mut model = Model::new(LOOKUP, noise, 2, &balanced(), seed);
        let shares = stretches(&mut model, 0, 2 * SECOND);
        let low = shares.iter().position(|stretch| stretch.1 < 0.1);
        println!("seed {seed}: less than a tenth to the device from stretch {low:?} on");
        assert!(low.is_some_and(|low| shares[low..].iter().all(|stretch| stretch.1 < 0.1)));
    }
}

#[test]
fn it_follows_a_change_of_traffic() {
    for seed in 0..6 {
        let noise = [QUIET, NOISY, BUSY][seed as usize % 3];
        let mut model = Model::new(LOOKUP, noise, 1, &balanced(), seed);
        let mut now = 0;
        for (name, costs) in [
            ("lookup", LOOKUP),
            ("match", MATCH),
            ("lookup", LOOKUP),
            ("classify", CLASSIFY),
            ("slow device", SLOW_DEVICE),
            ("lookup", LOOKUP),
        ] {
            model.costs = costs;
            let (best, _) = best(costs, noise, 1, seed);
            let course = stretches(&mut model, now, now + 3 * SECOND);
            let settled = settled(&course, best);
            println!("seed {seed}: {name:11} again at the best split's rate after {settled} ms");
            assert!(settled <= 2000, "{name}, seed {seed}: {settled} ms");
            now += 3 * SECOND;
        }
    }
}

#[test]
fn the_share_is_stable_under_noise() {
    // Both paths cost nearly the same, or the best split is at one end.
    let even = Costs { cpu: 17.0, ..LOOKUP };
    for (name, costs) in [("even", even), ("classify", CLASSIFY)] {
        for (seed, noise) in [(0, NOISY), (1, NOISY), (2, BUSY), (3, BUSY)] {
            let (best, _) = best(costs, noise, 1, seed);
            let mut model = Model::new(costs, noise, 1, &balanced(), seed);
            let course = stretches(&mut model, 2 * SECOND, 5 * SECOND);
            let shares = course.iter().map(|stretch| stretch.1);
            let least = shares.clone().fold(1.0, f64::min);
            let most = shares.fold(0.0, f64::max);
            println!(
                "{name} seed {seed}: between {least:.2} and {most:.2}, {:.3}",
                mean(&course) / best
            );
            assert!(most - least <= 0.2, "{name}, seed {seed}: {least} to {most}");
            assert!(course.windows(4).all(|row| mean(row) >= 0.95 * best), "{name}, seed {seed}");
        }
    }
}

#[test]
fn fixed_modes_are_obeyed() {
    let mut balancer = Balancer::new(PERIOD, PROBE, BUDGET);
    for _ in 0..100 {
        assert_eq!(balancer.choose(Mode::Gpu), Path::Gpu);
        balancer.gone(Path::Gpu, BATCH);
    }
    for _ in 0..100 {
        assert_eq!(balancer.choose(Mode::Cpu), Path::Cpu);
        balancer.gone(Path::Cpu, TILE);
    }
}

#[test]
fn without_traffic_the_share_does_not_move() {
    let mut balancer = Balancer::new(PERIOD, PROBE, 500_000.0);
    balancer.tick(0);
    for (way, cost) in [(Path::Gpu, 256.0), (Path::Cpu, 512.0)] {
        balancer.note(way, 256, cost);
    }
    balancer.tick(PERIOD);
    let share = balancer.share();
    assert!(share > 0.5);
    (2..100).for_each(|period| balancer.tick(period * PERIOD));
    assert_eq!(balancer.share(), share);
}

/// The thread sometimes loses its core in the middle of a batch, of either path.
#[test]
fn an_outlier_batch_does_not_move_the_share() {
    let mut balancer = Balancer::new(PERIOD, PROBE, BUDGET);
    let mut random = Rng::with_seed(1);
    balancer.tick(0);
    for period in 1..60 {
        let before = balancer.share();
        for (way, batches, each) in [(Path::Gpu, 20, 20.0), (Path::Cpu, 10, 30.0)] {
            let hit = random.usize(..3 * batches);
            for batch in 0..batches {
                let times = if batch == hit { random.f64() * 90.0 + 10.0 } else { 1.0 };
                balancer.note(way, 256, 256.0 * each * times);
            }
        }
        balancer.tick(period * PERIOD);
        assert!(balancer.share() >= before, "period {period}: {}", balancer.share());
    }
    assert_eq!(balancer.share(), 1.0);
}
