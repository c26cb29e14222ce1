//! The element behind the queue classes. They differ in where they insert packets and whom they notify.

use std::marker::PhantomData;
use std::sync::Arc;

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Notifier, Offers, Setup,
};

use super::store::{End, PATIENCE, Store};
use crate::capability::Storage;

/// The differences between classes of queues.
pub trait Discipline: Send + Sync + 'static {
    /// The class.
    const CLASS: Class;
    /// Whether pushers are notified when there is room.
    const TELLS_ROOM: bool = false;
    /// Whether pullers are notified when there are packets.
    const TELLS_PACKETS: bool = true;
    /// How many pulls can find the queue empty before its pullers are put to sleep.
    const PATIENCE: u32 = PATIENCE;
    /// Which end keeps its packets when a handler makes the queue smaller.
    const KEEPS: End = End::Front;

    /// Stores packets from input `port`; those that do not fit leave the queue.
    fn put(store: &Store, cx: &mut Context, _port: usize, batch: &mut Batch) {
        store.append(cx, batch);
    }
}

/// A queue with a discipline.
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

    fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
        offers.provide::<dyn Storage>(self.clone());
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

impl<D: Discipline> Storage for Kept<D> {
    fn size(&self) -> usize {
        self.store.len()
    }

    fn capacity(&self) -> usize {
        self.store.capacity()
    }
}
