//! CoDel's control law (RFC 8289), with Click's arithmetic.

use millrace_core::Timestamp;

/// Supplies packets, and disposes of those that are dropped.
pub(super) trait Source {
    type Packet;

    /// The next packet.
    fn next(&mut self) -> Option<Self::Packet>;

    /// When the packet entered the queue; `None` if unknown.
    fn arrival(packet: &Self::Packet) -> Option<Timestamp>;

    /// Drops a packet.
    fn drop(&mut self, packet: Self::Packet);
}

/// The configured limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Goal {
    /// The acceptable time in the queue.
    pub(super) target: Timestamp,
    /// How long `target` can be exceeded.
    pub(super) interval: Timestamp,
}

/// The state of a CoDel element.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct ControlLaw {
    /// When the delay will have been above the target for one interval; `None` while it is below.
    first_above: Option<Timestamp>,
    /// When the next packet is due to be dropped; if not dropping, when it was in the last dropping phase.
    drop_next: Timestamp,
    /// Packets dropped in this dropping phase.
    count: u64,
    dropping: bool,
    pub(super) drops: u64,
}

impl ControlLaw {
    /// The next packet to forward.
    pub(super) fn pull<S: Source>(
        &mut self,
        goal: Goal,
        now: Timestamp,
        source: &mut S,
    ) -> Option<S::Packet> {
        let (mut packet, mut goes) = self.look(goal, now, source);
        if self.dropping {
            while goes && now >= self.drop_next {
                self.drops += 1;
                self.count += 1;
                source.drop(packet?);
                (packet, goes) = self.look(goal, now, source);
                if goes {
                    self.drop_next = self.after(goal, self.drop_next);
                }
            }
            self.dropping = goes;
        } else if goes && self.begins(goal, now) {
            self.drops += 1;
            source.drop(packet?);
            (packet, _) = self.look(goal, now, source);
            self.dropping = true;
            // If the last dropping phase was recent, resume at about its drop rate.
            let recent = now - self.drop_next < goal.interval;
            self.count = if recent && self.count > 2 { self.count - 2 } else { 1 };
            self.drop_next = self.after(goal, now);
        }
        packet
    }

    /// Takes the next packet. The flag says whether it can be dropped.
    fn look<S: Source>(
        &mut self,
        goal: Goal,
        now: Timestamp,
        source: &mut S,
    ) -> (Option<S::Packet>, bool) {
        let Some(packet) = source.next() else {
            self.first_above = None;
            return (None, false);
        };
        let Some(arrival) = S::arrival(&packet) else { return (Some(packet), false) };
        if now - arrival < goal.target {
            self.first_above = None;
            return (Some(packet), false);
        }
        let goes = match self.first_above {
            Some(time) => now >= time,
            None => {
                self.first_above = Some(now + goal.interval);
                false
            }
        };
        (Some(packet), goes)
    }

    /// Whether to start dropping, given that the current packet can be dropped.
    fn begins(&self, goal: Goal, now: Timestamp) -> bool {
        let since = |time: Timestamp| now - time;
        since(self.drop_next) < goal.interval
            || self.first_above.is_some_and(|time| since(time) >= goal.interval)
    }

    /// `time` plus the interval divided by the square root of the count. The interval is in whole milliseconds, the
    /// root in sixteenths.
    fn after(&self, goal: Goal, time: Timestamp) -> Timestamp {
        const SIXTEENTHS: u64 = 16;
        let interval = goal.interval.as_millis().max(0).unsigned_abs();
        let root = self.count.saturating_mul(SIXTEENTHS * SIXTEENTHS).isqrt().max(1);
        let nanos = interval.saturating_mul(1_000_000 * SIXTEENTHS) / root;
        time + Timestamp::from_nanos(i64::try_from(nanos).unwrap_or(i64::MAX / 4))
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use fastrand::Rng;

    use super::*;

    #[derive(Default)]
    struct Line {
        packets: VecDeque<Timestamp>,
        gone: u64,
    }

    impl Source for Line {
        type Packet = Timestamp;

        fn next(&mut self) -> Option<Timestamp> {
            self.packets.pop_front()
        }

        fn arrival(packet: &Timestamp) -> Option<Timestamp> {
            Some(*packet)
        }

        fn drop(&mut self, _: Timestamp) {
            self.gone += 1;
        }
    }

    /// RFC 8289, section 5, in floating-point seconds. Dropping starts as in Click: at once if packets were dropped
    /// less than an interval ago, otherwise only after the delay has been too long for two intervals.
    #[derive(Default)]
    struct Naive {
        first_above: f64,
        drop_next: f64,
        count: f64,
        dropping: bool,
    }

    const TARGET: f64 = 0.005;
    const INTERVAL: f64 = 0.1;

    impl Naive {
        fn dodequeue(&mut self, now: f64, line: &mut VecDeque<f64>) -> (Option<f64>, bool) {
            let packet = line.pop_front();
            let mut ok_to_drop = false;
            match packet {
                Some(arrival) if now - arrival >= TARGET => {
                    if self.first_above == 0.0 {
                        self.first_above = now + INTERVAL;
                    } else {
                        ok_to_drop = now >= self.first_above;
                    }
                }
                _ => self.first_above = 0.0,
            }
            (packet, ok_to_drop)
        }

        fn dequeue(&mut self, now: f64, line: &mut VecDeque<f64>) -> (Option<f64>, u64) {
            let mut gone = 0;
            let (mut packet, mut ok) = self.dodequeue(now, line);
            if self.dropping {
                if !ok {
                    self.dropping = false;
                }
                while self.dropping && now >= self.drop_next {
                    gone += 1;
                    self.count += 1.0;
                    (packet, ok) = self.dodequeue(now, line);
                    if ok {
                        self.drop_next += INTERVAL / self.count.sqrt();
                    } else {
                        self.dropping = false;
                    }
                }
            } else if ok && (now - self.drop_next < INTERVAL || now - self.first_above >= INTERVAL)
            {
                gone += 1;
                (packet, _) = self.dodequeue(now, line);
                self.dropping = true;
                let recent = now - self.drop_next < INTERVAL;
                self.count = if recent && self.count > 2.0 { self.count - 2.0 } else { 1.0 };
                self.drop_next = now + INTERVAL / self.count.sqrt();
            }
            (packet, gone)
        }
    }

    #[test]
    fn follows_the_rfc() {
        let goal =
            Goal { target: Timestamp::from_millis(5), interval: Timestamp::from_millis(100) };
        let mut rng = Rng::with_seed(8289);
        let mut near = 0;
        let mut gone = 0;
        for _ in 0..20 {
            let (mut law, mut naive) = (ControlLaw::default(), Naive::default());
            let (mut line, mut naive_line) = (Line::default(), VecDeque::new());
            // One packet leaves per millisecond; the arrival rate varies.
            let mut millis = 1_000_000i64;
            let mut load = 100;
            for step in 0..3000 {
                millis += 1;
                if step % 300 == 0 {
                    load = rng.u32(50..160);
                }
                for _ in 0..load / 100 + u32::from(rng.u32(0..100) < load % 100) {
                    line.packets.push_back(Timestamp::from_millis(millis));
                    naive_line.push_back(millis as f64 / 1000.0);
                }
                // Between milliseconds, no time falls on a boundary where rounding would decide.
                let now = Timestamp::from_micros(millis * 1000 + rng.i64(1..999));
                let before = line.gone;
                // The root is rounded: near the time of a drop, either decision can be right.
                let nearly = naive.dropping && (now.as_secs_f64() - naive.drop_next).abs() < 0.004;
                let mut other = Naive { ..naive };
                let mut other_line = naive_line.clone();
                let passes = law.pull(goal, now, &mut line);
                let expected = other.dequeue(now.as_secs_f64(), &mut other_line);
                let got = (passes.map(Timestamp::as_secs_f64), line.gone - before);
                if nearly && got.1 != expected.1 {
                    near += 1;
                }
                assert!(nearly || got.1 == expected.1, "{law:?} {got:?} {expected:?}");
                gone += got.1;
                // Both continue from what the element did.
                naive = Naive {
                    first_above: law.first_above.map_or(0.0, Timestamp::as_secs_f64),
                    drop_next: law.drop_next.as_secs_f64(),
                    count: law.count as f64,
                    dropping: law.dropping,
                };
                naive_line = line.packets.iter().map(|time| time.as_secs_f64()).collect();
            }
            assert_eq!(law.drops, line.gone);
        }
        assert!(gone > 1000 && near < gone / 20, "{gone} {near}");
    }

    #[test]
    fn drops_become_more_frequent() {
        let goal =
            Goal { target: Timestamp::from_millis(5), interval: Timestamp::from_millis(100) };
        let times: Vec<i64> = (1..=4)
            .map(|count| {
                let law = ControlLaw { count, ..ControlLaw::default() };
                law.after(goal, Timestamp::ZERO).as_nanos()
            })
            .collect();
        // 1600 / 16, 1600 / 22, 1600 / 27, 1600 / 32 milliseconds.
        assert_eq!(times, [100_000_000, 72_727_272, 59_259_259, 50_000_000]);
    }
}
