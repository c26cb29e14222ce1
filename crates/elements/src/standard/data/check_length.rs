//! CheckLength - drops or diverts packets that exceed a maximum length
//!
//! # Synopsis
//! `CheckLength(LENGTH [, keyword EXTRA_LENGTH])`
//!
//! # Description
//! Sends packets of at most LENGTH bytes to output 0. Sends longer packets to output 1, or drops them if
//! output 1 is not connected.
//!
//! # Arguments
//! - LENGTH: maximum length in bytes. Positional, mandatory.
//! - EXTRA_LENGTH: whether to add the extra length annotation, which counts the bytes that Truncate or a dump cut
//!   off. Default false.
//!
//! # Ports
//! One agnostic input; output 0 agnostic, output 1 push and optional.
//!
//! # Handlers
//! - `length` (read, write): the LENGTH argument.
//! - `config` (read, write): the arguments; LENGTH may change while packets run.
//!
//! # Drops
//! - too big: the packet is longer, and output 1 is not connected.
//!
//! # Example
//! ```click
//! InfiniteSource(LENGTH 64, LIMIT 10) -> CheckLength(1514) -> Discard;
//! ```
//!
//! # See also
//! Truncate, Pad

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};

use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct CheckLength {
    length: AtomicU32,
    extra_length: bool,
}

register!(CheckLength, "check_length.rs");

impl Element for CheckLength {
    const CLASS: Class = Class::new("CheckLength", "1/1-2", "a/ah");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let length: u32 = setup.args.mandatory("LENGTH");
        let extra_length = setup.args.keyword("EXTRA_LENGTH", false);
        setup.args.complete()?;
        Ok(Self { length: length.into(), extra_length })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|check, new| {
            if check.extra_length != new.extra_length {
                return Err("EXTRA_LENGTH cannot change while packets run".into());
            }
            check.length.store(new.length.into_inner(), Relaxed);
            Ok(())
        });
        handlers.read("length", |check, _| check.length.load(Relaxed));
        handlers.write("length", |check, call| {
            check.length.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for CheckLength {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        let most = self.length.load(Relaxed) as usize;
        let beyond = if self.extra_length { packet.extra_length() as usize } else { 0 };
        match packet.len() + beyond <= most {
            true => Way::ON,
            false => Way::output_or_drop(1, Reason::TooBig),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn longer_packets_go_to_output_1_or_are_dropped() {
        let mut rig = Rig::new("CheckLength(2)", 1, 2).unwrap();
        let out = rig.push(0, &["", "ab", "abc"]);
        assert_eq!(out, [vec![&b""[..], b"ab"], vec![b"abc"]]);
        let mut rig = Rig::new("CheckLength(2)", 1, 1).unwrap();
        rig.write("length", "1").unwrap();
        assert_eq!(rig.push(0, &["", "ab", "abc"])[0], [b""]);
        assert_eq!(rig.stats().drops, [(Reason::TooBig, 2)]);
        assert_eq!(rig.read("length").unwrap(), "1");
    }
}
