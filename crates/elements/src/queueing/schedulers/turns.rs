//! The one scheduler behind those that ask their inputs in a fixed order.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millrace_core::{Args, Batch, Class, Context, Element, Failed, Setup};

/// What distinguishes a class of schedulers.
pub trait Order: Send + Sync + 'static {
    /// The class.
    const CLASS: Class;
    /// Whether the input after the one that gave a packet is asked first; else it is input 0.
    const GOES_ROUND: bool;

    /// Reads how many packets an input gives before the next one is asked, and how many of the `inputs` are asked for
    /// a packet.
    fn configure(_args: &mut Args<'_>, inputs: usize) -> (usize, usize) {
        (1, inputs)
    }
}

/// Reads how many inputs are asked for a packet.
pub(super) fn asked(args: &mut Args<'_>, inputs: usize) -> usize {
    let most: Option<u32> = args.optional("MAX");
    most.map_or(inputs, |most| most as usize)
}

/// A scheduler that asks one input after the other.
pub struct InTurn<O> {
    inputs: usize,
    /// Packets that an input gives in a row.
    run: usize,
    /// The most inputs that are asked for a packet.
    most: usize,
    /// The input that is asked first.
    first: AtomicUsize,
    /// Packets that it has given in a row.
    given: AtomicUsize,
    order: PhantomData<fn() -> O>,
}

impl<O: Order> Element for InTurn<O> {
    const CLASS: Class = O::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let inputs = setup.inputs();
        let (run, most) = O::configure(&mut setup.args, inputs);
        setup.args.complete()?;
        let [first, given] = [0.into(), 0.into()];
        Ok(Self {
            inputs,
            run: run.max(1),
            most: most.min(inputs),
            first,
            given,
            order: PhantomData,
        })
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let mut some = cx.take_batch();
        let most = max.min(batch.room());
        let mut first = self.first.load(Relaxed);
        let mut given = self.given.load(Relaxed);
        // Inputs asked in vain, one after the other.
        let mut in_vain = 0;
        while batch.len() < most && in_vain < self.most {
            let input = (first + in_vain) % self.inputs;
            let wanted = if O::GOES_ROUND { self.run.saturating_sub(given) } else { most };
            let n = cx.pull(input, wanted.min(most - batch.len()), &mut some);
            if n == 0 {
                in_vain += 1;
                given = 0;
                continue;
            }
            batch.append(&mut some);
            in_vain = 0;
            if O::GOES_ROUND {
                given += n;
                first = if given < self.run { input } else { (input + 1) % self.inputs };
                given %= self.run;
            }
        }
        self.first.store(first, Relaxed);
        self.given.store(given, Relaxed);
        cx.give_batch(some);
    }
}
