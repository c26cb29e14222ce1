//! Expressions about one field: the values that satisfy them.
//!
//! The compiler translates `port >= 1000` into a chain of tests of some bits each. Individually they are many sets of
//! many ranges; together they are one range. It is found by fixing the bits of the value from the first one on, as long
//! as the fixed bits do not decide.

use super::super::expr::Expr;
use super::super::insn::Test;
use super::super::layout::Layout;
use super::super::place::Place;
use super::fields::{self, Field, Part};
use super::sets::ValueSet;
use Restricted::{Decided, Open};

/// The maximum number of ranges of a set.
const MAX_RANGES: usize = 128;
/// The maximum effort in tests looked at, and for each test of the expression: a few for each bit of the field.
const MAX_STEPS: usize = 1 << 20;
const MAX_STEPS_PER_TEST: usize = 256;

/// An expression about one field.
pub(super) enum Single {
    Is { value: u32, mask: u32, is_of_part: bool },
    All(Vec<Single>),
    Any(Vec<Single>),
    Choose(Vec<Single>),
    Not { of: Box<Single>, turns_short: bool },
}

/// The field that an expression is about, if it is about only one, and the expression in terms of it.
pub(super) fn of_one_field(expr: &Expr<Test>) -> Option<(Field, Single)> {
    let mut field = None;
    let single = convert(expr, &mut field)?;
    Some((field?, single))
}

fn convert(expr: &Expr<Test>, field: &mut Option<Field>) -> Option<Single> {
    let mut list = |list: &[Expr<Test>]| {
        list.iter().map(|expr| convert(expr, field)).collect::<Option<Vec<Single>>>()
    };
    Some(match expr {
        Expr::Is(test) => {
            let place = Place::new(test, Layout::Ip, 0);
            let mut parts = fields::parts(&place);
            let Part { field: of_test, value, mask } = parts.next()?;
            if parts.next().is_some() || *field.get_or_insert(of_test) != of_test {
                return None;
            }
            Single::Is { value, mask, is_of_part: place.needs < of_test.needs() }
        }
        Expr::All(of) => Single::All(list(of)?),
        Expr::Any(of) => Single::Any(list(of)?),
        Expr::Choose(of) => Single::Choose(list(of)?),
        Expr::Not { of, turns_short } => {
            Single::Not { of: Box::new(convert(of, field)?), turns_short: *turns_short }
        }
    })
}

impl Single {
    /// The values of the field that satisfy the expression, unless they form too many ranges, and whether packets
    /// without the field satisfy it; `None` if that depends on which of its bytes are present. `short` is the result of
    /// a test of missing bytes.
    pub(super) fn values(
        &self,
        field: Field,
        negated: bool,
        short: bool,
    ) -> Option<(ValueSet, Option<bool>)> {
        let mut ranges = Ranges {
            found: Vec::new(),
            negated,
            left: MAX_STEPS + MAX_STEPS_PER_TEST * self.size(),
        };
        let mask = u32::MAX >> (32 - field.bits());
        ranges.gather(&self.restricted(0, 0), mask, 0)?;
        let missing = self.holds_without(short).map(|holds| holds != negated);
        Some((ValueSet { ranges: ranges.found, missing: missing.unwrap_or(true) }, missing))
    }

    /// The number of tests, and of lists of them.
    fn size(&self) -> usize {
        match self {
            Self::Is { .. } => 1,
            Self::All(list) | Self::Any(list) | Self::Choose(list) => {
                1 + list.iter().map(Self::size).sum::<usize>()
            }
            Self::Not { of, .. } => 1 + of.size(),
        }
    }

    /// Whether the expression holds for a packet without the field, if that is known. `short` is the result of a test of
    /// missing bytes.
    fn holds_without(&self, short: bool) -> Option<bool> {
        match self {
            Self::Is { is_of_part, .. } => (!is_of_part).then_some(short),
            Self::All(list) => all(list.iter().map(|one| one.holds_without(short))),
            Self::Any(list) => {
                all(list.iter().map(|one| one.holds_without(short).map(|is| !is))).map(|is| !is)
            }
            Self::Choose(list) => {
                let (pairs, last) = list.as_chunks::<2>();
                let last = last.first().map_or(Some(false), |last| last.holds_without(short));
                pairs.iter().rev().fold(last, |otherwise, [condition, then]| {
                    let then = then.holds_without(short);
                    match condition.holds_without(short) {
                        Some(true) => then,
                        Some(false) => otherwise,
                        None => then.filter(|_| then == otherwise),
                    }
                })
            }
            Self::Not { of, turns_short } => {
                of.holds_without(short != *turns_short).map(|holds| !holds)
            }
        }
    }

    /// The expression for fields whose `fixed` bits are those of `value`, without the parts that these decide.
    fn restricted(&self, value: u32, fixed: u32) -> Restricted {
        match self {
            Self::Is { value: own, mask, is_of_part } => {
                if (own ^ value) & mask & fixed != 0 {
                    Decided(false)
                } else if mask & !fixed == 0 {
                    Decided(true)
                } else {
                    Open(Self::Is { value: *own, mask: *mask, is_of_part: *is_of_part })
                }
            }
            Self::All(list) => several(list, true, value, fixed),
            Self::Any(list) => several(list, false, value, fixed),
            Self::Choose(list) => chosen(list, value, fixed),
            Self::Not { of, turns_short } => match of.restricted(value, fixed) {
                Decided(holds) => Decided(!holds),
                Open(of) => Open(Self::Not { of: Box::new(of), turns_short: *turns_short }),
            },
        }
    }
}

/// What is left of an expression when some bits of the field are known.
enum Restricted {
    Decided(bool),
    Open(Single),
}

impl Restricted {
    fn decided(&self) -> Option<bool> {
        match self {
            Decided(holds) => Some(*holds),
            Open(_) => None,
        }
    }

    fn into_single(self) -> Single {
        match self {
            Decided(true) => Single::All(Vec::new()),
            Decided(false) => Single::Any(Vec::new()),
            Open(single) => single,
        }
    }
}

/// All or any of a list: the one `neutral` result changes nothing, the other decides.
fn several(list: &[Single], neutral: bool, value: u32, fixed: u32) -> Restricted {
    let mut open = Vec::new();
    for one in list {
        match one.restricted(value, fixed) {
            Decided(holds) if holds == neutral => {}
            Decided(holds) => return Decided(holds),
            Open(rest) => open.push(rest),
        }
    }
    match (open.len(), neutral) {
        (0, _) => Decided(neutral),
        (_, true) => Open(Single::All(open)),
        (_, false) => Open(Single::Any(open)),
    }
}

/// The first alternative whose condition holds: conditions and alternatives take turns; the last may stand alone.
fn chosen(list: &[Single], value: u32, fixed: u32) -> Restricted {
    let mut open = Vec::new();
    let mut answers = Vec::new();
    let (pairs, last) = list.as_chunks::<2>();
    let mut end = None;
    for [condition, then] in pairs {
        match condition.restricted(value, fixed) {
            Decided(false) => {}
            Decided(true) => {
                end = Some(then.restricted(value, fixed));
                break;
            }
            Open(condition) => {
                let then = then.restricted(value, fixed);
                answers.push(then.decided());
                open.extend([condition, then.into_single()]);
            }
        }
    }
    let end = end.or_else(|| last.first().map(|last| last.restricted(value, fixed)));
    let end = end.unwrap_or(Decided(false));
    match end.decided() {
        _ if open.is_empty() => end,
        // The conditions do not matter.
        Some(holds) if answers.iter().all(|&answer| answer == Some(holds)) => Decided(holds),
        _ => {
            open.push(end.into_single());
            Open(Single::Choose(open))
        }
    }
}

fn all(results: impl Iterator<Item = Option<bool>>) -> Option<bool> {
    let mut whole = Some(true);
    for result in results {
        match result {
            Some(true) => {}
            Some(false) => return Some(false),
            None => whole = None,
        }
    }
    whole
}

/// Finds the ranges of values.
struct Ranges {
    found: Vec<(u32, u32)>,
    /// Whether those are wanted for which the expression does not hold.
    negated: bool,
    /// How many more tests may be looked at.
    left: usize,
}

impl Ranges {
    /// Appends the ranges of the values that begin with the upper bits of `value`; those in `free` are open.
    fn gather(&mut self, expr: &Restricted, free: u32, value: u32) -> Option<()> {
        match expr {
            Decided(holds) if *holds == self.negated => {}
            Open(single) if free != 0 => {
                let next = free ^ free >> 1;
                let (free, fixed) = (free ^ next, !(free ^ next));
                for value in [value, value | next] {
                    self.left = self.left.checked_sub(single.size())?;
                    self.gather(&single.restricted(value, fixed), free, value)?;
                }
            }
            // All bits together always decide.
            _ => {
                match self.found.last_mut() {
                    Some((_, last)) if last.checked_add(1) == Some(value) => *last = value | free,
                    _ => self.found.push((value, value | free)),
                }
                if self.found.len() > MAX_RANGES {
                    return None;
                }
            }
        }
        Some(())
    }
}
