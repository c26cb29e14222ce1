//! One instruction of a decision program: a masked comparison of four bytes of the packet.

use std::fmt;

/// The destination of a branch of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Jump {
    /// Another instruction, by its position in the program. Programs are acyclic, and every jump leads forward: no jump
    /// leads to step 0.
    Step(u32),
    /// The packet leaves on this output.
    Output(u32),
    /// The packet is dropped.
    Drop,
    /// The expression fails; the destination is not decided yet.
    Failure,
    /// The expression holds; the destination is not decided yet.
    Success,
}

impl Jump {
    /// The instruction that this leads to, if any.
    pub(super) fn step(self) -> Option<usize> {
        match self {
            Jump::Step(step) => Some(step as usize),
            _ => None,
        }
    }

    /// A jump to the instruction at `position`.
    pub(super) fn to(position: usize) -> Jump {
        // Programs of 2^32 instructions do not fit in memory.
        Jump::Step(u32::try_from(position).unwrap_or(u32::MAX))
    }
}

impl fmt::Display for Jump {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Jump::Step(step) => write!(out, "step {step}"),
            Jump::Output(port) => write!(out, "[{port}]"),
            Jump::Drop => out.write_str("[X]"),
            Jump::Failure => out.write_str("[-]"),
            Jump::Success => out.write_str("[+]"),
        }
    }
}

/// A comparison: the four bytes from `offset` on, under `mask`, equal `value`.
///
/// Words are in network order: the most significant byte is the one at `offset`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Test {
    /// The offset of the first of the four bytes.
    pub offset: u16,
    /// The bits to compare.
    pub mask: u32,
    /// The required value of these bits; no bit outside `mask` is set.
    pub value: u32,
}

impl Test {
    /// A comparison; bits of `value` outside `mask` are ignored.
    pub fn new(offset: u16, value: u32, mask: u32) -> Self {
        Self { offset, mask, value: value & mask }
    }

    /// The length that a packet must have for every tested byte to be present; 0 if none is tested.
    pub fn required_length(&self) -> u32 {
        if self.mask == 0 {
            return 0;
        }
        u32::from(self.offset) + 4 - self.mask.trailing_zeros() / 8
    }

    /// True if a word passes the test.
    pub fn accepts(&self, word: u32) -> bool {
        word & self.mask == self.value
    }

    /// The result that `other` must have for a word for which this test has the result `yes`, if there is only one.
    fn decides(&self, yes: bool, other: &Test) -> Option<bool> {
        if other.mask == 0 {
            return Some(true);
        }
        if self.mask == 0 && !yes {
            // No packet comes this way, so any result will do. This is Click's.
            return Some(false);
        }
        if self.offset != other.offset {
            return None;
        }
        let common = self.mask & other.mask;
        let agree = self.value & common == other.value & common;
        if yes {
            // All bits that the other tests are known.
            (common == other.mask).then_some(agree)
        } else if common == self.mask && agree {
            // The other requires at least what this test has found not to hold.
            Some(false)
        } else {
            // A single bit that does not have one value has the other.
            (self.is_single_bit() && self.mask == other.mask).then_some(true)
        }
    }

    /// True when a word could satisfy both tests.
    fn is_compatible(&self, other: &Test) -> bool {
        let common = self.mask & other.mask;
        self.mask == 0
            || other.mask == 0
            || self.offset == other.offset && self.value & common == other.value & common
    }

    fn is_single_bit(&self) -> bool {
        self.mask.is_power_of_two()
    }
}

/// How strictly the optimiser treats packets that end within or before a word it tests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Form {
    /// As Click does. Its rules preserve the classification of every packet that has all the bytes that the program
    /// tests, and produce Click's `program` text. The classification of a packet that ends in the middle of a word can
    /// change: Click merges `port >= 1024` for both ports into one test of four bytes, which a packet with only the
    /// source port cannot pass.
    Click,
    /// Preserves the classification of every packet, however short.
    Exact,
}

/// An instruction: a test and its two branches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Insn {
    /// What is tested.
    pub test: Test,
    /// The branch for packets that are too short for the test: true is `yes`.
    pub short: bool,
    /// The branches: `[no, yes]`.
    pub jump: [Jump; 2],
}

impl Insn {
    /// A test that leads to success or failure; a packet too short for it fails.
    pub fn new(test: Test) -> Self {
        Self { test, short: false, jump: [Jump::Failure, Jump::Success] }
    }

    /// The branch for packets that pass the test.
    pub fn yes(&self) -> Jump {
        self.jump[1]
    }

    /// The branch for packets that do not.
    pub fn no(&self) -> Jump {
        self.jump[0]
    }

    /// The branch for packets that passed the test (`true`) or did not.
    pub fn branch(&self, yes: bool) -> Jump {
        self.jump[usize::from(yes)]
    }

    /// The result of `next` for every packet for which this instruction had the result `yes`, if there is only one.
    /// `known` is a minimum length of all packets that reach this instruction.
    pub(super) fn decides(&self, yes: bool, next: &Insn, known: u32, form: Form) -> Option<bool> {
        let answer = self.test.decides(yes, &next.test)?;
        if next.test.mask == 0 || self.test.mask == 0 {
            return Some(answer);
        }
        let needs = self.test.required_length();
        let next_needs = next.test.required_length();
        let next_short = next.short == answer;
        // Packets too short for this test came the same way: they must be too short for the next one too, and take its
        // short branch to the same result.
        let short_agrees = self.short != yes || needs <= known || needs <= next_needs && next_short;
        // Packets long enough for this test can be too short for the next.
        let long_agrees = form == Form::Click || next_needs <= known.max(needs) || next_short;
        (short_agrees && long_agrees).then_some(answer)
    }

    /// True when a word could satisfy the tests of both.
    pub(super) fn is_compatible(&self, other: &Insn) -> bool {
        self.test.is_compatible(&other.test)
    }

    /// The branch for short packets when this test and `next`, to which its `yes` leads, become one; `None` if they
    /// must not be joined because the classification of short packets would change.
    pub(super) fn joint_short(&self, next: &Insn, form: Form) -> Option<bool> {
        let (needs, next_needs) = (self.test.required_length(), next.test.required_length());
        match form {
            Form::Click => {
                let agrees = self.short == next.short || next_needs >= needs || next.test.mask == 0;
                agrees.then_some(self.short)
            }
            Form::Exact => {
                let agrees = match needs.cmp(&next_needs) {
                    std::cmp::Ordering::Less => !next.short,
                    std::cmp::Ordering::Equal => true,
                    std::cmp::Ordering::Greater => !self.short,
                };
                agrees.then_some(self.short && next.short)
            }
        }
    }

    /// The one bit in which this test and `next`, to which its `no` leads, differ, if both lead to the same place and
    /// can be joined into one test without that bit. Zero if they are equal.
    pub(super) fn generalizes_with(&self, next: &Insn) -> Option<u32> {
        let bit = self.test.value ^ next.test.value;
        // Click does not do this for the word at offset 0; to produce the same text, neither does this.
        let alike = self.test.offset != 0
            && next.test.offset == self.test.offset
            && self.test.mask != 0
            && next.test.mask == self.test.mask
            && (self.short || !next.short)
            && self.yes() == next.yes()
            && (bit == 0 || bit.is_power_of_two());
        if !alike {
            return None;
        }
        let wider = Test::new(self.test.offset, self.test.value & !bit, self.test.mask & !bit);
        (wider.required_length() == self.test.required_length()).then_some(bit)
    }

    /// True if the test is of one bit, so `yes` and `no` can be swapped.
    pub(super) fn is_flippable(&self) -> bool {
        self.test.is_single_bit()
    }

    /// Tests for the other value of the one bit, and swaps `yes` and `no`.
    pub(super) fn flip(&mut self) {
        self.test.value ^= self.test.mask;
        self.jump.swap(0, 1);
        self.short = !self.short;
    }
}

/// Click's text: `12/08000000%ffff0000  yes->step 1  no->[X]`.
impl fmt::Display for Insn {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Test { offset, mask, value } = self.test;
        write!(out, "{offset:>3}/{value:08x}%{mask:08x}  yes->{}  no->{}", self.yes(), self.no())?;
        if self.short { out.write_str("  short->yes") } else { Ok(()) }
    }
}
