//! PortInfo - defines names for TCP and UDP ports
//!
//! # Synopsis
//! `PortInfo(NAME PORT[/PROTOCOL] [NAME...], ...)`
//!
//! # Description
//! Defines NAME as a TCP or UDP port that the arguments of other elements may use. An argument has the format of a line
//! of services(5), and may end with a comment. The name is visible in the compound element that contains PortInfo and
//! in those nested in it.
//!
//! # Arguments
//! - NAME PORT...: a name, the port number, optionally `/tcp` or `/udp` (default: both), and more names. Any number of
//!   them.
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
//! PortInfo(game 4000/udp arena);
//! c :: IPClassifier(udp port game, -);
//! Idle -> c -> Discard; c[1] -> Discard;
//! ```
//!
//! # See also
//! AddressInfo, IPClassifier

use millrace_core::args::port_info;
use millrace_core::{Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct PortInfo;

register!(PortInfo, "port_info.rs");

impl Element for PortInfo {
    const CLASS: Class =
        Class::new("PortInfo", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let names = port_info(&mut setup.args);
        setup.args.complete()?;
        setup.define(names);
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn ports_have_numbers() {
        assert!(Rig::new("PortInfo(a 80/tcp b c # d, e 53)", 0, 0).is_ok());
        assert!(Rig::new("PortInfo(a)", 0, 0).is_err());
        assert!(Rig::new("PortInfo(a x/tcp)", 0, 0).is_err());
    }
}
