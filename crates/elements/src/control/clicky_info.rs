//! ClickyInfo - holds notes for the Clicky program (ignored)
//!
//! # Synopsis
//! `ClickyInfo(...)`
//!
//! # Description
//! Clicky, a program that draws routers, stores styles and positions here. The router ignores it.
//!
//! # Arguments
//! Any; accepted without effect: only Clicky reads them.
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
//! ClickyInfo(a b c);
//! Idle -> Discard;
//! ```
//!
//! # See also
//! AlignmentInfo

use millrace_core::{Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct ClickyInfo;

register!(ClickyInfo, "clicky_info.rs");

impl Element for ClickyInfo {
    const CLASS: Class =
        Class::new("ClickyInfo", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.ignored_rest("only Clicky reads them");
        setup.args.complete()?;
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn any_arguments_are_accepted() {
        assert!(Rig::new("ClickyInfo(A 1, b)", 0, 0).is_ok());
    }
}
