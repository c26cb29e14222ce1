//! From bytes to configurations and packets. Each choice takes a byte or two of the input, so that a small change of
//! the input is a small change of what is drawn; when the input ends, each further choice is the first one.

mod arguments;
mod classes;
mod graph;
mod packets;

pub(crate) use arguments::{Care, arguments, hostile_text};
pub(crate) use classes::{Known, known};
pub(crate) use graph::draw;
pub(crate) use packets::burst;

use arbitrary::Unstructured;

/// A number below `below`, or 0 when there is none.
pub(crate) fn below(input: &mut Unstructured<'_>, below: usize) -> usize {
    input.int_in_range(0..=below.saturating_sub(1)).unwrap_or(0)
}

/// One of some things.
pub(crate) fn one_of<'a, T>(input: &mut Unstructured<'_>, things: &'a [T]) -> Option<&'a T> {
    things.get(below(input, things.len()))
}

/// True once in `times`, and never when the input is at its end.
pub(crate) fn rarely(input: &mut Unstructured<'_>, times: usize) -> bool {
    below(input, times) == times - 1
}
