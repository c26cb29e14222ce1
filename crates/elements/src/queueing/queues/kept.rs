//! The one element behind the queue classes: they differ in where packets go and in who is told.

use std::marker::PhantomData;

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Init, Notifier, Setup};

use super::store::{End, PATIENCE, Store};

/// What distinguishes a class of queues.
pub trait Discipline: Send + Sync + 'static {
    /// The class.
    const CLASS: Class;
    /// Whether those who push are told whether there is room.
    const TELLS_ROOM: bool = false;
    /// Whether those who pull are told whether there are packets.
    const TELLS_PACKETS: bool = true;
    /// How often those who pull may do so in vain before they are told that there is nothing.
    const PATIENCE: u32 = PATIENCE;
    /// Which packets stay when a handler makes the queue smaller.
    const KEEPS: End = End::Front;

    /// Puts packets that came by input `port` into the queue; those that have to go leave.
    fn put(store: &Store, cx: &mut Context, _port: usize, batch: &mut Batch) {
        store.append(cx, batch);
    }
}

/// A queue that keeps to a discipline.
pub struct Kept<D> {
    store: Store,
    discipline: PhantomData<fn() -> D>,
}

impl<D: Discipline> Element for Kept<D> {
    const CLASS: Class = D::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Ok(Self { store: Store::configure(setup, D::KEEPS, D::PATIENCE)?, discipline: PhantomData })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        D::put(&self.store, cx, port, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        self.store.take(cx, max, batch);
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        D::TELLS_PACKETS.then(|| self.store.packets())
    }

    fn room_notifier(&self, _port: usize) -> Option<&Notifier> {
        D::TELLS_ROOM.then(|| self.store.room())
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.store.take_state(&old.store);
    }

    fn held(&self) -> usize {
        self.store.held()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Store::handlers(handlers, |queue| &queue.store);
    }
}

impl<D> Kept<D> {
    pub(super) fn store(&self) -> &Store {
        &self.store
    }
}
