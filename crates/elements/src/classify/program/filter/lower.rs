//! The tests that implement a condition.

use super::super::expr::Expr;
use super::super::insn::Test;
use super::super::layout::{MAC, NETWORK, TRANSPORT};
use super::case::{Case, Family};
use super::primitive::{
    Comparison, Condition, DSCP, Ends, Extension, Field, Primitive, Protocol, TCP, TOS, TTL, UDP,
};

/// Where the header of an IP version has what both have: the words, and the positions in them.
struct Header {
    protocol_word: u16,
    protocol_shift: u32,
    fragment_word: u16,
    fragment_offset: u32,
    more_fragments: u32,
}

const HEADER4: Header = Header {
    protocol_word: NETWORK + 8,
    protocol_shift: 16,
    fragment_word: NETWORK + 4,
    fragment_offset: 0x1fff,
    more_fragments: 0x2000,
};

/// An IPv6 header as [`Header6`](super::header6::Header6) completes it.
const HEADER6: Header = Header {
    protocol_word: SUMMARY_WORD,
    protocol_shift: 24,
    fragment_word: SUMMARY_WORD,
    fragment_offset: 0xfff8,
    more_fragments: 1,
};

const SOURCE_WORD: u16 = NETWORK + 12;
const DESTINATION_WORD: u16 = NETWORK + 16;
/// The first of four words each.
const SOURCE6_WORD: u16 = NETWORK + 8;
const DESTINATION6_WORD: u16 = NETWORK + 24;
/// The word behind an IPv6 header that sums up its extension headers.
const SUMMARY_WORD: u16 = NETWORK + 40;
const PORTS_WORD: u16 = TRANSPORT;
const TCP_FLAGS_WORD: u16 = TRANSPORT + 12;

/// The tests of a condition on packets of a case.
pub(super) fn lower(primitive: &Primitive, case: Case) -> Expr<Test> {
    if let Some(holds) = case.decides(primitive) {
        return if holds { always() } else { never() };
    }
    let is_six = case.family == Some(Family::Six);
    let header = if is_six { &HEADER6 } else { &HEADER4 };
    let of_protocol = primitive.protocol.and_then(|protocol| header.has_protocol(protocol));
    let of_first_fragment =
        looks_behind_ip(&primitive.condition).then(|| header.is_first_fragment());
    let others = match primitive.condition {
        // Decided by the case.
        Condition::Constant(_) | Condition::State(_) => None,
        Condition::Address { ends, value, mask, negated } => {
            let at = |offset| Expr::Is(Test::new(offset, value, mask));
            Some(either_end(ends, || at(SOURCE_WORD), || at(DESTINATION_WORD), negated))
        }
        Condition::Address6 { ends, value, mask, negated } => {
            let at = |offset| address6(offset, value, mask);
            Some(either_end(ends, || at(SOURCE6_WORD), || at(DESTINATION6_WORD), negated))
        }
        Condition::Ether { ends, value, mask, negated } => Some(ether(ends, value, mask, negated)),
        Condition::Protocol(comparison) => comparison
            .map(|comparison| compare(header.protocol_word, header.protocol_shift, comparison)),
        Condition::Fragment { negated } => {
            let bits = header.more_fragments | header.fragment_offset;
            let whole = Expr::Is(Test::new(header.fragment_word, 0, bits));
            Some(if negated { whole } else { whole.negate_present() })
        }
        Condition::Extension(Extension { number, .. }) => {
            let bit = u32::from(Extension::bit(number)) << 16;
            Some(Expr::Is(Test::new(SUMMARY_WORD, bit, bit)))
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
        Condition::Field(field, comparison) => Some(match is_six {
            true => compare_field(in_six(field), comparison),
            false => compare_field(field, comparison),
        }),
    };
    Expr::All(of_protocol.into_iter().chain(of_first_fragment).chain(others).collect())
}

/// Where IPv6 headers have a field of the same meaning (RFC 8200, 3).
fn in_six(field: Field) -> Field {
    let bit = match field {
        TOS | DSCP => 4,
        TTL => 7 * 8,
        other => other.bit,
    };
    Field { bit, ..field }
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
    const FRAGMENT_WORD: u16 = HEADER4.fragment_word;
    const PROTOCOL_WORD: u16 = HEADER4.protocol_word;
    let common = match test.offset {
        FRAGMENT_WORD => HEADER4.more_fragments | HEADER4.fragment_offset,
        PROTOCOL_WORD => 0xff << HEADER4.protocol_shift,
        SOURCE_WORD | DESTINATION_WORD | PORTS_WORD => u32::MAX,
        _ => 0,
    };
    test.mask & !common == 0
}

/// A test that every packet passes.
pub(super) fn always() -> Expr<Test> {
    Expr::Is(Test::new(0, 0, 0))
}

/// A test that no packet passes.
fn never() -> Expr<Test> {
    always().negate()
}

impl Header {
    /// The packet has this protocol; `None` if any protocol will do.
    fn has_protocol(&self, protocol: Protocol) -> Option<Expr<Test>> {
        let is = |number: u8| {
            let shifted = |byte: u8| u32::from(byte) << self.protocol_shift;
            Expr::Is(Test::new(self.protocol_word, shifted(number), shifted(0xff)))
        };
        match protocol {
            Protocol::Number(number) => Some(is(number)),
            Protocol::TcpOrUdp => Some(Expr::Any(vec![is(TCP), is(UDP)])),
            Protocol::Any => None,
        }
    }

    /// The packet has a transport header: it is not a later fragment.
    fn is_first_fragment(&self) -> Expr<Test> {
        Expr::Is(Test::new(self.fragment_word, 0, self.fragment_offset))
    }
}

/// The four words of an address, as far as `mask` covers them.
fn address6(offset: u16, value: u128, mask: u128) -> Expr<Test> {
    let word = |number: u128, nth: u32| (number >> (96 - 32 * nth)) as u32;
    let places = (0..4).zip((offset..).step_by(4));
    let covered = places.filter(|&(nth, _)| word(mask, nth) != 0);
    let tests: Vec<_> = covered
        .map(|(nth, at)| Expr::Is(Test::new(at, word(value, nth), word(mask, nth))))
        .collect();
    if tests.is_empty() { always() } else { Expr::All(tests) }
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
    whole.unwrap_or_else(never)
}
