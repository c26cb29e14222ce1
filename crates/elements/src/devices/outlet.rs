//! Sending packets by a socket: what Socket, McastSocket and RawSocket share. Packets that are pulled
//! or pushed, packets that wait for room, and a thread that never waits.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use millrace_core::element::Listening;
use millrace_core::{
    Batch, Context, Init, Lock, Notifier, Packet, Reason, Router, Setup, Task, Timer, Timestamp,
};

/// Where packets leave.
pub(super) struct Outlet {
    /// Packets that were taken and not sent. The first may have been sent in part.
    backlog: Lock<VecDeque<Packet>>,
    /// Whether an input is pulled.
    upstream: OnceLock<Listening>,
    /// For those who push: whether there is room.
    room: Notifier,
    task: Task,
    timer: Timer,
}

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Sent,
    /// There is no room now; what was sent of it has been taken off.
    Waits,
    /// It cannot be sent.
    Lost(Reason),
}

/// What a socket for datagrams has sent.
#[derive(Default)]
pub(super) struct Sent {
    count: u64,
    /// What the system said last: that is said once.
    complaint: String,
}

impl Sent {
    /// Packets that were sent.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Counts or complains of a datagram that was sent (`true`), found no room or was refused.
    pub(super) fn note(&mut self, cx: &Context, sent: io::Result<bool>) -> Fate {
        match sent {
            Ok(true) => {
                self.count += 1;
                Fate::Sent
            }
            Ok(false) => Fate::Waits,
            Err(error) => {
                let error = error.to_string();
                if self.complaint != error {
                    let router = cx.router();
                    router.chatter(&format!("{}: {error}", router.name_of(cx.element())));
                    self.complaint = error;
                }
                Fate::Lost(Reason::DeviceError)
            }
        }
    }
}

/// What an outlet sends by. The element locks it; whoever locks the backlog too does so later.
pub(super) trait Sink {
    /// Whether there is anybody to send to. If not, nothing is pulled, and what is pushed is lost.
    fn is_open(&self) -> bool;

    /// Sends a packet.
    fn send(&mut self, cx: &Context, packet: &mut Packet) -> Fate;

    /// A descriptor that is readable when there is room.
    fn writable(&self) -> Option<OwnedFd>;
}

/// Pushed packets that wait for room at most.
const CAPACITY: usize = 1024;
/// How soon to try again where the system does not tell of room.
const PAUSE: Timestamp = Timestamp::from_nanos(200_000);

impl Outlet {
    /// Asks for a task, the element's first, and a timer.
    pub(super) fn configure(setup: &mut Setup<'_>) -> Self {
        let outlet = Self {
            backlog: Lock::default(),
            upstream: OnceLock::new(),
            room: Notifier::default(),
            task: setup.task(),
            timer: setup.timer(),
        };
        outlet.room.wake();
        outlet
    }

    pub(super) fn initialize(&self, init: &Init<'_>) {
        if init.is_pull_input(0) {
            // An element is initialised once.
            let _ = self.upstream.set(init.listen(0, &self.task));
        }
        self.task.schedule();
    }

    /// The task that sends.
    pub(super) fn task(&self) -> &Task {
        &self.task
    }

    /// For pushers: whether there is room.
    pub(super) fn room(&self) -> &Notifier {
        &self.room
    }

    /// Packets that wait.
    pub(super) fn held(&self) -> usize {
        self.backlog.lock().len()
    }

    /// There may be room, or somebody to send to.
    pub(super) fn wake(&self) {
        self.task.schedule();
    }

    /// Sends pushed packets, or lets them wait for room. The batch is empty afterwards.
    pub(super) fn push(&self, cx: &mut Context, batch: &mut Batch, sink: &mut dyn Sink) {
        if !sink.is_open() {
            return cx.drop_batch(batch, Reason::DeviceError);
        }
        let mut backlog = self.backlog.lock();
        let mut sent = 0;
        batch.map_filter(|mut packet| {
            if backlog.is_empty() {
                match sink.send(cx, &mut packet) {
                    Fate::Sent => {
                        sent += 1;
                        return None;
                    }
                    Fate::Lost(reason) => return cx.drop(packet, reason),
                    Fate::Waits => {}
                }
            }
            if backlog.len() >= CAPACITY {
                return cx.drop(packet, Reason::TransmitFull);
            }
            backlog.push_back(packet);
            None
        });
        cx.consumed(sent);
        if !backlog.is_empty() {
            if backlog.len() >= CAPACITY / 2 {
                self.room.sleep();
            }
            self.wait_for_room(cx, sink);
        }
    }

    /// Sends what waits, and what can be pulled. `sink` gives the sink, locked.
    pub(super) fn run<S: Sink, G: std::ops::DerefMut<Target = S>>(
        &self,
        cx: &mut Context,
        burst: usize,
        sink: impl Fn() -> G,
    ) -> bool {
        let mut batch = cx.take_batch();
        let upstream = self.upstream.get();
        let waiting = self.held();
        if let Some(upstream) = upstream.filter(|_| waiting == 0) {
            let is_open = sink().is_open();
            if !is_open {
                // Whoever opens it wakes the task.
                self.task.rest();
                cx.give_batch(batch);
                return false;
            }
            // What is pulled may come through elements that push to this one.
            if cx.pull(0, burst, &mut batch) == 0 {
                upstream.rest(&self.task, cx.router());
                cx.give_batch(batch);
                return false;
            }
        }
        let mut sink = sink();
        let mut backlog = self.backlog.lock();
        backlog.extend(batch.drain());
        cx.give_batch(batch);
        let (mut sent, mut waits) = (0, false);
        while let Some(packet) = backlog.front_mut() {
            let fate = match sink.is_open() {
                true => sink.send(cx, packet),
                false => Fate::Lost(Reason::DeviceError),
            };
            if fate == Fate::Waits {
                waits = true;
                break;
            }
            let Some(packet) = backlog.pop_front() else { break };
            match fate {
                Fate::Lost(reason) => drop(cx.drop(packet, reason)),
                _ => sent += 1,
            }
        }
        cx.consumed(sent);
        if backlog.len() < CAPACITY / 2 {
            self.room.wake();
        }
        if waits {
            self.wait_for_room(cx, &*sink);
        } else {
            self.task.wait_readable([]);
            if upstream.is_none() {
                self.task.rest();
            }
        }
        sent > 0
    }

    /// The time of a pause is over.
    pub(super) fn run_timer(&self) {
        self.task.schedule();
    }

    /// Whether there may be packets to pull.
    pub(super) fn signal(&self, router: &Router) -> bool {
        self.upstream.get().is_some_and(|upstream| upstream.active(router))
    }

    /// Lets the task sleep until there is room.
    fn wait_for_room(&self, cx: &Context, sink: &dyn Sink) {
        match sink.writable() {
            Some(fd) => {
                self.task.wait_readable([fd]);
                self.task.schedule();
            }
            None => {
                self.task.unschedule();
                self.timer.schedule_at(cx.now() + PAUSE);
            }
        }
    }
}
