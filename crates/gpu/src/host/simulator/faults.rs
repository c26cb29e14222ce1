//! Faults that the simulator injects.

use std::collections::{HashMap, HashSet};
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use fastrand::Rng;
use millrace_core::Lock;

/// A step of a batch.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Point {
    /// The copies to the device.
    CopyIn,
    /// A launch of the plan, by its number.
    Launch(usize),
    /// The copies back.
    CopyOut,
    /// The word that says that the batch is done.
    Completion,
}

/// What happens instead of the step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// The step fails, and with it only its batch. A launch fails after half of its rows.
    Fail,
    /// The step never ends, so the steps after it in its lane never begin.
    Hang,
    /// The step begins later by this time.
    Late(Duration),
    /// The device is lost.
    Lose,
}

/// A call that can fail because of a lack of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Call {
    /// [`Device::load_table`](crate::Device::load_table).
    Table,
    /// [`Device::open_lane`](crate::Device::open_lane).
    Lane,
    /// [`DeviceLane::submit`](crate::DeviceLane::submit).
    Submit,
}

/// Controls the faults of a simulator, and collects its findings. Clones refer to the same simulator.
///
/// Batches are numbered from 0, over all lanes, in the order of their submission. The numbers continue when the
/// device is opened again.
///
/// As text, faults are separated by semicolons:
///
/// ```text
/// fail BATCH STEP
/// hang BATCH STEP
/// lose BATCH STEP
/// late BATCH STEP MICROSECONDS
/// oom table|lane|submit NUMBER
/// random PROBABILITY [SEED]
/// ```
///
/// where `STEP` is `in`, `launch NUMBER`, `out` or `done`. Calls are also numbered from 0.
///
/// ```
/// use millrace_gpu::host::{Fault, Faults, Point};
/// let faults: Faults = "fail 3 launch 0; lose 9 in; oom submit 5; random 0.001 7".parse().unwrap();
/// faults.at(20, Point::CopyOut, Fault::Hang);
/// assert!("fail 3 sometimes".parse::<Faults>().is_err());
/// ```
#[derive(Clone, Default)]
pub struct Faults(Arc<Lock<State>>);

#[derive(Default)]
struct State {
    script: HashMap<(u64, Point), Fault>,
    refusals: HashSet<(Call, u64)>,
    random: Option<(f64, Rng)>,
    batches: u64,
    calls: HashMap<Call, u64>,
    injected: u64,
    violations: Vec<String>,
}

impl Faults {
    /// No faults.
    pub fn none() -> Self {
        Self::default()
    }

    /// Injects a fault at a step of a batch.
    pub fn at(&self, batch: u64, step: Point, fault: Fault) {
        self.lock().script.insert((batch, step), fault);
    }

    /// Makes a call fail because of a lack of memory.
    pub fn refuse(&self, call: Call, number: u64) {
        self.lock().refusals.insert((call, number));
    }

    /// Makes each step of each batch fail with a probability. Half of the faults are failures of a step, a quarter
    /// are delays of up to 2 ms, an eighth each are hangs and losses.
    pub fn random(&self, probability: f64, seed: u64) {
        self.lock().random = Some((probability, Rng::with_seed(seed)));
    }

    /// Injects no faults from now on. Steps that hang continue to hang, and a lost device stays lost.
    pub fn clear(&self) {
        let mut state = self.lock();
        state.script.clear();
        state.refusals.clear();
        state.random = None;
    }

    /// The number of submitted batches, which is the number of the next one.
    pub fn batches(&self) -> u64 {
        self.lock().batches
    }

    /// The number of faults that happened.
    pub fn injected(&self) -> u64 {
        self.lock().injected
    }

    /// Reports of kernels that wrote outside of their slot or to tables.
    pub fn violations(&self) -> Vec<String> {
        self.lock().violations.clone()
    }

    pub(super) fn next_batch(&self) -> u64 {
        let mut state = self.lock();
        state.batches += 1;
        state.batches - 1
    }

    /// True if the next call of this kind is to fail.
    pub(super) fn refuses(&self, call: Call) -> bool {
        let mut state = self.lock();
        let number = state.calls.entry(call).or_default();
        let refusal = (call, *number);
        *number += 1;
        let refused = state.refusals.remove(&refusal);
        state.injected += u64::from(refused);
        refused
    }

    pub(super) fn next(&self, batch: u64, step: Point) -> Option<Fault> {
        let mut state = self.lock();
        let fault = match state.script.remove(&(batch, step)) {
            Some(fault) => Some(fault),
            None => state.random.as_mut().and_then(|(probability, rng)| {
                (rng.f64() < *probability).then(|| match rng.u8(0..8) {
                    0..4 => Fault::Fail,
                    4..6 => Fault::Late(Duration::from_micros(rng.u64(1..2000))),
                    6 => Fault::Hang,
                    _ => Fault::Lose,
                })
            }),
        };
        state.injected += u64::from(fault.is_some());
        fault
    }

    pub(super) fn violation(&self, what: String) {
        self.lock().violations.push(what);
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // No code panics while it holds the lock, and the state is consistent between any two statements.
        self.0.lock()
    }
}

impl fmt::Debug for Faults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = self.lock();
        f.debug_struct("Faults")
            .field("script", &state.script)
            .field("injected", &state.injected)
            .field("violations", &state.violations)
            .finish_non_exhaustive()
    }
}

impl FromStr for Faults {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let faults = Self::none();
        for fault in text.split(';').map(str::trim).filter(|fault| !fault.is_empty()) {
            let mut words = fault.split_whitespace();
            read(&faults, &mut words).ok_or_else(|| format!("no fault: '{fault}'"))?;
            if let Some(word) = words.next() {
                return Err(format!("'{word}' is too much in '{fault}'"));
            }
        }
        Ok(faults)
    }
}

fn read<'a>(faults: &Faults, words: &mut impl Iterator<Item = &'a str>) -> Option<()> {
    match words.next()? {
        "oom" => {
            let call = match words.next()? {
                "table" => Call::Table,
                "lane" => Call::Lane,
                "submit" => Call::Submit,
                _ => return None,
            };
            faults.refuse(call, number(words)?);
        }
        "random" => {
            let probability: f64 = words.next()?.parse().ok()?;
            let seed = words.next().map_or(Some(0), |word| word.parse().ok())?;
            (0.0..=1.0).contains(&probability).then(|| faults.random(probability, seed))?;
        }
        kind @ ("fail" | "hang" | "lose" | "late") => {
            let batch = number(words)?;
            let step = match words.next()? {
                "in" => Point::CopyIn,
                "launch" => Point::Launch(usize::try_from(number(words)?).ok()?),
                "out" => Point::CopyOut,
                "done" => Point::Completion,
                _ => return None,
            };
            let fault = match kind {
                "fail" => Fault::Fail,
                "hang" => Fault::Hang,
                "lose" => Fault::Lose,
                _ => Fault::Late(Duration::from_micros(number(words)?)),
            };
            faults.at(batch, step, fault);
        }
        _ => return None,
    }
    Some(())
}

fn number<'a>(words: &mut impl Iterator<Item = &'a str>) -> Option<u64> {
    words.next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn faults_are_read_from_text() {
        let faults: Faults =
            "fail 3 launch 1; hang 0 in;late 4 out 250 ; lose 5 done; oom lane 1; "
                .parse()
                .unwrap();
        assert_eq!(faults.next(3, Point::Launch(1)), Some(Fault::Fail));
        assert_eq!(faults.next(3, Point::Launch(1)), None, "each happens once");
        assert_eq!(faults.next(0, Point::CopyIn), Some(Fault::Hang));
        assert_eq!(faults.next(4, Point::CopyOut), Some(Fault::Late(Duration::from_micros(250))));
        assert_eq!(faults.next(5, Point::Completion), Some(Fault::Lose));
        assert!(!faults.refuses(Call::Lane) && faults.refuses(Call::Lane));
        assert_eq!(faults.injected(), 5);
        for wrong in [
            "fail",
            "fail x in",
            "fail 1 launch",
            "late 1 in",
            "oom cup 1",
            "random 2",
            "fail 1 in 2",
        ] {
            assert!(wrong.parse::<Faults>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn random_faults_have_their_probability() {
        let faults: Faults = "random 0.1 5".parse().unwrap();
        let count = (0..10_000).filter(|n| faults.next(*n, Point::CopyIn).is_some()).count();
        assert!((800..1200).contains(&count), "{count}");
        faults.clear();
        assert_eq!(faults.next(0, Point::CopyIn), None);
    }
}
