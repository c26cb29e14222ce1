//! Packets kept in memory and sent repeatedly: the part that the replaying elements share.
//!
//! The packets are pulled from the inputs once and stay where they are. The elements send shares of
//! them ([`Packet::share`]), each a descriptor without data. An element that writes to a share gets
//! a copy of its own first, so that every round sends the same packets.

use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU64, Ordering::Relaxed};
use std::sync::{MutexGuard, OnceLock};

use millrace_core::args::{Kind, Seconds};
use millrace_core::element::Listening;
use millrace_core::memory::{Arena, SlotClass};
use millrace_core::{
    Args, Batch, Context, Element, Handlers, Init, Lock, Packet, Reason, Setup, Task, Timestamp,
};

/// An element that replays packets.
pub(crate) trait Replays: Element {
    /// Its packets.
    fn recording(&self) -> &Recording;

    /// Called when the element may have something to do.
    fn wake(&self);
}

/// The recorded packets and the replay settings.
pub(crate) struct Recording {
    /// Maximum number of packets sent at a time.
    pub(crate) burst: usize,
    limit: Option<usize>,
    use_signal: bool,
    verbose: bool,
    keep: bool,
    stop_after: Timestamp,
    active: AtomicBool,
    loaded: AtomicBool,
    /// Rounds left; unlimited if negative.
    rounds: AtomicI64,
    count: AtomicU64,
    inputs: OnceLock<Vec<Listening>>,
    /// Behind a lock because handlers and several pulling threads may access it.
    reel: Lock<Reel>,
}

/// The packets themselves.
#[derive(Default)]
pub(crate) struct Reel {
    packets: Vec<Option<Packet>>,
    /// The input that each packet came from; empty if there is only one input.
    ports: Vec<u16>,
    /// Packets pulled from each input that wait to be recorded.
    heads: Vec<Batch>,
    /// A cursor for each output that advances independently.
    cursors: Vec<Cursor>,
    /// Packets discarded by a handler, not yet counted as drops by a thread of the graph.
    thrown_out: usize,
    started: Option<Timestamp>,
    /// Whether it was reset while a thread that loads had taken its packets out.
    was_reset: bool,
}

/// The position of an output in a round.
#[derive(Clone, Copy, Debug, Default)]
struct Cursor {
    /// The next packet.
    at: usize,
    /// Whether it waits for the other outputs to end the round.
    waits: bool,
}

/// The progress of loading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Loading {
    Done,
    /// More packets may arrive.
    Waiting,
}

/// What a cursor points to.
pub(crate) enum Next {
    /// A packet, recorded at this time.
    Packet(Timestamp),
    /// The end of the round for this cursor; other cursors are not done yet.
    Wait,
    /// The end of a round; another one begins.
    Again,
    /// The end of the last round.
    End,
}

/// A packet to send.
pub(crate) struct Taken {
    pub(crate) packet: Packet,
    /// The input that it came from.
    pub(crate) port: u16,
    /// Whether it is a share of a packet that is kept, and so an additional packet.
    pub(crate) is_share: bool,
}

impl Recording {
    /// Reads STOP, STOP_TIME, QUICK_CLONE, BURST, VERBOSE, FREEONTERMINATE, LIMIT, ACTIVE and
    /// USE_SIGNAL.
    pub(crate) fn configure(setup: &mut Setup<'_>, cursors: usize) -> Self {
        let args = &mut setup.args;
        let rounds: i64 = args.keyword("STOP", -1);
        let stop_after: Seconds = args.keyword("STOP_TIME", Seconds::ZERO);
        args.ignored::<bool>("QUICK_CLONE", Kind::Keyword, "packets are never copied to be sent");
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let verbose = verbosity(args);
        let free_on_terminate = args.keyword("FREEONTERMINATE", true);
        let limit: i64 = args.keyword("LIMIT", -1);
        let active = args.keyword("ACTIVE", true);
        let use_signal = args.keyword("USE_SIGNAL", true);
        let inputs = setup.inputs();
        Self {
            burst: burst.unwrap_or(64) as usize,
            limit: usize::try_from(limit).ok(),
            use_signal,
            verbose,
            keep: free_on_terminate,
            stop_after: stop_after.as_duration().into(),
            active: active.into(),
            loaded: false.into(),
            rounds: rounds.into(),
            count: 0.into(),
            inputs: OnceLock::new(),
            reel: Lock::new(Reel {
                heads: (0..inputs).map(|_| Batch::new()).collect(),
                cursors: vec![Cursor::default(); cursors],
                ..Reel::default()
            }),
        }
    }

    /// Listens to the inputs on behalf of `task`.
    pub(crate) fn initialize(&self, init: &Init<'_>, task: &Task) {
        let inputs = self.reel().heads.len();
        // An element is initialised once.
        let _ = self.inputs.set((0..inputs).map(|port| init.listen(port, task)).collect());
    }

    pub(crate) fn reel(&self) -> MutexGuard<'_, Reel> {
        self.reel.lock()
    }

    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// The number of packets held now.
    pub(crate) fn held(&self) -> usize {
        let reel = self.reel();
        let heads: usize = reel.heads.iter().map(|batch| batch.len()).sum();
        reel.packets.iter().flatten().count() + heads + reel.thrown_out
    }

    /// Pulls packets into memory until an input has no more.
    pub(crate) fn load(&self, cx: &mut Context) -> Loading {
        let mut reel = self.reel();
        cx.dropped(std::mem::take(&mut reel.thrown_out), Reason::Discarded);
        if self.loaded.load(Relaxed) {
            return Loading::Done;
        }
        reel.was_reset = false;
        // The lock is released: a pull may call handlers of this element.
        let mut mine = std::mem::take(&mut *reel);
        drop(reel);
        let loading = self.pull_all(cx, &mut mine);
        let mut reel = self.reel();
        mine.thrown_out += reel.thrown_out;
        let was_reset = reel.was_reset;
        *reel = mine;
        reel.was_reset = false;
        if was_reset {
            self.throw_out(&mut reel);
            return Loading::Waiting;
        }
        loading
    }

    /// Forgets the packets, which are to be loaded anew.
    fn throw_out(&self, reel: &mut Reel) {
        let packets = std::mem::take(&mut reel.packets);
        reel.thrown_out += packets.iter().flatten().count();
        reel.ports.clear();
        self.loaded.store(false, Relaxed);
    }

    fn pull_all(&self, cx: &mut Context, reel: &mut Reel) -> Loading {
        loop {
            if self.limit.is_some_and(|limit| reel.packets.len() >= limit) {
                return self.finish(cx, reel, None);
            }
            if reel.packets.len().is_multiple_of(Batch::CAPACITY) && memory_is_short() {
                let message = "there is not enough packet memory for more (run with --buffers)";
                return self.finish(cx, reel, Some(message));
            }
            let dry = self.refill(cx, reel);
            if std::mem::take(&mut self.reel().was_reset) {
                self.throw_out(reel);
            }
            if let Some(dry) = dry {
                let upstream = self.inputs.get().and_then(|inputs| inputs.get(dry));
                let more = self.use_signal
                    && upstream.is_some_and(|up| up.is_bounded() && up.active(cx.router()));
                return match more {
                    true => Loading::Waiting,
                    false => self.finish(cx, reel, None),
                };
            }
            reel.take_earliest();
        }
    }

    /// Ensures that a packet of each input is available. Returns an input that has none.
    fn refill(&self, cx: &mut Context, reel: &mut Reel) -> Option<usize> {
        (0..reel.heads.len()).find(|&port| {
            let Some(head) = reel.heads.get_mut(port).filter(|head| head.is_empty()) else {
                return false;
            };
            // Packets pulled beyond the limit would be dropped.
            let left = self.limit.map_or(usize::MAX, |limit| limit - reel.packets.len());
            let wanted = left.min(Batch::CAPACITY);
            let mut batch = std::mem::take(head);
            let n = cx.pull(port, wanted, &mut batch);
            if let Some(head) = reel.heads.get_mut(port) {
                // Packets are popped from the end of the batch.
                batch.reverse();
                *head = batch;
            }
            n == 0
        })
    }

    fn finish(&self, cx: &mut Context, reel: &mut Reel, problem: Option<&str>) -> Loading {
        for head in &mut reel.heads {
            // Drop what was pulled from an input that outlasts another one.
            cx.drop_batch(head, Reason::Discarded);
        }
        self.loaded.store(true, Relaxed);
        reel.cursors.fill(Cursor::default());
        reel.started = None;
        let packets = reel.packets.len();
        if let Some(problem) = problem {
            self.say(cx, &format!("only {packets} packets are loaded: {problem}"));
        } else if self.verbose {
            self.say(cx, &format!("{packets} packets are loaded"));
        }
        Loading::Done
    }

    /// The item at a cursor. With `output`, the cursor sees only packets of that input.
    pub(crate) fn next(
        &self,
        cx: &Context,
        reel: &mut Reel,
        cursor: usize,
        output: Option<u16>,
    ) -> Next {
        if self.rounds.load(Relaxed) == 0 || reel.packets.is_empty() {
            return Next::End;
        }
        let at = reel.seek(cursor, output);
        if let Some(kept) = reel.packets.get(at) {
            // Packets given away in the last round are None.
            return kept.as_ref().map_or(Next::End, |packet| Next::Packet(packet.timestamp()));
        }
        if !reel.end_round(cursor) {
            return Next::Wait;
        }
        if self.end_round(cx) { Next::Again } else { Next::End }
    }

    /// Returns the packet at a cursor and advances the cursor. None if there is no memory for a
    /// descriptor.
    pub(crate) fn take(&self, reel: &mut Reel, cursor: usize) -> Option<Taken> {
        let is_share = self.keep || self.rounds.load(Relaxed) != 1;
        let place = reel.cursors.get_mut(cursor)?;
        let at = place.at;
        place.at += 1;
        let port = reel.ports.get(at).copied().unwrap_or(0);
        let kept = reel.packets.get_mut(at)?;
        let packet = if is_share { kept.as_ref()?.share() } else { kept.take() };
        Some(Taken { packet: packet?, port, is_share })
    }

    /// Counts `n` packets as sent, of which `new` are shares.
    pub(crate) fn sent(&self, cx: &mut Context, n: usize, new: usize) {
        self.count.fetch_add(n as u64, Relaxed);
        cx.created(new);
    }

    /// Records the end of a round. Returns false if it was the last.
    fn end_round(&self, cx: &Context) -> bool {
        let left = match self.rounds.load(Relaxed) {
            left @ 1.. => left - 1,
            endless => endless,
        };
        self.rounds.store(left, Relaxed);
        if self.verbose {
            self.say(cx, &format!("end of a round, {left} to go"));
        }
        left != 0
    }

    /// Whether STOP_TIME has elapsed. The time starts at the first call.
    pub(crate) fn is_over(&self, reel: &mut Reel, now: Timestamp) -> bool {
        let started = *reel.started.get_or_insert(now);
        !self.stop_after.is_zero() && now - started >= self.stop_after
    }

    /// The time at which STOP_TIME has elapsed.
    pub(crate) fn end(&self, reel: &Reel) -> Option<Timestamp> {
        let end = reel.started? + self.stop_after;
        (!self.stop_after.is_zero()).then_some(end)
    }

    /// Stops the program.
    pub(crate) fn stop(&self, cx: &Context) {
        if self.active.swap(false, Relaxed) {
            cx.router().request_stop();
        }
    }

    fn say(&self, cx: &Context, message: &str) {
        let router = cx.router();
        router.chatter(&format!("{}: {message}", router.name_of(cx.element())));
    }

    /// Registers the handlers `active`, `reset`, `loaded`, `stop` and `count`.
    pub(crate) fn handlers<E: Replays>(handlers: &mut Handlers<E>) {
        handlers.read("active", |e, _| e.recording().is_active());
        handlers.write("active", |e, call| {
            e.recording().active.store(call.parse()?, Relaxed);
            e.recording().reel().started = None;
            e.wake();
            Ok(())
        });
        handlers.write("reset", |e, _| {
            let recording = e.recording();
            let mut reel = recording.reel();
            recording.throw_out(&mut reel);
            // For a thread that loads: it has taken out what is to be thrown out.
            reel.was_reset = true;
            drop(reel);
            e.wake();
            Ok(())
        });
        handlers.read("loaded", |e, _| e.recording().loaded.load(Relaxed));
        handlers.read("stop", |e, _| e.recording().rounds.load(Relaxed));
        handlers.write("stop", |e, call| {
            e.recording().rounds.store(call.parse()?, Relaxed);
            e.wake();
            Ok(())
        });
        handlers.read("count", |e, _| e.recording().count.load(Relaxed));
    }
}

impl Reel {
    /// Records the earliest of the available packets, considering one from each input.
    fn take_earliest(&mut self) {
        let several = self.heads.len() > 1;
        let time = |head: &Batch| head.last().map(Packet::timestamp);
        let earliest = self.heads.iter().enumerate().min_by_key(|(_, head)| time(head));
        let Some(port) = earliest.map(|(port, _)| port) else { return };
        if let Some(packet) = self.heads.get_mut(port).and_then(Batch::pop) {
            self.packets.push(Some(packet));
            if several {
                self.ports.push(port as u16);
            }
        }
    }

    /// Advances a cursor to the next packet of `output`. Returns its position.
    fn seek(&mut self, cursor: usize, output: Option<u16>) -> usize {
        let Some(cursor) = self.cursors.get_mut(cursor) else { return usize::MAX };
        if let Some(output) = output {
            while self.ports.get(cursor.at).is_some_and(|port| *port != output) {
                cursor.at += 1;
            }
        }
        cursor.at
    }

    /// Makes a cursor wait at the end of a round. When all cursors wait, resets them to the start
    /// and returns true.
    fn end_round(&mut self, cursor: usize) -> bool {
        if let Some(cursor) = self.cursors.get_mut(cursor) {
            cursor.waits = true;
        }
        let all = self.cursors.iter().all(|cursor| cursor.waits);
        if all {
            self.cursors.fill(Cursor::default());
        }
        all
    }
}

/// Whether recording more would leave too few packets for other elements: a sixteenth is reserved
/// for them.
fn memory_is_short() -> bool {
    let stats = Arena::stats();
    let standard = stats.pools.iter().filter(|pool| pool.class == SlotClass::Standard);
    let (slots, in_use) =
        standard.fold((0, 0), |(slots, in_use), pool| (slots + pool.slots, in_use + pool.in_use));
    in_use + slots / 16 + Batch::CAPACITY > slots
}

/// VERBOSE: true or false, or FastClick's levels.
fn verbosity(args: &mut Args<'_>) -> bool {
    let text: Option<String> = args.optional_keyword("VERBOSE");
    match text.as_deref() {
        None | Some("false" | "0" | "no") => false,
        Some("true" | "yes") => true,
        Some(level) if level.parse::<u32>().is_ok() => true,
        Some(_) => {
            args.error("VERBOSE", "VERBOSE must be true, false or a level");
            false
        }
    }
}
