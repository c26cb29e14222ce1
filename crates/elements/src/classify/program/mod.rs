//! The compiler of Classifier, IPClassifier and IPFilter.
//!
//! Patterns become a *decision program*: a list of instructions, each of which compares four bytes of the packet, under
//! a mask, with a value, and continues with another instruction or sends the packet to an output. The program is then
//! optimised with Click's rules, in Click's order, so that the `program` handlers show the same text as Click's.
//!
//! ```text
//!  0  12/08060000%ffff0000  yes->step 1  no->step 2
//!  1  20/00010000%ffff0000  yes->[0]  no->[X]
//!  2  12/08000000%ffff0000  yes->[1]  no->[X]
//! ```
//!
//! [`PatternProgram`] compiles the patterns of Classifier, [`FilterProgram`] those of IPFilter and IPClassifier. Both
//! depend on nothing but bytes.
//!
//! # Short packets
//! A test of bytes that a packet does not have does not hold, and `not` of it does. Click's rules preserve that only if
//! whole words are missing: for a packet that ends within a word they can change the classification (see [`Form`]). So
//! a program is optimised twice, by Click's rules and by exact rules. Packets with all the bytes that the patterns
//! mention run the first, for which the two agree; others run the second.
//!
//! # Layers, from the packet up
//! - `insn`: one instruction; what the result of one test implies for another.
//! - `expr`: conditions combined by and, or, not and `? :`, and their instructions.
//! - `decision`: programs and their optimisation; `dominators` is the most complex part.
//! - `grouped`: tests of one word against many values as one step.
//! - `matcher`: the forms that run; `careful` is the one for short packets, `lanes` the one for many packets at once.
//! - `index`: replaces a program that is not small.
//! - `pattern`, `filter`: the two languages.

mod careful;
mod decision;
mod dominators;
mod expr;
mod filter;
mod finding;
mod grouped;
mod index;
mod insn;
mod lanes;
mod layout;
mod live;
mod matcher;
mod next;
mod pattern;
mod place;

pub use decision::Program;
pub use expr::Expr;
pub use filter::{Engine, FilterProgram, IpSections, State};
pub use finding::Finding;
pub use grouped::{Group, Grouped};
pub use insn::{Form, Insn, Jump, Test};
pub use layout::{Layout, MAC, NETWORK, TRANSPORT};
pub use matcher::Matcher;
pub use next::{DROP, Otherwise};
pub use pattern::PatternProgram;

#[cfg(test)]
mod tests;
