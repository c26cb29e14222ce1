//! The connection of a lane to the device: when it is used, when it is suspended, and how it is restored.
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
//! After a fault, nothing is submitted until the device certainly writes to no slot any more
//! ([`DeviceLane::quiesce`]), and a pause is over. The pause doubles with each fault, from 1 ms to 1 s. Then a single
//! batch is tried. If it fails, the twins process its packets like those of any other batch, and the next pause begins.

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use super::report::Fault;
use crate::{Device, DeviceError, DeviceLane, Poll, SlotId, Table, Ticket};

/// Pauses that double each time.
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

    /// Begins again with the shortest pause.
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
    /// The generation of the device, as its source counts.
    pub(super) generation: u64,
    /// Keeps the device open as long as a lane on it exists.
    pub(super) _device: std::sync::Arc<dyn Device>,
}

/// The result of an attempt to connect.
pub(super) type Connected = Result<Connection, (Fault, DeviceError)>;

enum State {
    /// There is no connection. The next attempt begins at this time.
    Apart { until: u64 },
    /// A connection is being made.
    Asked(Receiver<Connected>),
    /// The connection must not be used before this time, nor before the device has stopped writing to slots.
    Suspect { connection: Connection, until: u64, loud: u32 },
    /// It is used for one batch at a time.
    Trial { connection: Connection, busy: Option<SlotId> },
    /// It is used without restriction.
    Good(Connection),
}

/// What the lane must do about its connection.
pub(super) enum Order {
    Nothing,
    /// Start a connection, and pass the receiver to [`Link::asked`].
    Connect,
    /// Count a failed attempt to connect.
    Failed(Fault),
    /// Forget the contents of all slots, and close this connection, because the device is lost.
    Dispose(Connection),
}

pub(super) struct Link {
    state: State,
    backoff: Backoff,
    /// Slots without a batch. While the connection is suspect, the device may still write to some of them, and none
    /// is used.
    free: Vec<SlotId>,
}

impl Link {
    /// A link with a connection, or one that is still to be connected.
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

    /// The generation of the device, if the connection can be used.
    pub(super) fn generation(&self) -> Option<u64> {
        match &self.state {
            State::Good(connection) | State::Trial { connection, .. } => {
                Some(connection.generation)
            }
            _ => None,
        }
    }

    /// True if batches go to the device without restriction.
    pub(super) fn is_good(&self) -> bool {
        matches!(self.state, State::Good(_))
    }

    /// True if a slot may be [taken](Self::take_slot) for another batch, if one is free.
    pub(super) fn is_open(&self) -> bool {
        matches!(self.state, State::Good(_) | State::Trial { busy: None, .. })
    }

    /// Takes a free slot for a batch.
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

    /// Returns a slot whose batch was delivered or was never submitted.
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

    /// The state of a batch.
    pub(super) fn poll(&mut self, ticket: Ticket) -> Poll {
        match self.connection() {
            Some(connection) => connection.lane.poll(ticket),
            None => Poll::Failed(DeviceError::Lost("there is no connection".to_owned())),
        }
    }

    /// Notes that a batch is done, so the device works.
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

    /// Suspends the slots until the device is done with them. This is not a fault.
    pub(super) fn abandon(&mut self, now: u64, written: impl IntoIterator<Item = SlotId>) {
        self.free.extend(written);
        self.state = match std::mem::replace(&mut self.state, State::Apart { until: now }) {
            State::Good(connection) | State::Trial { connection, .. } => {
                State::Suspect { connection, until: now, loud: 0 }
            }
            other => other,
        };
    }

    /// Handles a fault at time `now`. `written` are the slots to which the device may still write. If the device is
    /// lost, returns the connection, which must be closed.
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
            // Only connecting can fail in this state, which is handled elsewhere.
            asked @ State::Asked(_) => self.state = asked,
            State::Apart { .. } => {}
        }
        None
    }

    /// Waits for a connection that is being made.
    pub(super) fn asked(&mut self, connected: Receiver<Connected>) {
        self.state = State::Asked(connected);
    }

    /// Does what is due at this time.
    pub(super) fn attend(&mut self, now: u64) -> Order {
        /// The number of checks of a lane that does not become quiet, before it is replaced: an eighth of a second in
        /// all.
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
