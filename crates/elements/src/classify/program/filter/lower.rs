//! The tests that implement a condition.

use super::super::expr::Expr;
use super::super::insn::Test;
use super::super::layout::{MAC, NETWORK, TRANSPORT};
use super::primitive::{Comparison, Condition, Ends, Field, Primitive, Protocol, TCP, UDP};

/// The word that contains the protocol, and the protocol's position in it.
const PROTOCOL_WORD: u16 = NETWORK + 8;
const PROTOCOL_SHIFT: u32 = 16;
/// The word that contains the fragment offset.
const FRAGMENT_WORD: u16 = NETWORK + 4;
const FRAGMENT_OFFSET: u32 = 0x1fff;
const MORE_FRAGMENTS: u32 = 0x2000;
const SOURCE_WORD: u16 = NETWORK + 12;
const DESTINATION_WORD: u16 = NETWORK + 16;
const PORTS_WORD: u16 = TRANSPORT;
const TCP_FLAGS_WORD: u16 = TRANSPORT + 12;

/// The tests of a condition.
pub(super) fn lower(primitive: &Primitive) -> Expr<Test> {
    let of_protocol = primitive.protocol.and_then(protocol);
    let of_first_fragment = looks_behind_ip(&primitive.condition).then(first_fragment);
    let others = match primitive.condition {
        Condition::Constant(true) => Some(always()),
        Condition::Constant(false) => Some(always().negate()),
        Condition::Address { ends, value, mask, negated } => {
            let at = |offset| Expr::Is(Test::new(offset, value, mask));
            Some(either_end(ends, || at(SOURCE_WORD), || at(DESTINATION_WORD), negated))
        }
        Condition::Ether { ends, value, mask, negated } => Some(ether(ends, value, mask, negated)),
        Condition::Protocol(comparison) => {
            comparison.map(|comparison| compare(PROTOCOL_WORD, PROTOCOL_SHIFT, comparison))
        }
        Condition::Fragment { negated } => {
            let whole = Expr::Is(Test::new(FRAGMENT_WORD, 0, MORE_FRAGMENTS | FRAGMENT_OFFSET));
            Some(if negated { whole } else { whole.negate_present() })
        }
        Condition::Port { ends, comparison } => {
            let of_either = Comparison { negated: false, ..comparison };
            let at = |shift| compare(PORTS_WORD, shift, of_either);
            Some(either_end(ends, || at(16), || at(0), comparison.negated))
        }
        Condition::TcpOption(flags) => {
            let flags = u32::from(flags) << 16;
            Some(Expr::Is(Test::new(TCP_FLAGS_WORD, flags, flags)))
        }
        Condition::Field(field, comparison) => Some(compare_field(field, comparison)),
    };
    Expr::All(of_protocol.into_iter().chain(of_first_fragment).chain(others).collect())
}

/// True for conditions on the transport header, which later fragments do not have.
fn looks_behind_ip(condition: &Condition) -> bool {
    match condition {
        Condition::Port { .. } | Condition::TcpOption(_) => true,
        Condition::Field(field, _) => field.protocol.is_some(),
        _ => false,
    }
}

/// True for tests of fields that the packets of a flow share.
pub(super) fn is_of_flow(test: &Test) -> bool {
    let common = match test.offset {
        FRAGMENT_WORD => MORE_FRAGMENTS | FRAGMENT_OFFSET,
        PROTOCOL_WORD => 0xff << PROTOCOL_SHIFT,
        SOURCE_WORD | DESTINATION_WORD | PORTS_WORD => u32::MAX,
        _ => 0,
    };
    test.mask & !common == 0
}

/// A test that every packet passes.
pub(super) fn always() -> Expr<Test> {
    Expr::Is(Test::new(0, 0, 0))
}

/// The packet has this protocol; `None` if any protocol will do.
fn protocol(protocol: Protocol) -> Option<Expr<Test>> {
    let is = |number: u8| {
        let shifted = |byte: u8| u32::from(byte) << PROTOCOL_SHIFT;
        Expr::Is(Test::new(PROTOCOL_WORD, shifted(number), shifted(0xff)))
    };
    match protocol {
        Protocol::Number(number) => Some(is(number)),
        Protocol::TcpOrUdp => Some(Expr::Any(vec![is(TCP), is(UDP)])),
        Protocol::Any => None,
    }
}

/// The packet has a transport header: it is not a later fragment.
fn first_fragment() -> Expr<Test> {
    Expr::Is(Test::new(FRAGMENT_WORD, 0, FRAGMENT_OFFSET))
}

fn either_end(
    ends: Ends,
    source: impl FnOnce() -> Expr<Test>,
    destination: impl FnOnce() -> Expr<Test>,
    negated: bool,
) -> Expr<Test> {
    let source = ends.has_source().then(source);
    let tests = source.into_iter().chain(ends.has_destination().then(destination)).collect();
    let found = if ends == Ends::Either { Expr::Any(tests) } else { Expr::All(tests) };
    if negated { found.negate_present() } else { found }
}

/// The MAC header begins two bytes into its section: the destination is in bytes 2 to 7, the source in bytes 8 to 13.
fn ether(ends: Ends, value: [u8; 6], mask: [u8; 6], negated: bool) -> Expr<Test> {
    let word = |[a, b, c, d]: [u8; 4]| u32::from_be_bytes([a, b, c, d]);
    let split = |offset, cut: fn([u8; 6]) -> [[u8; 4]; 2]| {
        let [values, masks] = [cut(value), cut(mask)];
        let test =
            |nth: usize, offset| Expr::Is(Test::new(offset, word(values[nth]), word(masks[nth])));
        Expr::All(vec![test(0, offset), test(1, offset + 4)])
    };
    either_end(
        ends,
        || split(MAC + 8, |[a, b, c, d, e, f]| [[a, b, c, d], [e, f, 0, 0]]),
        || split(MAC, |[a, b, c, d, e, f]| [[0, 0, a, b], [c, d, e, f]]),
        negated,
    )
}

fn compare_field(field: Field, comparison: Comparison) -> Expr<Test> {
    let header = if field.protocol.is_some() { TRANSPORT } else { NETWORK };
    // The parser has checked that the field lies in its section and in one word.
    let word = u16::try_from(field.bit / 32 * 4).unwrap_or(u16::MAX);
    let shift = 32_u32.saturating_sub(field.bit % 32 + field.bits);
    compare(header.saturating_add(word), shift, comparison)
}

/// Compares the bits of a word from `shift` on, counted from the lowest.
fn compare(offset: u16, shift: u32, comparison: Comparison) -> Expr<Test> {
    let Comparison { greater, mask, value, negated } = comparison;
    let test = |value: u32, mask: u32| Test::new(offset, value << shift, mask << shift);
    let found =
        if greater { compare_greater(value, mask, test) } else { Expr::Is(test(value, mask)) };
    if negated { found.negate_present() } else { found }
}

/// `word & mask > value`, expressed with equality tests. `value` must lie within `mask` and be less than it.
///
/// The upper bits of the word decide unless they equal those of the value. If the top bit of the value is 0, consider
/// its leading zeros: if any of these bits is set in the word, the word is greater; otherwise the rest decides. If it
/// is 1, consider its leading ones, as many as remain when the value is incremented (the word must be at least that):
/// unless all of these are set in the word, the word is not greater; otherwise the rest decides.
fn compare_greater(mut value: u32, mut mask: u32, test: impl Fn(u32, u32) -> Test) -> Expr<Test> {
    let mut parts = Vec::new();
    while value < mask {
        let ones = value > mask >> 1;
        let end = if ones { !(value + 1) & mask } else { value };
        let upper = match end.checked_ilog2() {
            Some(bit) => mask & u32::MAX.checked_shl(bit + 1).unwrap_or(0),
            None => mask,
        };
        parts.push((ones, upper));
        mask &= !upper;
        value &= mask;
    }
    let whole = parts.into_iter().rev().fold(None, |rest, (ones, upper)| {
        let part = Expr::Is(test(if ones { upper } else { 0 }, upper));
        let part = if ones { part } else { part.negate_present() };
        Some(match rest {
            None => part,
            Some(rest) if ones => Expr::All(vec![part, rest]),
            Some(rest) => Expr::Any(vec![part, rest]),
        })
    });
    whole.unwrap_or_else(|| always().negate())
}
