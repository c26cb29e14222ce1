//! What names mean, compound by compound.

use std::collections::HashMap;
use std::net::{Ipv4Addr, Ipv6Addr};

use super::kind::NumberKind;
use super::{builtin, services};
use crate::net::{EtherAddress, Ipv4Prefix, Ipv6Prefix};

/// The names of one configuration, each known in one compound element and those inside it.
#[derive(Clone, Debug, Default)]
pub struct NameTable {
    /// By full name: the prefix of the compound element, then the name.
    addresses: HashMap<String, Addresses>,
    numbers: HashMap<(NumberKind, String), u32>,
}

/// The addresses that a name stands for, at most one of each kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Addresses {
    /// Ethernet address.
    pub ether: Option<EtherAddress>,
    /// IPv4 address.
    pub ipv4: Option<Ipv4Addr>,
    /// IPv4 network.
    pub ipv4_prefix: Option<Ipv4Prefix>,
    /// IPv6 address.
    pub ipv6: Option<Ipv6Addr>,
    /// IPv6 network.
    pub ipv6_prefix: Option<Ipv6Prefix>,
}

impl NameTable {
    /// A table with only the built-in names.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds addresses to those of a name in the compound element with this prefix (`outer/` or empty). New
    /// addresses replace old ones of the same kind.
    pub fn define(&mut self, prefix: &str, name: &str, new: Addresses) {
        let entry = self.addresses.entry(format!("{prefix}{name}")).or_default();
        *entry = new.or(*entry);
    }

    /// Adds all names of another table, which replace existing ones.
    pub fn extend(&mut self, other: Self) {
        for (name, addresses) in other.addresses {
            self.define("", &name, addresses);
        }
        self.numbers.extend(other.numbers);
    }

    /// Gives a number a name in the compound element with this prefix.
    pub fn define_number(&mut self, kind: NumberKind, prefix: &str, name: &str, number: u32) {
        self.numbers.insert((kind, format!("{prefix}{name}")), number);
    }

    /// What a name stands for in the compound element with this prefix: the innermost definition that has the
    /// kind of address that `pick` selects.
    pub fn address<T>(
        &self,
        prefix: &str,
        name: &str,
        pick: impl Fn(&Addresses) -> Option<T>,
    ) -> Option<T> {
        let found = |prefix: &str| pick(self.addresses.get(&format!("{prefix}{name}"))?);
        enclosing(prefix).find_map(found)
    }

    /// The number that a name stands for in the compound element with this prefix. Built-in names come after
    /// the defined ones, and last come the names in this machine's services(5) and protocols(5).
    pub fn number(&self, kind: NumberKind, prefix: &str, name: &str) -> Option<u32> {
        let found = |prefix: &str| self.numbers.get(&(kind, format!("{prefix}{name}"))).copied();
        enclosing(prefix)
            .find_map(found)
            .or_else(|| builtin::number(kind, name))
            .or_else(|| services::number(kind, name))
    }
}

impl Addresses {
    /// The number of kinds of addresses that it has.
    pub(crate) fn kinds(&self) -> usize {
        let Self { ether, ipv4, ipv4_prefix, ipv6, ipv6_prefix } = self;
        [ether.is_some(), ipv4.is_some(), ipv4_prefix.is_some(), ipv6.is_some()]
            .into_iter()
            .chain([ipv6_prefix.is_some()])
            .filter(|&is| is)
            .count()
    }

    /// These addresses, with the other's for kinds that are missing.
    #[must_use]
    pub fn or(self, other: Self) -> Self {
        Self {
            ether: self.ether.or(other.ether),
            ipv4: self.ipv4.or(other.ipv4),
            ipv4_prefix: self.ipv4_prefix.or(other.ipv4_prefix),
            ipv6: self.ipv6.or(other.ipv6),
            ipv6_prefix: self.ipv6_prefix.or(other.ipv6_prefix),
        }
    }
}

/// `a/b/`, `a/` and the empty prefix for `a/b/`.
pub(crate) fn enclosing(prefix: &str) -> impl Iterator<Item = &str> {
    std::iter::successors(Some(prefix), |inner| {
        let outer = inner.strip_suffix('/')?;
        let end = outer.rfind('/').map_or(0, |slash| slash + 1);
        outer.get(..end)
    })
}
