//! Many rules at once: one bit per rule, looked up by the values of the packet's fields.
//!
//! A decision program makes one test after another, so the cost per packet grows with the number of rules. The index
//! looks up each field of the packet once and gets, for each, the set of rules that the value satisfies, as bits; the
//! intersection of all sets is the set of rules that match (bit vectors: Lakshman and Stiliadis, SIGCOMM 1998; with a
//! summary of each set, so that only few words of it are read: Baboescu and Varghese, SIGCOMM 2001).
//!
//! - [`cubes`]: rules become *cubes*, with a set of values for each field. Sets need not be ranges, so `port 80 or 443`
//!   is one cube, and `port >= 1000`, which is many tests, is one too ([`single`]). Conditions that cubes cannot
//!   express, because few rules test the field, are checked with the rule itself when its cube matches.
//! - [`dimension`]: for each field, maps a value to the bits of its cubes, in lines of 64; [`intervals`] finds the
//!   interval of the value. Memory grows with the size of the rules, not with its square; see there. Up to 64 cubes are
//!   one line: the intersection of the rows of all fields is the result.
//! - Cubes are assigned to lines by their most selective field: those with one source network together, those with any
//!   source by their destination. So few lines are relevant to a packet. Within a line, cubes are in the order of their
//!   rules, and lines are in the order of their first rules, so the search ends at the first line that cannot have an
//!   earlier rule.
//!
//! # Short packets
//! For packets that lack a field of the index, the bits of those cubes are used that such packets can lie in, and each
//! rule that is found is evaluated byte by byte.

mod cubes;
mod dimension;
mod fields;
mod intervals;
mod sets;
mod single;

use std::cmp::Reverse;
use std::sync::Arc;

use self::cubes::Cube;
use self::dimension::{Dimension, LINE, PAGE, Place as Entry};
use self::fields::{Field, MAX_FIELDS};
use super::careful::Careful;
use super::expr::Expr;
use super::insn::{Insn, Jump, Test};
use super::layout::Layout;
use super::next::{DROP, Next};
use super::place::Place;

/// Executable rules over the three sections of IP packets. A clone shares the large parts.
#[derive(Clone, Debug)]
pub(super) struct Index {
    dimensions: Arc<[Dimension]>,
    /// The rule of each cube, by the cube's place; with [`UNSURE`] if the rule must be evaluated.
    rule_of: Box<[u32]>,
    /// The number of pages of lines.
    pages: usize,
    /// The first rule in each line.
    first_rule: Arc<[u32]>,
    outputs: Arc<[Next]>,
    careful: Arc<Careful>,
    /// The first step of each rule, and the end of the last one.
    starts: Arc<[u32]>,
    /// The destination of all packets, if they have the same.
    constant: Option<Next>,
    /// The outputs of rules that are not obviously unreachable.
    used: Vec<Next>,
    /// The rule that every packet satisfies, or [`NONE`]; it is in no line, and later rules are not included.
    otherwise: u32,
    /// The rules that have been removed, one bit each.
    removed: Box<[u64]>,
}

/// The bit, in addition to the number, of rules that must be evaluated.
const UNSURE: u32 = 1 << 31;

/// A set that contains at most one random value in eight is selective.
const RARE: u32 = 3;

/// The three sections of a packet.
pub(super) type Sections<'a> = [&'a [u8]; 3];

/// No rule.
pub(super) const NONE: u32 = u32::MAX;

impl Index {
    /// Prepares rules.
    pub(super) fn new(rules: &[(Expr<Test>, Jump)]) -> Self {
        let mut insns = Vec::new();
        let mut starts = vec![0];
        for (expr, output) in rules {
            let start = insns.len();
            expr.emit(&mut insns);
            let end = Jump::to(insns.len());
            insns.iter_mut().skip(start).for_each(|insn| insn.redirect(*output, end));
            starts.push(insns.len() as u32);
        }
        let place = |insn: &Insn| Place::new(&insn.test, Layout::Ip, 0);
        let outputs: Arc<[Next]> = rules.iter().map(|(_, output)| Next::new(*output)).collect();

        let fields = fields::choose(rules);
        let mut cubes = Vec::new();
        let mut last = None;
        for (rule, (expr, _)) in (0..).zip(rules) {
            let of_rule = cubes::cubes(expr, &fields);
            last = of_rule.iter().any(Cube::is_everything).then_some(rule);
            cubes.extend(of_rule.into_iter().map(|cube| (rule, cube)));
            if last.is_some() {
                // The later rules are never reached.
                break;
            }
        }
        let mut used: Vec<Next> =
            visible(&cubes).map(|(rule, _)| output_of(&outputs, *rule)).collect();
        if last.is_none() {
            used.push(Next::new(Jump::Drop));
        }
        used.sort_unstable();
        used.dedup();
        let constant = match used[..] {
            [only] => Some(only),
            _ => None,
        };

        cubes.retain(|(rule, _)| Some(*rule) != last);
        let lines = lines(cubes, &fields);
        let rule_of = by_place(&lines, |(rule, cube)| rule | if cube.exact { 0 } else { UNSURE });
        let mut index = Self {
            dimensions: Arc::default(),
            rule_of: rule_of.iter().map(|rule| rule.unwrap_or(NONE)).collect(),
            first_rule: lines.iter().map(|line| line.first().map_or(NONE, |it| it.0)).collect(),
            outputs,
            careful: Arc::new(Careful::new(&insns, place)),
            starts: starts.into(),
            constant,
            used,
            otherwise: last.unwrap_or(NONE),
            pages: lines.len().div_ceil(PAGE),
            removed: vec![0; rules.len().div_ceil(64)].into(),
        };
        index.add_dimensions(&lines, &fields);
        index
    }

    /// Adds the dimensions. If a field needs too much memory, the rules with conditions on it must be evaluated.
    fn add_dimensions(&mut self, lines: &[Vec<(u32, Cube)>], fields: &[Field]) {
        let mut dimensions = Vec::new();
        for (at, &field) in fields.iter().enumerate() {
            let sets = by_place(lines, |(_, cube)| cube.sets.get(at).and_then(Option::as_ref));
            let entries: Vec<Entry<'_>> = sets.iter().map(|set| Entry::of(*set)).collect();
            match Dimension::new(field, &entries) {
                Some(dimension) => dimensions.push(dimension),
                None => {
                    for (rule, set) in self.rule_of.iter_mut().zip(&sets) {
                        *rule |= if matches!(set, Some(Some(_))) { UNSURE } else { 0 };
                    }
                }
            }
        }
        self.dimensions = dimensions.into();
    }

    /// The same without a rule; `None` if rules would be needed that are not included.
    pub(super) fn without(&self, rule: u32) -> Option<Self> {
        if self.constant.is_some() || self.otherwise == rule {
            return None;
        }
        let mut rest = self.clone();
        *rest.removed.get_mut(rule as usize / 64)? |= 1 << (rule % 64);
        for of_cube in &mut rest.rule_of {
            if *of_cube & !UNSURE == rule {
                *of_cube |= UNSURE;
            }
        }
        Some(rest)
    }

    /// The destination of all packets, if they have the same.
    pub(super) fn constant(&self) -> Option<usize> {
        self.constant.map(Next::output)
    }

    /// True unless it is obvious that no packet leaves by this output.
    pub(super) fn reaches(&self, output: u32) -> bool {
        self.used.contains(&Next::new(Jump::Output(output)))
    }

    /// The size of the index in bytes, including the rules' own steps.
    pub(super) fn bytes(&self) -> usize {
        self.dimensions.iter().map(Dimension::bytes).sum::<usize>()
            + size_of_val(&*self.rule_of)
            + size_of_val(&*self.first_rule)
            + size_of_val(&*self.outputs)
            + size_of_val(&*self.starts)
            + self.careful.bytes()
    }

    /// The number of the first rule that a packet satisfies, or [`NONE`].
    #[inline(always)]
    pub(super) fn first_rule(&self, sections: Sections<'_>) -> u32 {
        self.first_rules(&[sections])[0]
    }

    /// The numbers of the first rules that packets satisfy, or [`NONE`].
    ///
    /// Proceeds field by field: while one packet's value is being loaded from memory, the next one's is looked up.
    #[inline(always)]
    pub(super) fn first_rules<const N: usize>(&self, packets: &[Sections<'_>; N]) -> [u32; N] {
        let mut rows = [[0; N]; MAX_FIELDS];
        let mut candidates = [u64::MAX; N];
        let mut short = 0;
        for (rows, dimension) in rows.iter_mut().zip(&*self.dimensions) {
            short |= dimension.find(packets, rows);
            for (candidates, &row) in candidates.iter_mut().zip(&*rows) {
                *candidates &= dimension.occupied(row as usize * self.pages);
            }
        }
        let mut rules = [self.otherwise; N];
        for lane in 0..N {
            if candidates[lane] != 0 || self.pages > 1 {
                let rows = rows.each_ref().map(|rows| rows[lane]);
                let is_short = short >> lane & 1 != 0;
                rules[lane] = self.search(&packets[lane], &rows, candidates[lane], is_short);
            }
        }
        rules
    }

    /// The output of a rule, or [`DROP`] for [`NONE`].
    #[inline(always)]
    pub(super) fn output(&self, rule: u32) -> usize {
        self.outputs.get(rule as usize).map_or(DROP, |output| output.output())
    }

    /// Finds the first rule of a packet. `candidates` is the intersection of its rows in the first page.
    #[inline(always)]
    fn search(
        &self,
        sections: &Sections<'_>,
        rows: &[u32; MAX_FIELDS],
        mut candidates: u64,
        is_short: bool,
    ) -> u32 {
        let mut best = self.otherwise;
        if self.first_rule.len() == 1 {
            self.first_in(candidates, 0, sections, is_short, &mut best);
            return best;
        }
        for page in 0..self.pages {
            let rows = || {
                self.dimensions
                    .iter()
                    .zip(rows)
                    .map(|(dimension, row)| (dimension, *row as usize * self.pages + page))
            };
            if page > 0 {
                candidates =
                    rows().fold(u64::MAX, |all, (dimension, at)| all & dimension.occupied(at));
            }
            while candidates != 0 {
                let column = page * PAGE + candidates.trailing_zeros() as usize;
                candidates &= candidates - 1;
                // Without fields, all lines of a page are candidates.
                let first = self.first_rule.get(column).copied().unwrap_or(NONE);
                if first >= best {
                    break;
                }
                let line =
                    rows().fold(u64::MAX, |all, (dimension, at)| all & dimension.line(at, column));
                self.first_in(line, column, sections, is_short, &mut best);
            }
        }
        best
    }

    /// Lowers `best` to the first rule of a line's cubes that the packet satisfies, if that is lower.
    #[inline(always)]
    fn first_in(
        &self,
        mut line: u64,
        column: usize,
        sections: &Sections<'_>,
        is_short: bool,
        best: &mut u32,
    ) {
        while line != 0 {
            let cube = column * LINE + line.trailing_zeros() as usize;
            line &= line - 1;
            let Some(&rule) = self.rule_of.get(cube) else { return };
            if rule & !UNSURE >= *best {
                return;
            }
            if !is_short && rule & UNSURE == 0 || self.is_satisfied(rule, sections) {
                *best = rule & !UNSURE;
                return;
            }
        }
    }

    /// Whether a packet satisfies a rule, evaluated byte by byte.
    #[cold]
    #[inline(never)]
    fn is_satisfied(&self, rule: u32, sections: &Sections<'_>) -> bool {
        let rule = (rule & !UNSURE) as usize;
        if self.removed.get(rule / 64).is_some_and(|word| word >> (rule % 64) & 1 == 1) {
            return false;
        }
        let (Some(&start), Some(&end)) = (self.starts.get(rule), self.starts.get(rule + 1)) else {
            return false;
        };
        self.careful.run(start as usize, end as usize, sections).is_some()
    }
}

/// The cubes that are not contained in an earlier one, as far as this is quick to determine.
fn visible(cubes: &[(u32, Cube)]) -> impl Iterator<Item = &(u32, Cube)> {
    const FEW: usize = 1000;
    cubes.iter().enumerate().filter_map(|(nth, one)| {
        let before = cubes.get(..nth.min(FEW)).unwrap_or_default();
        let hidden = nth < FEW && before.iter().any(|(_, cube)| cube.hides(&one.1));
        (!hidden).then_some(one)
    })
}

fn output_of(outputs: &[Next], rule: u32) -> Next {
    outputs.get(rule as usize).copied().unwrap_or(Next::new(Jump::Drop))
}

/// Assigns cubes, with the numbers of their rules, to lines. See the module's text for the order.
fn lines(cubes: Vec<(u32, Cube)>, fields: &[Field]) -> Vec<Vec<(u32, Cube)>> {
    let few = cubes.len() <= LINE;
    let keyed = cubes.into_iter().map(|(rule, cube)| (narrowest(&cube, fields), (rule, cube)));
    let mut cubes: Vec<_> = keyed.collect();
    cubes.sort_by(|(a, (rule, _)), (b, (other, _))| (a, rule).cmp(&(b, other)));
    let mut lines: Vec<Vec<(u32, Cube)>> = Vec::new();
    let mut kind = None;
    for (key, cube) in cubes {
        let this = key.first().map(|(field, _)| *field);
        let room = lines.last().is_some_and(|line| line.len() < LINE);
        match lines.last_mut().filter(|_| room && (few || kind == this)) {
            Some(line) => line.push(cube),
            None => lines.push(vec![cube]),
        }
        kind = this;
    }
    for line in &mut lines {
        line.sort_by_key(|(rule, _)| *rule);
    }
    lines.sort_by_key(|line| line.first().map(|(rule, _)| *rule));
    lines
}

/// The fields by which a cube excludes most packets, the most selective first, with their first values.
fn narrowest(cube: &Cube, fields: &[Field]) -> Vec<(usize, u32)> {
    let mut narrow: Vec<(u32, usize, u32)> = Vec::new();
    for (at, (set, field)) in cube.sets.iter().zip(fields).enumerate() {
        let Some(set) = set else { continue };
        let rarity = field.rarity(set);
        if rarity >= RARE {
            narrow.push((rarity, at, set.ranges.first().map_or(0, |range| range.0)));
        }
    }
    narrow.sort_by_key(|&(rarity, at, _)| (Reverse(rarity), at));
    narrow.into_iter().map(|(_, at, first)| (at, first)).collect()
}

/// A value for each cube, at the cube's place.
fn by_place<'a, T>(
    lines: &'a [Vec<(u32, Cube)>],
    of: impl Fn(&'a (u32, Cube)) -> T,
) -> Vec<Option<T>> {
    let mut places = Vec::with_capacity(lines.len() * LINE);
    for line in lines {
        places.extend(line.iter().map(|cube| Some(of(cube))));
        places.resize_with(places.len().next_multiple_of(LINE), || None);
    }
    places
}
