//! TimeFilter - passes packets whose timestamps lie in a time range
//!
//! # Synopsis
//! `TimeFilter([START, END, keywords START_AFTER, START_DELAY, END_AFTER, END_DELAY, INTERVAL, STOP, END_CALL])`
//!
//! # Description
//! Passes packets whose timestamps are at least the start time and less than the end time. Others go to output 1, or
//! are dropped if it is not connected.
//!
//! # Arguments
//! - START: the start, in seconds since 1970. Positional or keyword.
//! - START_AFTER: the start, as a time after the first packet's timestamp. Keyword.
//! - START_DELAY: the start, as a time after the router's start. Keyword. At most one of START, START_AFTER and
//!   START_DELAY may be given.
//! - END, END_AFTER, END_DELAY: the end, given in the same ways.
//! - INTERVAL: the time from the start to the end. Keyword. At most one of END, END_AFTER, END_DELAY and INTERVAL may
//!   be given.
//! - STOP: whether to stop the router at the first packet whose timestamp is at or after the end. Keyword, default
//!   false.
//! - END_CALL: a write handler and its value, called at the first packet whose timestamp is at or after the end. `$t`
//!   stands for the packet's timestamp. If the handler moves the end past that timestamp, the packet passes. Whenever
//!   the end is moved, the call can happen again. Keyword. Cannot be combined with STOP.
//!
//! # Ports
//! One agnostic input, one agnostic output; an optional push output 1 for the other packets.
//!
//! # Handlers
//! - `start`, `end` (read, write): start and end. Until the first packet arrives, limits that depend on its timestamp
//!   read as the relative time given.
//! - `interval` (read, write): the time between start and end; writing it moves the end.
//! - `extend_interval` (write): moves the end later by the given time.
//!
//! # Drops
//! - filtered: the packet's timestamp is outside the range, and output 1 is not connected.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, STOP true) -> TimeFilter(START_AFTER 1, INTERVAL 5, STOP true) -> ToDump(out.pcap);
//! ```
//!
//! # See also
//! SetTimestamp, TimeRange

use millrace_core::args::Kind;
use millrace_core::element::HandlerCall;
use millrace_core::{
    Args, Class, Context, Element, Failed, Handlers, Init, Lock, Moment, Packet, PerPacket, Reason,
    Refused, Setup, Timestamp, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct TimeFilter {
    span: Lock<Span>,
    at_end: AtEnd,
}

/// What happens at the first packet that is not before the end.
enum AtEnd {
    Nothing,
    Stop,
    Call(Box<HandlerCall>),
}

struct Span {
    start: Limit,
    end: Limit,
    /// Whether the action at the end is still to be taken.
    armed: bool,
}

/// A time, and the time that it is relative to.
#[derive(Clone, Copy)]
struct Limit {
    time: Timestamp,
    after: After,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum After {
    Epoch,
    FirstPacket,
    RouterStart,
    Start,
}

register!(TimeFilter, "time_filter.rs");

impl Element for TimeFilter {
    const CLASS: Class = Class::new("TimeFilter", "1/1-2", "a/ah").own_variables();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let start = limit(args, "START", Timestamp::ZERO, None);
        let end = limit(args, "END", Timestamp::MAX, Some("INTERVAL"));
        let stop = args.keyword("STOP", false);
        let call: Option<HandlerCall> = args.optional_keyword("END_CALL");
        if stop && call.is_some() {
            args.error("END_CALL", "‘END_CALL’ and ‘STOP’ are mutually exclusive");
        }
        args.complete()?;
        let at_end = match call {
            Some(call) => AtEnd::Call(Box::new(call)),
            None if stop => AtEnd::Stop,
            None => AtEnd::Nothing,
        };
        Ok(Self { span: Lock::new(Span { start, end, armed: true }), at_end })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.span.lock().settle(After::RouterStart, init.clock().now());
        match &self.at_end {
            AtEnd::Call(call) => call
                .check_write(init.router(), init.id())
                .map_err(|error| Refused(error.to_string())),
            AtEnd::Stop | AtEnd::Nothing => Ok(()),
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("start", |filter, _| filter.span.lock().start.time.to_string());
        handlers.write("start", |filter, call| {
            filter.span.lock().start = Limit { time: call.parse()?, after: After::Epoch };
            Ok(())
        });
        handlers.read("end", |filter, _| filter.span.lock().end.time.to_string());
        handlers.write("end", |filter, call| {
            filter.span.lock().move_end(call.parse()?);
            Ok(())
        });
        handlers.read("interval", |filter, _| {
            let span = filter.span.lock();
            (span.end.time - span.start.time).to_string()
        });
        handlers.write("interval", |filter, call| {
            let mut span = filter.span.lock();
            let end = span.start.time.checked_add(call.parse()?).unwrap_or(Timestamp::MAX);
            span.move_end(end);
            Ok(())
        });
        handlers.write("extend_interval", |filter, call| {
            let mut span = filter.span.lock();
            let end = span.end.time.checked_add(call.parse()?).unwrap_or(Timestamp::MAX);
            span.move_end(end);
            Ok(())
        });
    }
}

impl PerPacket for TimeFilter {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let time = packet.timestamp();
        let mut span = self.span.lock();
        span.settle(After::FirstPacket, time);
        let (start, end) = (span.start.time, span.end.time);
        if time >= start && time >= end && std::mem::replace(&mut span.armed, false) {
            return Way::aside(0);
        }
        match time >= start && time < end {
            true => Way::ON,
            false => Way::output_or_drop(1, Reason::Filtered),
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        if way.note().is_none() {
            return cx.send_or_drop(packet, way);
        }
        let time = packet.timestamp();
        self.end(cx, time);
        // The end may have been moved.
        if time < self.span.lock().end.time {
            return Some(packet);
        }
        cx.push_or_drop(1, packet, Reason::Filtered);
        None
    }
}

/// Reads NAME, NAME_AFTER, NAME_DELAY and, for the end, INTERVAL; at most one may be given.
fn limit(args: &mut Args<'_>, name: &str, unless: Timestamp, interval: Option<&str>) -> Limit {
    let names = [
        (Some(name.to_owned()), After::Epoch, Kind::Positional),
        (Some(format!("{name}_AFTER")), After::FirstPacket, Kind::Keyword),
        (Some(format!("{name}_DELAY")), After::RouterStart, Kind::Keyword),
        (interval.map(str::to_owned), After::Start, Kind::Keyword),
    ];
    let mut given = Vec::new();
    for (name, after, kind) in names {
        let Some(name) = name else { continue };
        if let Some(time) = args.read::<Timestamp>(&name, kind) {
            given.push((name, Limit { time, after }));
        }
    }
    match &given[..] {
        [] => Limit { time: unless, after: After::Epoch },
        [(_, limit)] => *limit,
        [(first, limit), (second, _), ..] => {
            let message = format!("‘{first}’ and ‘{second}’ are mutually exclusive");
            args.error(second.as_str(), message);
            *limit
        }
    }
}

impl TimeFilter {
    /// Acts on a packet that is not before the end.
    fn end(&self, cx: &Context, time: Timestamp) {
        let router = cx.router();
        match &self.at_end {
            AtEnd::Nothing => {}
            AtEnd::Stop => router.request_stop(),
            AtEnd::Call(call) => {
                let call = call.with_variable("t", &time.to_string());
                if let Err(error) = call.write(router, cx.element()) {
                    router.chatter(&format!("{}: {error}", router.name_of(cx.element())));
                }
            }
        }
    }
}

impl Span {
    /// Sets the limits that are relative to the event `after`, which happens now.
    fn settle(&mut self, after: After, now: Timestamp) {
        if self.start.after == after {
            self.start.settle(now);
        }
        if self.end.after == after {
            self.end.settle(now);
        }
        if self.end.after == After::Start && self.start.after == After::Epoch {
            self.end.settle(self.start.time);
        }
    }

    fn move_end(&mut self, end: Timestamp) {
        self.end = Limit { time: end, after: After::Epoch };
        self.armed = true;
    }
}

impl Limit {
    fn settle(&mut self, from: Timestamp) {
        self.time = from.checked_add(self.time).unwrap_or(Timestamp::MAX);
        self.after = After::Epoch;
    }
}
