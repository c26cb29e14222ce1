//! What elements keep for each flow: one block of memory per flow, with a slot for each element that asked for one.
//!
//! A manager (CTXManager) owns the [`Contexts`]. Elements after it [reserve](Contexts::reserve) a slot while they are
//! initialised. The manager gives each flow a number, which travels in the AGGREGATE annotation, so an element reaches
//! its slot without another lookup. A slot is made when its element first uses it, and dropped when the flow ends.
//!
//! A number consists of the block's place and of the number of times that the place was given away. So a packet that
//! was held for longer than its flow lived finds nothing, and not the state of another flow.

use std::any::Any;
use std::marker::PhantomData;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millrace_core::{Capability, Footprint, InRound, Init, Lock, Refused};

use super::key::Key;
use super::table::records::Records;
use super::table::{Fixed, Flows};

/// The flows of a manager and what elements keep for each of them.
pub(crate) struct Contexts {
    /// The number of each flow.
    flows: Flows<Key, Fixed>,
    blocks: Records<Lock<Block>>,
    /// Places of blocks that no flow has.
    free: Lock<Vec<u32>>,
    /// The bits of a number that are the block's place.
    place_bits: u32,
    /// How many slots have been reserved.
    slots: AtomicUsize,
}

/// What elements keep for one flow.
#[derive(Default)]
struct Block {
    /// The number of the flow that has the block, or had it last.
    number: u32,
    key: Key,
    is_live: bool,
    slots: Vec<Option<Box<dyn Any + Send>>>,
}

/// An element's place in the block of every flow.
pub(crate) struct Slot<T> {
    index: usize,
    holds: PhantomData<fn() -> T>,
}

impl<T> Clone for Slot<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Slot<T> {}

impl Capability for Contexts {
    const NAME: &'static str = "flow contexts";
}

impl Contexts {
    /// Contexts for up to `capacity` flows, which end after `timeout` milliseconds of silence.
    pub(crate) fn new(capacity: usize, timeout: u64) -> Self {
        let capacity = capacity.clamp(1, 1 << 24).next_power_of_two();
        Self {
            flows: Flows::new(capacity, timeout, 1000),
            blocks: Records::new(),
            free: Lock::default(),
            place_bits: capacity.ilog2(),
            slots: AtomicUsize::new(0),
        }
    }

    /// The contexts of the one manager upstream of input 0.
    ///
    /// # Errors
    /// There is none, or there are several.
    pub(crate) fn upstream(init: &Init<'_>) -> Result<Arc<Self>, Refused> {
        let mut managers = init.offered_upstream::<Self>(0).into_iter();
        match (managers.next(), managers.next()) {
            (Some((_, contexts)), None) => Ok(contexts),
            (None, _) => Err("it needs a CTXManager upstream".into()),
            _ => {
                Err("it has several CTXManagers upstream, whose flows it cannot tell apart".into())
            }
        }
    }

    /// A slot for an element. Call it while elements are initialised.
    pub(crate) fn reserve<T: Default + Send + 'static>(&self) -> Slot<T> {
        Slot { index: self.slots.fetch_add(1, Relaxed), holds: PhantomData }
    }

    /// The number of the flow of a packet that has arrived. `None` when there is no room for another flow.
    pub(crate) fn enter(&self, at: &impl InRound, key: Key, now: u64) -> Option<u32> {
        let new = || Some(self.begin(key)?.into());
        self.flows.number(at, key, now, new, |number| self.end(number as u32)).map(|n| n as u32)
    }

    /// Calls `act` with what an element keeps for the flow with this number. `None` when the flow has ended.
    pub(crate) fn with<T, R>(
        &self,
        number: u32,
        slot: Slot<T>,
        act: impl FnOnce(&mut T) -> R,
    ) -> Option<R>
    where
        T: Default + Send + 'static,
    {
        let mut block = self.block(number)?.lock();
        if !block.is_live || block.number != number {
            return None;
        }
        if block.slots.len() <= slot.index {
            block.slots.resize_with(slot.index + 1, || None);
        }
        let place = block.slots.get_mut(slot.index)?;
        let state = place.get_or_insert_with(|| Box::new(T::default()));
        state.downcast_mut().map(act)
    }

    /// Lets a flow end `left` milliseconds from now, unless it gets another packet.
    pub(crate) fn retire(&self, number: u32, now: u64, left: u64) {
        let key = self.block(number).map(|block| block.lock().key);
        if let Some(key) = key {
            self.flows.retire(key, now, left);
        }
    }

    /// The number of flows at this time.
    pub(crate) fn count(&self, now: u64) -> usize {
        self.flows.count(now, |number| self.end(number as u32))
    }

    /// The maximum number of flows.
    pub(crate) fn capacity(&self) -> usize {
        1 << self.place_bits
    }

    /// Ends all flows.
    pub(crate) fn clear(&self) {
        self.flows.clear();
        for place in self.blocks.numbers() {
            let number = self.blocks.get(place).map(|block| block.lock().number);
            number.into_iter().for_each(|number| self.end(number));
        }
    }

    /// What the flows take when there are as many as possible; what elements keep for each is theirs to say.
    pub(crate) fn footprint(&self) -> Footprint {
        let blocks = Footprint::tables(self.capacity() * size_of::<Lock<Block>>());
        self.flows.footprint().and(blocks)
    }

    fn block(&self, number: u32) -> Option<&Lock<Block>> {
        self.blocks.get(number & ((1 << self.place_bits) - 1))
    }

    /// A block for a new flow.
    fn begin(&self, key: Key) -> Option<u32> {
        let free = self.free.lock().pop();
        let place = match free {
            Some(place) => place,
            None => self.blocks.add(Lock::default)?,
        };
        let mut block = self.blocks.get(place)?.lock();
        let used = block.number.checked_shr(self.place_bits).unwrap_or_default();
        // 0 stands for no flow.
        let next = used.wrapping_add(1).checked_shl(self.place_bits).unwrap_or_default();
        let next = if next == 0 { 1 << self.place_bits } else { next };
        *block = Block { number: next | place, key, is_live: true, slots: Vec::new() };
        Some(next | place)
    }

    fn end(&self, number: u32) {
        let Some(block) = self.block(number) else { return };
        let mut block = block.lock();
        if !block.is_live || block.number != number {
            return;
        }
        block.is_live = false;
        let slots = std::mem::take(&mut block.slots);
        drop(block);
        drop(slots);
        self.free.lock().push(number & ((1 << self.place_bits) - 1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(n: u32) -> Key {
        Key::numbered(n)
    }

    #[test]
    fn a_number_is_never_that_of_another_flow() {
        let contexts = Contexts::new(2, 1000);
        let slot = contexts.reserve::<u32>();
        let mut seen = std::collections::HashSet::new();
        for n in 0..1000 {
            let number = contexts.begin(key(n)).unwrap();
            assert!(number != 0 && seen.insert(number), "{number} again");
            assert_eq!(contexts.with(number, slot, |state| *state), Some(0));
            contexts.with(number, slot, |state| *state = n + 1);
            assert_eq!(contexts.with(number, slot, |state| *state), Some(n + 1));
            contexts.end(number);
            assert_eq!(contexts.with(number, slot, |state| *state), None);
            // Once more does nothing.
            contexts.end(number);
        }
        assert_eq!(contexts.blocks.numbers(), 0..1, "one place is used again and again");
    }

    #[test]
    fn slots_are_apart_and_end_with_the_flow() {
        let contexts = Contexts::new(8, 1000);
        let (first, second) =
            (contexts.reserve::<Vec<u8>>(), contexts.reserve::<Option<Arc<()>>>());
        let (one, two) = (contexts.begin(key(1)).unwrap(), contexts.begin(key(2)).unwrap());
        let watched = Arc::new(());
        contexts.with(one, first, |state| state.push(7));
        contexts.with(one, second, |state| *state = Some(watched.clone()));
        assert_eq!(contexts.with(two, first, |state| state.len()), Some(0));
        assert_eq!(contexts.with(one, first, |state| state.len()), Some(1));
        assert_eq!(Arc::strong_count(&watched), 2);
        contexts.end(one);
        assert_eq!(Arc::strong_count(&watched), 1);
        assert_eq!(contexts.with(two, first, |state| state.len()), Some(0));
    }
}
