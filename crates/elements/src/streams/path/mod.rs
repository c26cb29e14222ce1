//! What the ends of a path share: TCPIn and TCPOut of each direction, and the connections of both.

use std::collections::{HashMap, VecDeque};
use std::hash::{BuildHasher, RandomState};
use std::sync::{Arc, OnceLock, Weak};

use millrace_core::{Capability, Lock, Timer, Timestamp};

use super::connection::{Connection, Ledger, Limits};
use crate::flows::contexts::{Contexts, Slot};
use crate::flows::key::WideKey;

/// A connection that both directions use.
pub(crate) type Shared = Arc<Lock<Connection>>;

/// Some of the connections, by their flows in ordered form.
type Shard = HashMap<WideKey, Weak<Lock<Connection>>>;

/// The connections of a pair of paths.
pub(crate) struct Connections {
    shards: Vec<Lock<Shard>>,
    hasher: RandomState,
}

/// Locks that the connections are divided among.
const SHARDS: usize = 64;

impl Default for Connections {
    fn default() -> Self {
        let shards = (0..SHARDS).map(|_| Lock::default()).collect();
        Self { shards, hasher: RandomState::new() }
    }
}

impl Connections {
    fn shard(&self, flow: WideKey) -> Option<&Lock<Shard>> {
        self.shards.get(self.hasher.hash_one(flow) as usize % SHARDS)
    }

    /// The connection of a flow, in its ordered form; a new one if there is none and `begins` is true.
    fn join(&self, flow: WideKey, begins: bool) -> Option<Shared> {
        let mut shard = self.shard(flow)?.lock();
        if let Some(known) = shard.get(&flow).and_then(Weak::upgrade) {
            return Some(known);
        }
        begins.then(|| {
            let new = Shared::default();
            shard.insert(flow, Arc::downgrade(&new));
            new
        })
    }

    /// Takes a connection over.
    fn adopt(&self, flow: WideKey, connection: &Shared) {
        if let Some(shard) = self.shard(flow) {
            shard.lock().insert(flow, Arc::downgrade(connection));
        }
    }

    /// Returns a connection. The last one to do so makes the table forget it.
    fn leave(&self, flow: WideKey, connection: Shared) {
        let Some(shard) = self.shard(flow) else { return };
        let mut shard = shard.lock();
        drop(connection);
        if shard.get(&flow).is_some_and(|known| known.strong_count() == 0) {
            shard.remove(&flow);
        }
    }
}

/// What the context of a flow keeps for TCPIn and TCPOut: its connection.
#[derive(Default)]
pub(crate) struct Side(Option<Joined>);

struct Joined {
    connection: Option<Shared>,
    flow: WideKey,
    direction: usize,
    table: Arc<Connections>,
}

impl Drop for Joined {
    fn drop(&mut self) {
        if let Some(connection) = self.connection.take() {
            self.table.leave(self.flow, connection);
        }
    }
}

impl Side {
    /// The connection, and the direction of the flow in it.
    pub(crate) fn connection(&self) -> Option<(Shared, usize)> {
        let joined = self.0.as_ref()?;
        Some((joined.connection.clone()?, joined.direction))
    }

    /// Joins the connection of a flow, which `begins` allows to be a new one.
    pub(crate) fn join(
        &mut self,
        table: &Arc<Connections>,
        flow: WideKey,
        begins: bool,
    ) -> Option<(Shared, usize)> {
        if self.0.is_none() {
            let (flow, turns) = flow.ordered();
            let connection = table.join(flow, begins)?;
            self.0 = Some(Joined {
                connection: Some(connection),
                flow,
                direction: turns.into(),
                table: table.clone(),
            });
        }
        self.connection()
    }
}

impl Side {
    /// Moves to the table of another TCPIn, which takes this one's place after a hot swap. Returns the connection and
    /// the direction.
    pub(crate) fn move_to(&mut self, table: &Arc<Connections>) -> Option<(Shared, usize)> {
        let joined = self.0.as_mut()?;
        let connection = joined.connection.clone()?;
        table.adopt(joined.flow, &connection);
        joined.table = table.clone();
        Some((connection, joined.direction))
    }
}

/// The beginning of a path, which TCPIn offers.
pub(crate) struct Entrance {
    /// The connections of this path and of the one back.
    pub(crate) connections: OnceLock<Arc<Connections>>,
    pub(crate) contexts: OnceLock<(Arc<Contexts>, Slot<Side>)>,
    pub(crate) limits: Limits,
    pub(crate) ledger: Arc<Ledger>,
    /// How long elements may hold bytes back.
    pub(crate) patience: Timestamp,
    pub(crate) holds: Lock<VecDeque<Hold>>,
    pub(crate) timer: Timer,
}

/// A stream of which bytes are held back.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Hold {
    pub(crate) due: Timestamp,
    /// Its flow.
    pub(crate) number: u32,
    /// Where it stood.
    pub(crate) position: u64,
    /// The thread that its packets are on.
    pub(crate) thread: usize,
}

/// The number of holds that are watched. Others end when the sender sends something again.
const MOST_HOLDS: usize = 1 << 16;

impl Capability for Entrance {
    const NAME: &'static str = "the beginning of TCP streams (TCPIn)";
}

impl Entrance {
    /// The connection of the flow with a number.
    pub(crate) fn connection(&self, number: u32) -> Option<(Shared, usize)> {
        let (contexts, slot) = self.contexts.get()?;
        contexts.with(number, *slot, |side| side.connection())?
    }

    /// Has bytes asked for after a while that are held back now.
    pub(crate) fn watch(&self, hold: Hold) {
        let mut holds = self.holds.lock();
        if holds.len() < MOST_HOLDS {
            holds.push_back(hold);
        }
        drop(holds);
        if self.timer.expiry().is_none() {
            self.timer.schedule_at(hold.due);
        }
    }
}

/// The end of a path, which TCPOut offers.
pub(crate) struct Exit {
    pub(crate) entrance: OnceLock<Arc<Entrance>>,
    pub(crate) reads_only: bool,
}

impl Capability for Exit {
    const NAME: &'static str = "the end of TCP streams (TCPOut)";
}

/// What HTTPIn offers HTTPOut.
pub(crate) struct HttpPath {
    /// Bytes of content that may be kept to count them.
    pub(crate) buffer: usize,
}

impl Capability for HttpPath {
    const NAME: &'static str = "the beginning of HTTP messages (HTTPIn)";
}

/// An end of a path: what is downstream of it is a stream, or is none.
pub(crate) trait Boundary: Send + Sync {
    /// Whether a path begins here.
    fn begins(&self) -> bool;
}

impl Capability for dyn Boundary {
    const NAME: &'static str = "an end of TCP streams (TCPIn or TCPOut)";
}

impl Boundary for Entrance {
    fn begins(&self) -> bool {
        true
    }
}

impl Boundary for Exit {
    fn begins(&self) -> bool {
        false
    }
}
