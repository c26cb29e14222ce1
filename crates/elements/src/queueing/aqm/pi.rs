//! PI - drops packets at random to hold queues at a target length (proportional-integral controller)
//!
//! # Synopsis
//! `PI(W, A, B, TARGET [, QUEUES, keywords QREF, STABILITY])`
//!
//! # Description
//! Every W seconds, computes a new drop probability from the current and the previous queue length:
//! `p := p + A * (length - TARGET) - B * (previous length - TARGET)`, limited to between 0 and 1 (Hollot, Misra,
//! Towsley, Gong, 2001).
//!
//! The queues watched are the nearest ones: downstream if packets are pushed through the element, upstream if they are
//! pulled. A packet that is pushed on counts as queued immediately.
//!
//! # Arguments
//! - W: seconds between computations, at least 0.001. Positional, mandatory.
//! - A, B: weights, not negative. Positional, mandatory.
//! - TARGET: the target queue length in packets, at most 65535. Positional, mandatory.
//! - QUEUES: the names of the queues to watch, instead of the nearest ones. Positional.
//! - QREF: another name for TARGET; overrides it.
//! - STABILITY: the weight of each sample in `avg_queue_size` is 1/2^STABILITY; 1 to 16. Default 4.
//!
//! # Ports
//! One agnostic input, one agnostic output. Dropped packets leave by push output 1 if it is connected.
//!
//! # Handlers
//! - `w`, `a`, `b` (read, write): the W, A and B arguments.
//! - `drops` (read): packets dropped or sent to output 1.
//! - `queues` (read): the names of the queues, one per line.
//! - `avg_queue_size` (read): the average queue length, for information only: drops do not depend on it.
//! - `stats` (read): the current and the average queue length, and `drops`.
//! - `config` (read, write): the arguments; a write does not change QUEUES.
//!
//! # Drops
//! - limited: dropped at random, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> PI(0.006, 0.0000182, 0.0000181, 50) -> Queue(200) -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! RED, CoDel, Queue

use std::sync::MutexGuard;

use millrace_core::args::Kind;
use millrace_core::element::Call;
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, HandlerError, Handlers, Init, Lock, Refused,
    Setup, Timer, Timestamp, register,
};

use super::watched::{Dropper, Watched, reread, with_argument};
use crate::measure::rate::ewma::Ewma;

/// The element; its manual is at the top of the file.
pub struct Pi {
    watched: Watched,
    state: Lock<State>,
    timer: Timer,
}

#[derive(Debug)]
struct State {
    controller: Controller,
    average: Ewma<10>,
    drops: u64,
}

/// The settings and the state of the controller.
#[derive(Clone, Copy, Debug)]
struct Controller {
    w: f64,
    a: f64,
    b: f64,
    target: u32,
    stability: u32,
    probability: f64,
    before: f64,
}

register!(Pi, "pi.rs");

/// Reads all arguments; errors are recorded in `args`.
fn read(args: &mut Args<'_>) -> (Controller, Watched) {
    let [w, a, b] = ["W", "A", "B"].map(|name| args.mandatory(name));
    let target: u32 = args.mandatory("TARGET");
    let watched = Watched::configure(args, Kind::Positional);
    let target = args.keyword("QREF", target);
    let stability: u32 = args.keyword("STABILITY", 4);
    if args.complete().is_ok() {
        if target > 0xffff {
            args.error("TARGET", "‘target_q’ too large (max 65535)");
        } else if w < 0.001 {
            args.error("W", "w must be positive");
        } else if a < 0.0 {
            args.error("A", "a must be positive");
        } else if b < 0.0 {
            args.error("B", "b must be positive");
        } else if !(1..=16).contains(&stability) {
            args.error("STABILITY", "STABILITY parameter must be between 1 and 16");
        }
    }
    (Controller { w, a, b, target, stability, probability: 0.0, before: 0.0 }, watched)
}

impl Element for Pi {
    const CLASS: Class = Class::new("PI", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let (controller, watched) = read(&mut setup.args);
        if setup.args.has_errors() {
            return Err(Failed);
        }
        let state = State { controller, average: Ewma::default(), drops: 0 };
        Ok(Self { watched, state: Lock::new(state), timer: setup.timer() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.watched.initialize(init, "no Queues downstream")?;
        self.again(&self.state(), init.clock().now());
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.push_on(cx, batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        self.pull_rest(cx, max, batch);
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        let size = self.watched.size();
        let mut state = self.state();
        state.controller.compute(size);
        self.again(&state, self.timer.expired());
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        let average = old.state().average;
        self.state().average = average;
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("drops", |pi, _| pi.state().drops);
        handlers.read("w", |pi, _| pi.state().controller.w);
        handlers.read("a", |pi, _| pi.state().controller.a);
        handlers.read("b", |pi, _| pi.state().controller.b);
        for (at, name) in ["w", "a", "b"].into_iter().enumerate() {
            handlers.write(name, move |pi, call| {
                let config = with_argument(&pi.config(call), at, &call.text());
                pi.reconfigure(call, &config)
            });
        }
        handlers.read("avg_queue_size", |pi, _| pi.state().average.text());
        handlers.read("stats", |pi, _| {
            let size = pi.watched.size();
            let state = pi.state();
            format!(
                "{size} current queue\n{} avg queue\n{} drops\n",
                state.average.text(),
                state.drops
            )
        });
        handlers.read("queues", |pi, call| pi.watched.names(call.router(), "\n"));
        handlers.read("config", |pi, call| pi.config(call));
        handlers.write("config", |pi, call| pi.reconfigure(call, &call.text()));
    }
}

impl Pi {
    /// Schedules the timer W after it last expired.
    fn again(&self, state: &State, last: Timestamp) {
        let millis = (state.controller.w * 1000.0).clamp(1.0, 1e12);
        self.timer.schedule_at(last + Timestamp::from_millis(millis as i64));
    }

    /// The current settings, as arguments.
    fn config(&self, call: &Call<'_>) -> String {
        let queues = self.watched.config(call.router());
        let Controller { w, a, b, target, stability, .. } = self.state().controller;
        format!("{w}, {a}, {b}, {target}, {queues}, STABILITY {stability}")
    }

    /// Applies new arguments, except the queues.
    fn reconfigure(&self, call: &Call<'_>, config: &str) -> Result<(), HandlerError> {
        reread(call, config, |args| {
            let (new, _) = read(args);
            if !args.has_errors() {
                let controller = &mut self.state().controller;
                let Controller { probability, before, .. } = *controller;
                *controller = Controller { probability, before, ..new };
            }
        })
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }
}

impl Controller {
    /// Computes a new probability, given `size` packets in the queues.
    fn compute(&mut self, size: usize) {
        let size = size as f64;
        let target = f64::from(self.target);
        let change = self.a * (size - target) - self.b * (self.before - target);
        self.probability = (self.probability + change).clamp(0.0, 1.0);
        self.before = size;
    }
}

impl Dropper for Pi {
    fn watched(&self) -> &Watched {
        &self.watched
    }

    fn goes(&self, cx: &mut Context, size: usize) -> bool {
        let mut state = self.state();
        state.average = state.average.with(size as u64, state.controller.stability);
        let goes = cx.random().f64() < state.controller.probability;
        state.drops += u64::from(goes);
        goes
    }
}

#[cfg(test)]
mod tests {
    use fastrand::Rng;

    use super::*;

    /// The paper's controller as a sum over all earlier steps. With `e` the distance of the queue length from its
    /// target, `p(k) = a e(k) - b e(k-1) + p(k-1)`; while it stays between 0 and 1 that is
    /// `a e(k) + (a - b) (e(1) + ... + e(k-1)) - b e(0)`.
    #[test]
    fn matches_the_controller_of_the_paper() {
        let mut rng = Rng::with_seed(2001);
        for _ in 0..100 {
            let (a, b, target) = (1.822e-5 * rng.f64(), 1.816e-5 * rng.f64(), rng.u32(0..100));
            let mut pi =
                Controller { w: 0.006, a, b, target, stability: 4, probability: 0.5, before: 0.0 };
            let lengths: Vec<usize> = (0..100).map(|_| rng.usize(0..200)).collect();
            let error = |length: usize| length as f64 - f64::from(target);
            for (k, &length) in lengths.iter().enumerate() {
                pi.compute(length);
                let past: f64 = lengths[..k].iter().map(|&length| error(length)).sum();
                let expected = 0.5 + a * error(length) + (a - b) * past - b * error(0);
                assert!((pi.probability - expected).abs() < 1e-9);
            }
        }
    }

    #[test]
    fn the_probability_stays_between_0_and_1() {
        let mut pi = Controller {
            w: 1.0,
            a: 1.0,
            b: 0.5,
            target: 10,
            stability: 4,
            probability: 0.0,
            before: 10.0,
        };
        pi.compute(100);
        assert_eq!(pi.probability.to_bits(), 1f64.to_bits());
        pi.compute(0);
        assert_eq!(pi.probability.to_bits(), 0f64.to_bits());
    }
}
