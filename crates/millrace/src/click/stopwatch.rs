//! The option `-t`: the processor time and the elapsed time of the run.

use std::time::{Duration, Instant};

/// Measures the time since its creation.
pub(super) struct Stopwatch {
    start: Instant,
    used: [Duration; 2],
}

impl Stopwatch {
    pub(super) fn start() -> Self {
        Self { start: Instant::now(), used: processor_time() }
    }

    /// A line such as `0.020u 0.000s 0:05.00`: seconds of user time, seconds of system time, elapsed minutes and
    /// seconds.
    pub(super) fn report(&self) -> String {
        let [user, system] = processor_time();
        let [user_before, system_before] = self.used;
        let wall = self.start.elapsed();
        format!(
            "{:.3}u {:.3}s {}:{:05.2}\n",
            user.saturating_sub(user_before).as_secs_f64(),
            system.saturating_sub(system_before).as_secs_f64(),
            wall.as_secs() / 60,
            (wall.as_millis() % 60_000) as f64 / 1000.0,
        )
    }
}

/// The user time and the system time of the process so far: fields 14 and 15 of `/proc/self/stat` (proc(5)), in clock
/// ticks.
fn processor_time() -> [Duration; 2] {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    // The program's name, in parentheses, may contain any characters.
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let mut times = fields.split_ascii_whitespace().skip(11);
    let hertz = rustix::param::clock_ticks_per_second().max(1);
    let mut next = || {
        let ticks: u64 = times.next().and_then(|ticks| ticks.parse().ok()).unwrap_or(0);
        Duration::from_millis(ticks.saturating_mul(1000) / hertz)
    };
    [next(), next()]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_report_has_clicks_form() {
        let report = Stopwatch::start().report();
        let shape: String =
            report.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
        assert_eq!(shape, "0.000u 0.000s 0:00.00\n");
    }

    #[test]
    fn processor_time_is_measured() {
        let watch = Stopwatch::start();
        while processor_time() == watch.used {
            std::hint::black_box(0);
        }
        assert!(watch.report() != "0.000u 0.000s 0:00.00\n");
    }
}
