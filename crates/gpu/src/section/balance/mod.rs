//! The balancer: decides which fraction of a lane's packets the device processes.
//!
//! A lane's thread does all work except that of the kernels. So the rate is limited by the thread's time per packet,
//! and the split that costs the thread least is also the fastest, until the device is at its limit. Beyond that, the
//! CPU twins process what the device cannot, and the fastest split is the one at which the device is just busy.
//!
//! So the balancer uses hill climbing: every [`PERIOD`] it compares the thread's cost per packet on both paths, and
//! moves the share of the device by a step towards the cheaper path. It compares the two paths with each other, and
//! not this period with the last one, because other changes (traffic, caches, neighbours) affect both paths. A
//! difference below [`HYSTERESIS`] has no effect. Steps grow while they go in one direction, and shrink when the
//! direction changes (Riedmiller and Braun's resilient propagation, ICNN'93). This moves the share from one end to
//! the other in about a second.
//!
//! If the device has no free slot for a batch, the batch goes to the CPU, and the share does not grow. If the lane
//! must wait for the device, because it is full of batches behind one that is not done, the share falls at once to
//! the value at which the twins would have had work during that time.
//!
//! A small part of the traffic always takes the more expensive path, so that the known cost of that path stays
//! recent: a fraction [`PROBE`] of it, or less if that would cost more than [`PROBE_COST`] of the thread's time.
//!
//! Costs are measured by the time stamp counter, which continues while another thread uses the core. A batch that
//! cost many times as much as most others is not counted, as long as such batches are rare (module `window`).
//!
//! The balancer does no I/O and reads no clock: its inputs are costs, in any unit, and its outputs are decisions.

use super::path::{Mode, Path};
use crate::kernel::TILE;

#[cfg(test)]
mod simulation;
mod window;

use self::window::Window;

/// Default time from one step to the next, in nanoseconds.
pub const PERIOD: u64 = 200_000_000;
/// The relative difference in cost below which the share does not change.
pub const HYSTERESIS: f64 = 0.05;
/// The default maximum fraction of packets that takes the other path for comparison.
pub const PROBE: f64 = 0.02;
/// The fraction of the thread's time that comparisons may cost.
pub const PROBE_COST: f64 = 0.01;
/// The first step of the share.
pub const STEP: f64 = 0.05;
/// The smallest and the greatest step.
const STEPS: (f64, f64) = (0.0125, 0.2);
/// The fraction of a period that the thread may wait before the share falls.
const WAITS: f64 = 0.02;
/// Waiting is first examined after this fraction of a period (1 / SOON), with a higher limit, because a device may
/// stall for a moment.
const SOON: u64 = 10;
const WAITS_SOON: f64 = 0.1;
/// If a greater fraction of the batches meant for the device finds no slot, the share does not grow.
const CROWDED: f64 = 0.5;
/// Minimum number of packets of a batch for the twins, some of which process eight packets side by side.
pub const FEWEST: usize = 16;
/// With this number of batches on a path in a period, half of the cost comes from them and half from earlier periods.
const MEMORY: f64 = 1.0;
/// From this number of batches on, the cost is known again.
const ENOUGH: f64 = 3.0;

/// Decides between the device and the CPU for one lane.
#[derive(Clone, Debug)]
pub struct Balancer {
    /// The fraction of packets that is meant for the device.
    share: f64,
    step: f64,
    /// The direction of the last step.
    direction: f64,
    /// The number of packets that the device should have got and has not; negative if it has got more.
    owed: f64,
    /// The cost per packet on each path, if it is known.
    costs: [Option<f64>; 2],
    /// The measurements of each path.
    windows: [Window; 2],
    period: Period,
    /// [`PERIOD`] and [`PROBE`].
    interval: u64,
    probe: f64,
    /// The maximum cost of a batch for the twins.
    budget: f64,
}

/// The sums of the current period.
#[derive(Clone, Copy, Debug, Default)]
struct Period {
    began: Option<u64>,
    /// By way: batches, packets.
    batches: [f64; 2],
    packets: [f64; 2],
    /// Their cost on the thread.
    cost: f64,
    /// The cost of waiting for the device.
    waited: f64,
    /// Batches that were meant for the device and found no slot.
    crowded: f64,
}

impl Balancer {
    /// A balancer without knowledge. It compares every `interval` nanoseconds. At most a fraction `probe` of the
    /// packets takes the other path for that. A batch for the twins costs at most `budget`, so that the device does
    /// not run out of work meanwhile.
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

    /// The path of the next batch.
    pub fn choose(&self, mode: Mode) -> Path {
        match mode {
            Mode::Gpu => Path::Gpu,
            Mode::Cpu => Path::Cpu,
            Mode::Adaptive if self.owed >= 0.0 => Path::Gpu,
            Mode::Adaptive => Path::Cpu,
        }
    }

    /// Maximum number of packets of a batch for the twins.
    pub fn most_for_cpu(&self) -> usize {
        const CPU: usize = Path::Cpu as usize;
        match self.costs[CPU].or_else(|| self.windows[CPU].cost()) {
            Some(cost) if cost > 0.0 => ((self.budget / cost) as usize).clamp(FEWEST, TILE),
            _ => FEWEST,
        }
    }

    /// Notes that a batch of this size has taken a path, chosen or not.
    pub fn gone(&mut self, way: Path, packets: usize) {
        let packets = packets as f64;
        let taken = if way == Path::Gpu { packets } else { 0.0 };
        // A deficit that arose because the device was busy is not made up for, because that would overload it again.
        self.owed = (self.owed + self.target() * packets - taken).min(packets);
    }

    /// Notes that a batch that was meant for the device has found no free slot.
    pub fn crowded(&mut self) {
        self.period.crowded += 1.0;
    }

    /// Notes that the lane was full and waited for the device.
    pub fn waited(&mut self, cost: f64) {
        self.period.waited += cost;
    }

    /// Notes that a batch was delivered, and its cost on the thread.
    pub fn note(&mut self, way: Path, packets: usize, cost: f64) {
        let way = way as usize;
        self.period.batches[way] += 1.0;
        self.period.packets[way] += packets as f64;
        self.period.cost += cost;
        self.windows[way].note(packets as f64, cost);
    }

    /// Does what is due at this time. At the end of a period, the share moves.
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
            // One or two batches are not significant if one of them may be an outlier: they are kept for the next
            // period.
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

    /// The fraction of packets that is meant for the device.
    pub fn share(&self) -> f64 {
        self.share
    }

    /// The cost per packet on a path, if it is known.
    pub fn cost(&self, way: Path) -> Option<f64> {
        self.costs[way as usize]
    }

    /// Reduces the share to the value at which the twins have work while the lane would wait.
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

    /// The relative advantage of the device's path over the CPU's; negative if the device is more expensive.
    fn advantage(&self) -> Option<f64> {
        let (gpu, cpu) = (self.cost(Path::Gpu)?, self.cost(Path::Cpu)?);
        Some((cpu - gpu) / cpu.max(gpu).max(f64::MIN_POSITIVE))
    }

    /// The share, corrected for the packets that take the other path for comparison.
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
    /// True if nothing was measured in it. Old costs alone do not move the share.
    fn is_empty(&self) -> bool {
        self.batches == [0.0; 2] && self.waited == 0.0 && self.crowded == 0.0
    }

    /// The fraction of the time that the thread waited for the device.
    fn waits(&self) -> f64 {
        let all = self.waited + self.cost;
        if all > 0.0 { self.waited / all } else { 0.0 }
    }
}
