//! CheckNumberPacket - counts numbered packets by number, to find lost and duplicated ones
//!
//! # Synopsis
//! `CheckNumberPacket([OFFSET, COUNT, keyword NET_ORDER])`
//!
//! # Description
//! Reads the number that NumberPacket has written into each packet, and counts how often each number arrives. Packets
//! whose number is COUNT or more are reported and leave by output 1. Packets too short for a number leave there as
//! well.
//!
//! # Arguments
//! - OFFSET: position of the number, in bytes from the start of the packet. Positional, default 40.
//! - COUNT: how many numbers to count, starting at 0; at most 100 million. Positional, default 0.
//! - NET_ORDER: whether the number is in network byte order. Keyword, default false.
//!
//! # Ports
//! One push input, one push output; an optional second one for packets without a number below COUNT.
//!
//! # Handlers
//! - `count` (read, write): the COUNT argument.
//! - `max`, `min` (read): the number that arrived most or least often, and how often: `[7] : 2`.
//! - `dump` (read): all numbers and how often they arrived, one per line: `7: 2`.
//!
//! # Drops
//! - unexpected: the number is COUNT or more, and output 1 is not connected.
//! - truncated: the packet is too short for a number, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 60, LIMIT 9) -> NumberPacket -> c :: CheckNumberPacket(COUNT 9) -> Discard;
//! DriverManager(pause, print c.dump);
//! ```
//!
//! # See also
//! NumberPacket, TimestampDiff

use millrace_core::args::Kind;
use millrace_core::element::HandlerError;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Lock, Moment, Packet, PerPacket, Reason, Setup,
    View, Way, register,
};

use super::number_packet::NumberPlace;

/// The element; its manual is at the top of the file.
pub struct CheckNumberPacket {
    place: NumberPlace,
    /// How often each number arrived.
    seen: Lock<Vec<u32>>,
}

register!(CheckNumberPacket, "check_number_packet.rs");

/// The maximum of COUNT.
const MOST: u64 = 100_000_000;

impl Element for CheckNumberPacket {
    const CLASS: Class = Class::new("CheckNumberPacket", "1/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let place = NumberPlace::configure(args, Kind::Positional);
        let count = args.in_range("COUNT", Kind::Positional, 0..=MOST).unwrap_or(0);
        args.complete()?;
        Ok(Self { place, seen: Lock::new(vec![0; count as usize]) })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |it, _| it.seen.lock().len() as u64);
        handlers.write("count", |it, call| {
            let count: u64 = call.parse()?;
            if count > MOST {
                return Err(HandlerError::from(format!("out of range, bound {MOST}")));
            }
            it.seen.lock().resize(count as usize, 0);
            Ok(())
        });
        handlers.read("max", |it, _| extreme(&it.seen.lock(), |count, best| count > best));
        handlers.read("min", |it, _| extreme(&it.seen.lock(), |count, best| count < best));
        handlers.read("dump", |it, _| {
            let lines =
                it.seen.lock().iter().enumerate().map(|(at, n)| format!("{at}: {n}\n")).collect();
            let lines: String = lines;
            lines
        });
    }
}

impl PerPacket for CheckNumberPacket {
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let Some(number) = self.place.read(packet.data()) else {
            return Way::output_or_drop(1, Reason::Truncated);
        };
        let mut seen = self.seen.lock();
        match usize::try_from(number).ok().and_then(|number| seen.get_mut(number)) {
            Some(count) => {
                *count = count.wrapping_add(1);
                Way::ON
            }
            None => Way::output_or_drop(1, Reason::Unexpected),
        }
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        if let Some(number) = self.place.read(packet.data()) {
            let known = self.seen.lock().len();
            let router = cx.router();
            let name = router.name_of(cx.element());
            router.chatter(&format!("{name}: {number} out of scope (count is {known}) !"));
        }
        cx.send_or_drop(packet, way)
    }
}

/// The first number whose count is not beaten by another.
fn extreme(counts: &[u32], beats: fn(u32, u32) -> bool) -> String {
    let mut best: Option<(usize, u32)> = None;
    for (at, &count) in counts.iter().enumerate() {
        if best.is_none_or(|(_, best)| beats(count, best)) {
            best = Some((at, count));
        }
    }
    match best {
        Some((at, count)) => format!("[{at}] : {count}"),
        None => "[-1] : -1".to_owned(),
    }
}
