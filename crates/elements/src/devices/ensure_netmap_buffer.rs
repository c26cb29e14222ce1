//! EnsureNetmapBuffer - has no effect: packets are transmitted from where they are
//!
//! # Synopsis
//! `EnsureNetmapBuffer`
//!
//! # Description
//! Forwards packets unchanged. In FastClick, this class copies packets into buffers of netmap. Here
//! ToNetmapDevice transmits all packets alike. `millrace check` mentions each such element.
//!
//! # Arguments
//! None.
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
//! InfiniteSource(LIMIT 10) -> EnsureNetmapBuffer -> Discard;
//! ```
//!
//! # See also
//! ToNetmapDevice, EnsureDPDKBuffer, EnsureHeadroom

use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct EnsureNetmapBuffer;

register!(EnsureNetmapBuffer, "ensure_netmap_buffer.rs");

impl Element for EnsureNetmapBuffer {
    const CLASS: Class = Class::new("EnsureNetmapBuffer", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.advise((), "EnsureNetmapBuffer has no effect: all packets can be transmitted");
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for EnsureNetmapBuffer {
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
        let mut rig = Rig::new("EnsureNetmapBuffer", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a", "b"])[0], [b"a", b"b"]);
        assert!(Rig::new("EnsureNetmapBuffer(1)", 1, 1).is_err());
    }
}
