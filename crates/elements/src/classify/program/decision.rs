//! Decision programs: tests of a packet, in order, and the steps that follow each result.

use std::fmt;

use super::dominators;
use super::expr::Expr;
use super::insn::{Form, Insn, Jump, Test};
use super::layout::Layout;

/// The number that Click prints for "no output" when all packets are dropped.
const DROP_NUMBER: u32 = i32::MAX as u32;

/// A decision program.
///
/// It starts at the first instruction and follows jumps until one leads to an output. Displayed,
/// it is the text of Click's `program` handler.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Program {
    insns: Vec<Insn>,
    /// The destination of all packets when there are no instructions.
    constant: Jump,
    layout: Layout,
    align_offset: u16,
}

impl Program {
    /// A program that drops everything. `align_offset` has been added to the offsets of the instructions so that words
    /// fall on word boundaries in memory.
    pub fn new(layout: Layout, align_offset: u16) -> Self {
        Self { insns: Vec::new(), constant: Jump::Drop, layout, align_offset }
    }

    /// The program that sends a packet to the output of the first rule whose expression holds, and
    /// drops it if there is none.
    pub fn from_rules(rules: &[(Expr<Test>, Jump)], layout: Layout, align_offset: u16) -> Self {
        let mut program = Self::new(layout, align_offset);
        for (nth, (expr, output)) in rules.iter().enumerate() {
            let start = program.insns.len();
            expr.emit(&mut program.insns);
            let next = program.insns.len();
            let failure = if nth + 1 < rules.len() { Jump::to(next) } else { Jump::Drop };
            for insn in program.insns.iter_mut().skip(start) {
                insn.redirect(*output, failure);
            }
        }
        program
    }

    /// The program of one rule; if its expression does not hold, the program fails.
    pub(super) fn from_rule(expr: &Expr<Test>, output: Jump, layout: Layout) -> Self {
        let mut program = Self::new(layout, 0);
        expr.emit(&mut program.insns);
        for insn in &mut program.insns {
            insn.redirect(output, Jump::Failure);
        }
        program
    }

    /// Appends a program that is run if this one fails.
    pub(super) fn or_else(&mut self, next: &Program) {
        if self.insns.is_empty() {
            if self.constant == Jump::Failure {
                *self = next.clone();
            }
            return;
        }
        let start = self.insns.len();
        let failure = if next.insns.is_empty() { next.constant } else { Jump::to(start) };
        self.settle_failure(failure);
        self.insns.extend(next.insns.iter().map(|insn| {
            let jump = insn.jump.map(|jump| match jump.step() {
                Some(step) => Jump::to(start + step),
                None => jump,
            });
            Insn { jump, ..*insn }
        }));
    }

    /// Sets the destination of packets for which the program fails.
    pub(super) fn settle_failure(&mut self, failure: Jump) {
        if self.insns.is_empty() && self.constant == Jump::Failure {
            self.constant = failure;
        }
        for insn in &mut self.insns {
            insn.redirect(Jump::Success, failure);
        }
    }

    /// The instructions; none when all packets have the same destination.
    pub fn insns(&self) -> &[Insn] {
        &self.insns
    }

    /// The destination of all packets, when there are no instructions.
    pub fn constant(&self) -> Option<Jump> {
        self.insns.is_empty().then_some(self.constant)
    }

    /// The meaning of offsets.
    pub fn layout(&self) -> Layout {
        self.layout
    }

    /// The number that has been added to offsets.
    pub fn align_offset(&self) -> u16 {
        self.align_offset
    }

    /// The length at which packets have every byte that the program tests.
    pub fn safe_length(&self) -> u32 {
        let longest = self.insns.iter().map(|insn| insn.test.required_length()).max().unwrap_or(0);
        // Without instructions but with an offset, Click prints this value.
        longest.wrapping_sub(u32::from(self.align_offset))
    }

    /// True if some packet can leave on this output.
    pub fn reaches(&self, output: u32) -> bool {
        let wanted = Jump::Output(output);
        match self.constant() {
            Some(all) => all == wanted,
            None => self.insns.iter().any(|insn| insn.jump.contains(&wanted)),
        }
    }

    /// Makes the program shorter, as Click does.
    pub fn optimize(&mut self, form: Form) {
        if self.insns.is_empty() {
            return;
        }
        self.sort_conjunctions();
        dominators::skip_decided(&mut self.insns, self.layout, form);
        self.join_tests(form);
        self.remove_unused();
    }

    /// Sorts consecutive tests that share their other way out, by offset: dominators then find equal tests in the same
    /// order.
    pub(super) fn sort_conjunctions(&mut self) {
        // For an instruction with only one predecessor: that predecessor. Click cannot represent "from the first one"
        // here, so the first instruction keeps its place.
        let mut only_from = vec![None; self.insns.len()];
        let mut seen = vec![false; self.insns.len()];
        for (from, insn) in self.insns.iter().enumerate() {
            for to in insn.jump.iter().filter_map(|jump| jump.step()) {
                only_from[to] = (!seen[to] && from > 0).then_some(from);
                seen[to] = true;
            }
        }
        let mut at = 0;
        while at < self.insns.len() {
            match (0..2).find(|&way| self.is_unsorted(at, way, &only_from)) {
                Some(way) => {
                    self.exchange_with_next(at, way);
                    at = only_from[at].unwrap_or(at);
                }
                None => at += 1,
            }
        }
    }

    /// True if the instruction reached by `way` should precede this one, and can.
    fn is_unsorted(&self, at: usize, way: usize, only_from: &[Option<usize>]) -> bool {
        let here = &self.insns[at];
        let Some(to) = here.jump[way].step() else { return false };
        let next = &self.insns[to];
        only_from[to].is_some()
            && here.jump[1 - way] == next.jump[1 - way]
            && self.sort_key(here) > self.sort_key(next)
    }

    fn sort_key(&self, insn: &Insn) -> (u16, u32, u32) {
        let Test { offset, mask, value } = insn.test;
        (self.layout.sort_key(offset), mask, value)
    }

    /// Exchanges an instruction with the one reached by `way`.
    fn exchange_with_next(&mut self, at: usize, way: usize) {
        let Some(to) = self.insns[at].jump[way].step() else { return };
        self.insns.swap(at, to);
        let onward = self.insns[at].jump[way];
        self.insns[at].jump[way] = Jump::to(to);
        self.insns[to].jump[way] = onward;
    }

    /// Joins two consecutive tests into one if they test the same word.
    fn join_tests(&mut self, form: Form) {
        for at in (0..self.insns.len()).rev() {
            while self.join_test(at, form) {}
        }
    }

    /// Joins an instruction with one of its successors; returns false if none fits.
    fn join_test(&mut self, at: usize, form: Form) -> bool {
        if let Some(no) = self.insns[at].no().step() {
            let next = self.insns[no];
            let here = &mut self.insns[at];
            if next.is_compatible(here) && here.is_flippable() {
                here.flip();
            } else if let Some(bit) = here.generalizes_with(&next) {
                here.test.value &= !bit;
                here.test.mask &= !bit;
                here.jump[0] = next.no();
                return true;
            }
        }
        let Some(yes) = self.insns[at].yes().step() else { return false };
        let here = self.insns[at];
        let next = &mut self.insns[yes];
        if here.no() == next.yes() && next.is_flippable() {
            next.flip();
        }
        let next = *next;
        if here.no() != next.no() || !next.is_compatible(&here) {
            return false;
        }
        let Some(short) = here.joint_short(&next, form) else { return false };
        let offset = if here.test.mask == 0 { next.test.offset } else { here.test.offset };
        let value = here.test.value | next.test.value;
        let test = Test::new(offset, value, here.test.mask | next.test.mask);
        self.insns[at] = Insn { test, short, jump: [here.no(), next.yes()] };
        true
    }

    /// Removes instructions whose test decides nothing, and unreachable ones.
    fn remove_unused(&mut self) {
        // All jumps lead forward, so a pass from the end knows where each jump finally leads.
        let mut ends: Vec<Jump> = vec![Jump::Drop; self.insns.len()];
        for (at, insn) in self.insns.iter_mut().enumerate().rev() {
            for jump in &mut insn.jump {
                if let Some(to) = jump.step() {
                    *jump = ends[to];
                }
            }
            let asks = insn.yes() != insn.no() && insn.test.mask != 0;
            ends[at] = if asks { Jump::to(at) } else { insn.yes() };
        }
        match ends.first().map(|end| (end.step(), *end)) {
            Some((Some(start), _)) => self.insns[0] = self.insns[start],
            Some((None, end)) => {
                self.constant = end;
                self.insns.clear();
            }
            None => {}
        }

        let mut reached = vec![false; self.insns.len()];
        let mut place = vec![0; self.insns.len()];
        let mut kept = 0;
        for (at, insn) in self.insns.iter().enumerate() {
            if at == 0 || reached[at] {
                place[at] = kept;
                kept += 1;
                for to in insn.jump.iter().filter_map(|jump| jump.step()) {
                    reached[to] = true;
                }
            }
        }
        let mut at = 0;
        self.insns.retain_mut(|insn| {
            for jump in &mut insn.jump {
                if let Some(to) = jump.step() {
                    *jump = Jump::to(place[to]);
                }
            }
            at += 1;
            at == 1 || reached[at - 1]
        });
    }
}

impl fmt::Display for Program {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (step, insn) in self.insns.iter().enumerate() {
            write_step(out, step, *insn, self.align_offset)?;
        }
        write_end(out, self.constant(), self.safe_length(), self.align_offset)
    }
}

/// Writes one line of a program.
pub(super) fn write_step(
    out: &mut fmt::Formatter<'_>,
    step: usize,
    mut insn: Insn,
    align_offset: u16,
) -> fmt::Result {
    // The word that holds the start of the packet may begin before it; Click prints it like this.
    insn.test.offset = insn.test.offset.wrapping_sub(align_offset);
    writeln!(out, "{step:>2} {insn}")
}

/// Writes the lines after the instructions.
pub(super) fn write_end(
    out: &mut fmt::Formatter<'_>,
    constant: Option<Jump>,
    safe_length: u32,
    align_offset: u16,
) -> fmt::Result {
    match constant {
        Some(Jump::Output(port)) => writeln!(out, "all->[{port}]")?,
        Some(_) => writeln!(out, "all->[{DROP_NUMBER}]")?,
        None => {}
    }
    writeln!(out, "safe length {safe_length}")?;
    writeln!(out, "alignment offset {align_offset}")
}
