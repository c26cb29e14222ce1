//! ICMPPingSource - sends ICMP echo requests (ping) and measures round-trip times
//!
//! # Synopsis
//! `ICMPPingSource(SRC, DST [, keyword INTERVAL, LIMIT, IDENTIFIER, DATA, ACTIVE, VERBOSE, STOP])`
//!
//! # Description
//! Sends ICMP echo requests from SRC to DST, one every INTERVAL; the first is sent after INTERVAL. With a pull output,
//! each pull emits as many requests as it asks for. Identification and sequence number count up from 1. The time to
//! live is 200, and the destination annotation is set to DST.
//!
//! Replies that arrive at the input are matched with the requests by sequence number. The element prints a line for
//! each reply, and a summary when the program ends.
//!
//! The sequence number is sent in network byte order, the identifier in little-endian byte order, as FastClick does.
//!
//! ICMPSendPings is an old name of this element.
//!
//! # Arguments
//! - SRC: source address. Positional, mandatory.
//! - DST: destination address. Positional, mandatory.
//! - INTERVAL: time between requests, with millisecond resolution. Keyword, default 1s.
//! - LIMIT: number of requests to send; a negative value means no limit. Keyword, default -1.
//! - IDENTIFIER: the identifier of the requests, 0 to 65535. Keyword, default 0.
//! - DATA: payload after the ICMP header. Keyword, default none.
//! - ACTIVE: whether to send requests; with a pull output, whether pulls get any. Keyword, default true.
//! - VERBOSE: whether to print a line for each reply, and a summary. Keyword, default true.
//! - STOP: whether to stop the program after LIMIT requests. Keyword, default false.
//!
//! # Ports
//! One optional push input, for replies, which are consumed. One agnostic output.
//!
//! # Handlers
//! - `active` (read, write): ACTIVE. With a push output, writing true sends a request immediately if none is scheduled.
//! - `src` (read, write): SRC.
//! - `dst` (read, write): DST.
//! - `count` (read): number of requests sent.
//! - `limit` (write): LIMIT.
//! - `interval` (write): INTERVAL.
//! - `reset_counts` (write): resets the count and the round-trip times. If LIMIT was reached, sending starts again.
//! - `summary` (read): requests, replies, losses and round-trip times. This handler and the next three exist only if
//!   the input is connected.
//! - `rtt_min`, `rtt_avg`, `rtt_max` (read): round-trip times in seconds.
//!
//! # Drops
//! None. Packets that arrive at the input are consumed.
//!
//! # Example
//! ```click
//! ping :: ICMPPingSource(18.26.4.24, 18.26.4.97, INTERVAL 0.2, LIMIT 5)
//!     -> CheckIPHeader -> ICMPPingResponder -> ping;
//! ```
//!
//! # See also
//! ICMPPingEncap, ICMPPingResponder

mod ping_times;

use std::net::Ipv4Addr;

use millrace_core::args::Seconds;
use millrace_core::checksum::checksum;
use millrace_core::headers::{Header, IcmpHeader, Ipv4Header, icmp_type, protocol};
use millrace_core::{
    Batch, Call, Class, Context, Element, Failed, HandlerError, Handlers, Init, Lock, Notifier,
    Packet, Refused, Setup, Timer, Timestamp, register,
};

use crate::ip::network_header;
use ping_times::{PingTimes, micros};

/// The element; its manual is at the top of the file.
pub struct IcmpPingSource {
    /// The prefix of messages.
    speaker: String,
    identifier: u16,
    data: Vec<u8>,
    verbose: bool,
    stop: bool,
    has_input: bool,
    timer: Timer,
    /// Whether pulls get requests.
    notifier: Notifier,
    state: Lock<State>,
}

/// The mutable state.
struct State {
    source: Ipv4Addr,
    destination: Ipv4Addr,
    interval: Timestamp,
    count: u32,
    limit: i32,
    active: bool,
    /// Whether requests are pushed.
    pushes: bool,
    times: PingTimes,
}

register!(IcmpPingSource, "icmp_ping_source.rs");

/// The maximum payload of a datagram, in bytes.
const MOST_DATA: usize = 65_535 - Ipv4Header::LEN - IcmpHeader::LEN;

impl Element for IcmpPingSource {
    const CLASS: Class = Class::new("ICMPPingSource", "0-1/1", "h/a").aliases(&["ICMPSendPings"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let speaker = format!("{} :: ICMPPingSource: ", setup.name());
        let has_input = setup.inputs() > 0;
        let args = &mut setup.args;
        let source = args.mandatory("SRC");
        let destination = args.mandatory("DST");
        let interval = args.keyword("INTERVAL", Seconds::new(1));
        let identifier = args.keyword("IDENTIFIER", 0);
        let data: Vec<u8> = args.keyword("DATA", Vec::new());
        let limit = args.keyword("LIMIT", -1);
        let active = args.keyword("ACTIVE", true);
        let verbose = args.keyword("VERBOSE", true);
        let stop = args.keyword("STOP", false);
        if data.len() > MOST_DATA {
            args.error("DATA", format!("DATA: out of range, bound {MOST_DATA}"));
        }
        let interval = millis(interval);
        if interval.is_zero() {
            args.warn("INTERVAL", "INTERVAL so small that it is zero");
        }
        args.complete()?;
        let state = State {
            source,
            destination,
            interval,
            count: 0,
            limit,
            active,
            pushes: false,
            times: PingTimes::default(),
        };
        let (timer, state) = (setup.timer(), Lock::new(state));
        let notifier = Notifier::default();
        Ok(Self { speaker, identifier, data, verbose, stop, has_input, timer, notifier, state })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let mut state = self.state.lock();
        state.pushes = !init.is_pull_output(0);
        if state.pushes && state.active && state.limit != 0 {
            self.timer.schedule_at(init.clock().now() + state.interval);
        }
        self.notifier.wake();
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let Some(request) = self.request(&mut self.state.lock(), cx) else { return };
        cx.push(0, request);
        let state = self.state.lock();
        if state.is_due() {
            self.timer.schedule_at(cx.now() + state.interval);
        } else if self.stop {
            cx.router().request_stop();
        }
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let mut state = self.state.lock();
        cx.consumed(batch.len());
        for packet in batch.drain() {
            if let Some(line) = self.receive(&mut state, &packet)
                && self.verbose
            {
                cx.router().chatter(&format!("{}{line}", self.speaker));
            }
        }
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let mut state = self.state.lock();
        while batch.len() < max && state.active && state.is_due() {
            let Some(request) = self.request(&mut state, cx) else { return };
            if batch.push(request).is_err() {
                return;
            }
        }
        if !state.is_due() && self.stop {
            cx.router().request_stop();
        }
        if !(state.active && state.is_due()) {
            self.notifier.sleep();
        }
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("active", |element, _| element.state.lock().active);
        handlers.write("active", |element, call| {
            let active = call.parse().map_err(|_| "type mismatch")?;
            let mut state = element.state.lock();
            state.active = active;
            match active {
                true if state.pushes && element.timer.expiry().is_none() => {
                    element.timer.schedule_at(call.now());
                }
                true => element.notifier.wake(),
                false => element.timer.unschedule(),
            }
            Ok(())
        });
        handlers.read("src", |element, _| element.state.lock().source);
        handlers.write("src", |element, call| {
            element.state.lock().source = call.parse().map_err(|_| "syntax error")?;
            Ok(())
        });
        handlers.read("dst", |element, _| element.state.lock().destination);
        handlers.write("dst", |element, call| {
            element.state.lock().destination = call.parse().map_err(|_| "syntax error")?;
            Ok(())
        });
        handlers.read("count", |element, _| element.state.lock().count);
        handlers.write("limit", |element, call| {
            element.state.lock().limit = call.parse().map_err(|_| "'limit' should be integer")?;
            element.go_on(call);
            Ok(())
        });
        handlers.write("interval", |element, call| {
            let interval = call.parse().map_err(|_| "'interval' should be an interval")?;
            element.state.lock().interval = millis(interval);
            Ok(())
        });
        handlers.write("reset_counts", |element, call| {
            let mut state = element.state.lock();
            state.count = 0;
            state.times = PingTimes::default();
            drop(state);
            element.go_on(call);
            Ok(())
        });
        handlers.try_read("summary", |element, call| {
            element.of_replies(call, |state| state.times.summary(state.count))
        });
        handlers.try_read("rtt_min", |element, call| {
            element.of_replies(call, |state| micros(state.times.least()))
        });
        handlers.try_read("rtt_avg", |element, call| {
            element.of_replies(call, |state| micros(state.times.average()))
        });
        handlers.try_read("rtt_max", |element, call| {
            element.of_replies(call, |state| micros(state.times.most()))
        });
    }

    fn cleanup(&self, router: &millrace_core::Router) -> Result<(), Refused> {
        if self.has_input && self.verbose {
            let state = self.state.lock();
            for line in state.times.summary(state.count).lines() {
                router.chatter(&format!("{}{line}", self.speaker));
            }
        }
        Ok(())
    }
}

fn millis(interval: Seconds) -> Timestamp {
    Timestamp::from_millis(i64::try_from(interval.as_millis()).unwrap_or(i64::MAX))
}

impl State {
    fn is_due(&self) -> bool {
        u32::try_from(self.limit).map_or(true, |limit| self.count < limit)
    }
}

impl IcmpPingSource {
    /// Schedules the next request if sending may resume.
    fn go_on(&self, call: &Call<'_>) {
        let state = self.state.lock();
        if !(state.active && state.is_due()) {
            return;
        }
        if !state.pushes {
            self.notifier.wake();
        } else if self.timer.expiry().is_none() {
            self.timer.schedule_at(call.now() + state.interval);
        }
    }

    /// Reads a handler that exists only with an input.
    fn of_replies(
        &self,
        call: &Call<'_>,
        say: impl Fn(&State) -> String,
    ) -> Result<String, HandlerError> {
        match self.has_input {
            true => Ok(say(&self.state.lock())),
            false => Err(HandlerError::NoHandler(call.handler().to_owned())),
        }
    }

    /// The next request.
    fn request(&self, state: &mut State, cx: &mut Context) -> Option<Packet> {
        let number = (state.count % 0xffff) as u16 + 1;
        let len = Ipv4Header::LEN + IcmpHeader::LEN + self.data.len();
        let mut packet = Packet::with_len(len)?;
        packet.set_network_header(0, Ipv4Header::LEN);
        let (ip, message) = Ipv4Header::view_mut(packet.data_mut())?;
        *ip = Ipv4Header {
            version_ihl: 0x45,
            tos: 0,
            // DATA fits in a datagram.
            total_len: (len as u16).into(),
            id: number.into(),
            flags_fragment: 0.into(),
            ttl: 200,
            protocol: protocol::ICMP,
            checksum: 0.into(),
            src: state.source.octets(),
            dst: state.destination.octets(),
        };
        let (icmp, data) = IcmpHeader::view_mut(message)?;
        icmp.kind = icmp_type::ECHO_REQUEST;
        let ([a, b], [c, d]) = (self.identifier.to_le_bytes(), number.to_be_bytes());
        icmp.rest = [a, b, c, d];
        data.iter_mut().zip(&self.data).for_each(|(byte, given)| *byte = *given);
        let sum = checksum(message);
        IcmpHeader::view_mut(message)?.0.checksum.set(sum);
        Ipv4Header::fill_checksum(packet.data_mut());
        packet.set_dst_ip(state.destination);
        let now = cx.now();
        packet.set_timestamp(now);
        if self.has_input {
            state.times.sent(number, now);
        }
        state.count = state.count.wrapping_add(1);
        cx.created(1);
        Some(packet)
    }

    /// Records a reply; returns the line to print.
    fn receive(&self, state: &mut State, packet: &Packet) -> Option<String> {
        let ip = network_header(packet)?;
        let (icmp, _) = IcmpHeader::view(packet.transport_data()?)?;
        let [a, b, c, d] = icmp.rest;
        if ip.protocol != protocol::ICMP
            || icmp.kind != icmp_type::ECHO_REPLY
            || u16::from_le_bytes([a, b]) != self.identifier
        {
            return None;
        }
        let number = u16::from_be_bytes([c, d]);
        let time = state.times.received(number, packet.timestamp())?;
        let headers = ip.header_len() + IcmpHeader::LEN;
        let len = i32::from(ip.total_len.get()) - headers as i32;
        let (source, ttl) = (ip.source(), ip.ttl);
        let (whole, thousandths) = (time / 1000, time % 1000);
        Some(format!(
            "{len} bytes from {source}: icmp_seq={number} ttl={ttl} time={whole}.{thousandths:03} ms"
        ))
    }
}
