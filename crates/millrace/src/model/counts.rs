//! Counts by name.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Counts by name, in their order; an object in JSON.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts(Vec<(String, u64)>);

impl Counts {
    /// The names and their counts.
    pub(crate) fn iter(&self) -> impl Iterator<Item = (&str, u64)> {
        self.0.iter().map(|(name, n)| (name.as_str(), *n))
    }

    /// The count of this name; 0 if there is none.
    pub(crate) fn get(&self, name: &str) -> u64 {
        self.iter().find(|(own, _)| *own == name).map_or(0, |(_, n)| n)
    }

    /// The sum.
    pub(crate) fn total(&self) -> u64 {
        self.0.iter().fold(0, |sum, (_, n)| sum.wrapping_add(*n))
    }

    /// Adds others' counts, by name.
    pub(crate) fn add(&mut self, others: &Self) {
        for (name, n) in others.iter() {
            match self.0.iter_mut().find(|(own, _)| own == name) {
                Some((_, sum)) => *sum = sum.wrapping_add(n),
                None => self.0.push((name.to_owned(), n)),
            }
        }
    }

    /// What was counted since `earlier`. A name stays, even if nothing was.
    pub(crate) fn since(&self, earlier: &Self) -> Self {
        self.iter()
            .map(|(name, n)| (name.to_owned(), n.saturating_sub(earlier.get(name))))
            .collect()
    }
}

impl FromIterator<(String, u64)> for Counts {
    fn from_iter<I: IntoIterator<Item = (String, u64)>>(counts: I) -> Self {
        Self(counts.into_iter().collect())
    }
}

impl Serialize for Counts {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

impl<'de> Deserialize<'de> for Counts {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Entries;

        impl<'de> Visitor<'de> for Entries {
            type Value = Counts;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("counts by name")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Counts, A::Error> {
                let mut counts = Vec::new();
                while let Some(entry) = map.next_entry()? {
                    counts.push(entry);
                }
                Ok(Counts(counts))
            }
        }

        deserializer.deserialize_map(Entries)
    }
}
