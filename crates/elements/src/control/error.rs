//! Error - prevents the router from starting
//!
//! # Synopsis
//! `Error(...)`
//!
//! # Description
//! Accepts any arguments, inputs and outputs, but fails to initialise, so the router does not start. Tools use it in
//! place of elements that they do not understand.
//!
//! # Arguments
//! Any; ignored.
//!
//! # Ports
//! Any number, agnostic.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```text
//! Idle -> Error(what stood here) -> Discard;
//! ```
//!
//! # See also
//! Message

use millrace_core::{Class, Element, Failed, Init, Refused, Setup, register};

/// The element; its manual is at the top of the file.
pub struct Error;

register!(Error, "error.rs");

impl Element for Error {
    const CLASS: Class = Class::new("Error", "-/-", "a/a").aliases(&["ErrorElement"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.rest();
        setup.args.complete()?;
        Ok(Self)
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        Err(Refused(String::new()))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn it_does_not_start() {
        assert!(Rig::new("Error(A 1, b, \"c)", 0, 0).is_err());
    }
}
