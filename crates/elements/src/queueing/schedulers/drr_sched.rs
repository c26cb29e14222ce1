//! DRRSched - pulls from its inputs in turn, as many bytes from each
//!
//! # Synopsis
//! `DRRSched([QUANTUM])`
//!
//! # Description
//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): each input in turn is credited QUANTUM bytes and
//! gives packets as long as its credit lasts; an input without packets loses its credit. So inputs share
//! by bytes, whatever the lengths of their packets. It keeps the next packet of each input. One pull goes round once,
//! and may find that no credit is enough yet.
//!
//! It asks an input for as many packets at a time as its credit is enough for if none is longer than those that came
//! from it before. Where one is, the packets behind it wait here, up to 31 of them, until their credit comes; they
//! leave in the order, and in the turns, of packets asked for one by one. A hot swap takes those that wait over.
//!
//! # Arguments
//! - QUANTUM: bytes of credit a turn. Positional, default 500.
//!
//! # Ports
//! One or more pull inputs, one pull output.
//!
//! # Handlers
//! None.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! s :: DRRSched -> Unqueue -> Discard;
//! InfiniteSource(LENGTH 1000, LIMIT 10) -> Queue -> [0] s;
//! InfiniteSource(LENGTH 100, LIMIT 100) -> Queue -> [1] s;
//! ```
//!
//! # See also
//! RoundRobinSched, StrideSched, PrioSched

use std::collections::VecDeque;
use std::sync::{Mutex, OnceLock, PoisonError};

use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Init, Notifier, Packet, Refused, Setup, register,
};

/// The element; its manual is at the top of the file.
pub struct DRRSched {
    quantum: u64,
    inputs: Mutex<Inputs>,
    upstream: OnceLock<Vec<Listening>>,
    /// Whether there are packets, beside what those upstream say.
    notifier: Notifier,
}

#[derive(Default)]
struct Inputs {
    each: Vec<Input>,
    /// The one whose turn it is.
    next: usize,
}

#[derive(Default)]
struct Input {
    /// Those that have come and whose credit has not.
    packets: VecDeque<Packet>,
    /// In bytes.
    credit: u64,
    /// The length of the longest packet that has come.
    longest: u64,
}

/// The most packets that an input is asked for at a time.
const MOST: usize = 32;

register!(DRRSched, "drr_sched.rs");

impl Element for DRRSched {
    const CLASS: Class = Class::new("DRRSched", "1-/1", "l/l").passes_wakes();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let quantum: u32 = setup.args.positional("QUANTUM", 500);
        setup.args.complete()?;
        let each = (0..setup.inputs()).map(|_| Input::default()).collect();
        Ok(Self {
            quantum: quantum.into(),
            inputs: Mutex::new(Inputs { each, next: 0 }),
            upstream: OnceLock::new(),
            notifier: Notifier::default(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let inputs = self.take().each.len();
        self.put(Inputs { each: (0..inputs).map(|_| Input::default()).collect(), next: 0 });
        // An element is initialised once.
        let _ = self.upstream.set((0..inputs).map(|input| init.upstream(input)).collect());
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        // Upstream elements may ask handlers of this one: the lock is not held meanwhile.
        let mut inputs = self.take();
        let mut one = cx.take_batch();
        let most = max.min(batch.room());
        while batch.len() < most && self.give(cx, &mut inputs, most, batch, &mut one) {}
        cx.give_batch(one);
        self.put(inputs);
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }

    fn held(&self) -> usize {
        let inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        inputs.each.iter().map(|input| input.packets.len()).sum()
    }

    fn take_state(&self, old: &Self, _: &Init<'_>) {
        let mut inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        let mut olds = old.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        for (input, old) in inputs.each.iter_mut().zip(&mut olds.each) {
            *input = std::mem::take(old);
        }
        inputs.next = olds.next.min(inputs.each.len().saturating_sub(1));
        if inputs.each.iter().any(|input| !input.packets.is_empty()) {
            self.notifier.wake();
        }
    }
}

impl DRRSched {
    fn take(&self) -> Inputs {
        std::mem::take(&mut self.inputs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, inputs: Inputs) {
        *self.inputs.lock().unwrap_or_else(PoisonError::into_inner) = inputs;
    }

    /// Gives packets of the first input, in turn, whose credit is enough for one, as long as it is and there is room for
    /// `most`; each is asked once. Returns whether there was one.
    fn give(
        &self,
        cx: &mut Context,
        inputs: &mut Inputs,
        most: usize,
        batch: &mut Batch,
        some: &mut Batch,
    ) -> bool {
        let Some(upstream) = self.upstream.get() else { return false };
        let count = inputs.each.len();
        let mut signals = false;
        for _ in 0..count {
            let turn = inputs.next;
            let Some(input) = inputs.each.get_mut(turn) else { return false };
            let told = upstream.get(turn).is_some_and(|upstream| upstream.active(cx.router()));
            signals |= !input.packets.is_empty() || told;
            if input.packets.is_empty() && told {
                cx.pull(turn, input.wanted(most - batch.len()), some);
                input.take(some);
            }
            let before = batch.len();
            while batch.len() < most
                && let Some(packet) = input.next()
            {
                // There is room.
                let _ = batch.push(packet);
            }
            if batch.len() > before {
                self.notifier.wake();
                return true;
            }
            if input.packets.is_empty() {
                input.credit = 0;
            }
            inputs.next = (turn + 1) % count;
            if let Some(next) = inputs.each.get_mut(inputs.next) {
                next.credit = next.credit.saturating_add(self.quantum);
            }
        }
        match signals {
            true => self.notifier.wake(),
            false => self.notifier.sleep(),
        }
        false
    }
}

impl Input {
    /// How many packets the credit is enough for, as far as one knows, up to `room`; one in any case.
    fn wanted(&self, room: usize) -> usize {
        let enough = self.credit.checked_div(self.longest).unwrap_or(0);
        usize::try_from(enough).unwrap_or(MOST).clamp(1, room.clamp(1, MOST))
    }

    fn take(&mut self, some: &mut Batch) {
        let longest = some.iter().map(|packet| packet.len() as u64).max();
        self.longest = self.longest.max(longest.unwrap_or(0));
        self.packets.extend(some.drain());
    }

    /// The next packet, if the credit is enough for it.
    fn next(&mut self) -> Option<Packet> {
        let length = self.packets.front()?.len() as u64;
        self.credit = self.credit.checked_sub(length)?;
        self.packets.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn inputs_share_by_bytes() {
        let mut rig = Rig::new("DRRSched(500)", 2, 1).unwrap();
        let mut out = rig.push(0, &vec![vec![0; 500]; 3]).remove(0);
        out.extend(rig.push(1, &vec![vec![1; 250]; 4]).remove(0));
        assert_eq!(out.len(), 7);
        assert!(rig.stats().balanced());
    }
}
