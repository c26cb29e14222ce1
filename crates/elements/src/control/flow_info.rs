//! FlowInfo - holds notes on packet flow for tools (ignored)
//!
//! # Synopsis
//! `FlowInfo(...)`
//!
//! # Description
//! Tools read here how packets travel through elements that do not declare it themselves. The router ignores it.
//!
//! # Arguments
//! Any; accepted without effect: only tools read them.
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
//! FlowInfo(a b c);
//! Idle -> Discard;
//! ```
//!
//! # See also
//! AlignmentInfo

use millrace_core::{Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct FlowInfo;

register!(FlowInfo, "flow_info.rs");

impl Element for FlowInfo {
    const CLASS: Class =
        Class::new("FlowInfo", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.ignored_rest("only tools read them");
        setup.args.complete()?;
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn any_arguments_are_accepted() {
        assert!(Rig::new("FlowInfo(A 1, b)", 0, 0).is_ok());
    }
}
