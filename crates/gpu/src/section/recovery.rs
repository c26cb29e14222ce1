//! A lane's link to the device: when it is used, when it is left alone, how it comes back.
//!
//! ```text
//!            connect                 a batch is done
//!   Apart ------------> Trial -------------------------> Good
//!     ^                   |  a fault                      |  a fault
//!     |                   v                               |
//!     +----------------- Suspect <------------------------+
//!       lost, or never quiet     quiet, after a pause: Trial
//! ```
//!
//! After a fault nothing is submitted until the device is sure to write to no slot any more
//! ([`DeviceLane::quiesce`]) and a pause is over, which doubles with each fault from 1 ms to 1 s. Then one real batch
//! is tried alone: if it fails, its packets are treated by the twins like those of any other batch, and the next pause
//! begins.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use super::report::Fault;
use crate::{Device, DeviceError, DeviceLane, Poll, SlotId, Table, Ticket};

/// Pauses that double.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff(u64);

impl Backoff {
    const FIRST: u64 = 1_000_000;
    const LONGEST: u64 = 1_000_000_000;

    /// The next pause, in nanoseconds.
    pub(super) fn next(&mut self) -> u64 {
        let pause = self.0;
        self.0 = (pause * 2).min(Self::LONGEST);
        pause
    }

    /// All is well again.
    pub(super) fn reset(&mut self) {
        *self = Self::default();
    }
}

impl Default for Backoff {
    fn default() -> Self {
        Self(Self::FIRST)
    }
}

/// A lane on a device.
pub(super) struct Connection {
    pub(super) lane: Box<dyn DeviceLane>,
    /// Which device it is, as its source counts.
    pub(super) generation: u64,
    /// Held as long as there is a lane on it.
    pub(super) _device: std::sync::Arc<dyn Device>,
}

/// What comes of an attempt to connect.
pub(super) type Connected = Result<Connection, (Fault, DeviceError)>;

enum State {
    /// There is no connection; one is asked for at this time.
    Apart { until: u64 },
    /// One is being made.
    Asked(Receiver<Connected>),
    /// Not to be used before this time, nor before it is quiet.
    Suspect { connection: Connection, until: u64, loud: u32 },
    /// Used for one batch at a time.
    Trial { connection: Connection, busy: Option<SlotId> },
    /// Used.
    Good(Connection),
}

/// What the lane is to do about its link.
pub(super) enum Order {
    Nothing,
    /// Have a connection made, and give the other end to [`Link::asked`].
    Connect,
    /// Count that connecting failed.
    Failed(Fault),
    /// Forget all that lies in slots, and have this taken apart, the device being lost.
    Dispose(Connection),
}

pub(super) struct Link {
    state: State,
    backoff: Backoff,
    /// Slots without a batch. The device may still write to some of them while the connection is suspect, and none is used.
    free: Vec<SlotId>,
}

impl Link {
    /// A link to the device, or to one that is still to be connected.
    pub(super) fn new(connection: Option<Connection>) -> Self {
        let mut link = Self {
            state: State::Apart { until: 0 },
            backoff: Backoff::default(),
            free: Vec::new(),
        };
        if let Some(connection) = connection {
            link.reset_slots(&connection);
            link.state = State::Good(connection);
        }
        link
    }

    /// The device of the connection, if there is one that may be used.
    pub(super) fn generation(&self) -> Option<u64> {
        match &self.state {
            State::Good(connection) | State::Trial { connection, .. } => {
                Some(connection.generation)
            }
            _ => None,
        }
    }

    /// Whether batches go to the device without reserve.
    pub(super) fn is_good(&self) -> bool {
        matches!(self.state, State::Good(_))
    }

    /// Whether a slot may be [taken](Self::take_slot) for another batch, if one is free.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Good(_) | State::Trial { busy: None, .. })
    }

    /// A slot for another batch.
    pub(super) fn take_slot(&mut self) -> Option<SlotId> {
        if !self.is_open() {
            return None;
        }
        let slot = self.free.pop()?;
        if let State::Trial { busy, .. } = &mut self.state {
            *busy = Some(slot);
        }
        Some(slot)
    }

    /// A slot whose batch has left it, or was never submitted.
    pub(super) fn give_slot(&mut self, slot: SlotId) {
        self.free.push(slot);
        if let State::Trial { busy, .. } = &mut self.state
            && *busy == Some(slot)
        {
            *busy = None;
        }
    }

    /// The host's memory of a slot.
    pub(super) fn block(&mut self, slot: SlotId) -> Option<&mut [u8]> {
        self.connection()?.lane.block(slot)
    }

    /// Submits a batch.
    pub(super) fn submit(
        &mut self,
        slot: SlotId,
        rows: usize,
        payload: usize,
        tables: &[Table],
    ) -> Result<Ticket, DeviceError> {
        match &mut self.state {
            State::Good(connection) | State::Trial { connection, .. } => {
                connection.lane.submit(slot, rows, payload, tables)
            }
            _ => Err(DeviceError::Step("the device is not to be used now".to_owned())),
        }
    }

    /// What became of a batch.
    pub(super) fn poll(&mut self, ticket: Ticket) -> Poll {
        match self.connection() {
            Some(connection) => connection.lane.poll(ticket),
            None => Poll::Failed(DeviceError::Lost("there is no connection".to_owned())),
        }
    }

    /// A batch is done: the device works.
    pub(super) fn well(&mut self) {
        if matches!(self.state, State::Good(_)) {
            return;
        }
        self.backoff.reset();
        self.state = match std::mem::replace(&mut self.state, State::Apart { until: 0 }) {
            State::Trial { connection, .. } => State::Good(connection),
            other => other,
        };
    }

    /// Slots are left alone until the device is done with them; nothing went wrong.
    pub(super) fn abandon(&mut self, now: u64, written: impl IntoIterator<Item = SlotId>) {
        self.free.extend(written);
        self.state = match std::mem::replace(&mut self.state, State::Apart { until: now }) {
            State::Good(connection) | State::Trial { connection, .. } => {
                State::Suspect { connection, until: now, loud: 0 }
            }
            other => other,
        };
    }

    /// Something went wrong at `now`; `written` are the slots to which the device may still write. With a lost device the
    /// connection comes back, to be taken apart.
    pub(super) fn fault(
        &mut self,
        now: u64,
        fault: Fault,
        written: impl IntoIterator<Item = SlotId>,
    ) -> Option<Connection> {
        self.free.extend(written);
        let until = now.saturating_add(self.backoff.next());
        match std::mem::replace(&mut self.state, State::Apart { until }) {
            State::Good(connection)
            | State::Trial { connection, .. }
            | State::Suspect { connection, .. } => {
                if fault == Fault::Lost {
                    self.free.clear();
                    return Some(connection);
                }
                self.state = State::Suspect { connection, until, loud: 0 };
            }
            // Nothing can go wrong there but connecting, which has a way of its own.
            asked @ State::Asked(_) => self.state = asked,
            State::Apart { .. } => {}
        }
        None
    }

    /// A connection is being made, and comes here.
    pub(super) fn asked(&mut self, connected: Receiver<Connected>) {
        self.state = State::Asked(connected);
    }

    /// Time goes on.
    pub(super) fn attend(&mut self, now: u64) -> Order {
        /// Looks at a lane that does not come to rest, before it is given up for another: an eighth of a second in all.
        const LOUD: u32 = 7;
        match &mut self.state {
            State::Good(_) | State::Trial { .. } => Order::Nothing,
            State::Apart { until } if *until <= now => Order::Connect,
            State::Suspect { until, .. } if *until > now => Order::Nothing,
            State::Apart { .. } => Order::Nothing,
            State::Suspect { connection, until, loud } => {
                if connection.lane.quiesce(Duration::ZERO) {
                    return self.try_again();
                }
                *until = now.saturating_add(self.backoff.next());
                *loud += 1;
                if *loud < LOUD {
                    return Order::Nothing;
                }
                self.backoff.reset();
                match self.fault(now, Fault::Lost, None) {
                    Some(connection) => Order::Dispose(connection),
                    None => Order::Nothing,
                }
            }
            State::Asked(receiver) => match receiver.try_recv() {
                Ok(Ok(connection)) => {
                    self.reset_slots(&connection);
                    self.state = State::Trial { connection, busy: None };
                    Order::Nothing
                }
                Err(TryRecvError::Empty) => Order::Nothing,
                Ok(Err((fault, _))) => self.not_connected(now, fault),
                Err(TryRecvError::Disconnected) => self.not_connected(now, Fault::Open),
            },
        }
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        match &mut self.state {
            State::Good(connection)
            | State::Trial { connection, .. }
            | State::Suspect { connection, .. } => Some(connection),
            State::Apart { .. } | State::Asked(_) => None,
        }
    }

    fn reset_slots(&mut self, connection: &Connection) {
        self.free = (0..connection.lane.slots()).rev().map(SlotId).collect();
    }

    fn not_connected(&mut self, now: u64, fault: Fault) -> Order {
        self.state = State::Apart { until: now.saturating_add(self.backoff.next()) };
        Order::Failed(fault)
    }

    fn try_again(&mut self) -> Order {
        self.state = match std::mem::replace(&mut self.state, State::Apart { until: 0 }) {
            State::Suspect { connection, .. } => State::Trial { connection, busy: None },
            other => other,
        };
        Order::Nothing
    }
}
