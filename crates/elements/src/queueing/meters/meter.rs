//! Meter - classifies packets by the measured packet rate
//!
//! # Synopsis
//! `Meter(RATE1, RATE2, ...)`
//!
//! # Description
//! Measures packets per second as an exponentially weighted moving average over milliseconds, like Counter. While the
//! average is below RATE1, all packets leave by output 0; from RATE1 on they leave by output 1, from RATE2 on by output
//! 2, and likewise for the other rates. To limit a stream to a rate, use RatedSplitter.
//!
//! PacketMeter is another name for this element.
//!
//! # Arguments
//! - RATE1, RATE2, ...: packets per second, one fewer than there are outputs. Each is greater than the one before, and
//!   at most 4194303. They are parsed as bandwidths, as in Click, so a number without a unit causes a warning; it still
//!   means packets.
//!
//! # Ports
//! One push input, two or more push outputs.
//!
//! # Handlers
//! - `rate` (read): the average packets per second.
//! - `meters` (read): the rates, as rounded internally, concatenated without separators.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> m :: Meter(10000) -> Discard;
//! m [1] -> Print("too many") -> Discard;
//! ```
//!
//! # See also
//! BandwidthMeter, RatedSplitter, Shaper, Counter

use millrace_core::args::{Arg, Bandwidth};
use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use crate::measure::rate::ewma::fixed_text;
use crate::measure::rate::{Rate, TICKS_PER_SECOND};

/// The element; its manual is at the top of the file.
pub struct Meter(Metering);

register!(Meter, "meter.rs");

impl Element for Meter {
    const CLASS: Class = Class::new("Meter", "1/2-", "h/h").aliases(&["PacketMeter"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Metering::configure(setup).map(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.0.push(cx, batch.len() as u64, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        Metering::handlers(handlers, |meter| &meter.0);
    }
}

/// Measures a rate, and sends packets to the output for that rate.
pub(super) struct Metering {
    rate: Rate<FRACTION>,
    /// The averages per millisecond at which output 1, 2, ... begins; ascending.
    steps: Vec<u64>,
}

const FRACTION: u32 = 10;

/// The highest rate that can be configured.
const MOST: u64 = (u32::MAX >> FRACTION) as u64;

impl Metering {
    /// Reads the rates.
    pub(super) fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let outputs = setup.outputs();
        let args = &mut setup.args;
        let texts = args.rest();
        if texts.is_empty() {
            args.error((), "too few arguments to BandwidthMeter(bandwidth, ...)");
            return Err(Failed);
        }
        let mut rates: Vec<u64> = Vec::new();
        for (at, text) in texts.iter().enumerate() {
            let number = at + 1;
            let Ok(rate) = Bandwidth::parse(text, args.scope()) else {
                args.error(text, format!("argument {number} syntax error"));
                return Err(Failed);
            };
            if rates.last().is_some_and(|&last| rate.as_bytes() <= last) {
                args.error(text, format!("rate {number} must be > rate {at}"));
                return Err(Failed);
            }
            if rate.is_unitless() {
                let message = format!("no units for bandwidth argument {number}, assuming Bps");
                args.warn(text, message);
            }
            rates.push(rate.as_bytes());
        }
        if let Some(at) = rates.iter().position(|&rate| rate > MOST) {
            args.error((), format!("rate {} too large (max {MOST})", at + 1));
            return Err(Failed);
        }
        if rates.len() + 1 != outputs {
            let needed = outputs.saturating_sub(1);
            args.error(
                (),
                format!("need {needed} arguments, one less than the number of output ports"),
            );
            return Err(Failed);
        }
        let steps = rates.into_iter().map(|rate| (rate << FRACTION) / TICKS_PER_SECOND);
        Ok(Self { rate: Rate::default(), steps: steps.collect() })
    }

    /// Counts `n`, the total of a batch, and sends the whole batch to one output, chosen by the rate of the
    /// milliseconds before.
    pub(super) fn push(&self, cx: &mut Context, n: u64, batch: &mut Batch) {
        self.rate.update(cx, n);
        let average = self.rate.scaled_average(cx.now());
        let output = self.steps.partition_point(|&step| step <= average);
        cx.push_batch(output, batch);
    }

    /// The handlers `rate` and `meters`.
    pub(super) fn handlers<E: Element>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("rate", move |e, call| of(e).rate.text(call.now()));
        handlers.read("meters", move |e, _| {
            let rate = |step: &u64| fixed_text::<FRACTION>(step.saturating_mul(TICKS_PER_SECOND));
            of(e).steps.iter().map(rate).collect::<String>()
        });
    }
}
