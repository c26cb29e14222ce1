//! The expected results: a prefix tree that only this module uses.

use anyhow::ensure;
use millrace_elements::ip::lookup::{Hop, Prefix, Route};
use prefix_trie::PrefixMap;

use super::subject::Subject;

/// The routes as a prefix tree.
pub(crate) struct Oracle {
    routes: PrefixMap<(u32, u8), Hop>,
    /// Addresses at the limits of all networks, and random ones.
    probes: Vec<u32>,
}

/// Random addresses that are compared.
const RANDOM: usize = 200_000;

impl Oracle {
    pub(crate) fn new(routes: &[Route]) -> Self {
        let mut random = fastrand::Rng::with_seed(5);
        let edges = routes.iter().flat_map(|route| {
            let (first, last) = (route.prefix.first(), route.prefix.last());
            [first, last, first.wrapping_sub(1), last.wrapping_add(1)]
        });
        let probes = edges.chain((0..RANDOM).map(|_| random.u32(..))).collect();
        let key = |route: &Route| ((route.prefix.first(), route.prefix.length()), route.hop);
        Self { routes: routes.iter().map(key).collect(), probes }
    }

    /// The network of the route that an address matches, and the route's hop.
    pub(crate) fn route_of(&self, address: u32) -> Option<(Prefix, Hop)> {
        let ((bits, length), hop) = self.routes.get_lpm(&(address, 32))?;
        Some((Prefix::new(bits, length), *hop))
    }

    /// Checks lookups, in batches and one by one.
    ///
    /// # Errors
    /// A result differs.
    pub(crate) fn compare(&self, subject: &dyn Subject, name: &str) -> anyhow::Result<()> {
        for (&address, found) in self.probes.iter().zip(subject.hops(&self.probes)) {
            let expected = self.route_of(address).map(|(_, hop)| hop);
            ensure!(
                found == expected,
                "{name}: {} leads to {found:?} instead of {expected:?}",
                std::net::Ipv4Addr::from_bits(address)
            );
        }
        Ok(())
    }
}
