//! Replay - records packets in memory and replays them repeatedly (pull output)
//!
//! # Synopsis
//! `Replay([keywords STOP, STOP_TIME, QUEUE, QUICK_CLONE, BURST, VERBOSE, FREEONTERMINATE, LIMIT,
//! ACTIVE, USE_SIGNAL])`
//!
//! # Description
//! The pull version of ReplayUnqueue. It pulls packets until an input has no more, and keeps them in
//! memory. Then it returns them to pulls, all of them once per round, for STOP rounds or forever; at
//! the end it stops the program. With several inputs, each output emits the packets of the input with
//! its number, and a round ends when all outputs have emitted theirs.
//!
//! Emitted packets share their bytes with the recorded ones, as described in ReplayUnqueue's manual.
//!
//! # Arguments
//! - STOP: number of rounds; unlimited if negative. Default -1.
//! - STOP_TIME: also stop after this many seconds. Default 0, for never.
//! - QUEUE: accepted without effect: there is no queue after it.
//! - QUICK_CLONE: accepted without effect: packets are never copied to be sent.
//! - BURST: maximum number of packets returned by one pull, 1 to 256. Default 64.
//! - VERBOSE: whether to report when packets are loaded and when a round ends. Default false.
//! - FREEONTERMINATE: whether to keep the packets to the end. If false, the last round emits the
//!   recorded packets themselves, which an element can write to without copying. Default true.
//! - LIMIT: maximum number of packets to record; no limit if negative. Default -1.
//! - ACTIVE: whether it emits packets. Default true.
//! - USE_SIGNAL: if a pull returns nothing, whether to continue loading while an upstream queue signals
//!   that it has packets. Default true.
//!
//! # Ports
//! Any number of pull inputs, and as many pull outputs.
//!
//! # Handlers
//! - `active` (read, write): whether it emits packets.
//! - `stop` (read, write): number of rounds left.
//! - `loaded` (read): whether all packets are in memory.
//! - `count` (read): packets emitted.
//! - `reset` (write): discards the packets, and loads again from the inputs.
//!
//! # Drops
//! - no buffer: there was no memory to emit a packet.
//! - discarded: the packet had been pulled but not recorded when loading ended because another input
//!   ran out, or `reset` discarded it.
//!
//! # Example
//! ```click
//! FromDump(trace.pcap) -> Replay(STOP 100) -> Unqueue(BURST 32) -> Discard;
//! ```
//!
//! # See also
//! ReplayUnqueue, FromDump

use millrace_core::args::Kind;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Notifier, Reason, Refused, Setup,
    Task, register,
};

use super::playback::recording::{Loading, Next, Recording, Replays};

/// The element; its manual is at the top of the file.
pub struct Replay {
    recording: Recording,
    /// Held by the pulling thread that loads the packets.
    loading: Lock<()>,
    outputs: usize,
    /// Tells pullers whether there are packets.
    notifier: Notifier,
    /// Runs when there are packets to load.
    task: Task,
}

register!(Replay, "replay.rs");

impl Element for Replay {
    const CLASS: Class = Class::new("Replay", "1-/=", "l/l").flow("#/#").aliases(&["MultiReplay"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        let recording = Recording::configure(setup, outputs);
        setup.args.ignored::<u32>("QUEUE", Kind::Keyword, "there is no queue after it");
        setup.args.complete()?;
        Ok(Self {
            recording,
            loading: Lock::new(()),
            outputs,
            notifier: Notifier::default(),
            task: setup.task(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.recording.initialize(init, &self.task);
        self.wake();
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        if !self.recording.is_active() {
            return self.notifier.sleep_unless(|| self.recording.is_active());
        }
        // Another thread that pulls during loading gets nothing.
        let Some(loading) = self.loading.try_lock() else { return };
        let loaded = self.recording.load(cx) == Loading::Done;
        drop(loading);
        if loaded && !self.give(cx, port, max, batch) {
            self.notifier.sleep();
            self.recording.stop(cx);
        }
    }

    fn run_task(&self, _cx: &mut Context, (): &mut ()) -> bool {
        self.task.unschedule();
        if self.recording.is_active() {
            self.notifier.wake();
        }
        false
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }

    fn held(&self) -> usize {
        self.recording.held()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Recording::handlers(handlers);
    }
}

impl Replays for Replay {
    fn recording(&self) -> &Recording {
        &self.recording
    }

    fn wake(&self) {
        if self.recording.is_active() {
            self.notifier.wake_unlocked();
        }
    }
}

impl Replay {
    /// Adds packets of an output to a batch. Returns false if there will be no more.
    fn give(&self, cx: &mut Context, port: usize, max: usize, batch: &mut Batch) -> bool {
        let mut reel = self.recording.reel();
        if self.recording.is_over(&mut reel, cx.now()) {
            return false;
        }
        let wanted = max.min(self.recording.burst).min(batch.room());
        let output = (self.outputs > 1).then_some(port as u16);
        let mut new = 0;
        let goes_on = loop {
            if batch.len() >= wanted {
                break true;
            }
            match self.recording.next(cx, &mut reel, port, output) {
                Next::Packet(_) => {}
                Next::Wait | Next::Again => break true,
                // The emitted packets arrive before the program stops.
                Next::End => break !batch.is_empty(),
            }
            let Some(taken) = self.recording.take(&mut reel, port) else {
                cx.created(1);
                cx.dropped(1, Reason::NoBuffer);
                break true;
            };
            new += usize::from(taken.is_share);
            // The caller checks for room.
            let _ = batch.push(taken.packet);
        };
        drop(reel);
        self.recording.sent(cx, batch.len(), new);
        goes_on
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Timestamp};

    /// Packets that contain their number, one per second.
    fn packets(all: &[u8]) -> Vec<Packet> {
        let packet = |&number: &u8| {
            let mut packet = Packet::from_bytes(&[number]).unwrap();
            packet.set_timestamp(Timestamp::from_secs(number.into()));
            packet
        };
        all.iter().map(packet).collect()
    }

    fn numbers(packets: &[Packet]) -> Vec<u8> {
        packets.iter().map(|packet| packet.data()[0]).collect()
    }

    #[test]
    fn pulls_return_all_rounds_and_then_the_program_stops() {
        let mut rig = Rig::new("Replay(STOP 3, QUEUE 1, BURST 2, QUICK_CLONE true)", 1, 1).unwrap();
        let out = rig.push_packets(0, packets(&[1, 2, 3]));
        assert_eq!(numbers(&out[0]), [1, 2, 3, 1, 2, 3, 1, 2, 3]);
        rig.pass(Timestamp::ZERO);
        assert!(!rig.router().is_running());
        assert_eq!(rig.read("count").unwrap(), "9");
        assert!(rig.stats().balanced());
    }

    #[test]
    fn a_round_ends_when_all_outputs_have_emitted_their_packets() {
        let mut rig = Rig::new("Replay(STOP 2, ACTIVE false)", 2, 2).unwrap();
        rig.push_packets(0, packets(&[1, 3, 5]));
        rig.push_packets(1, packets(&[2, 4, 6]));
        rig.write("active", "true").unwrap();
        let out = rig.pass(Timestamp::ZERO);
        assert_eq!(numbers(&out[0]), [1, 3, 5, 1, 3, 5]);
        assert_eq!(numbers(&out[1]), [2, 4, 2, 4], "after 5 the first input is dry");
        rig.pass(Timestamp::ZERO);
        assert!(!rig.router().is_running());
        assert!(rig.stats().balanced());
    }
}
