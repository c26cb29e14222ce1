//! TIMING: decides when the packets of a trace are due.

use millrace_core::{Context, Task, Timer, Timestamp};

use super::expression::Expression;

/// Keeps the intervals between the packets of a trace. The first packet is due at once.
#[derive(Debug)]
pub(crate) struct Pace {
    /// Playback speed in percent of the recorded speed.
    acceleration: u32,
    /// A time in the trace, and the time at which it is or was played.
    origin: Option<(Timestamp, Timestamp)>,
    course: Option<Course>,
}

/// An acceleration that changes with time.
#[derive(Debug)]
struct Course {
    /// The acceleration in percent, as a function of the seconds since the start.
    function: Expression,
    start: Option<Timestamp>,
    /// When to evaluate the function again.
    next: Timestamp,
}

/// Whether a packet is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Due {
    Now,
    /// Check again at this time.
    At(Timestamp),
    /// The acceleration has reached 0.
    Never,
}

/// How often a function of time is evaluated.
const STEP: Timestamp = Timestamp::from_nanos(1_000_000);

impl Pace {
    /// A pace of `acceleration` percent of the recorded one; must not be 0.
    pub(crate) fn new(acceleration: u32) -> Self {
        Self { acceleration, origin: None, course: None }
    }

    /// A pace whose percentage of the recorded one is given by a function.
    pub(crate) fn of(function: Expression) -> Self {
        let course = Course { function, start: None, next: Timestamp::ZERO };
        Self { acceleration: 0, origin: None, course: Some(course) }
    }

    /// Whether a packet that was recorded at `time` is due.
    pub(crate) fn due(&mut self, time: Timestamp, now: Timestamp) -> Due {
        self.origin.get_or_insert((time, now));
        let next = self.ask(now);
        if self.acceleration == 0 {
            return Due::Never;
        }
        let due = self.played(time);
        match next {
            _ if due <= now => Due::Now,
            Some(next) => Due::At(due.min(next)),
            None => Due::At(due),
        }
    }

    /// Makes the next packet due at once.
    pub(crate) fn reset(&mut self) {
        self.origin = None;
    }

    /// Changes the pace, in percent, and keeps the position in the trace.
    pub(crate) fn set_acceleration(&mut self, acceleration: u32, now: Timestamp) {
        if acceleration != self.acceleration {
            if let Some((_, at)) = self.origin
                && self.acceleration > 0
            {
                let played = i128::from((now - at).as_nanos());
                let recorded = played * i128::from(self.acceleration) / 100;
                self.origin = self.origin.map(|(start, _)| (start + clamped(recorded), now));
            }
            self.acceleration = acceleration;
        }
    }

    /// The pace, in percent.
    pub(crate) fn acceleration(&self) -> u32 {
        self.acceleration
    }

    /// When the time `time` of the trace is played.
    fn played(&self, time: Timestamp) -> Timestamp {
        let (start, at) = self.origin.unwrap_or((time, time));
        let recorded = i128::from((time - start).as_nanos());
        at + clamped(recorded * 100 / i128::from(self.acceleration.max(1)))
    }

    /// Evaluates the function, if there is one and it is time to. Returns when to do so again.
    fn ask(&mut self, now: Timestamp) -> Option<Timestamp> {
        let course = self.course.as_mut()?;
        let start = *course.start.get_or_insert(now);
        if now >= course.next {
            course.next = now + STEP;
            let x = (now - start).as_nanos() as f64 / 1e9;
            // The cast saturates: too large a value becomes the maximum, and a negative value or
            // NaN becomes 0.
            let acceleration = course.function.at(x) as u32;
            self.set_acceleration(acceleration, now);
        }
        self.course.as_ref().map(|course| course.next)
    }
}

fn clamped(nanos: i128) -> Timestamp {
    let end = if nanos < 0 { i64::MIN } else { i64::MAX };
    Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(end))
}

/// Makes a task run again when a packet is due. Returns the value that the task must return.
///
/// A timer alone can wake a thread up to 0.1 ms late. With a real clock, the task spins for the
/// last part of a wait: it stays scheduled and reports that it did work.
pub(crate) fn wait(cx: &Context, task: &Task, timer: &Timer, due: Timestamp) -> bool {
    const SPIN: Timestamp = Timestamp::from_nanos(200_000);
    let spins = !cx.router().clock().is_virtual();
    if spins && due <= cx.now() + SPIN {
        return true;
    }
    task.rest();
    timer.schedule_at(if spins { due - SPIN } else { due });
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millis(millis)
    }

    #[test]
    fn keeps_and_scales_intervals() {
        let mut pace = Pace::new(200);
        assert_eq!(pace.due(at(5_000), at(90)), Due::Now);
        assert_eq!(pace.due(at(5_100), at(91)), Due::At(at(140)));
        assert_eq!(pace.due(at(5_100), at(140)), Due::Now);
        assert_eq!(pace.due(at(4_900), at(92)), Due::Now);
        pace.reset();
        assert_eq!(pace.due(at(7_000), at(100)), Due::Now);
        assert_eq!(Pace::new(1).due(Timestamp::MAX, at(1)), Due::Now);
    }

    #[test]
    fn a_change_of_pace_keeps_the_position_in_the_trace() {
        let mut pace = Pace::new(100);
        assert_eq!(pace.due(at(0), at(0)), Due::Now);
        // 100 ms have been played; the other 100 take ten times as long.
        pace.set_acceleration(10, at(100));
        assert_eq!(pace.due(at(200), at(100)), Due::At(at(1_100)));
        assert_eq!(pace.due(at(100), at(100)), Due::Now);
    }

    #[test]
    fn functions_change_the_pace() {
        // 100% for a second, then 200%, and then the end.
        let text = "100 + 100 * min(1, floor(x)) - 200 * floor(x / 3)";
        let mut pace = Pace::of(Expression::parse(text).unwrap());
        assert_eq!(pace.due(at(0), at(0)), Due::Now);
        assert_eq!(pace.due(at(2_000), at(0)), Due::At(at(1)), "asked again soon");
        let mut now = at(0);
        let played = |pace: &mut Pace, now: &mut Timestamp, time| {
            while let Due::At(next) = pace.due(time, *now) {
                *now = next;
            }
            *now
        };
        assert_eq!(played(&mut pace, &mut now, at(500)), at(500));
        assert_eq!(played(&mut pace, &mut now, at(2_000)), at(1_500));
        assert_eq!(played(&mut pace, &mut now, at(90_000)), at(3_000));
        assert_eq!(pace.due(at(90_000), now), Due::Never);
        assert_eq!(
            Pace::of(Expression::parse("sqrt(0 - 1)").unwrap()).due(at(1), at(1)),
            Due::Never
        );
    }
}
