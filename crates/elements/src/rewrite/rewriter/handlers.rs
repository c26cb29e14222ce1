//! The handlers of rewriters.

use std::fmt::Write;
use std::net::Ipv4Addr;
use std::sync::atomic::Ordering::Relaxed;

use millrace_core::element::ANY_HANDLER;
use millrace_core::{Call, HandlerError, Handlers};

use super::{Dialect, Placed, Rewriter, Rewriting};
use crate::flows::key::{FlowId, Key};
use crate::flows::table::millis;
use crate::rewrite::mappings::flow_set::{Changing, InputCounts};
use crate::rewrite::mappings::flow_table::{Record, SHIFTED};

/// The handlers that every rewriter has.
pub(super) fn common<D: Dialect>(handlers: &mut Handlers<Rewriting<D>>) {
    for name in ["table_size", "nmappings"] {
        handlers.read(name, |element, _| element.0.sum(|counts| counts.mappings));
    }
    handlers.read("mapping_failures", |element, _| element.0.sum(|counts| counts.failures));
    handlers.read("patterns", |element, _| {
        let rewriter = &element.0;
        let count = rewriter.inputs().len();
        (0..count).map(|input| rewriter.pattern(input)).collect::<String>()
    });
    handlers
        .read("size", |element, _| element.0.placed().map_or(0, |placed| placed.set.lock().len()));
    handlers.read("capacity", |element, _| {
        element.0.placed().map_or(0, |placed| placed.set.lock().capacity())
    });
    handlers.write("capacity", |element, call| {
        let capacity: i32 = call.parse()?;
        if let Some(placed) = element.0.placed() {
            placed.set.lock().set_capacity(capacity, millis(call.now()));
        }
        Ok(())
    });
    handlers.write("clear", |element, _| {
        if let Some(placed) = element.0.placed() {
            placed.set.lock().clear();
        }
        Ok(())
    });
    handlers.try_read(ANY_HANDLER, |element, call| {
        let rewriter = &element.0;
        Ok(rewriter.pattern(rewriter.input_of(call)?))
    });
    handlers.write(ANY_HANDLER, |element, call| {
        let rewriter = &element.0;
        let text = call.text();
        rewriter.exchange(rewriter.input_of(call)?, &(&*text).into(), &call.scope())
    });
}

/// The handlers that dump one of the maps.
pub(crate) fn tables<D: Dialect>(
    handlers: &mut Handlers<Rewriting<D>>,
    names: [&str; 2],
    map: usize,
) {
    for name in names {
        handlers.read(name, move |element, call| element.0.table(map, call));
    }
}

/// The handler that returns what a TCP flow is rewritten to.
pub(crate) fn lookup<D: Dialect>(handlers: &mut Handlers<Rewriting<D>>, name: &str) {
    handlers.try_read(name, |element, call| {
        let text = call.text();
        let mut args = millrace_core::Args::of_words(&(&*text).into(), call.scope());
        let source: Ipv4Addr = args.mandatory("SADDR");
        let source_port: u16 = args.mandatory("SPORT");
        let destination: Ipv4Addr = args.mandatory("DADDR");
        let destination_port: u16 = args.mandatory("DPORT");
        args.complete().map_err(|_| args.messages())?;
        let flow =
            FlowId::new((source.into(), source_port), (destination.into(), destination_port));
        let rewriter = &element.0;
        let Some(placed) = rewriter.placed() else { return Ok(String::new()) };
        let found = placed.set.table.find(Key { flow, space: placed.map(0) });
        Ok(found.map_or_else(String::new, |view| {
            let (source, destination) = (view.to.source(), view.to.destination());
            let (from, to) = (Ipv4Addr::from(source), Ipv4Addr::from(destination));
            format!("{from} {} {to} {}", view.to.source_port(), view.to.destination_port())
        }))
    });
}

impl Rewriter {
    fn sum(&self, pick: fn(InputCounts) -> u32) -> u32 {
        let Some(placed) = self.placed() else { return 0 };
        let inputs = self.inputs().len();
        let changing = placed.set.lock();
        let counts = (0..inputs).map(|input| placed.counts(&changing, input));
        counts.map(pick).fold(0, u32::wrapping_add)
    }

    /// The input that a handler such as `pattern0` is for.
    fn input_of(&self, call: &Call<'_>) -> Result<usize, HandlerError> {
        let number = call.handler().strip_prefix("pattern").and_then(|number| number.parse().ok());
        let known = number.filter(|&number| number < self.inputs().len());
        known.ok_or_else(|| HandlerError::NoHandler(call.handler().to_owned()))
    }

    fn pattern(&self, input: usize) -> String {
        let inputs = self.inputs();
        let Some(spec) = inputs.get(input) else { return String::new() };
        let text = spec.to_text();
        let placed = self.placed();
        let count = placed.map_or(0, |placed| placed.counts(&placed.set.lock(), input).mappings);
        if count > 0 { format!("{text} [{count}]\n") } else { format!("{text}\n") }
    }

    fn table(&self, map: usize, call: &Call<'_>) -> String {
        let Some(placed) = self.placed() else { return String::new() };
        let changing = placed.set.lock();
        let mut text = String::new();
        for (number, reply) in changing.in_order(placed.map(map)) {
            if let Some(record) = placed.set.table.record(number) {
                self.write_line(&mut text, (placed, &changing), (number, record), reply, call);
            }
        }
        text
    }

    fn write_line(
        &self,
        text: &mut String,
        (placed, changing): (&Placed, &Changing<'_>),
        (number, record): (u32, &Record),
        reply: bool,
        call: &Call<'_>,
    ) {
        let (from, to) = (record.key(reply), record.key(!reply).reversed());
        text.push_str(&self.family.line(from, to));
        if record.state.load(Relaxed) & SHIFTED != 0 {
            let shifts = placed.set.shifts();
            let by = shifts.get(&number).map_or(0, |shifts| shifts.newest(reply));
            if by != 0 {
                // Writing to a string never fails.
                let _ = write!(text, " seq {by:+}");
            }
        }
        let [forward, back] = record.outputs();
        let [star, other] = if reply { ["", "*"] } else { ["*", ""] };
        let now = millis(call.now());
        let expiry = changing.expiry(number).unwrap_or(now);
        // As in Click, the difference has 32 bits and wraps below 0.
        let left = (expiry + 500).wrapping_sub(now) as u32 / 1000;
        let input = record.input.load(Relaxed);
        let _ = writeln!(text, " [{star}{forward} {other}{back}] i{input} exp{left}");
    }
}

impl Placed {
    /// The counts of an input in all maps.
    fn counts(&self, changing: &Changing<'_>, input: usize) -> InputCounts {
        let counts = self.maps.iter().map(|&map| changing.counts(map, input));
        counts.fold(InputCounts::default(), |sum, counts| InputCounts {
            mappings: sum.mappings.wrapping_add(counts.mappings),
            failures: sum.failures.wrapping_add(counts.failures),
        })
    }
}
