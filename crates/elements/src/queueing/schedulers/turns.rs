//! The one scheduler behind those that ask their inputs in a fixed order.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millrace_core::{Batch, Class, Context, Element, Failed, Setup};

/// What distinguishes a class of schedulers.
pub trait Order: Send + Sync + 'static {
    /// The class.
    const CLASS: Class;
    /// Whether the input after the one that gave a packet is asked first; else it is input 0.
    const GOES_ROUND: bool;
}

/// A scheduler that asks one input after the other.
pub struct InTurn<O> {
    inputs: usize,
    /// The input that is asked first.
    first: AtomicUsize,
    order: PhantomData<fn() -> O>,
}

impl<O: Order> Element for InTurn<O> {
    const CLASS: Class = O::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { inputs: setup.inputs(), first: 0.into(), order: PhantomData })
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let mut some = cx.take_batch();
        let most = max.min(batch.room());
        let mut first = self.first.load(Relaxed);
        // Inputs asked in vain, one after the other.
        let mut in_vain = 0;
        while batch.len() < most && in_vain < self.inputs {
            let input = (first + in_vain) % self.inputs;
            let wanted = if O::GOES_ROUND { 1 } else { most - batch.len() };
            if cx.pull(input, wanted, &mut some) == 0 {
                in_vain += 1;
                continue;
            }
            batch.append(&mut some);
            in_vain = 0;
            if O::GOES_ROUND {
                first = (input + 1) % self.inputs;
            }
        }
        self.first.store(first, Relaxed);
        cx.give_batch(some);
    }
}
