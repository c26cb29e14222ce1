//! EnsureDPDKBuffer - has no effect: packets are transmitted from where they are
//!
//! # Synopsis
//! `EnsureDPDKBuffer([keyword FORCE])`
//!
//! # Description
//! Forwards packets unchanged. In FastClick, this class copies packets into buffers that DPDK can transmit. Here
//! ToDPDKDevice transmits the buffers of all packets as they are. Only if a card cannot read them, it copies packets,
//! and counts the copies. `millrace check` mentions each such element.
//!
//! # Arguments
//! - FORCE: accepted without effect: no packet is copied.
//!
//! # Ports
//! One agnostic input, one agnostic output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> EnsureDPDKBuffer -> Discard;
//! ```
//!
//! # See also
//! ToDPDKDevice, EnsureNetmapBuffer, EnsureHeadroom

use millrace_core::args::Kind;
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct EnsureDpdkBuffer;

register!(EnsureDpdkBuffer, "ensure_dpdk_buffer.rs");

impl Element for EnsureDpdkBuffer {
    const CLASS: Class = Class::new("EnsureDPDKBuffer", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        args.advise((), "EnsureDPDKBuffer has no effect: ToDPDKDevice transmits packets in place");
        args.ignored::<bool>("FORCE", Kind::Keyword, "no packet is copied");
        args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for EnsureDpdkBuffer {
    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, _: &mut Moment) -> Way {
        Way::ON
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn forwards_packets_unchanged() {
        let mut rig = Rig::new("EnsureDPDKBuffer(FORCE true)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0], [b"a", b"b"]);
        assert!(Rig::new("EnsureDPDKBuffer(FORCE 7)", 1, 1).is_err());
        assert!(Rig::new("EnsureDPDKBuffer(1)", 1, 1).is_err());
    }
}
