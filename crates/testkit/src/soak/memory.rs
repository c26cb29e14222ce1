//! What the router has: resident memory and open files, and whether they grow.

use std::fs;
use std::time::{Duration, Instant};

/// Samples of one life of the router after another.
#[derive(Debug)]
pub(super) struct Memory {
    /// The time at the start of a life that does not count.
    settles: Duration,
    lives: Vec<Life>,
}

#[derive(Debug)]
struct Life {
    process: u32,
    begun: Instant,
    swaps: u64,
    samples: Vec<Sample>,
    /// It is about to end, and gives its memory back.
    ends: bool,
}

#[derive(Clone, Copy, Debug)]
struct Sample {
    /// Seconds.
    at: f64,
    /// Swaps of this life so far.
    swaps: f64,
    /// Megabytes (10^6).
    resident: f64,
    files: usize,
}

/// What the samples tell.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Growth {
    /// Seconds that were watched, swaps in them, and samples.
    pub(super) seconds: f64,
    pub(super) swaps: f64,
    pub(super) samples: usize,
    /// Of the longest life: resident megabytes at its first and last sample, and the most.
    pub(super) first: f64,
    pub(super) last: f64,
    pub(super) most: f64,
    /// Megabytes an hour that the resident memory grows.
    pub(super) by_time: Slope,
    /// Megabytes a swap.
    pub(super) by_swap: Slope,
    /// Of the longest life: open files at its first and last sample.
    pub(super) files: (usize, usize),
}

/// The slope of a line by least squares, and its standard error.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) struct Slope {
    pub(super) value: f64,
    pub(super) error: f64,
}

/// While it begins, a router touches memory for the first time, and the first swaps do. So do the first faults of each
/// kind: what comes in after a standstill needs more room than anything before.
const SETTLES: Duration = Duration::from_secs(60);
const SETTLES_WITH_FAULTS: Duration = Duration::from_secs(180);
const SWAPS_TO_SETTLE: u64 = 50;

/// So many seconds, and so many swaps where there are any, tell whether memory grows.
const LONG_ENOUGH: f64 = 600.0;
const SWAPS_ENOUGH: f64 = 300.0;

/// Growth that counts as none: megabytes a swap, and an hour where there are no swaps.
const FLAT_BY_SWAP: f64 = 0.003;
const FLAT_BY_TIME: f64 = 20.0;

impl Growth {
    /// Whether memory grows, and by how much; `None` if that was not watched for long enough to tell.
    pub(super) fn verdict(&self) -> Option<Result<(), String>> {
        let Self { by_swap, by_time, .. } = self;
        // Beyond what the scatter of the samples may feign.
        let exceeds = |slope: &Slope, flat: f64| slope.value - 2.0 * slope.error > flat;
        if self.swaps >= SWAPS_ENOUGH {
            return Some(match exceeds(by_swap, FLAT_BY_SWAP) {
                true => Err(format!("{:.1} kB a swap", by_swap.value * 1e3)),
                false => Ok(()),
            });
        }
        (self.swaps < 1.0 && self.seconds >= LONG_ENOUGH).then(|| {
            match exceeds(by_time, FLAT_BY_TIME) {
                true => Err(format!("{:.1} MB an hour", by_time.value)),
                false => Ok(()),
            }
        })
    }
}

impl Memory {
    /// Of routers that are swapped alone, or that other things happen to.
    pub(super) fn new(has_faults: bool) -> Self {
        let settles = if has_faults { SETTLES_WITH_FAULTS } else { SETTLES };
        Self { settles, lives: Vec::new() }
    }

    /// A router has begun to run.
    pub(super) fn begin(&mut self, process: u32) {
        let begun = Instant::now();
        self.lives.push(Life { process, begun, swaps: 0, samples: Vec::new(), ends: false });
    }

    /// It was swapped.
    pub(super) fn swapped(&mut self) {
        self.lives.last_mut().into_iter().for_each(|life| life.swaps += 1);
    }

    /// It is about to end.
    pub(super) fn end(&mut self) {
        if let Some(life) = self.lives.last_mut() {
            life.ends = true;
        }
    }

    /// Looks at it.
    pub(super) fn sample(&mut self) {
        let Some(life) = self.lives.last_mut() else { return };
        let age = life.begun.elapsed();
        let settles = age < self.settles || (1..SWAPS_TO_SETTLE).contains(&life.swaps);
        if settles || life.ends {
            return;
        }
        let status = fs::read_to_string(format!("/proc/{}/status", life.process));
        let files = fs::read_dir(format!("/proc/{}/fd", life.process)).map_or(0, Iterator::count);
        // Who has just ended has none.
        if let Some(resident) = resident(&status.unwrap_or_default()) {
            let (at, swaps) = (age.as_secs_f64(), life.swaps as f64);
            life.samples.push(Sample { at, swaps, resident, files });
        }
    }

    pub(super) fn growth(&self) -> Growth {
        let samples = || self.lives.iter().map(|life| life.samples.as_slice());
        let longest = samples().max_by_key(|samples| samples.len()).unwrap_or_default();
        let span = |of: fn(&Sample) -> f64| {
            let span = |samples: &[Sample]| match samples {
                [first, .., last] => of(last) - of(first),
                _ => 0.0,
            };
            samples().map(span).fold(0.0, |all, span| all + span)
        };
        let (first, last) = (longest.first(), longest.last());
        let by_time = slope(samples(), |sample| sample.at);
        Growth {
            seconds: span(|sample| sample.at),
            swaps: span(|sample| sample.swaps),
            samples: samples().map(<[Sample]>::len).sum(),
            first: first.map_or(0.0, |sample| sample.resident),
            last: last.map_or(0.0, |sample| sample.resident),
            most: samples().flatten().map(|sample| sample.resident).fold(0.0, f64::max),
            by_time: Slope { value: by_time.value * 3600.0, error: by_time.error * 3600.0 },
            by_swap: slope(samples(), |sample| sample.swaps),
            files: (first.map_or(0, |sample| sample.files), last.map_or(0, |sample| sample.files)),
        }
    }
}

/// The slope of straight lines through the samples of each life, which differ in height alone.
fn slope<'a>(lives: impl Iterator<Item = &'a [Sample]>, x: fn(&Sample) -> f64) -> Slope {
    let (mut products, mut squares, mut heights, mut free) = (0.0, 0.0, 0.0, 0.0);
    for samples in lives.filter(|samples| !samples.is_empty()) {
        let count = samples.len() as f64;
        let mean = |of: fn(&Sample) -> f64| samples.iter().map(of).sum::<f64>() / count;
        let (at, resident) = (mean(x), mean(|sample| sample.resident));
        for sample in samples {
            products += (x(sample) - at) * (sample.resident - resident);
            squares += (x(sample) - at).powi(2);
            heights += (sample.resident - resident).powi(2);
        }
        free += count - 1.0;
    }
    if squares <= 0.0 {
        return Slope::default();
    }
    let value = products / squares;
    let rest = (heights - value * products).max(0.0);
    let error = if free > 1.0 { (rest / (free - 1.0) / squares).sqrt() } else { 0.0 };
    Slope { value, error }
}

/// Resident megabytes, from the text of `/proc/PID/status`.
fn resident(status: &str) -> Option<f64> {
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"))?;
    let kib: f64 = line.split_whitespace().next()?.parse().ok()?;
    Some(kib * 1024.0 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn life(height: f64, slope: f64, scatter: f64) -> Vec<Sample> {
        let sample = |n: u32| {
            let off = if n.is_multiple_of(2) { scatter } else { -scatter };
            let resident = height + slope * f64::from(n) + off;
            Sample { at: n.into(), swaps: f64::from(n) * 2.0, resident, files: 3 }
        };
        (0..400).map(sample).collect()
    }

    #[test]
    fn lives_of_different_height_have_one_slope() {
        let fit = |lives: &[Vec<Sample>]| slope(lives.iter().map(Vec::as_slice), |s| s.at);
        let steep = fit(&[life(100.0, 0.5, 0.0), life(20.0, 0.5, 0.0), Vec::new()]);
        assert!((steep.value - 0.5).abs() < 1e-9 && steep.error < 1e-6, "{steep:?}");
        assert!(fit(&[life(7.0, 0.0, 0.0)]).value.abs() < 1e-9);
        assert_eq!(fit(&[]), Slope::default());
        // The error of a slope is the scatter by the width of the samples: 1 / sqrt(400 * 400^2 / 12).
        let scattered = fit(&[life(7.0, 0.0, 1.0)]);
        assert!((scattered.error - 0.000_433).abs() < 1e-5, "{scattered:?}");
    }

    #[test]
    fn growth_is_judged_by_the_swap_and_only_after_enough_of_them() {
        let memory = |samples: Vec<Sample>| {
            let begun = Instant::now();
            let life = Life { process: 0, begun, swaps: 0, samples, ends: true };
            Memory { lives: vec![life], ..Memory::new(false) }
        };
        let grown = memory(life(70.0, 0.02, 1.0)).growth();
        assert_eq!(grown.verdict(), Some(Err("10.0 kB a swap".to_owned())));
        assert_eq!(memory(life(70.0, 0.0, 1.0)).growth().verdict(), Some(Ok(())));
        // What scatters that much tells nothing.
        assert_eq!(memory(life(70.0, 0.02, 100.0)).growth().verdict(), Some(Ok(())));
        let short = life(70.0, 0.02, 1.0).into_iter().take(100).collect();
        assert_eq!(memory(short).growth().verdict(), None);
    }

    #[test]
    fn resident_memory_is_read() {
        assert_eq!(resident("Name:\tx\nVmRSS:\t    1000 kB\nRssAnon: 5 kB\n"), Some(1.024));
        assert_eq!(resident("Name:\tx\n"), None);
    }
}
