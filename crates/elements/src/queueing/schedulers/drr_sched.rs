//! DRRSched - pulls the same number of bytes from each input in turn (deficit round robin)
//!
//! # Synopsis
//! `DRRSched([QUANTUM])`
//!
//! # Description
//! Deficit round robin (Shreedhar and Varghese, SIGCOMM 1995): each input in turn gets a credit of QUANTUM bytes and
//! gives packets as long as its credit lasts. An input without packets loses its credit. Inputs thus get equal shares
//! in bytes, whatever the lengths of their packets. One pull visits each input at most once before it gives up, so it
//! can find that no credit suffices yet.
//!
//! It pulls as many packets at a time from an input as the credit covers, assuming that none is longer than the longest
//! so far. If one is longer, up to 31 packets behind it wait in the element until their credit comes. They leave in the
//! same order and turns as if they had been pulled one by one. A hot swap takes the waiting packets over.
//!
//! # Arguments
//! - QUANTUM: bytes of credit per turn. Positional, default 500.
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
use std::sync::OnceLock;

use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Init, Lock, Notifier, Packet, Refused, Setup, register,
};

/// The element; its manual is at the top of the file.
pub struct DrrSched {
    quantum: u64,
    inputs: Lock<Inputs>,
    upstream: OnceLock<Vec<Listening>>,
    /// Whether there are packets, in addition to the notifiers upstream.
    notifier: Notifier,
}

#[derive(Default)]
struct Inputs {
    each: Vec<Input>,
    /// The input whose turn it is.
    next: usize,
}

#[derive(Default)]
struct Input {
    /// Packets pulled that wait for credit.
    packets: VecDeque<Packet>,
    /// In bytes.
    credit: u64,
    /// The length of the longest packet so far.
    longest: u64,
}

/// The maximum number of packets pulled from an input at a time.
const MOST: usize = 32;

register!(DrrSched, "drr_sched.rs");

impl Element for DrrSched {
    const CLASS: Class = Class::new("DRRSched", "1-/1", "l/l").passes_wakes();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let quantum: u32 = setup.args.positional("QUANTUM", 500);
        setup.args.complete()?;
        let each = (0..setup.inputs()).map(|_| Input::default()).collect();
        Ok(Self {
            quantum: quantum.into(),
            inputs: Lock::new(Inputs { each, next: 0 }),
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
        // The lock is not held meanwhile: upstream elements may call handlers of this one.
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
        let inputs = self.inputs.lock();
        inputs.each.iter().map(|input| input.packets.len()).sum()
    }

    fn take_state(&self, old: &Self, _: &Init<'_>) {
        let mut inputs = self.inputs.lock();
        let mut olds = old.inputs.lock();
        for (input, old) in inputs.each.iter_mut().zip(&mut olds.each) {
            *input = std::mem::take(old);
        }
        inputs.next = olds.next.min(inputs.each.len().saturating_sub(1));
        if inputs.each.iter().any(|input| !input.packets.is_empty()) {
            self.notifier.wake();
        }
    }
}

impl DrrSched {
    fn take(&self) -> Inputs {
        std::mem::take(&mut self.inputs.lock())
    }

    fn put(&self, inputs: Inputs) {
        *self.inputs.lock() = inputs;
    }

    /// Gives packets of the first input in turn whose credit covers one, until the credit is used up or the batch has
    /// `most` packets. Visits each input at most once. Returns whether there was a packet.
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
                // The caller checks for room.
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
    /// How many packets the credit is likely to cover, at least 1 and at most `room`.
    fn wanted(&self, room: usize) -> usize {
        let enough = self.credit.checked_div(self.longest).unwrap_or(0);
        usize::try_from(enough).unwrap_or(MOST).clamp(1, room.clamp(1, MOST))
    }

    fn take(&mut self, some: &mut Batch) {
        let longest = some.iter().map(|packet| packet.len() as u64).max();
        self.longest = self.longest.max(longest.unwrap_or(0));
        self.packets.extend(some.drain());
    }

    /// The next packet, if the credit covers it.
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
    fn inputs_get_equal_shares_in_bytes() {
        let mut rig = Rig::new("DRRSched(500)", 2, 1).unwrap();
        let mut out = rig.push(0, &vec![vec![0; 500]; 3]).remove(0);
        out.extend(rig.push(1, &vec![vec![1; 250]; 4]).remove(0));
        assert_eq!(out.len(), 7);
        assert!(rig.stats().balanced());
    }
}
