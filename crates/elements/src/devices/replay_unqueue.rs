//! ReplayUnqueue - records packets in memory and replays them repeatedly (push output)
//!
//! # Synopsis
//! `ReplayUnqueue([keywords STOP, STOP_TIME, TIMING, TIMING_FNT, QUICK_CLONE, BURST, VERBOSE,
//! FREEONTERMINATE, LIMIT, ACTIVE, USE_SIGNAL])`
//!
//! # Description
//! Pulls packets until an input has no more, and keeps them in memory. Then it pushes them, all of them
//! once per round, for STOP rounds or forever; at the end it stops the program. With several inputs, it
//! emits their packets in the order of their timestamps, each by the output with the number of its
//! input.
//!
//! Emitted packets share their bytes with the recorded ones: nothing is copied, and the copy counters
//! stay at 0 on the way to a Discard. An element that writes to a packet gets a copy first, so that
//! every round emits the same packets. Up to 384 shares of one packet can be in flight at once (in a
//! long Queue, if few packets are replayed); beyond that the packet is copied.
//!
//! With TIMING, the element keeps the recorded intervals between packets, sped up or slowed down; each
//! round starts with its first packet at once. The element spins for the last 0.2 ms of each wait, so
//! that packets leave within some microseconds of their time.
//!
//! # Arguments
//! - STOP: number of rounds; unlimited if negative. Default -1.
//! - STOP_TIME: also stop after this many seconds. Default 0, for never.
//! - TIMING: the speed in percent of the recorded speed; 0, the default, for as fast as possible.
//! - TIMING_FNT: the speed in percent as a function of `x`, the seconds since the first packet, such as
//!   `"10 + min(90, 10*x)"`: numbers, `pi`, `e`, `+ - * / % ^`, parentheses,
//!   `abs acos asin atan atan2 ceil cos cosh exp floor ln log log10 max min pow sin sinh sqrt squarewave tan tanh`.
//!   At 0 it stops the program. `@1` and `@2` are the functions of the Metron paper (NSDI 2018), with
//!   TIMING as the highest speed, in multiples of the recorded one, and STOP_TIME as the duration; `@0`
//!   is none. Requires TIMING to be more than 0.
//! - QUICK_CLONE: accepted without effect: packets are never copied to be sent. In FastClick it lets
//!   elements write to packets without copying them, which changes the packets of later rounds.
//! - BURST: maximum number of packets emitted at a time, 1 to 256. Default 64.
//! - VERBOSE: whether to report when packets are loaded and when a round ends; FastClick's levels above
//!   0 count as true. Default false.
//! - FREEONTERMINATE: whether to keep the packets to the end. If false, the last round emits the
//!   recorded packets themselves, which an element can write to without copying. Default true.
//! - LIMIT: maximum number of packets to record; no limit if negative. Default -1.
//! - ACTIVE: whether it emits packets. Default true.
//! - USE_SIGNAL: if a pull returns nothing, whether to continue loading while an upstream queue signals
//!   that it has packets. Default true.
//!
//! # Ports
//! Any number of pull inputs, and as many push outputs.
//!
//! # Handlers
//! - `active` (read, write): whether it emits packets.
//! - `stop` (read, write): number of rounds left.
//! - `timing` (read, write): the value of TIMING.
//! - `loaded` (read): whether all packets are in memory.
//! - `count` (read): packets emitted.
//! - `reset` (write): discards the packets, and loads again from the inputs.
//! - `scheduled` (read, write), `home_thread` (read): its task.
//!
//! # Drops
//! - no buffer: there was no memory to emit a packet.
//! - discarded: the packet had been pulled but not recorded when loading ended because another input
//!   ran out, or `reset` discarded it.
//!
//! # Example
//! ```click
//! FromDump(trace.pcap) -> ReplayUnqueue(STOP 100) -> Counter -> Discard;
//! ```
//!
//! # See also
//! Replay, FromDump, Unqueue

use millrace_core::{
    Args, Class, Context, Element, Failed, Handlers, Init, Lock, Reason, Refused, Setup, Task,
    Timer, Timestamp, register,
};

use super::playback::expression::Expression;
use super::playback::pace::{self, Due, Pace};
use super::playback::recording::{Loading, Next, Recording, Replays};
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct ReplayUnqueue {
    recording: Recording,
    /// None if packets are sent as fast as possible.
    pace: Lock<Option<Pace>>,
    task: Task,
    timer: Timer,
}

register!(ReplayUnqueue, "replay_unqueue.rs");

/// Why a burst ended.
enum End {
    Full,
    Wait(Timestamp),
    Stop,
}

impl Element for ReplayUnqueue {
    const CLASS: Class =
        Class::new("ReplayUnqueue", "1-/=", "l/h").flow("#/#").aliases(&["MultiReplayUnqueue"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let recording = Recording::configure(setup, 1);
        let pace = pace(&mut setup.args);
        setup.args.complete()?;
        Ok(Self { recording, pace: Lock::new(pace), task: setup.task(), timer: setup.timer() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.recording.initialize(init, &self.task);
        self.wake();
        Ok(())
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        if !self.recording.is_active() {
            self.task.rest();
            return false;
        }
        if self.recording.load(cx) == Loading::Waiting {
            return false;
        }
        let (sent, end) = self.send(cx);
        match end {
            End::Full => sent > 0,
            End::Wait(due) => pace::wait(cx, &self.task, &self.timer, due) || sent > 0,
            // The emitted packets arrive before the program stops.
            End::Stop if sent > 0 => true,
            End::Stop => {
                self.task.rest();
                self.recording.stop(cx);
                false
            }
        }
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.task.schedule();
    }

    fn held(&self) -> usize {
        self.recording.held()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Recording::handlers(handlers);
        handlers.read("timing", |e, _| e.pace.lock().as_ref().map_or(0, Pace::acceleration));
        handlers.write("timing", |e, call| {
            let timing: u32 = call.parse()?;
            let mut pace = e.pace.lock();
            match (timing, pace.as_mut()) {
                (0, _) => *pace = None,
                (_, None) => *pace = Some(Pace::new(timing)),
                (_, Some(pace)) => pace.set_acceleration(timing, call.now()),
            }
            drop(pace);
            e.task.schedule();
            Ok(())
        });
        task_handlers(handlers, |e| &e.task);
    }
}

impl Replays for ReplayUnqueue {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn wake(&self) {
        self.pace.lock().iter_mut().for_each(Pace::reset);
        self.task.schedule();
    }
}

impl ReplayUnqueue {
    /// Sends a burst of packets that are due. Returns the number sent and why the burst ended.
    fn send(&self, cx: &mut Context) -> (usize, End) {
        let mut pace = self.pace.lock();
        if pace.is_some() {
            cx.refresh_now();
        }
        let now = cx.now();
        let mut reel = self.recording.reel();
        if self.recording.is_over(&mut reel, now) {
            return (0, End::Stop);
        }
        let mut batch = cx.take_batch();
        let mut output = 0;
        let (mut sent, mut new) = (0, 0);
        let end = loop {
            if sent >= self.recording.burst {
                break End::Full;
            }
            match self.recording.next(cx, &mut reel, 0, None) {
                Next::End => break End::Stop,
                Next::Wait => break End::Full,
                Next::Again => {
                    pace.iter_mut().for_each(Pace::reset);
                    break End::Full;
                }
                Next::Packet(time) => match pace.as_mut().map(|pace| pace.due(time, now)) {
                    None | Some(Due::Now) => {}
                    Some(Due::At(due)) => {
                        let end = self.recording.end(&reel);
                        break End::Wait(end.map_or(due, |end| due.min(end)));
                    }
                    Some(Due::Never) => break End::Stop,
                },
            }
            let Some(taken) = self.recording.take(&mut reel, 0) else {
                cx.created(1);
                cx.dropped(1, Reason::NoBuffer);
                break End::Full;
            };
            if taken.port != output {
                cx.push_batch(usize::from(output), &mut batch);
                output = taken.port;
            }
            sent += 1;
            new += usize::from(taken.is_share);
            // The batch has room: a burst is no larger than a batch.
            let _ = batch.push(taken.packet);
        };
        drop((reel, pace));
        self.recording.sent(cx, sent, new);
        cx.push_batch(usize::from(output), &mut batch);
        cx.give_batch(batch);
        (sent, end)
    }
}

/// Reads TIMING and TIMING_FNT.
fn pace(args: &mut Args<'_>) -> Option<Pace> {
    let timing: u32 = args.keyword("TIMING", 0);
    let text: String = args.keyword("TIMING_FNT", String::new());
    let duration = args.text_of("STOP_TIME").map_or("0", |text| text.as_str()).to_owned();
    let text = match text.trim() {
        "" | "@0" => return (timing > 0).then(|| Pace::new(timing)),
        "@1" => format!(
            "100 * ((sin(-pi/2 + (x/10)^2.5) * (-x/{duration} + 1) + 1) * (({timing} - 1)/2) + 1)"
        ),
        "@2" => format!(
            "100 * ((-squarewave(((x + 40) * 1/50)^5) * (-x/{duration} + 1) + 1)
             * (({timing} - 1)/2) + 1)"
        ),
        text => text.to_owned(),
    };
    if timing == 0 {
        args.error("TIMING_FNT", "TIMING_FNT has an effect only with TIMING above 0");
        return None;
    }
    match Expression::parse(&text) {
        Ok(function) => Some(Pace::of(function)),
        Err(wrong) => {
            args.error("TIMING_FNT", format!("TIMING_FNT: {wrong}"));
            None
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::memory::copies;
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Timestamp};

    use super::*;

    /// Packets that contain their number and have a timestamp, in milliseconds.
    fn packets(all: &[(u8, i64)]) -> Vec<Packet> {
        let packet = |&(number, millis): &(u8, i64)| {
            let mut packet = Packet::from_bytes(&[number; 64]).unwrap();
            packet.set_timestamp(Timestamp::from_millis(millis));
            packet
        };
        all.iter().map(packet).collect()
    }

    fn numbers(packets: &[Packet]) -> Vec<u8> {
        packets.iter().map(|packet| packet.data()[0]).collect()
    }

    /// Replays the packets and returns what is emitted.
    fn replay(arguments: &str, all: &[(u8, i64)]) -> (Rig, Vec<u8>) {
        let mut rig = Rig::new(&format!("ReplayUnqueue({arguments})"), 1, 1).unwrap();
        let out = rig.push_packets(0, packets(all));
        // A stop request takes effect in the next pass.
        rig.pass(Timestamp::ZERO);
        (rig, numbers(&out[0]))
    }

    const THREE: &[(u8, i64)] = &[(1, 1000), (2, 1010), (3, 1030)];

    #[test]
    fn all_rounds_are_emitted_and_then_the_program_stops() {
        for (arguments, sent) in [
            ("STOP 2", &[1, 2, 3, 1, 2, 3][..]),
            ("STOP 1, FREEONTERMINATE false", &[1, 2, 3]),
            ("STOP 3, FREEONTERMINATE false, BURST 2", &[1, 2, 3, 1, 2, 3, 1, 2, 3]),
            ("STOP 2, LIMIT 2", &[1, 2, 1, 2]),
            ("STOP 0", &[]),
        ] {
            let (rig, numbers) = replay(arguments, THREE);
            assert_eq!(numbers, sent, "{arguments}");
            assert!(!rig.router().is_running(), "{arguments}");
            assert_eq!(rig.read("count").unwrap(), sent.len().to_string());
            let stats = rig.stats();
            assert!(stats.balanced(), "{arguments}: {stats:?}");
        }
        assert!(!replay("", &[]).0.router().is_running());
    }

    #[test]
    fn packets_are_copied_only_when_written() {
        let before = copies::snapshot();
        let mut rig = Rig::new("ReplayUnqueue(STOP 2)", 1, 1).unwrap();
        let mut out = rig.push_packets(0, packets(&[(9, 0)])).remove(0);
        assert_eq!(out[0].data().as_ptr(), out[1].data().as_ptr());
        out[0].data_mut()[0] = 7;
        assert_eq!(numbers(&out), [7, 9]);
        drop(out);
        // Other tests copy, too, so this is a lower bound.
        assert!(copies::snapshot().since(&before).get(copies::CopyCause::Unshare) >= 1);
    }

    #[test]
    fn intervals_are_kept_and_scaled() {
        let mut rig = Rig::new("ReplayUnqueue(TIMING 200, STOP 2)", 1, 1).unwrap();
        assert_eq!(numbers(&rig.push_packets(0, packets(THREE))[0]), [1]);
        let mut pass = |millis| numbers(&rig.pass(Timestamp::from_millis(millis))[0]);
        assert_eq!(pass(4), [0u8; 0]);
        assert_eq!(pass(1), [2]);
        assert_eq!(pass(9), [0u8; 0]);
        assert_eq!(pass(1), [3, 1], "each round begins at once");
        assert_eq!(pass(5), [2]);
        rig.write("timing", "50").unwrap();
        assert_eq!(rig.read("timing").unwrap(), "50");
        assert_eq!(numbers(&rig.pass(Timestamp::from_millis(39))[0]), [0u8; 0]);
        assert_eq!(numbers(&rig.pass(Timestamp::from_millis(1))[0]), [3]);
    }

    #[test]
    fn stop_time_and_pace_0_end_the_replay() {
        let mut rig = Rig::new("ReplayUnqueue(TIMING 100, STOP_TIME 1)", 1, 1).unwrap();
        let mut sent = rig.push_packets(0, packets(&[(1, 0), (2, 300)])).remove(0).len();
        sent += rig.pass(Timestamp::from_secs(9))[0].len();
        rig.pass(Timestamp::ZERO);
        assert!(!rig.router().is_running());
        // At 0, 300, 300, 600, 600, 900 and 900 ms.
        assert_eq!(sent, 7);
        let function = "ReplayUnqueue(TIMING 1, TIMING_FNT \"100 - 100 * floor(x)\")";
        let mut rig = Rig::new(function, 1, 1).unwrap();
        rig.push_packets(0, packets(&[(1, 0), (2, 300)]));
        rig.pass(Timestamp::from_secs(2));
        rig.pass(Timestamp::ZERO);
        assert!(!rig.router().is_running());
    }

    #[test]
    fn inputs_are_merged_by_time_and_keep_their_outputs() {
        let element = "ReplayUnqueue(STOP 2, ACTIVE false, VERBOSE 99)";
        let mut rig = Rig::new(element, 2, 2).unwrap();
        rig.push_packets(0, packets(&[(1, 10), (2, 20), (3, 30)]));
        rig.push_packets(1, packets(&[(4, 5), (5, 25)]));
        rig.write("active", "true").unwrap();
        let out = rig.pass(Timestamp::ZERO);
        // The second input runs out when its 5 is taken; 3 was waiting for another packet from it.
        assert_eq!((numbers(&out[0]), numbers(&out[1])), (vec![1, 2, 1, 2], vec![4, 5, 4, 5]));
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 1)]);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn reset_discards_packets_and_loads_again() {
        let mut rig = Rig::new("ReplayUnqueue(STOP 1, ACTIVE false)", 1, 1).unwrap();
        rig.push_packets(0, packets(THREE));
        rig.write("active", "true").unwrap();
        assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 3);
        assert_eq!(rig.read("loaded").unwrap(), "true");
        rig.write("reset", "").unwrap();
        assert_eq!(rig.read("loaded").unwrap(), "false");
        let stats = rig.stats();
        assert!(stats.balanced(), "{stats:?}");
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in [
            "BURST 0",
            "VERBOSE loud",
            "TIMING -1",
            "TIMING_FNT \"x\"",
            "TIMING 1, TIMING_FNT \"x +\"",
        ] {
            assert!(Rig::new(&format!("ReplayUnqueue({bad})"), 1, 1).is_err(), "{bad}");
        }
    }
}
