//! SetRandIPAddress - sets the destination annotation to random IP addresses
//!
//! # Synopsis
//! `SetRandIPAddress(PREFIX [, LIMIT])`
//!
//! # Description
//! Sets each packet's destination annotation to a random address in PREFIX. With LIMIT, that many addresses are chosen
//! when the configuration is loaded, and each packet gets one of them at random.
//!
//! # Arguments
//! - PREFIX: the network, `ADDR/LENGTH`; an address alone stands for itself. Positional, mandatory.
//! - LIMIT: the maximum number of different addresses, up to 1000000; a value below 1 means no limit. Positional,
//!   default -1.
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
//! InfiniteSource(LIMIT 10)
//!     -> SetRandIPAddress(10.0.0.0/8, 100)
//!     -> Discard;
//! ```
//!
//! # See also
//! SetIPAddress, StoreIPAddress

use std::net::Ipv4Addr;

use millrace_core::net::Ipv4Prefix;
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct SetRandIpAddress {
    network: Ipv4Prefix,
    /// The addresses to choose from; empty if any address of the network may be chosen.
    choice: Vec<Ipv4Addr>,
}

register!(SetRandIpAddress, "set_rand_ip_address.rs");

impl Element for SetRandIpAddress {
    const CLASS: Class = Class::new("SetRandIPAddress", "1/1", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let network = setup.args.mandatory("PREFIX");
        let limit = setup.args.positional("LIMIT", -1);
        if limit > MOST {
            setup.args.error("LIMIT", format!("LIMIT: out of range, bound {MOST}"));
        }
        setup.args.complete()?;
        let mut random = fastrand::Rng::new();
        let choice = (0..limit).map(|_| pick(&network, &mut random)).collect();
        Ok(Self { network, choice })
    }
}

impl PerPacket for SetRandIpAddress {
    fn treat(&self, (): &mut (), packet: &mut View, at: &mut Moment) -> Way {
        let random = at.random();
        let chosen = self.choice.get(random.usize(..self.choice.len().max(1))).copied();
        packet.set_dst_ip(chosen.unwrap_or_else(|| pick(&self.network, random)));
        Way::ON
    }
}

/// The most addresses to choose from.
const MOST: i32 = 1_000_000;

fn pick(network: &Ipv4Prefix, random: &mut fastrand::Rng) -> Ipv4Addr {
    let mask = network.mask().to_bits();
    Ipv4Addr::from_bits(network.address().to_bits() & mask | random.u32(..) & !mask)
}
