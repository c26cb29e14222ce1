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
    head: Option<Packet>,
    /// In bytes.
    credit: u64,
}

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
        while batch.len() < most
            && let Some(packet) = self.next(cx, &mut inputs, &mut one)
        {
            // There is room.
            let _ = batch.push(packet);
        }
        cx.give_batch(one);
        self.put(inputs);
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }

    fn held(&self) -> usize {
        let inputs = self.inputs.lock().unwrap_or_else(PoisonError::into_inner);
        inputs.each.iter().filter(|input| input.head.is_some()).count()
    }
}

impl DRRSched {
    fn take(&self) -> Inputs {
        std::mem::take(&mut self.inputs.lock().unwrap_or_else(PoisonError::into_inner))
    }

    fn put(&self, inputs: Inputs) {
        *self.inputs.lock().unwrap_or_else(PoisonError::into_inner) = inputs;
    }

    /// The packet of the first input, in turn, whose credit is enough; each is asked once.
    fn next(&self, cx: &mut Context, inputs: &mut Inputs, one: &mut Batch) -> Option<Packet> {
        let upstream = self.upstream.get()?;
        let count = inputs.each.len();
        let mut signals = false;
        for _ in 0..count {
            let turn = inputs.next;
            let input = inputs.each.get_mut(turn)?;
            let told = upstream.get(turn).is_some_and(|upstream| upstream.active(cx.router()));
            signals |= input.head.is_some() || told;
            if input.head.is_none() && told && cx.pull(turn, 1, one) > 0 {
                input.head = one.pop();
            }
            match input.head.take_if(|packet| packet.len() as u64 <= input.credit) {
                Some(packet) => {
                    input.credit -= packet.len() as u64;
                    self.notifier.wake();
                    return Some(packet);
                }
                None if input.head.is_none() => input.credit = 0,
                None => {}
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
        None
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
