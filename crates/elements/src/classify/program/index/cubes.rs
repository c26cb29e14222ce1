//! Rules as unions of cubes.
//!
//! A *cube* restricts the values of each field independently of the others: the packets of
//! `src net 10.0.0.0/8 and tcp dst port 80 or 443` form one cube, those of `host 10.0.0.1` two. Every rule's packets
//! lie in the union of the rule's cubes. If a rule tests only fields of the index, and is not too complicated (see
//! [`MAX_CUBES`]), its packets *are* that union, provided that packets have all the fields. Other cubes are marked: for
//! packets in them, the rule itself must be evaluated.

use super::super::expr::Expr;
use super::super::insn::Test;
use super::super::layout::Layout;
use super::super::place::Place;
use super::fields::{self, Field, Part};
use super::sets::ValueSet;
use super::single;

/// The maximum number of cubes per rule.
const MAX_CUBES: usize = 64;

/// The allowed values of each field; `None` if the field does not matter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Cube {
    pub(super) sets: Vec<Option<ValueSet>>,
    /// Whether every packet that has all the fields and lies in the cube satisfies the rule.
    pub(super) exact: bool,
    /// Whether this also holds for packets without all of them. A packet that lacks part of a field may or may not have
    /// the bytes of the field that a test needs: it lies in the cube, and the rule must be evaluated.
    exact_if_short: bool,
}

/// The cubes of a rule's expression; none if no packet satisfies it.
pub(super) fn cubes(expr: &Expr<Test>, fields: &[Field]) -> Vec<Cube> {
    Expansion { fields }.expand(expr, Sense { negated: false, short: false })
}

/// How to interpret an expression: whether it is negated, and the result of a test of missing bytes.
#[derive(Clone, Copy)]
struct Sense {
    negated: bool,
    short: bool,
}

impl Sense {
    fn opposite(self) -> Self {
        Self { negated: !self.negated, ..self }
    }
}

struct Expansion<'a> {
    fields: &'a [Field],
}

impl Expansion<'_> {
    fn expand(&self, expr: &Expr<Test>, sense: Sense) -> Vec<Cube> {
        let all = |list: &[Expr<Test>]| self.product(list.iter().map(|it| self.expand(it, sense)));
        let any = |list: &[Expr<Test>]| self.union(list.iter().map(|it| self.expand(it, sense)));
        if !matches!(expr, Expr::Is(_))
            && let Some(cubes) = self.single(expr, sense)
        {
            return cubes;
        }
        match expr {
            Expr::Is(test) => self.test(test, sense),
            Expr::All(list) if sense.negated => any(list),
            Expr::Any(list) if sense.negated => all(list),
            Expr::All(list) => all(list),
            Expr::Any(list) => any(list),
            Expr::Choose(list) => self.choice(list, sense),
            Expr::Not { of, turns_short } => {
                self.expand(of, Sense { short: sense.short != *turns_short, ..sense.opposite() })
            }
        }
    }

    /// The cubes of an expression about one field; `None` if it tests others.
    fn single(&self, expr: &Expr<Test>, Sense { negated, short }: Sense) -> Option<Vec<Cube>> {
        let (field, single) = single::of_one_field(expr)?;
        let at = self.fields.iter().position(|known| *known == field)?;
        let (set, missing) = single.values(field, negated, short)?;
        let mut cube = Cube { exact_if_short: missing.is_some(), ..self.everything() };
        cube.restrict(at, set, self.fields);
        Some(if cube.is_possible() { vec![cube] } else { Vec::new() })
    }

    /// `condition ? then : ...`; a negation of the whole does not apply to the condition.
    fn choice(&self, list: &[Expr<Test>], sense: Sense) -> Vec<Cube> {
        let plain = Sense { negated: false, ..sense };
        let mut ways = Vec::new();
        // The packets left for the following conditions.
        let mut rest = vec![self.everything()];
        let mut at = 0;
        while let [condition, then, ..] = &list[at..] {
            let here = self.product([rest.clone(), self.expand(condition, plain)]);
            ways.push(self.product([here, self.expand(then, sense)]));
            rest = self.product([rest, self.expand(condition, plain.opposite())]);
            at += 2;
        }
        // Without a final alternative, the remaining packets fail.
        let last = list[at..].first().map(|last| self.expand(last, sense));
        let none = || if sense.negated { vec![self.everything()] } else { Vec::new() };
        ways.push(self.product([rest, last.unwrap_or_else(none)]));
        self.union(ways)
    }

    fn everything(&self) -> Cube {
        Cube { sets: vec![None; self.fields.len()], exact: true, exact_if_short: true }
    }

    /// Everything, but the rule must be evaluated.
    fn anything(&self) -> Vec<Cube> {
        vec![Cube { exact: false, ..self.everything() }]
    }

    /// The intersection of several unions.
    fn product(&self, factors: impl IntoIterator<Item = Vec<Cube>>) -> Vec<Cube> {
        let mut product = vec![self.everything()];
        for factor in factors {
            if product.len() * factor.len() > MAX_CUBES {
                product.iter_mut().for_each(|cube| cube.exact = false);
                continue;
            }
            let pairs = product.iter().flat_map(|a| factor.iter().map(move |b| (a, b)));
            product = pairs.filter_map(|(a, b)| a.intersection(b)).collect();
        }
        product
    }

    /// The union of several unions.
    fn union(&self, parts: impl IntoIterator<Item = Vec<Cube>>) -> Vec<Cube> {
        let mut union: Vec<Cube> = Vec::new();
        for cube in parts.into_iter().flatten() {
            if !union.iter_mut().any(|other| other.absorb(&cube, self.fields)) {
                union.push(cube);
            }
            if union.len() > MAX_CUBES {
                return self.anything();
            }
        }
        union
    }

    /// The packets for which a test has the wanted result.
    ///
    /// A test of several fields tests consecutive bytes: if any is missing, the last one is. The last field can be
    /// missing although the bytes that are tested are present, if the test does not need all of the field.
    fn test(&self, test: &Test, Sense { negated, short }: Sense) -> Vec<Cube> {
        let place = Place::new(test, Layout::Ip, 0);
        let parts: Vec<Part> = fields::parts(&place).collect();
        let Some(last) = parts.last() else {
            return if negated { Vec::new() } else { vec![self.everything()] };
        };
        let wanted_short = short != negated;
        let part_of_last = place.needs < last.field.needs();
        let several = parts.len() > 1;
        let mut exact = true;
        let mut known: Vec<(usize, &Part, ValueSet)> = Vec::new();
        for part in &parts {
            let is_last = part.field == last.field;
            let missing = is_last && (part_of_last || !several && wanted_short);
            let at = self.fields.iter().position(|field| *field == part.field);
            let set = ValueSet::masked(part.value, part.mask, part.field.greatest(), missing);
            match at.zip(set) {
                Some((at, set)) => known.push((at, part, set)),
                None => exact = false,
            }
        }
        if !exact && (negated || wanted_short) {
            return self.anything();
        }
        let with = |at: usize, set: ValueSet| {
            let mut cube = Cube { exact_if_short: !part_of_last, ..self.everything() };
            cube.restrict(at, set, self.fields);
            cube
        };
        if negated {
            let others = known.into_iter().map(|(at, part, set)| {
                let is_last = part.field == last.field;
                let missing = is_last && (wanted_short || part_of_last);
                with(at, set.complement(part.field.greatest(), missing))
            });
            return others.filter(Cube::is_possible).collect();
        }
        let mut cube = Cube { exact, exact_if_short: !part_of_last, ..self.everything() };
        let last_at = known.last().map(|(at, ..)| *at);
        for (at, _, set) in known {
            cube.restrict(at, set, self.fields);
        }
        let without = last_at.filter(|_| several && wanted_short);
        std::iter::once(cube).chain(without.map(|at| with(at, ValueSet::MISSING))).collect()
    }
}

impl Cube {
    /// Whether every packet lies in the cube and satisfies the rule.
    pub(super) fn is_everything(&self) -> bool {
        self.exact && self.exact_if_short && self.sets.iter().all(Option::is_none)
    }

    /// Whether every packet of the other cube lies in this one and satisfies the rule.
    pub(super) fn hides(&self, other: &Cube) -> bool {
        let mut sets = self.sets.iter().zip(&other.sets);
        self.exact
            && self.exact_if_short
            && sets.all(|sets| match sets {
                (None, _) => true,
                (Some(_), None) => false,
                (Some(ours), Some(theirs)) => ours.contains(theirs),
            })
    }

    fn is_possible(&self) -> bool {
        !self.sets.iter().flatten().any(ValueSet::is_empty)
    }

    fn restrict(&mut self, at: usize, set: ValueSet, fields: &[Field]) {
        let all = fields.get(at).is_some_and(|field| set.is_all(field.greatest()));
        if let Some(place) = self.sets.get_mut(at) {
            *place = (!all).then_some(set);
        }
    }

    /// The intersection of both, if not empty.
    fn intersection(&self, other: &Cube) -> Option<Cube> {
        let sets = self.sets.iter().zip(&other.sets).map(|sets| match sets {
            (Some(a), Some(b)) => Some(a.intersection(b)),
            (one, None) | (None, one) => one.clone(),
        });
        let cube = Cube {
            sets: sets.collect(),
            exact: self.exact && other.exact,
            exact_if_short: self.exact_if_short && other.exact_if_short,
        };
        cube.is_possible().then_some(cube)
    }

    /// Merges another cube into this one, if they differ in at most one field.
    fn absorb(&mut self, other: &Cube, fields: &[Field]) -> bool {
        if self.exact != other.exact {
            return false;
        }
        let mut different = (0..self.sets.len()).filter(|&at| self.sets[at] != other.sets[at]);
        let Some(at) = different.next() else {
            self.exact_if_short |= other.exact_if_short;
            return true;
        };
        if different.next().is_some() {
            return false;
        }
        self.exact_if_short &= other.exact_if_short;
        match (&self.sets[at], &other.sets[at]) {
            (Some(a), Some(b)) => {
                let union = a.union(b);
                self.restrict(at, union, fields);
            }
            _ => self.sets[at] = None,
        }
        true
    }
}
