//! The patterns of Classifier: `12/0806 20/0001`, `!14/45%f0`, `23/??`, `-`.

use std::fmt;
use std::ops::Range;

use super::decision::Program;
use super::expr::Expr;
use super::finding::Finding;
use super::insn::{Form, Jump, Test};
use super::layout::Layout;
use super::matcher::{Matcher, Single};
use super::next::Otherwise;

/// A compiled list of patterns: packets leave by the output of the first pattern that matches.
///
/// Displayed, it is the text of Classifier's `program` handler.
#[derive(Clone, Debug)]
pub struct PatternProgram {
    program: Program,
    matcher: Matcher<1>,
    /// The program again, if it is one test.
    single: Option<Single>,
}

impl PatternProgram {
    /// Compiles one pattern for each output. `align_offset` (0 to 3) must be added to offsets in a packet so that
    /// multiples of four are addresses that are multiples of four.
    ///
    /// # Errors
    /// All errors in the patterns, at most one finding for each.
    pub fn compile<S: AsRef<str>>(patterns: &[S], align_offset: u16) -> Result<Self, Vec<Finding>> {
        let mut rules = Vec::with_capacity(patterns.len());
        let mut findings = Vec::new();
        for (output, pattern) in (0..).zip(patterns) {
            match parse_pattern(pattern.as_ref(), align_offset) {
                Ok(clauses) => {
                    rules.push((pattern_expr(&clauses, align_offset), Jump::Output(output)));
                }
                Err((range, message)) => {
                    findings.push(Finding::error(output as usize, range, message));
                }
            }
        }
        if findings.is_empty() { Ok(Self::from_rules(&rules, align_offset)) } else { Err(findings) }
    }

    fn from_rules(rules: &[(Expr<Test>, Jump)], align_offset: u16) -> Self {
        let original = Program::from_rules(rules, Layout::Flat, align_offset);
        let [mut program, mut exact] = [original.clone(), original.clone()];
        program.optimize(Form::Click);
        exact.optimize(Form::Exact);
        let matcher = Matcher::for_programs(&program, &exact, original.insns());
        let single = matcher.single();
        Self { program, matcher, single }
    }

    /// The output for a packet, or [`DROP`](super::DROP) if no pattern matches.
    ///
    /// Bytes that a packet does not have match no pattern, and so satisfy its negation.
    #[inline]
    pub fn classify(&self, data: &[u8]) -> usize {
        self.matcher.classify([data])
    }

    /// The same in fewer instructions and 16 bits, with `u16::MAX` for no pattern, for packets that have all tested
    /// bytes; else `None`.
    #[inline(always)]
    pub fn classify_at_once(&self, data: &[u8]) -> Option<u16> {
        match &self.single {
            Some(single) => single.classify(data),
            None => self.matcher.classify_at_once(data),
        }
    }

    /// Writes the port of each packet to `ports`, `dropped` for those that match no pattern; `data` returns a packet's
    /// bytes.
    #[inline(always)]
    pub fn classify_all<'a, P>(
        &self,
        packets: &'a [P],
        data: impl Fn(&'a P) -> &'a [u8],
        dropped: u16,
        ports: &mut [u16],
    ) {
        let otherwise = Otherwise { dropped, no_sections: dropped };
        self.matcher.classify_all(
            packets,
            #[inline(always)]
            |packet| Some([data(packet)]),
            otherwise,
            ports,
        );
    }

    /// True if some packet can leave on this output.
    pub fn reaches(&self, output: usize) -> bool {
        u32::try_from(output).is_ok_and(|output| self.program.reaches(output))
    }

    /// The program in Click's form.
    pub fn program(&self) -> &Program {
        &self.program
    }
}

impl fmt::Display for PatternProgram {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.program.fmt(out)
    }
}

/// A comparison of bytes of the packet: `12/0800`.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Clause {
    negated: bool,
    offset: u16,
    bytes: Vec<MaskedByte>,
}

/// A byte and the bits of it to compare.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct MaskedByte {
    value: u8,
    mask: u8,
}

type Complaint = (Range<usize>, String);

/// The expression of a pattern. Each clause becomes one test for each aligned word that it touches.
fn pattern_expr(clauses: &[Clause], align_offset: u16) -> Expr<Test> {
    if clauses.is_empty() {
        return Expr::Is(Test::new(0, 0, 0));
    }
    Expr::All(clauses.iter().map(|clause| clause.expr(align_offset)).collect())
}

impl Clause {
    fn expr(&self, align_offset: u16) -> Expr<Test> {
        let start = usize::from(self.offset) + usize::from(align_offset);
        let mut tests: Vec<Expr<Test>> = Vec::new();
        let mut nth = 0;
        while nth < self.bytes.len() {
            let at = start + nth;
            let in_word = at % 4;
            let count = (4 - in_word).min(self.bytes.len() - nth);
            let (mut value, mut mask) = ([0; 4], [0; 4]);
            for (place, byte) in (in_word..4).zip(self.bytes.iter().skip(nth)) {
                value[place] = byte.value;
                mask[place] = byte.mask;
            }
            // In range: the parser has checked that the last byte is.
            let offset = u16::try_from(at - in_word).unwrap_or(u16::MAX);
            let test = Test::new(offset, u32::from_be_bytes(value), u32::from_be_bytes(mask));
            tests.push(Expr::Is(test));
            nth += count;
        }
        let all = Expr::All(tests);
        if self.negated { all.negate() } else { all }
    }
}

/// Parses the clauses of a pattern; none if it matches everything.
fn parse_pattern(pattern: &str, align_offset: u16) -> Result<Vec<Clause>, Complaint> {
    if pattern == "-" {
        return Ok(Vec::new());
    }
    let mut text = Cursor { text: pattern.as_bytes(), at: 0 };
    let mut clauses = Vec::new();
    loop {
        text.skip(|byte| byte.is_ascii_whitespace());
        if text.peek().is_none() {
            return Ok(clauses);
        }
        clauses.push(parse_clause(&mut text, align_offset)?);
    }
}

fn parse_clause(text: &mut Cursor<'_>, align_offset: u16) -> Result<Clause, Complaint> {
    let negated = text.accept(b'!');
    if negated {
        text.skip(|byte| byte.is_ascii_whitespace());
    }
    let start = text.at;
    let digits = text.skip(|byte| byte.is_ascii_digit());
    if digits.is_empty() {
        return Err((text.here(), "expected a digit".to_owned()));
    }
    let offset = text.number(&digits);
    if !text.accept(b'/') {
        return Err((text.here(), "expected ‘/’".to_owned()));
    }
    let value = text.skip(is_hex_digit);
    let mask = text.accept(b'%').then(|| text.skip(is_hex_digit));
    check_digits(&value, mask.as_ref(), start)?;

    let bytes = text.bytes(&value, mask.as_ref());
    let in_range = |&offset: &u16| {
        usize::from(offset) + usize::from(align_offset) + bytes.len() <= usize::from(u16::MAX) + 1
    };
    match offset.filter(in_range) {
        Some(offset) => Ok(Clause { negated, offset, bytes }),
        None => Err((digits, "offset out of range, packets have at most 65535 bytes".to_owned())),
    }
}

fn check_digits(
    value: &Range<usize>,
    mask: Option<&Range<usize>>,
    clause: usize,
) -> Result<(), Complaint> {
    if value.len() < 2 {
        return Err((clause..value.end, "value has less than 2 hex digits".to_owned()));
    }
    if !value.len().is_multiple_of(2) {
        return Err((value.clone(), "value has odd number of hex digits".to_owned()));
    }
    match mask {
        Some(mask) if mask.len() > value.len() => {
            Err((mask.clone(), "mask has too many hex digits".to_owned()))
        }
        Some(mask) if mask.len() < value.len() => {
            Err((mask.clone(), "mask has too few hex digits".to_owned()))
        }
        _ => Ok(()),
    }
}

fn is_hex_digit(byte: u8) -> bool {
    byte.is_ascii_hexdigit() || byte == b'?'
}

/// A position in a pattern.
struct Cursor<'a> {
    text: &'a [u8],
    at: usize,
}

impl Cursor<'_> {
    fn peek(&self) -> Option<u8> {
        self.text.get(self.at).copied()
    }

    fn accept(&mut self, byte: u8) -> bool {
        let here = self.peek() == Some(byte);
        self.at += usize::from(here);
        here
    }

    /// Skips bytes of one kind and returns their range.
    fn skip(&mut self, kind: impl Fn(u8) -> bool) -> Range<usize> {
        let start = self.at;
        while self.peek().is_some_and(&kind) {
            self.at += 1;
        }
        start..self.at
    }

    /// The current character; empty at the end.
    fn here(&self) -> Range<usize> {
        // The continuation bytes of a character begin with the bits 10.
        let rest = self.text.get(self.at..).unwrap_or_default();
        let length = match rest {
            [] => 0,
            [_, more @ ..] => 1 + more.iter().take_while(|&&byte| byte & 0xc0 == 0x80).count(),
        };
        self.at..self.at + length
    }

    fn number(&self, digits: &Range<usize>) -> Option<u16> {
        self.text.get(digits.clone())?.iter().try_fold(0_u16, |number, digit| {
            number.checked_mul(10)?.checked_add(u16::from(digit - b'0'))
        })
    }

    /// The bytes for the digits of value and mask.
    fn bytes(&self, value: &Range<usize>, mask: Option<&Range<usize>>) -> Vec<MaskedByte> {
        let masked = |range: &Range<usize>| -> Vec<MaskedByte> {
            let digits = self.text.get(range.clone()).unwrap_or_default();
            digits.chunks_exact(2).map(masked_byte).collect()
        };
        let mut bytes = masked(value);
        if let Some(mask) = mask {
            for (byte, mask) in bytes.iter_mut().zip(masked(mask)) {
                byte.mask &= mask.value & mask.mask;
            }
        }
        bytes
    }
}

/// The byte for two digits; the bits of a `?` are not compared.
fn masked_byte(digits: &[u8]) -> MaskedByte {
    digits.iter().fold(MaskedByte { value: 0, mask: 0 }, |byte, &digit| {
        let (value, mask) = match char::from(digit).to_digit(16) {
            Some(value) => (value as u8, 0xf),
            None => (0, 0),
        };
        MaskedByte { value: byte.value << 4 | value, mask: byte.mask << 4 | mask }
    })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::super::DROP;
    use super::*;

    fn classify(patterns: &[&str], packet: &[u8]) -> usize {
        PatternProgram::compile(patterns, 0).unwrap().classify(packet)
    }

    #[test]
    fn patterns_match_bytes() {
        let packet = [0x08, 0x06, 0xab, 0x40, 0x00, 0xff];
        for (pattern, matches) in [
            ("-", true),
            ("", true),
            ("0/08", true),
            ("0/0806", true),
            ("1/06aB40 5/FF", true),
            ("0/08 1/07", false),
            ("2/a?", true),
            ("2/?b4?", true),
            ("2/????", true),
            ("2/?c", false),
            ("3/ff%40", true),
            ("3/ff%c0", false),
            ("3/7f%40", true),
            ("2/af%f?", true),
            ("!0/09", true),
            ("! 0/0806", false),
            ("!0/0807 !1/07", true),
            ("5/ff00", false),
            ("!5/ff00", true),
            ("5/ff??", true),
            ("6/00", false),
            ("!6/00", true),
            ("!6/??", false),
            ("65534/0000", false),
            ("0/08!1/07", true),
        ] {
            assert_eq!(classify(&[pattern], &packet) == 0, matches, "{pattern}");
        }
    }

    #[test]
    fn the_first_pattern_counts() {
        let patterns = ["0/01 1/02", "0/01", "!1/02", "-"];
        for (packet, output) in
            [(&[1, 2][..], 0), (&[1, 3], 1), (&[1], 1), (&[2, 3], 2), (&[2, 2], 3), (&[], 2)]
        {
            assert_eq!(classify(&patterns, packet), output, "{packet:?}");
        }
        assert_eq!(classify(&patterns[..2], &[2, 2]), DROP);
        assert_eq!(classify(&[], &[2, 2]), DROP);
    }

    #[test]
    fn program_text_is_that_of_click() {
        let ethernet = ["12/0806 20/0001", "12/0806 20/0002", "12/0800", "-"];
        for (patterns, align_offset, text) in [
            (
                &ethernet[..],
                0,
                " 0  12/08060000%ffff0000  yes->step 1  no->step 3
 1  20/00010000%ffff0000  yes->[0]  no->step 2
 2  20/00020000%ffff0000  yes->[1]  no->[3]
 3  12/08000000%ffff0000  yes->[2]  no->[3]
safe length 22
alignment offset 0
",
            ),
            (
                &ethernet[..],
                2,
                " 0  10/00000806%0000ffff  yes->step 1  no->step 3
 1  18/00000001%0000ffff  yes->[0]  no->step 2
 2  18/00000002%0000ffff  yes->[1]  no->[3]
 3  10/00000800%0000ffff  yes->[2]  no->[3]
safe length 22
alignment offset 2
",
            ),
            (
                &["0/01", "2/0203"],
                1,
                " 0 65535/00010000%00ff0000  yes->[0]  no->step 1
 1 65535/00000002%000000ff  yes->step 2  no->[X]
 2   3/03000000%ff000000  yes->[1]  no->[X]
safe length 4
alignment offset 1
",
            ),
            (&["-", "0/01"], 0, "all->[0]\nsafe length 0\nalignment offset 0\n"),
        ] {
            let program = PatternProgram::compile(patterns, align_offset).unwrap();
            assert_eq!(program.to_string(), text);
        }
    }

    #[test]
    fn errors_have_a_message_and_a_position() {
        for (pattern, place, message) in [
            ("x", 0..1, "expected a digit"),
            ("0/00 é", 5..7, "expected a digit"),
            ("12/0800 - ", 8..9, "expected a digit"),
            ("!", 1..1, "expected a digit"),
            ("12", 2..2, "expected ‘/’"),
            ("12%ff", 2..3, "expected ‘/’"),
            ("12/", 0..3, "value has less than 2 hex digits"),
            ("1/00 12/8", 5..9, "value has less than 2 hex digits"),
            ("12/080", 3..6, "value has odd number of hex digits"),
            ("12/0800%ff", 8..10, "mask has too few hex digits"),
            ("12/08%fff", 6..9, "mask has too many hex digits"),
            ("65536/00", 0..5, "offset out of range, packets have at most 65535 bytes"),
            ("65535/0000", 0..5, "offset out of range, packets have at most 65535 bytes"),
            (
                "99999999999999999999/00",
                0..20,
                "offset out of range, packets have at most 65535 bytes",
            ),
        ] {
            let findings = PatternProgram::compile(&["-", pattern], 0).unwrap_err();
            assert_eq!(findings, [Finding::error(1, place, message)], "{pattern}");
        }
        let findings = PatternProgram::compile(&["a", "-", "b"], 0).unwrap_err();
        assert_eq!(findings.len(), 2);
        assert_eq!(findings[1].to_string(), "pattern 2: expected a digit");
    }

    fn clause() -> impl Strategy<Value = Clause> {
        let byte = prop_oneof![
            (0..3_u8, Just(0xff)),
            (any::<u8>(), prop::sample::select(vec![0xff_u8, 0xf0, 0x0f, 0x80, 0x01, 0]))
        ];
        let byte = byte.prop_map(|(value, mask)| MaskedByte { value: value & mask, mask });
        let bytes = prop::collection::vec(byte, 1..6);
        (any::<bool>(), 0..12_u16, bytes).prop_map(|(negated, offset, bytes)| Clause {
            negated,
            offset,
            bytes,
        })
    }

    /// In the form that a user would write.
    fn written(clause: &Clause) -> String {
        let digits = |of: fn(&MaskedByte) -> u8| -> String {
            clause.bytes.iter().map(|byte| format!("{:02x}", of(byte))).collect()
        };
        let negation = if clause.negated { "!" } else { "" };
        let (value, mask) = (digits(|byte| byte.value), digits(|byte| byte.mask));
        format!("{negation}{}/{value}%{mask}", clause.offset)
    }

    fn matches(clause: &Clause, packet: &[u8]) -> bool {
        let found = (usize::from(clause.offset)..).zip(&clause.bytes).all(|(at, byte)| {
            byte.mask == 0 || packet.get(at).is_some_and(|it| it & byte.mask == byte.value)
        });
        found != clause.negated
    }

    proptest! {
        #[test]
        fn programs_classify_as_their_patterns(
            patterns in prop::collection::vec(prop::collection::vec(clause(), 0..4), 1..5),
            packets in prop::collection::vec(prop::collection::vec(0..4_u8, 0..20), 30),
            align_offset in 0..4_u16,
        ) {
            let text = |clauses: &Vec<Clause>| {
                clauses.iter().map(written).collect::<Vec<_>>().join(" ")
            };
            let texts: Vec<String> = patterns.iter().map(text).collect();
            let program = PatternProgram::compile(&texts, align_offset).unwrap();
            for packet in &packets {
                let fits = |clauses: &Vec<Clause>| clauses.iter().all(|it| matches(it, packet));
                let wanted = patterns.iter().position(fits).unwrap_or(DROP);
                prop_assert_eq!(program.classify(packet), wanted, "{:?}:\n{}", texts, program);
            }
        }

        #[test]
        fn no_pattern_and_no_packet_panics(
            patterns in prop::collection::vec("[0-9/!%? a-g-]{0,12}|.{0,6}", 0..4),
            packet in prop::collection::vec(any::<u8>(), 0..40),
        ) {
            if let Ok(program) = PatternProgram::compile(&patterns, 0) {
                let output = program.classify(&packet);
                prop_assert!(output == DROP || output < patterns.len());
            }
        }
    }
}
