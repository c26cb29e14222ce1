//! The balancer: which part of a lane's packets the device treats.
//!
//! A lane's thread does everything but the kernels' work, so packets a second are one over the thread's time for a packet, and the
//! split that costs the thread least is also the fastest one, until the device is at its limit. Then what the device cannot take
//! goes to the CPU twins, and the fastest split is the one at which the device is just busy.
//!
//! So the balancer climbs: every [`PERIOD`] it compares what a packet cost the thread by either way and moves the share of the
//! device by a step towards the cheaper one. It compares the two ways with each other and not this period with
//! the last one, since what else changes from period to period (traffic, caches, neighbours) touches both. A difference
//! below [`HYSTERESIS`] moves nothing. Steps grow while they lead one way and shrink when they turn (Riedmiller and Braun's
//! resilient propagation, ICNN'93), which brings the share from one end to the other in about a second.
//!
//! A batch for which the device has no free slot goes to the CPU, and the share does not grow. When the lane must even wait for
//! the device, because it is full of batches behind one that is not done, the share falls at once to the one at which the twins
//! would have had work in that time.
//!
//! A little traffic goes the dearer way always, lest the costs of that way grow old: [`PROBE`] of it, or less when the
//! probe would cost more than [`PROBE_COST`] of the thread's time.
//!
//! Costs are measured by the time stamp counter, which goes on while something else has the thread's core. A batch that cost
//! many times what most cost is not counted, as long as such batches are rare (module `window`).
//!
//! It does no I/O and reads no clock: costs go in, in whatever unit, decisions come out.

use super::path::{Mode, Path};
use crate::kernel::TILE;

#[cfg(test)]
mod simulation;
mod window;

use self::window::Window;

/// Nanoseconds from one step to the next, unless it is told otherwise.
pub const PERIOD: u64 = 200_000_000;
/// By how much one way must be cheaper.
pub const HYSTERESIS: f64 = 0.05;
/// The part of packets that goes the other way for comparison, at most, unless it is told otherwise.
pub const PROBE: f64 = 0.02;
/// The part of the thread's time that comparing may cost.
pub const PROBE_COST: f64 = 0.01;
/// The first step of the share.
pub const STEP: f64 = 0.05;
/// The least and the greatest one.
const STEPS: (f64, f64) = (0.0125, 0.2);
/// The part of a period that the thread may wait before the share falls.
const WAITS: f64 = 0.02;
/// The part of a period after which this is looked at for the first time, and how much it may be then: a device may stall
/// for a moment.
const SOON: u64 = 10;
const WAITS_SOON: f64 = 0.1;
/// The part of the batches meant for the device that may find no slot before the share grows no more.
const CROWDED: f64 = 0.5;
/// Fewest packets of a batch for the twins, some of which treat eight side by side.
pub const FEWEST: usize = 16;
/// With so many batches of a way in a period, half of its cost is taken from them and half from those before.
const MEMORY: f64 = 1.0;
/// From so many batches on a cost is known anew.
const ENOUGH: f64 = 3.0;

/// Decides between the device and the CPU, for one lane.
#[derive(Clone, Debug)]
pub struct Balancer {
    /// The part of packets meant for the device.
    share: f64,
    step: f64,
    /// Where the last step went.
    direction: f64,
    /// Packets that the device should have had and has not; below 0 it has had more.
    owed: f64,
    /// Cost of a packet by each way, as far as that is known.
    costs: [Option<f64>; 2],
    /// What these are made of, by way.
    windows: [Window; 2],
    period: Period,
    /// [`PERIOD`] and [`PROBE`].
    interval: u64,
    probe: f64,
    /// What a batch for the twins may cost.
    budget: f64,
}

/// What has been in a period so far.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    began: Option<u64>,
    /// By way: batches, packets.
    batches: [f64; 2],
    packets: [f64; 2],
    /// What they cost the thread.
    cost: f64,
    /// What waiting for the device cost.
    waited: f64,
    /// Batches that were meant for the device and found no slot.
    crowded: f64,
}

impl Balancer {
    /// A balancer that does not know anything yet. It compares every `interval` nanoseconds, and lets `probe` of the packets at
    /// most go the other way for it. The twins get as many packets at a time as cost `budget`, lest the device run out of
    /// work meanwhile.
    pub fn new(interval: u64, probe: f64, budget: f64) -> Self {
        Self {
            share: 0.5,
            step: STEP,
            direction: 0.0,
            owed: 0.0,
            costs: [None; 2],
            windows: Default::default(),
            period: Period::default(),
            interval,
            probe,
            budget,
        }
    }

    /// The way of the next batch.
    pub fn choose(&self, mode: Mode) -> Path {
        match mode {
            Mode::Gpu => Path::Gpu,
            Mode::Cpu => Path::Cpu,
            Mode::Adaptive if self.owed >= 0.0 => Path::Gpu,
            Mode::Adaptive => Path::Cpu,
        }
    }

    /// Most packets of a batch for the twins.
    pub fn most_for_cpu(&self) -> usize {
        const CPU: usize = Path::Cpu as usize;
        match self.costs[CPU].or_else(|| self.windows[CPU].cost()) {
            Some(cost) if cost > 0.0 => ((self.budget / cost) as usize).clamp(FEWEST, TILE),
            _ => FEWEST,
        }
    }

    /// A batch of so many packets has gone a way, be it the chosen one or not.
    pub fn gone(&mut self, way: Path, packets: usize) {
        let packets = packets as f64;
        let taken = if way == Path::Gpu { packets } else { 0.0 };
        // What could not be had once is not made up for: that would crowd the device again.
        self.owed = (self.owed + self.target() * packets - taken).min(packets);
    }

    /// A batch that was meant for the device has found no free slot.
    pub fn crowded(&mut self) {
        self.period.crowded += 1.0;
    }

    /// The lane, being full, waited for the device.
    pub fn waited(&mut self, cost: f64) {
        self.period.waited += cost;
    }

    /// A batch is delivered, and has cost so much of the thread's time.
    pub fn note(&mut self, way: Path, packets: usize, cost: f64) {
        let way = way as usize;
        self.period.batches[way] += 1.0;
        self.period.packets[way] += packets as f64;
        self.period.cost += cost;
        self.windows[way].note(packets as f64, cost);
    }

    /// Time goes on. At the end of a period the share moves.
    pub fn tick(&mut self, now: u64) {
        let began = *self.period.began.get_or_insert(now);
        let passed = now.saturating_sub(began);
        if passed < self.interval / SOON
            || passed < self.interval && self.period.waits() <= WAITS_SOON
        {
            return;
        }
        let next = Period { began: Some(now), ..Period::default() };
        let period = std::mem::replace(&mut self.period, next);
        if period.is_empty() {
            return;
        }
        for way in [Path::Gpu as usize, Path::Cpu as usize] {
            // One or two say nothing when one of them may be far off: they wait for the next ones.
            let window = &mut self.windows[way];
            if window.batches() >= ENOUGH || self.costs[way].is_none() {
                let Some(cost) = window.cost() else { continue };
                let weight = window.batches() / (window.batches() + MEMORY);
                let known = self.costs[way].get_or_insert(cost);
                *known += weight * (cost - *known);
                *window = Window::default();
            }
        }
        let slow = period.waits() > WAITS;
        if slow {
            self.fall(&period);
        }
        let meant = period.batches[Path::Gpu as usize] + period.crowded;
        self.step_on(slow || period.crowded > CROWDED * meant);
    }

    /// The part of packets that is meant for the device.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// What a packet costs by a way, as far as that is known.
    pub fn cost(&self, way: Path) -> Option<f64> {
        self.costs[way as usize]
    }

    /// The share at which the twins have work while the lane would wait.
    fn fall(&mut self, period: &Period) {
        let [gpu, cpu] = period.packets;
        let Some(cost) = self.cost(Path::Cpu).filter(|cost| *cost > 0.0) else { return };
        let share = gpu / (gpu + cpu + period.waited / cost).max(1.0);
        self.share = share.min(self.share);
        if self.direction > 0.0 {
            (self.step, self.direction) = (STEPS.0, 0.0);
        }
    }

    fn step_on(&mut self, crowded: bool) {
        let direction = match self.advantage() {
            // The device has no room for more.
            Some(advantage) if advantage > HYSTERESIS && !crowded => 1.0,
            Some(advantage) if advantage < -HYSTERESIS => -1.0,
            _ => return,
        };
        if direction * self.direction > 0.0 {
            self.share = (self.share + direction * self.step).clamp(0.0, 1.0);
            self.step = (self.step * 2.0).min(STEPS.1);
        } else {
            if self.direction != 0.0 {
                self.step = (self.step / 2.0).max(STEPS.0);
            }
            self.share = (self.share + direction * self.step).clamp(0.0, 1.0);
        }
        self.direction = direction;
    }

    /// By what part the device's way is cheaper than the CPU's; negative when it is dearer.
    fn advantage(&self) -> Option<f64> {
        let (gpu, cpu) = (self.cost(Path::Gpu)?, self.cost(Path::Cpu)?);
        Some((cpu - gpu) / cpu.max(gpu).max(f64::MIN_POSITIVE))
    }

    /// The share, without what goes the other way for comparison.
    fn target(&self) -> f64 {
        let probe = match (self.cost(Path::Gpu), self.cost(Path::Cpu)) {
            (Some(gpu), Some(cpu)) => {
                let dearer = gpu.max(cpu) / gpu.min(cpu).max(f64::MIN_POSITIVE);
                self.probe.min(PROBE_COST / (dearer - 1.0).max(f64::MIN_POSITIVE))
            }
            _ => self.probe,
        };
        self.share.clamp(probe, 1.0 - probe)
    }
}

impl Period {
    /// Whether nothing was learnt in it: old costs alone move no share.
    fn is_empty(&self) -> bool {
        self.batches == [0.0; 2] && self.waited == 0.0 && self.crowded == 0.0
    }

    /// The part of the time that the thread waited for the device.
    fn waits(&self) -> f64 {
        let all = self.waited + self.cost;
        if all > 0.0 { self.waited / all } else { 0.0 }
    }
}
