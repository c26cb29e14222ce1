//! Measures subjects that do the same work, in turns.

use std::time::Duration;

use anyhow::{Context, ensure};
use rustix::time::{ClockId, clock_gettime};

use crate::report::median;

/// An engine or program.
pub(super) trait Subject {
    /// A result for each item.
    ///
    /// # Errors
    /// Another program has ended.
    fn results(&mut self) -> anyhow::Result<Vec<u32>>;

    /// Processes all items this number of times. Returns the processor time, which does not depend on other programs
    /// on the machine.
    ///
    /// # Errors
    /// Another program has ended.
    fn run(&mut self, times: u64) -> anyhow::Result<Duration>;
}

/// How long a race is.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    /// Turns of each subject.
    pub(super) rounds: u32,
    /// Processor time of a turn.
    pub(super) window: Duration,
}

/// Compares the results of all subjects with those of the first, and lets them take turns. Returns for each the
/// nanoseconds for all items, the median of the rounds.
///
/// # Errors
/// Results differ: the error names the first item.
pub(super) fn race(
    subjects: &mut [(&str, &mut dyn Subject)],
    length: Length,
) -> anyhow::Result<Vec<f64>> {
    let mut wanted: Option<(&str, Vec<u32>)> = None;
    let mut turns = Vec::new();
    for (name, subject) in subjects.iter_mut() {
        let results = subject.results()?;
        let (first, wanted) = wanted.get_or_insert_with(|| (name, results.clone()));
        agree(first, wanted, name, &results)?;
        // Computing the results was the warm-up.
        let once = subject.run(1)?.max(Duration::from_nanos(1));
        turns.push((length.window.as_nanos() / once.as_nanos()).max(1) as u64);
    }
    let mut nanoseconds = vec![Vec::new(); subjects.len()];
    for _ in 0..length.rounds {
        for (((_, subject), times), found) in subjects.iter_mut().zip(&turns).zip(&mut nanoseconds)
        {
            // The work of the others has filled the caches.
            subject.run(1)?;
            found.push(subject.run(*times)?.as_nanos() as f64 / *times as f64);
        }
    }
    nanoseconds.into_iter().map(|found| median(found).context("no rounds")).collect()
}

fn agree(first: &str, wanted: &[u32], name: &str, found: &[u32]) -> anyhow::Result<()> {
    ensure!(wanted.len() == found.len(), "{name}: {} results, not {}", found.len(), wanted.len());
    let differs = wanted.iter().zip(found).position(|(wanted, found)| wanted != found);
    match differs {
        None => Ok(()),
        Some(at) => anyhow::bail!(
            "{name} and {first} differ about item {at}: {:?}, {:?}",
            found.get(at),
            wanted.get(at)
        ),
    }
}

/// The processor time of the calling thread.
pub(super) fn processor_time() -> Duration {
    let time = clock_gettime(ClockId::ThreadCPUTime);
    Duration::new(time.tv_sec.unsigned_abs(), time.tv_nsec.unsigned_abs() as u32)
}

/// Repeats work this number of times. Returns the processor time.
pub(super) fn timed(times: u64, mut work: impl FnMut()) -> Duration {
    let start = processor_time();
    (0..times).for_each(|_| work());
    processor_time() - start
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Counter {
        results: Vec<u32>,
        runs: u64,
    }

    impl Subject for Counter {
        fn results(&mut self) -> anyhow::Result<Vec<u32>> {
            Ok(self.results.clone())
        }

        fn run(&mut self, times: u64) -> anyhow::Result<Duration> {
            self.runs += times;
            Ok(Duration::from_micros(10) * times as u32)
        }
    }

    const LENGTH: Length = Length { rounds: 3, window: Duration::from_millis(1) };

    #[test]
    fn subjects_take_turns() {
        let mut one = Counter { results: vec![1, 2], runs: 0 };
        let mut other = Counter { results: vec![1, 2], runs: 0 };
        let found = race(&mut [("one", &mut one), ("other", &mut other)], LENGTH).unwrap();
        assert_eq!(found, [10_000.0; 2]);
        assert_eq!((one.runs, other.runs), (1 + 3 * 101, 1 + 3 * 101));
    }

    #[test]
    fn who_answers_otherwise_does_not_race() {
        let mut one = Counter { results: vec![1, 2], runs: 0 };
        for results in [vec![1, 3], vec![1], vec![1, 2, 3]] {
            let mut other = Counter { results, runs: 0 };
            assert!(race(&mut [("one", &mut one), ("other", &mut other)], LENGTH).is_err());
            assert_eq!(other.runs, 0);
        }
    }

    #[test]
    fn work_takes_time() {
        let mut sum = 0_u64;
        let took = timed(1000, || (0..1000).for_each(|n| sum = std::hint::black_box(sum + n)));
        assert!(took > Duration::from_micros(10), "{took:?}");
    }
}
