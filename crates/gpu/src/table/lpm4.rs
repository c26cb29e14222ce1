//! Routes of IPv4 for the kernel `lpm4`: DIR-24-8 (Gupta, Lin, McKeown, "Routing Lookups in Hardware at Memory Access Speeds",
//! INFOCOM'98).
//!
//! # Layout
//! | word | | |
//! |---|---|---|
//! | 0 | magic | `0x344d_504c`, "LPM4" |
//! | 1 | `words` | words in the table |
//! | 2 | `wide` | 0: entries are 16 bits, two in a word, the even one first in memory; 1: 32 bits |
//! | 3 | `groups` | offset of the groups |
//! | 4 | `hops` | how many there are |
//! | 5 | `miss` | decision where there is no route |
//! | 6 | `first` | offset of the first level |
//! | 7 | `outputs` | offset of the hops' decisions, a word each |
//!
//! The first level has an entry for each value of the upper 24 bits of an address. A group has one for each value of the lower 8
//! bits; there is one for each /24 in which there are longer prefixes. An entry is 0 (no route), hop + 1, or its top bit and
//! a group's number.
//!
//! Entries of 16 bits are taken while there are no more than 32767 hops and 32768 groups: 32 MiB and 512 bytes a group,
//! less than the level 2 cache of an H100 (50 MB); else 64 MiB and 1 KiB a group.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use zerocopy::{FromBytes, IntoBytes};

use super::words::Words;
use super::{Decisions, HEADER, MORE, NO_ROUTE, Route, TableError, check_route, check_size};

pub(super) const MAGIC: u32 = u32::from_le_bytes(*b"LPM4");
/// Entries of the first level.
pub(super) const FIRST: usize = 1 << 24;
/// Entries of a group.
pub(super) const GROUP: usize = 256;
/// The room for decisions grows in steps of this number of words.
const OUTPUTS_STEP: usize = 64;
/// Maximum number of hops and groups with entries of 16 bits: 15 bits for a number, and 0 means no hop.
const NARROW_HOPS: usize = 0x7fff;
const NARROW_GROUPS: usize = 0x8000;

/// A table of IPv4 routes, which can be changed one route at a time.
///
/// Building takes some 100 ms for the Internet's routes. A change rewrites the entries of the prefix's addresses:
/// microseconds for a /24, as long as building for a /0. A holder of the [words](Self::words) keeps them unchanged:
/// the next change is made to a second copy. Only if both copies are held by others, a change copies the whole table
/// (32 MiB: 10 ms).
#[derive(Clone, Debug)]
pub struct Lpm4 {
    words: Words,
    /// The routes by prefix and length, so that a route comes before all routes inside it.
    routes: BTreeMap<(u32, u8), u32>,
    /// The hops' decisions.
    outputs: Vec<u32>,
    miss: u32,
    places: Places,
    groups: usize,
    /// Groups that are not used.
    free: Vec<u32>,
}

/// The offsets of the parts.
#[derive(Clone, Copy, Debug)]
struct Places {
    wide: bool,
    first: usize,
    groups: usize,
}

impl Lpm4 {
    /// Builds a table.
    ///
    /// # Errors
    /// A prefix is longer than 32 bits, a hop is not in the list, or the table is too large.
    pub fn build(
        routes: impl IntoIterator<Item = Route<u32>>,
        decisions: Decisions<'_>,
    ) -> Result<Self, TableError> {
        let mut map = BTreeMap::new();
        for route in routes {
            check_route(&route, 32, decisions.hops.len())?;
            map.insert(key(route.prefix, route.length), route.hop);
        }
        Self::paint_all(map, decisions.hops.to_vec(), decisions.miss)
    }

    /// The table, for the device.
    pub fn words(&self) -> &Arc<Vec<u32>> {
        self.words.shared()
    }

    /// The ranges of [words](Self::words) that have changed since the last call; at first, all.
    pub fn take_changes(&mut self) -> Vec<Range<usize>> {
        self.words.take_changes()
    }

    /// The number of routes.
    pub fn routes(&self) -> usize {
        self.routes.len()
    }

    /// Adds a route, or changes the hop of the route with the same prefix.
    ///
    /// # Errors
    /// As [`build`](Self::build); the table is unchanged.
    pub fn insert(&mut self, route: Route<u32>) -> Result<(), TableError> {
        check_route(&route, 32, self.outputs.len())?;
        let key = key(route.prefix, route.length);
        let before = self.routes.insert(key, route.hop);
        if before == Some(route.hop) {
            return Ok(());
        }
        self.change(key, before)
    }

    /// Removes the route of a prefix. Returns true if there was one.
    ///
    /// # Errors
    /// As [`build`](Self::build), which cannot happen when routes become fewer.
    pub fn remove(&mut self, prefix: u32, length: u8) -> Result<bool, TableError> {
        if length > 32 {
            return Err(TableError::PrefixLength { length, most: 32 });
        }
        let key = key(prefix, length);
        let Some(before) = self.routes.remove(&key) else { return Ok(false) };
        self.change(key, Some(before))?;
        Ok(true)
    }

    /// Sets the decision of a hop. `hop` may be one after the last one, which adds a hop.
    ///
    /// # Errors
    /// Neither this hop nor the one before it exists, or the table is too large; the table is unchanged.
    pub fn set_output(&mut self, hop: u32, output: u32) -> Result<(), TableError> {
        let (index, hops) = (hop as usize, self.outputs.len());
        if index > hops {
            return Err(TableError::Hop { hop, hops });
        }
        if index < hops {
            if self.outputs[index] != output {
                self.outputs[index] = output;
                self.words.change(HEADER + index..HEADER + index + 1)[0] = output;
            }
            return Ok(());
        }
        self.outputs.push(output);
        let room = self.places.first - HEADER;
        let fits = hops < room && (self.places.wide || hops < NARROW_HOPS);
        if fits {
            self.words.change(HEADER + index..HEADER + index + 1)[0] = output;
            self.words.change(4..5)[0] = self.outputs.len() as u32;
            return Ok(());
        }
        self.paint_anew().inspect_err(|_| self.outputs.truncate(hops))
    }

    /// Rewrites the entries after a route was added or removed. If that is not possible, restores the route to
    /// `before`.
    fn change(&mut self, route: (u32, u8), before: Option<u32>) -> Result<(), TableError> {
        let (prefix, length) = route;
        // For a longer prefix, the whole /24 is rewritten, because its group may be added or removed.
        let grows = length > 24 && !self.has_group(prefix);
        let (prefix, length) = key(prefix, length.min(24));
        let full = grows
            && self.free.is_empty()
            && (!self.places.wide && self.groups >= NARROW_GROUPS
                || check_size(self.words.len() + GROUP).is_err());
        if !full {
            self.paint(prefix, length);
            return Ok(());
        }
        self.paint_anew().inspect_err(|_| {
            match before {
                Some(hop) => self.routes.insert(route, hop),
                None => self.routes.remove(&route),
            };
        })
    }

    fn has_group(&self, address: u32) -> bool {
        first_entry(&self.words, self.places, (address >> 8) as usize) & MORE != 0
    }

    fn paint_anew(&mut self) -> Result<(), TableError> {
        // The new table is built separately, so that nothing has changed if it fails.
        let painted = Self::paint_all(self.routes.clone(), self.outputs.clone(), self.miss)?;
        *self = painted;
        Ok(())
    }

    fn paint_all(
        routes: BTreeMap<(u32, u8), u32>,
        outputs: Vec<u32>,
        miss: u32,
    ) -> Result<Self, TableError> {
        let mut groups = 0;
        let mut last = None;
        for (prefix, _) in routes.keys().filter(|(_, length)| *length > 24) {
            groups += usize::from(last != Some(prefix >> 8));
            last = Some(prefix >> 8);
        }
        let wide = outputs.len() > NARROW_HOPS || groups > NARROW_GROUPS;
        let per_word = if wide { 1 } else { 2 };
        let first = HEADER + (outputs.len() + 1).next_multiple_of(OUTPUTS_STEP);
        let places = Places { wide, first, groups: first + FIRST / per_word };
        let size = places.groups + groups * GROUP / per_word;
        check_size(size)?;
        let mut words = Vec::with_capacity(size);
        words.resize(places.groups, 0);
        words[..8].copy_from_slice(&[
            MAGIC,
            0,
            wide.into(),
            places.groups as u32,
            outputs.len() as u32,
            miss,
            first as u32,
            HEADER as u32,
        ]);
        words[HEADER..][..outputs.len()].copy_from_slice(&outputs);
        let words = Words::new(words);
        let mut table = Self { words, routes, outputs, miss, places, groups: 0, free: Vec::new() };
        table.paint(0, 0);
        Ok(table)
    }

    /// Writes the entries of all addresses of a prefix of at most 24 bits: first the route that contains it, then
    /// each route inside it over those that contain that one.
    fn paint(&mut self, prefix: u32, length: u8) {
        let around = (0..length).rev().find_map(|shorter| self.routes.get(&key(prefix, shorter)));
        let around = around.map_or(NO_ROUTE, |hop| hop + 1);
        let mut canvas = Canvas {
            words: &mut self.words,
            places: self.places,
            groups: &mut self.groups,
            free: &mut self.free,
        };
        canvas.clear(first_level(prefix, length), around);
        let last = prefix | !mask(length);
        for (&(prefix, length), hop) in self.routes.range((prefix, length)..=(last, 32)) {
            if length <= 24 {
                canvas.fill(canvas.places.first, first_level(prefix, length), hop + 1);
            } else {
                let group = canvas.group(prefix >> 8) * GROUP;
                let from = group + (prefix & 0xff) as usize;
                let count = 1 << (32 - length);
                canvas.fill(canvas.places.groups, from..from + count, hop + 1);
            }
        }
        let count = self.words.len() as u32;
        if self.words[1] != count {
            self.words.change(1..2)[0] = count;
        }
    }
}

/// The words while entries are written.
struct Canvas<'a> {
    words: &'a mut Words,
    places: Places,
    groups: &'a mut usize,
    free: &'a mut Vec<u32>,
}

impl Canvas<'_> {
    /// Sets entries of the first level, and frees the groups that they led to.
    fn clear(&mut self, range: Range<usize>, entry: u32) {
        if *self.groups > self.free.len() {
            for index in range.clone() {
                let old = first_entry(self.words, self.places, index);
                if old & MORE != 0 {
                    self.free.push(old & !MORE);
                }
            }
        }
        self.fill(self.places.first, range, entry);
    }

    /// The group of an entry of the first level. If there is none, a group is made in which all entries are equal to
    /// it.
    fn group(&mut self, index: u32) -> usize {
        let index = index as usize;
        let entry = first_entry(self.words, self.places, index);
        if entry & MORE != 0 {
            return (entry & !MORE) as usize;
        }
        let group = self.free.pop().map_or(*self.groups, |group| group as usize);
        if group == *self.groups {
            *self.groups += 1;
            let words = if self.places.wide { GROUP } else { GROUP / 2 };
            self.words.grow(words);
        }
        self.fill(self.places.groups, group * GROUP..(group + 1) * GROUP, entry);
        self.fill(self.places.first, index..index + 1, MORE | group as u32);
        group
    }

    fn fill(&mut self, at: usize, range: Range<usize>, entry: u32) {
        if self.places.wide {
            self.words.change(at + range.start..at + range.end).fill(entry);
        } else {
            let words = at + range.start / 2..at + range.end.div_ceil(2);
            let skipped = range.start % 2;
            let half = (entry >> 16 & 0x8000 | entry & 0x7fff) as u16;
            halves(self.words.change(words))[skipped..][..range.len()].fill(half);
        }
    }
}

/// An entry of the first level.
fn first_entry(words: &[u32], places: Places, index: usize) -> u32 {
    if places.wide {
        return words[places.first + index];
    }
    let halves: [u16; 2] = zerocopy::transmute!(words[places.first + index / 2]);
    let half = u32::from(halves[index % 2]);
    (half & 0x8000) << 16 | half & 0x7fff
}

/// The words as twice as many halves, in the order of memory.
fn halves(words: &mut [u32]) -> &mut [u16] {
    <[u16]>::mut_from_bytes(words.as_mut_bytes()).unwrap_or_default()
}

/// The entries of the first level for a prefix of at most 24 bits.
fn first_level(prefix: u32, length: u8) -> Range<usize> {
    let from = (prefix >> 8) as usize;
    from..from + (1 << (24 - length))
}

fn mask(length: u8) -> u32 {
    u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0)
}

fn key(prefix: u32, length: u8) -> (u32, u8) {
    (prefix & mask(length), length)
}
