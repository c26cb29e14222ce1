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

/// The maximum number of ranges of a set.
const MAX_RANGES: usize = 128;

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

/// What is known about a packet: bits of the field, or that it lacks the field.
#[derive(Clone, Copy)]
enum Known {
    Bits {
        value: u32,
        mask: u32,
    },
    /// With the result of a test of missing bytes.
    Missing {
        short: bool,
    },
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
        let mut ranges = Vec::new();
        self.gather(field.bits(), negated, (0, 0), &mut ranges)?;
        let missing = self.holds(Known::Missing { short }).map(|holds| holds != negated);
        Some((ValueSet { ranges, missing: missing.unwrap_or(true) }, missing))
    }

    /// Appends the ranges of the values that begin with the `fixed` upper bits of `value`.
    fn gather(
        &self,
        bits: u32,
        negated: bool,
        (value, fixed): (u32, u32),
        ranges: &mut Vec<(u32, u32)>,
    ) -> Option<()> {
        let free = u32::MAX.checked_shr(32 - bits + fixed).unwrap_or(0);
        let mask = u32::MAX >> (32 - bits) & !free;
        match self.holds(Known::Bits { value, mask }) {
            Some(holds) if holds == negated => {}
            None if free != 0 => {
                let next = free ^ free >> 1;
                self.gather(bits, negated, (value, fixed + 1), ranges)?;
                self.gather(bits, negated, (value | next, fixed + 1), ranges)?;
            }
            // All bits together always decide.
            _ => {
                match ranges.last_mut() {
                    Some((_, last)) if last.checked_add(1) == Some(value) => *last = value | free,
                    _ => ranges.push((value, value | free)),
                }
                if ranges.len() > MAX_RANGES {
                    return None;
                }
            }
        }
        Some(())
    }

    /// Whether the expression holds, if what is known decides it.
    fn holds(&self, known: Known) -> Option<bool> {
        match self {
            Self::Is { value, mask, is_of_part } => match known {
                Known::Missing { short } => (!is_of_part).then_some(short),
                Known::Bits { value: bits, mask: fixed } => {
                    if (value ^ bits) & mask & fixed != 0 {
                        Some(false)
                    } else {
                        (mask & !fixed == 0).then_some(true)
                    }
                }
            },
            Self::All(list) => all(list, known),
            Self::Any(list) => any(list, known),
            Self::Choose(list) => choose(list, known),
            Self::Not { of, turns_short } => {
                let known = match known {
                    Known::Missing { short } => Known::Missing { short: short != *turns_short },
                    bits @ Known::Bits { .. } => bits,
                };
                of.holds(known).map(|holds| !holds)
            }
        }
    }
}

fn all(list: &[Single], known: Known) -> Option<bool> {
    let mut whole = Some(true);
    for one in list {
        match one.holds(known) {
            Some(true) => {}
            Some(false) => return Some(false),
            None => whole = None,
        }
    }
    whole
}

fn any(list: &[Single], known: Known) -> Option<bool> {
    let mut whole = Some(false);
    for one in list {
        match one.holds(known) {
            Some(false) => {}
            Some(true) => return Some(true),
            None => whole = None,
        }
    }
    whole
}

fn choose(list: &[Single], known: Known) -> Option<bool> {
    match list {
        [] => Some(false),
        [last] => last.holds(known),
        [condition, then, rest @ ..] => match condition.holds(known) {
            Some(true) => then.holds(known),
            Some(false) => choose(rest, known),
            None => {
                let answer = then.holds(known)?;
                (choose(rest, known)? == answer).then_some(answer)
            }
        },
    }
}
