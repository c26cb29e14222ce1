//! Sends packets through a socket: the part that Socket, McastSocket and RawSocket share. It
//! handles pulled and pushed packets and packets that wait for room, and never blocks the thread.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;

use millrace_core::element::Listening;
use millrace_core::{
    Batch, Context, Init, Lock, Notifier, Packet, Reason, Router, Setup, Task, Timer, Timestamp,
};

/// The sending side of a socket element.
pub(crate) struct Outlet {
    /// Packets accepted but not sent yet. The first may have been sent in part.
    backlog: Lock<VecDeque<Packet>>,
    /// Set if the input is pull.
    upstream: OnceLock<Listening>,
    /// Tells pushers whether there is room.
    room: Notifier,
    task: Task,
    timer: Timer,
}

/// The outcome for a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Sent,
    /// There is no room now; the part that was sent has been stripped.
    Waits,
    /// It cannot be sent.
    Lost(Reason),
}

/// Counts the datagrams that a socket sent.
#[derive(Default)]
pub(crate) struct Sent {
    count: u64,
    /// The last error, so that the same error is reported only once.
    complaint: String,
}

impl Sent {
    /// The number of packets sent.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Handles the outcome for a datagram: sent (`true`, counted), no room (`false`), or rejected
    /// (reported).
    pub(crate) fn note(&mut self, cx: &Context, sent: io::Result<bool>) -> Fate {
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

/// The socket that an outlet sends through. The element locks it. Lock order: the sink before the
/// backlog.
pub(crate) trait Sink {
    /// Whether there is a peer to send to. If not, nothing is pulled, and pushed packets are
    /// dropped.
    fn is_open(&self) -> bool;

    /// Sends a packet.
    fn send(&mut self, cx: &Context, packet: &mut Packet) -> Fate;

    /// A descriptor that is readable when there is room.
    fn writable(&self) -> Option<OwnedFd>;
}

/// Maximum number of pushed packets that wait for room.
const CAPACITY: usize = 1024;
/// Delay before a retry if the system cannot signal that there is room.
const PAUSE: Timestamp = Timestamp::from_nanos(200_000);

impl Outlet {
    /// Requests a task, the element's first, and a timer.
    pub(crate) fn configure(setup: &mut Setup<'_>) -> Self {
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

    pub(crate) fn initialize(&self, init: &Init<'_>) {
        if init.is_pull_input(0) {
            // An element is initialised once.
            let _ = self.upstream.set(init.listen(0, &self.task));
        }
        self.task.schedule();
    }

    /// The task that sends.
    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    /// Tells pushers whether there is room.
    pub(crate) fn room(&self) -> &Notifier {
        &self.room
    }

    /// The number of waiting packets.
    pub(crate) fn held(&self) -> usize {
        self.backlog.lock().len()
    }

    /// Called when there may be room, or a peer to send to.
    pub(crate) fn wake(&self) {
        self.task.schedule();
    }

    /// Sends pushed packets, or makes them wait for room. Leaves the batch empty.
    pub(crate) fn push(&self, cx: &mut Context, batch: &mut Batch, sink: &mut dyn Sink) {
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

    /// Sends the waiting packets, and packets that can be pulled. `sink` returns the locked sink.
    pub(crate) fn run<S: Sink, G: std::ops::DerefMut<Target = S>>(
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
                // The code that opens the sink wakes the task.
                self.task.rest();
                cx.give_batch(batch);
                return false;
            }
            // The sink is unlocked: pulled packets may come through elements that push to this one.
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

    /// Called when the retry delay is over.
    pub(crate) fn run_timer(&self) {
        self.task.schedule();
    }

    /// Whether there may be packets to pull.
    pub(crate) fn signal(&self, router: &Router) -> bool {
        self.upstream.get().is_some_and(|upstream| upstream.active(router))
    }

    /// Puts the task to sleep until there is room.
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

/// The methods of an element with an [`Outlet`], an intake, and a [`Sink`] behind the lock `$sink`.
macro_rules! methods {
    ($sink:ident) => {
        fn push(
            &self,
            cx: &mut Context,
            (): &mut (),
            _port: usize,
            batch: &mut ::millrace_core::Batch,
        ) {
            self.outlet.push(cx, batch, &mut *self.$sink.lock());
        }

        fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
            if cx.index() == self.outlet.task().index() {
                return self.outlet.run(cx, self.intake.burst(), || self.$sink.lock());
            }
            self.receive(cx)
        }

        fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
            self.outlet.run_timer();
        }

        fn room_notifier(&self, _port: usize) -> Option<&::millrace_core::Notifier> {
            Some(self.outlet.room())
        }

        fn held(&self) -> usize {
            self.outlet.held()
        }
    };
}

pub(crate) use methods;
