//! NetmapInfo - has no effect: netmap devices get the buffers that they need
//!
//! # Synopsis
//! `NetmapInfo([EXTRA_BUFFER])`
//!
//! # Description
//! In FastClick, this class sets how many buffers netmap allocates in addition to its rings. Here packets that
//! leave the rings are in Millrace's own packet memory. `millrace check` mentions such an element.
//!
//! # Arguments
//! - EXTRA_BUFFER: accepted without effect: packets that leave a ring are in Millrace's packet memory. Positional.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! NetmapInfo(EXTRA_BUFFER 2048);
//! ```
//!
//! # See also
//! FromNetmapDevice, ToNetmapDevice, DPDKInfo

use millrace_core::args::Kind;
use millrace_core::{Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct NetmapInfo;

register!(NetmapInfo, "netmap_info.rs");

impl Element for NetmapInfo {
    const CLASS: Class = Class::new("NetmapInfo", "0/0", "a/a").information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let reason = "packets that leave a ring are in Millrace's packet memory";
        setup.args.ignored::<u32>("EXTRA_BUFFER", Kind::Positional, reason);
        setup.args.complete()?;
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn takes_a_number() {
        assert!(Rig::new("NetmapInfo(EXTRA_BUFFER 2048)", 0, 0).is_ok());
        assert!(Rig::new("NetmapInfo(many)", 0, 0).is_err());
        assert!(Rig::new("NetmapInfo(1, 2)", 0, 0).is_err());
    }
}
