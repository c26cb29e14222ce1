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
use millrace_core::{Batch, Class, Context, Element, Failed, Setup, register};

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

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        let random = cx.random();
        batch.for_each(|packet| {
            let at = random.usize(..self.choice.len().max(1));
            let chosen = self.choice.get(at).copied();
            packet.set_dst_ip(chosen.unwrap_or_else(|| pick(&self.network, random)));
        });
    }
}

/// The most addresses to choose from.
const MOST: i32 = 1_000_000;

fn pick(network: &Ipv4Prefix, random: &mut fastrand::Rng) -> Ipv4Addr {
    let mask = network.mask().to_bits();
    Ipv4Addr::from_bits(network.address().to_bits() & mask | random.u32(..) & !mask)
}
