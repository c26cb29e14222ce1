//! SetAnnoByte - sets a one-byte annotation of packets (deprecated)
//!
//! # Synopsis
//! `SetAnnoByte(ANNO, VALUE)`
//!
//! # Description
//! Sets the annotation ANNO of each packet to VALUE. Deprecated: using it prints a warning. Use the equivalent
//! Paint(VALUE, ANNO) instead.
//!
//! # Arguments
//! - ANNO: one-byte annotation, by name or offset. Positional, mandatory.
//! - VALUE: 0 to 255. Positional, mandatory.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! - `anno` (read): the annotation's offset.
//! - `value` (read, write): the VALUE argument.
//! - `config` (read, write): the arguments; VALUE may change while packets run.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> SetAnnoByte(PAINT, 3) -> Discard;
//! ```
//!
//! # See also
//! Paint

use std::sync::atomic::{AtomicU8, Ordering::Relaxed};

use millrace_core::args::Annotation;
use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct SetAnnoByte {
    anno: usize,
    value: AtomicU8,
}

register!(SetAnnoByte, "set_anno_byte.rs");

impl Element for SetAnnoByte {
    const CLASS: Class = Class::new("SetAnnoByte", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let advice = "SetAnnoByte(ANNO, VALUE) is obsolete, use Paint(VALUE, ANNO) instead";
        setup.args.warn((), advice);
        let Annotation::<1>(anno) = setup.args.mandatory("ANNO");
        let value: u8 = setup.args.mandatory("VALUE");
        setup.args.complete()?;
        Ok(Self { anno, value: value.into() })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|set, new| {
            if set.anno != new.anno {
                return Err("ANNO cannot change while packets run".into());
            }
            set.value.store(new.value.into_inner(), Relaxed);
            Ok(())
        });
        handlers.read("anno", |set, _| set.anno);
        handlers.read("value", |set, _| set.value.load(Relaxed));
        handlers.write("value", |set, call| {
            set.value.store(call.parse()?, Relaxed);
            Ok(())
        });
    }
}

impl PerPacket for SetAnnoByte {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        packet.set_anno_u8(self.anno, self.value.load(Relaxed));
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::testing::Rig;

    #[test]
    fn sets_the_byte() {
        let mut rig = Rig::new("SetAnnoByte(5, 77)", 1, 1).unwrap();
        rig.write("value", "78").unwrap();
        let packet = Packet::from_bytes(b"a").unwrap();
        assert_eq!(rig.push_packets(0, vec![packet])[0][0].anno_u8(5), 78);
        assert_eq!(rig.read("anno").unwrap(), "5");
        assert!(Rig::new("SetAnnoByte(48, 1)", 1, 1).is_err());
        assert!(Rig::new("SetAnnoByte(4)", 1, 1).is_err());
    }
}
