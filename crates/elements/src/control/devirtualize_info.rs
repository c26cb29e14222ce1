//! DevirtualizeInfo - holds notes for click-devirtualize (ignored)
//!
//! # Synopsis
//! `DevirtualizeInfo(...)`
//!
//! # Description
//! click-devirtualize reads here which classes to leave unchanged. The router ignores it.
//!
//! # Arguments
//! Any; accepted without effect: only click-devirtualize reads them.
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
//! DevirtualizeInfo(a b c);
//! Idle -> Discard;
//! ```
//!
//! # See also
//! AlignmentInfo

use millrace_core::{Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct DevirtualizeInfo;

register!(DevirtualizeInfo, "devirtualize_info.rs");

impl Element for DevirtualizeInfo {
    const CLASS: Class =
        Class::new("DevirtualizeInfo", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.ignored_rest("only click-devirtualize reads them");
        setup.args.complete()?;
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn any_arguments_are_accepted() {
        assert!(Rig::new("DevirtualizeInfo(A 1, b)", 0, 0).is_ok());
    }
}
