//! AddressInfo - defines names for Ethernet, IP and IPv6 addresses
//!
//! # Synopsis
//! `AddressInfo(NAME ADDRESS [ADDRESS...], ...)`
//!
//! # Description
//! Defines NAME as an address that the arguments of other elements may use. A name may have one address of each kind:
//! Ethernet, IP, IP network, IPv6, IPv6 network; an IP address with a prefix defines both the address and the network.
//! The name is visible in the compound element that contains AddressInfo and in those nested in it. A suffix selects
//! the kind where it matters: `NAME:eth`, `NAME:ip`, `NAME:ipnet`, `NAME:bcast`, `NAME:ip6`, `NAME:ip6net`.
//!
//! An ADDRESS may also be a name defined earlier, or a network device that has such an address.
//!
//! # Arguments
//! - NAME ADDRESS...: a name and its addresses. Any number of them.
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
//! AddressInfo(gw 10.0.0.1/24 00:50:ba:85:84:a9);
//! InfiniteSource(LIMIT 10) -> EtherEncap(0x0800, gw, ff:ff:ff:ff:ff:ff) -> Discard;
//! ```
//!
//! # See also
//! PortInfo

use millrace_core::args::address_info;
use millrace_core::{Class, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct AddressInfo;

register!(AddressInfo, "address_info.rs");

impl Element for AddressInfo {
    const CLASS: Class =
        Class::new("AddressInfo", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let names = address_info(&mut setup.args);
        setup.args.complete()?;
        setup.define(names);
        Ok(Self)
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn names_are_defined_and_text_that_is_no_address_is_refused() {
        assert!(Rig::new("AddressInfo(a 1.2.3.4/24 0:1:2:3:4:5, b a:bcast)", 0, 0).is_ok());
        assert!(Rig::new("AddressInfo(a 1.2.3.4.5)", 0, 0).is_err());
    }
}
