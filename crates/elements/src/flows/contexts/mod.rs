//! What elements keep for each flow: one block of memory per flow, with a slot for each element that asked for one.
//!
//! A manager (CTXManager) owns the [`Contexts`]. Elements after it [reserve](Contexts::reserve) a slot while they are
//! initialised. The manager gives each flow a number, which travels in the AGGREGATE annotation, so an element reaches
//! its slot without another lookup. A slot is made when its element first uses it, and dropped when the flow ends.
//!
//! A number consists of the block's place and of the number of times that the place was given away. So a packet that
//! was held for longer than its flow lived finds nothing, and not the state of another flow.
//!
//! Anybody can begin flows. So where an element [waits for handshakes](Contexts::awaits_handshakes), the flows of TCP are
//! half-open until it [confirms](Contexts::confirm) them, and the oldest half-open one makes room when all places are
//! taken.

use std::any::{Any, TypeId};
use std::collections::VecDeque;
use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use millrace_core::headers::protocol;
use millrace_core::{Capability, Footprint, InRound, Init, Lock, Refused};

use super::key::WideKey;
use super::table::records::Records;
use super::table::{Fixed, Flows};

/// The flows of a manager and what elements keep for each of them.
pub(crate) struct Contexts {
    /// The number of each flow.
    flows: Flows<WideKey, Fixed>,
    blocks: Records<Lock<Block>>,
    /// Places of blocks that no flow has.
    free: Lock<Vec<u32>>,
    /// The bits of a number that are the block's place.
    place_bits: u32,
    /// The slots that have been reserved.
    slots: Lock<Vec<Owner>>,
    /// Whether an element confirms flows of TCP.
    awaits: AtomicBool,
    /// Flows that were half-open when they began, oldest first.
    half_open: Lock<VecDeque<u32>>,
    /// Whether the contexts of the manager before this one were taken, and why not.
    taken: OnceLock<Result<(), String>>,
}

/// Who keeps something in a slot.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Owner {
    name: String,
    holds: TypeId,
    /// The arguments that the state depends on.
    config: String,
}

/// Milliseconds of silence after which a half-open flow ends.
pub(crate) const HALF_OPEN: u64 = 20_000;

/// What elements keep for one flow.
#[derive(Default)]
struct Block {
    /// The number of the flow that has the block, or had it last.
    number: u32,
    key: WideKey,
    is_live: bool,
    is_half_open: bool,
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
            slots: Lock::default(),
            awaits: AtomicBool::new(false),
            half_open: Lock::default(),
            taken: OnceLock::new(),
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

    /// A slot for an element. Call it while elements are initialised. After a hot swap the element of the same name gets
    /// what the one before it kept, if `by_config` is false or the arguments are the same, too.
    pub(crate) fn reserve<T: Default + Send + 'static>(
        &self,
        init: &Init<'_>,
        by_config: bool,
    ) -> Slot<T> {
        let own = init.router().elements().nth(init.id()).filter(|_| by_config);
        let config = own.map_or_else(String::new, |own| own.config.to_owned());
        self.add_slot(Owner { name: init.name().to_owned(), holds: TypeId::of::<T>(), config })
    }

    fn add_slot<T>(&self, owner: Owner) -> Slot<T> {
        let mut slots = self.slots.lock();
        slots.push(owner);
        Slot { index: slots.len() - 1, holds: PhantomData }
    }

    /// An element confirms the flows of TCP that both hosts take part in.
    pub(crate) fn awaits_handshakes(&self) {
        self.awaits.store(true, Relaxed);
    }

    /// A flow is no longer half-open.
    pub(crate) fn confirm(&self, number: u32, now: u64) {
        let Some(block) = self.block(number) else { return };
        let mut block = block.lock();
        if block.number == number {
            block.is_half_open = false;
            let key = block.key;
            drop(block);
            self.flows.renew(key, now);
        }
    }

    /// The number of the flow of a packet that has arrived. `None` when there is no room for another flow.
    pub(crate) fn enter(&self, at: &impl InRound, key: WideKey, now: u64) -> Option<u32> {
        loop {
            let new = || Some(self.begin(key)?.into());
            let number = self.flows.number(at, key, now, new, |number| self.end(number as u32));
            if number.is_some() || !self.evict() {
                return number.map(|number| number as u32);
            }
        }
    }

    /// Ends the oldest half-open flow. Returns false if there is none.
    fn evict(&self) -> bool {
        loop {
            let Some(number) = self.half_open.lock().pop_front() else { return false };
            let Some(key) = self.half_open_key(number) else { continue };
            // Its place is free before there is room for another flow, so there is never one too many.
            self.end(number);
            let other = self.flows.forget(key);
            other.into_iter().for_each(|number| self.end(number as u32));
            return true;
        }
    }

    /// The key of a flow, if it is half-open.
    fn half_open_key(&self, number: u32) -> Option<WideKey> {
        let block = self.block(number)?.lock();
        (block.is_live && block.is_half_open && block.number == number).then_some(block.key)
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

    /// Calls `act` with the number of each flow for which an element keeps something.
    pub(crate) fn for_each<T: Send + 'static>(
        &self,
        slot: Slot<T>,
        mut act: impl FnMut(u32, &mut T),
    ) {
        for (_, block) in self.blocks.iter() {
            let mut block = block.lock();
            let number = block.number;
            let state = block.slots.get_mut(slot.index).and_then(Option::as_mut);
            if let Some(state) = state.and_then(|state| state.downcast_mut()) {
                act(number, state);
            }
        }
    }

    /// Takes over the flows of the manager before this one, with what elements keep for them. Does so once.
    ///
    /// # Errors
    /// Why they begin anew: what an element keeps would be lost, and with it bytes that it holds back.
    pub(crate) fn take(&self, old: &Self) -> Result<(), String> {
        self.taken.get_or_init(|| self.take_once(old)).clone()
    }

    fn take_once(&self, old: &Self) -> Result<(), String> {
        if self.capacity() != old.capacity() {
            return Err("CAPACITY is another one".to_owned());
        }
        let slots = self.slots.lock();
        let mut places = Vec::new();
        for owner in old.slots.lock().iter() {
            match slots.iter().position(|own| own == owner) {
                Some(place) => places.push(place),
                None => {
                    let name = &owner.name;
                    return Err(format!("‘{name}’ is not there any more, or not the same"));
                }
            }
        }
        for (_, before) in old.blocks.iter() {
            let mut before = before.lock();
            let mut block = std::mem::take(&mut *before);
            let kept = std::mem::take(&mut block.slots);
            block.slots.resize_with(slots.len(), || None);
            for (state, place) in kept.into_iter().zip(&places) {
                if let Some(slot) = block.slots.get_mut(*place) {
                    *slot = state;
                }
            }
            let place = self.blocks.add(Lock::default).and_then(|place| self.blocks.get(place));
            if let Some(place) = place {
                *place.lock() = block;
            }
        }
        *self.free.lock() = std::mem::take(&mut *old.free.lock());
        *self.half_open.lock() = std::mem::take(&mut *old.half_open.lock());
        self.flows.take(&old.flows);
        Ok(())
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
    fn begin(&self, key: WideKey) -> Option<u32> {
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
        let number = next | place;
        let is_half_open = self.awaits.load(Relaxed) && key.protocol() == protocol::TCP;
        *block = Block { number, key, is_live: true, is_half_open, slots: Vec::new() };
        drop(block);
        if is_half_open {
            let mut waiting = self.half_open.lock();
            if waiting.len() >= 2 * self.capacity() {
                waiting.retain(|number| self.half_open_key(*number).is_some());
            }
            waiting.push_back(number);
        }
        Some(number)
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

    fn key(n: u32) -> WideKey {
        WideKey { source: n.into(), space: protocol::TCP.into(), ..WideKey::default() }
    }

    fn slot<T: 'static>(contexts: &Contexts, name: &str) -> Slot<T> {
        let holds = TypeId::of::<T>();
        contexts.add_slot(Owner { name: name.to_owned(), holds, config: String::new() })
    }

    #[test]
    fn a_number_is_never_that_of_another_flow() {
        let contexts = Contexts::new(2, 1000);
        let slot = slot::<u32>(&contexts, "a");
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
            (slot::<Vec<u8>>(&contexts, "a"), slot::<Option<Arc<()>>>(&contexts, "b"));
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

    #[test]
    fn contexts_are_taken_by_name_and_type() {
        let old = Contexts::new(8, 1000);
        let (words, counts) = (slot::<String>(&old, "words"), slot::<u32>(&old, "counts"));
        let numbers: Vec<u32> = (0..3).map(|n| old.begin(key(n)).unwrap()).collect();
        old.with(numbers[1], words, |state| state.push_str("held"));
        old.with(numbers[2], counts, |state| *state = 7);
        old.end(numbers[0]);
        // Another order, and one more.
        let new = Contexts::new(8, 1000);
        let (_, counts, words) =
            (slot::<u8>(&new, "more"), slot::<u32>(&new, "counts"), slot::<String>(&new, "words"));
        new.take(&old).unwrap();
        assert_eq!(new.with(numbers[1], words, |state| state.clone()), Some("held".to_owned()));
        assert_eq!(new.with(numbers[2], counts, |state| *state), Some(7));
        assert_eq!(new.with(numbers[0], counts, |state| *state), None);
        let next = new.begin(key(9)).unwrap();
        assert!(!numbers.contains(&next));
        // Once is enough, and what does not fit says so.
        new.take(&old).unwrap();
        assert_eq!(new.with(numbers[2], counts, |state| *state), Some(7));
        for (capacity, of) in [(8, "other"), (16, "counts")] {
            let third = Contexts::new(capacity, 1000);
            slot::<u32>(&third, of);
            assert!(third.take(&new).is_err());
        }
        assert_eq!(new.with(numbers[2], counts, |state| *state), Some(7));
    }
}
