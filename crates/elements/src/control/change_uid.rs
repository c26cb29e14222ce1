//! ChangeUID - drops set-user-ID and set-group-ID privileges
//!
//! # Synopsis
//! `ChangeUID`
//!
//! # Description
//! Sets the effective user and group of the process to its real ones, after devices have been opened and before files
//! are opened.
//!
//! # Arguments
//! None.
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
//! Idle -> Discard;
//! ChangeUID;
//! ```
//!
//! # See also
//! FromDevice

use millrace_core::{Class, Element, Failed, Init, Refused, Setup, register};
use nix::unistd::{getegid, geteuid, getgid, getuid, setgid, setuid};

/// The element; its manual is at the top of the file.
pub struct ChangeUid;

register!(ChangeUid, "change_uid.rs");

impl Element for ChangeUid {
    const CLASS: Class = Class::new("ChangeUID", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn initialize(&self, _init: &mut Init<'_>) -> Result<(), Refused> {
        // Of all threads: the system's own calls would change the calling one alone.
        if getegid() != getgid() {
            setgid(getgid()).map_err(|error| format!("setgid: {error}"))?;
        }
        if geteuid() != getuid() {
            setuid(getuid()).map_err(|error| format!("setuid: {error}"))?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn it_starts_without_privileges_and_refuses_arguments() {
        assert!(Rig::new("ChangeUID", 0, 0).is_ok());
        assert!(Rig::new("ChangeUID(root)", 0, 0).is_err());
    }
}
