//! FlowInfo - notes on how packets flow
//!
//! # Synopsis
//! `FlowInfo(...)`
//!
//! # Description
//! Tools read from it how packets travel through elements that do not say so themselves. The router takes it as it is.
//!
//! # Arguments
//! Any; they are not looked at.
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
        setup.args.rest();
        setup.args.complete()?;
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn it_takes_anything() {
        assert!(Rig::new("FlowInfo(A 1, b)", 0, 0).is_ok());
    }
}
