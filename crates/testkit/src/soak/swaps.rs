//! Hot swaps, one every second.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::sleep;
use std::time::{Duration, Instant};

use super::memory::Memory;
use super::network::Network;
use super::router::Setting;
use super::windows::Windows;

/// What became of the swaps.
#[derive(Clone, Debug, Default)]
pub(super) struct Outcome {
    pub(super) done: u64,
    /// Refused while something was done that may be a reason.
    pub(super) excused: u64,
    /// The longest that was done outside of all windows.
    pub(super) longest: Duration,
    /// For how long packets did not move, of each, as the router says.
    pub(super) pauses: Vec<Duration>,
    pub(super) problems: Vec<String>,
}

/// Swaps the configuration of the router while it has one that allows it.
#[derive(Debug, Default)]
pub(super) struct Swapper {
    /// Whether there is a router to swap.
    pub(super) goes_on: AtomicBool,
    pub(super) ends: AtomicBool,
    /// Held during a swap.
    swapping: Mutex<()>,
    number: AtomicU64,
    outcome: Mutex<Outcome>,
}

impl Outcome {
    /// Of the pauses, the one that this share of them does not exceed.
    pub(super) fn pause(&self, share: f64) -> Duration {
        let mut pauses = self.pauses.clone();
        pauses.sort_unstable();
        let last = pauses.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        pauses.get(at).copied().unwrap_or_default()
    }
}

impl Swapper {
    /// Swaps until it ends.
    pub(super) fn run(
        &self,
        network: &Network,
        setting: &Setting,
        windows: &Windows,
        memory: &Mutex<Memory>,
    ) {
        let every = setting.every;
        let mut next = Instant::now() + every;
        while !self.ends.load(Relaxed) {
            let now = Instant::now();
            if now < next || !self.goes_on.load(Relaxed) {
                sleep(Duration::from_millis(20));
                continue;
            }
            next = now + every;
            let _alone = lock(&self.swapping);
            if !self.goes_on.load(Relaxed) {
                continue;
            }
            let n = self.number.fetch_add(1, Relaxed) + 1;
            let result = setting.swap(network, n);
            let excused = windows.explains_failure(now, Instant::now());
            let how = if result.is_ok() { "swap" } else { "refused swap" };
            let took = now.elapsed();
            windows.note(how.to_owned(), now, Instant::now());
            // It may have ended by now.
            let pause =
                result.is_ok().then(|| setting.read(network, "swap_pause")).and_then(Result::ok);
            let pause = pause.and_then(|text| text.parse().ok());
            let mut outcome = lock(&self.outcome);
            outcome.pauses.extend(pause.and_then(|pause| Duration::try_from_secs_f64(pause).ok()));
            match result {
                Ok(()) => {
                    lock(memory).swapped();
                    outcome.done += 1;
                    if !excused {
                        outcome.longest = outcome.longest.max(took);
                    }
                }
                Err(_) if excused => outcome.excused += 1,
                Err(why) => {
                    let at = windows.seconds(now);
                    outcome.problems.push(format!("swap {n} at {at:.1} s refused: {why}"));
                }
            }
        }
    }

    /// Makes no further swap, and waits for the last one.
    pub(super) fn rest(&self) {
        self.goes_on.store(false, Relaxed);
        drop(lock(&self.swapping));
    }

    pub(super) fn outcome(&self) -> Outcome {
        lock(&self.outcome).clone()
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}
