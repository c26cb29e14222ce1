//! RoundRobinSched - pulls one packet from each input in turn (round robin)
//!
//! # Synopsis
//! `RoundRobinSched([MAX])`
//!
//! # Description
//! Starts with the input after the one that gave the last packet, and tries the following ones until one gives a
//! packet. Inputs that have packets thus give one each in turn. Its puller sleeps while all inputs are empty.
//!
//! # Arguments
//! - MAX: maximum number of inputs to try for a packet, as in FastClick. Positional; default: all.
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
//! s :: RoundRobinSched -> Unqueue -> Discard;
//! InfiniteSource(LIMIT 10) -> Queue -> [0] s;
//! InfiniteSource(LIMIT 10) -> Queue -> [1] s;
//! ```
//!
//! # See also
//! RoundRobinMultiSched, PrioSched, StrideSched, DRRSched, RoundRobinSwitch

use std::marker::PhantomData;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use millrace_core::{Args, Batch, Class, Context, Element, Failed, Setup, register};

use super::inputs::lane::Lane;

/// The class's order; its manual is at the top of the file.
pub struct RoundRobin;

/// The element.
pub type RoundRobinSched = InTurn<RoundRobin>;

register!(RoundRobinSched, "round_robin_sched.rs");

impl Order for RoundRobin {
    const CLASS: Class = Class::new("RoundRobinSched", "1-/1", "l/l");
    const GOES_ROUND: bool = true;

    fn configure(args: &mut Args<'_>, inputs: usize) -> (usize, usize) {
        (1, asked(args, inputs))
    }
}

/// The differences between classes of schedulers.
pub trait Order: Send + Sync + 'static {
    /// The class.
    const CLASS: Class;
    /// Whether to start with the input after the one that gave the last packet; otherwise with input 0.
    const GOES_ROUND: bool;

    /// Reads how many packets an input gives before the next one's turn, and how many of the `inputs` to try for a
    /// packet.
    fn configure(_args: &mut Args<'_>, inputs: usize) -> (usize, usize) {
        (1, inputs)
    }
}

/// Reads how many inputs to try for a packet.
pub(super) fn asked(args: &mut Args<'_>, inputs: usize) -> usize {
    let most: Option<u32> = args.optional("MAX");
    most.map_or(inputs, |most| most as usize)
}

/// A scheduler that tries one input after another.
pub struct InTurn<O> {
    inputs: usize,
    /// How many packets an input gives in a row.
    run: usize,
    /// The maximum number of inputs to try for a packet.
    most: usize,
    /// The input to try first.
    first: AtomicUsize,
    /// Packets that it has given in a row so far.
    given: AtomicUsize,
    order: PhantomData<fn() -> O>,
}

impl<O: Order> Element for InTurn<O> {
    const CLASS: Class = O::CLASS;
    type Local = Vec<Lane>;

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

    fn pull(
        &self,
        cx: &mut Context,
        lanes: &mut Vec<Lane>,
        _port: usize,
        max: usize,
        batch: &mut Batch,
    ) {
        let mut some = cx.take_batch();
        let most = max.min(batch.room());
        let mut turn =
            Turn { first: self.first.load(Relaxed), given: self.given.load(Relaxed), in_vain: 0 };
        // With fewer inputs to try, a pull can end while others have packets.
        if O::GOES_ROUND && self.most == self.inputs {
            Lane::begin(lanes, self.inputs);
            self.pull_rounds(cx, lanes, &mut turn, most, batch, &mut some);
        }
        while batch.len() < most && turn.in_vain < self.most {
            let input = (turn.first + turn.in_vain) % self.inputs;
            let wanted = if O::GOES_ROUND { self.run.saturating_sub(turn.given) } else { most };
            if lanes.get(input).is_none_or(|lane| !lane.is_out()) {
                cx.pull(input, wanted.min(most - batch.len()), &mut some);
            }
            let n = batch.append(&mut some);
            self.gave(&mut turn, input, n);
        }
        self.first.store(turn.first, Relaxed);
        self.given.store(turn.given, Relaxed);
        cx.give_batch(some);
    }
}

/// Whose turn it is.
struct Turn {
    first: usize,
    given: usize,
    /// Consecutive inputs that had no packets.
    in_vain: usize,
}

impl<O: Order> InTurn<O> {
    /// Pulls as long as there is room for two turns of each input that has packets: then packets of several turns can
    /// be pulled at a time.
    fn pull_rounds(
        &self,
        cx: &mut Context,
        lanes: &mut [Lane],
        turn: &mut Turn,
        most: usize,
        batch: &mut Batch,
        some: &mut Batch,
    ) {
        loop {
            let inputs = lanes.iter().filter(|lane| !lane.is_out()).count();
            let round = inputs.saturating_mul(self.run);
            let rounds = (most - batch.len()).checked_div(round).unwrap_or(0);
            if rounds < 2 {
                return;
            }
            for (input, lane) in lanes.iter_mut().enumerate() {
                lane.fill(cx, input, rounds * self.run, some);
            }
            while lanes.iter().any(|lane| !lane.is_empty()) {
                let input = (turn.first + turn.in_vain) % self.inputs;
                let wanted = self.run.saturating_sub(turn.given);
                let n = lanes.get_mut(input).map_or(0, |lane| lane.give(wanted, batch));
                self.gave(turn, input, n);
            }
        }
    }

    /// Moves on to the input to try after one that has given `n` packets.
    fn gave(&self, turn: &mut Turn, input: usize, n: usize) {
        if n == 0 {
            turn.in_vain += 1;
            turn.given = 0;
            return;
        }
        turn.in_vain = 0;
        if O::GOES_ROUND {
            turn.given += n;
            turn.first = if turn.given < self.run { input } else { (input + 1) % self.inputs };
            turn.given %= self.run;
        }
    }
}
