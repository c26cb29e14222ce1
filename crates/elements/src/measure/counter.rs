//! Counter - counts packets and bytes, and measures their rates
//!
//! # Synopsis
//! `Counter([keywords COUNT_CALL, BYTE_COUNT_CALL, NO_RATE, BATCH_PRECISE])`
//!
//! # Description
//! Forwards packets and counts them. Each thread keeps its own counts, so FastClick's CounterMP, CounterAtomic,
//! CounterLock, CounterRW, CounterPRW and CounterRCU are other names for this element.
//!
//! # Arguments
//! - COUNT_CALL: a number N and a write handler with its value, such as `100 source.active no`. The handler is called
//!   once, when the Nth packet arrives.
//! - BYTE_COUNT_CALL: the same, when the byte count reaches N.
//! - NO_RATE: whether to measure no rates; the rates are then 0. Keyword, default false.
//! - BATCH_PRECISE: whether to count the packets of a batch one by one. This always happens while a call is pending.
//!   Keyword, default false.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `count`, `byte_count` (read): packets and bytes since the start or the last reset.
//! - `rate` (read): packets per second, an exponentially weighted moving average.
//! - `bit_rate`, `byte_rate` (read): bits and bytes per second, likewise.
//! - `reset`, `reset_counts` (write): sets counts and rates to 0, and arms the calls again.
//! - `count_call`, `byte_count_call` (read, write): the COUNT_CALL and BYTE_COUNT_CALL arguments.
//! - Low-level calls (`LLRPC` of ControlSocket) 1 and 3: call 1 returns the rate; call 3 returns the packet count for
//!   argument 0, the byte count for argument 1.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> c :: Counter(COUNT_CALL 5 c.reset) -> Discard;
//! ```
//!
//! # See also
//! AverageCounter, AggregateCounter

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{PoisonError, RwLock};

use millrace_core::args::{ArgError, ArgText, Kind, Scope};
use millrace_core::element::HandlerCall;
use millrace_core::{
    Arg, Args, Call, Class, Context, Count, Element, Failed, Handlers, Init, Moment, Packet,
    PerPacket, PerThread, Refused, Setup, View, Way, register,
};

use super::rate::ewma::fixed_text;
use super::rate::{Rate, TICKS_PER_SECOND};

/// The element; its manual is at the top of the file.
pub struct Counter {
    packets: Tally,
    bytes: Tally<BYTE_FRACTION>,
    with_rates: bool,
    precise: bool,
}

/// Rates of bytes have fewer fractional bits than those of packets.
const BYTE_FRACTION: u32 = 4;

register!(Counter, "counter.rs");

impl Element for Counter {
    const CLASS: Class = Class::new("Counter", "1/1", "a/a").aliases(&[
        "CounterMP",
        "CounterAtomic",
        "CounterLock",
        "CounterRW",
        "CounterPRW",
        "CounterRCU",
    ]);
    type Local = Recent;

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let packets = Tally::configure(&mut setup.args, "COUNT_CALL");
        let bytes = Tally::configure(&mut setup.args, "BYTE_COUNT_CALL");
        let with_rates = !setup.args.keyword("NO_RATE", false);
        let precise = setup.args.keyword("BATCH_PRECISE", false);
        setup.args.complete()?;
        Ok(Self { packets, bytes, with_rates, precise })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.packets.initialize(init)?;
        self.bytes.initialize(init)
    }

    fn take_state(&self, old: &Self, _init: &Init<'_>) {
        self.packets.take_state(&old.packets);
        self.bytes.take_state(&old.bytes);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |counter, _| counter.packets.count());
        handlers.read("byte_count", |counter, _| counter.bytes.count());
        handlers.read("rate", |counter, call| counter.packets.rate.text(call.now()));
        handlers.read("byte_rate", |counter, call| counter.bytes.rate.text(call.now()));
        handlers.read("bit_rate", |counter, call| {
            let bytes = counter.bytes.rate.scaled_average(call.now());
            // Three fewer fractional bits multiply the value by eight.
            fixed_text::<{ BYTE_FRACTION - 3 }>(bytes.saturating_mul(TICKS_PER_SECOND))
        });
        for name in ["reset", "reset_counts"] {
            handlers.write(name, |counter, _| {
                counter.packets.reset();
                counter.bytes.reset();
                Ok(())
            });
        }
        Tally::call_handlers(handlers, "count_call", |counter| &counter.packets);
        Tally::call_handlers(handlers, "byte_count_call", |counter| &counter.bytes);
        handlers.low_level(GET_RATE, |counter, call| match word(call) {
            Some(0) => Ok(low_word(counter.packets.rate.per_second(call.now()))),
            _ => Err("Invalid argument".into()),
        });
        handlers.low_level(GET_COUNT, |counter, call| match word(call) {
            Some(0) => Ok(low_word(counter.packets.count())),
            Some(1) => Ok(low_word(counter.bytes.count())),
            _ => Err("Invalid argument".into()),
        });
    }
}

/// What a thread has counted of the current batch.
#[derive(Default)]
pub struct Recent {
    /// Whether packets need not be counted one by one.
    together: bool,
    /// The bytes plus [`PACKET`] times the packets. A batch has fewer bytes than [`PACKET`].
    sum: u64,
}

/// What a packet adds to [`Recent::sum`] in addition to its bytes: a batch has 256 packets of less than 4 GiB.
const PACKET: u64 = 1 << 40;

impl PerPacket for Counter {
    const ENDS: bool = true;

    #[inline(always)]
    fn treat(&self, recent: &mut Recent, packet: &mut View, _: &mut Moment) -> Way {
        if !recent.together {
            return Way::aside(0);
        }
        recent.sum = recent.sum.wrapping_add(packet.len() as u64).wrapping_add(PACKET);
        Way::ON
    }

    /// Counts packets one by one where that matters; otherwise starts to count a batch.
    fn aside(
        &self,
        cx: &mut Context,
        recent: &mut Recent,
        packet: Packet,
        _way: Way,
    ) -> Option<Packet> {
        self.end(cx, recent);
        self.count(cx, 1, packet.len() as u64);
        Some(packet)
    }

    fn end(&self, cx: &mut Context, recent: &mut Recent) {
        if recent.sum > 0 {
            self.count(cx, recent.sum / PACKET, recent.sum % PACKET);
        }
        let singly = self.precise || self.packets.is_armed() || self.bytes.is_armed();
        *recent = Recent { together: !singly, sum: 0 };
    }
}

/// Numbers of Click's low-level calls.
const GET_RATE: u8 = 1;
const GET_COUNT: u8 = 3;

/// The four-byte number passed to a low-level call.
fn word(call: &Call<'_>) -> Option<u32> {
    call.bytes().try_into().ok().map(u32::from_ne_bytes)
}

/// The low 32 bits of a count, as a low-level call returns them.
fn low_word(count: u64) -> Vec<u8> {
    (count as u32).to_ne_bytes().to_vec()
}

impl Counter {
    #[inline]
    fn count(&self, cx: &Context, packets: u64, bytes: u64) {
        self.packets.add(cx, packets, self.with_rates);
        self.bytes.add(cx, bytes, self.with_rates);
    }
}

/// A count, its rate, and what to do when it reaches a number.
#[derive(Default)]
struct Tally<const FRACTION: u32 = 10> {
    total: PerThread<Count>,
    rate: Rate<FRACTION>,
    /// The total at the last reset.
    origin: AtomicU64,
    trigger: RwLock<Option<Trigger>>,
    /// Whether to check `trigger`.
    armed: AtomicBool,
}

impl<const FRACTION: u32> Tally<FRACTION> {
    fn configure(args: &mut Args<'_>, keyword: &str) -> Self {
        let trigger: Option<Trigger> = args.read(keyword, Kind::Keyword);
        Self { armed: trigger.is_some().into(), trigger: RwLock::new(trigger), ..Self::default() }
    }

    fn initialize(&self, init: &Init<'_>) -> Result<(), Refused> {
        match self.trigger() {
            Some(trigger) => trigger.check(init),
            None => Ok(()),
        }
    }

    #[inline]
    fn add(&self, cx: &Context, n: u64, with_rate: bool) {
        self.total.mine(cx).add(n);
        if with_rate {
            self.rate.update(cx, n);
        }
        if self.is_armed() {
            self.pull_trigger(cx);
        }
    }

    /// Whether a call is pending.
    fn is_armed(&self) -> bool {
        self.armed.load(Relaxed)
    }

    #[cold]
    fn pull_trigger(&self, cx: &Context) {
        let Some(trigger) = self.trigger() else { return };
        // Only one thread finds the trigger armed.
        if self.count() >= trigger.at && self.armed.swap(false, Relaxed) {
            trigger.pull(cx);
        }
    }

    fn count(&self) -> u64 {
        self.total.total().wrapping_sub(self.origin.load(Relaxed))
    }

    fn reset(&self) {
        self.origin.store(self.total.total(), Relaxed);
        self.rate.reset();
        self.armed.store(self.trigger().is_some(), Relaxed);
    }

    /// Continues from the old count; the rate is measured from scratch.
    fn take_state(&self, old: &Self) {
        self.origin.store(self.total.total().wrapping_sub(old.count()), Relaxed);
    }

    fn trigger(&self) -> Option<Trigger> {
        self.trigger.read().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn call_handlers(handlers: &mut Handlers<Counter>, name: &str, tally: fn(&Counter) -> &Self) {
        handlers.read(name, move |counter, _| {
            tally(counter).trigger().map(|trigger| trigger.text().to_owned()).unwrap_or_default()
        });
        handlers.write(name, move |counter, call| {
            let trigger: Trigger = call.parse()?;
            let tally = tally(counter);
            *tally.trigger.write().unwrap_or_else(PoisonError::into_inner) = Some(trigger);
            tally.armed.store(true, Relaxed);
            Ok(())
        });
    }
}

/// `N HANDLER [VALUE]`.
#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    pub(crate) at: u64,
    call: HandlerCall,
    text: String,
}

impl Trigger {
    /// The text as configured.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Checks, while the router starts, that the handler exists and can be written.
    pub(crate) fn check(&self, init: &Init<'_>) -> Result<(), Refused> {
        let checked = self.call.check_write(init.router(), init.id());
        checked.map_err(|error| Refused(error.to_string()))
    }

    /// Calls the write handler, and prints an error if it fails.
    pub(crate) fn pull(&self, cx: &Context) {
        let router = cx.router();
        if let Err(error) = self.call.write(router, cx.element()) {
            router.chatter(&format!("{}: {error}", router.name_of(cx.element())));
        }
    }
}

impl Arg for Trigger {
    const EXPECTS: &'static str = "a count and a handler, such as ‘100 source.active false’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let (first, rest) = text.split_first_word();
        let at = u64::parse(&first, scope)
            .map_err(|_| ArgError::new("first word should be unsigned (count)"))?;
        let call = HandlerCall::parse(&rest, scope)?;
        Ok(Self { at, call, text: text.as_str().to_owned() })
    }

    fn placeholder() -> Self {
        Self { at: 0, call: HandlerCall::placeholder(), text: String::new() }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn counts_packets_and_bytes() {
        let mut rig = Rig::new("Counter", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["ab", "c"])[0].len(), 2);
        assert_eq!(rig.read("count").unwrap(), "2");
        assert_eq!(rig.read("byte_count").unwrap(), "3");
        rig.write("reset", "").unwrap();
        assert_eq!(rig.read("count").unwrap(), "0");
    }

    #[test]
    fn calls_a_handler_once_when_the_count_is_reached() {
        let mut rig = Rig::new("Counter(COUNT_CALL 2 x.reset)", 1, 1).unwrap();
        rig.push(0, &["a"]);
        assert_eq!(rig.read("count").unwrap(), "1");
        rig.push(0, &["b"]);
        assert_eq!(rig.read("count").unwrap(), "0");
        assert_eq!(rig.read("count_call").unwrap(), "2 x.reset");
    }

    #[test]
    fn refuses_invalid_calls() {
        assert!(Rig::new("Counter(COUNT_CALL x.reset)", 1, 1).is_err());
        assert!(Rig::new("Counter(COUNT_CALL 2 x.nothing)", 1, 1).is_err());
        assert!(Rig::new("Counter(COUNT_CALL 2 y.reset)", 1, 1).is_err());
    }
}
