//! The text of programs, which must be the same as Click's.

use super::super::{Expr, Form, Insn, Jump, Layout, Matcher, Program, Test};
use super::naive;

fn is(offset: u16, value: u32, mask: u32) -> Expr<Test> {
    Expr::Is(Test::new(offset, value, mask))
}

fn optimized(rules: &[(Expr<Test>, Jump)]) -> String {
    let mut program = Program::from_rules(rules, Layout::Flat, 0);
    program.optimize(Form::Click);
    program.to_string()
}

#[test]
fn instruction_text_is_that_of_click() {
    let mut insn = Insn::new(Test::new(4, 0x0a00_0001, 0xffff_00ff));
    assert_eq!(insn.to_string(), "  4/0a000001%ffff00ff  yes->[+]  no->[-]");
    insn.jump = [Jump::Drop, Jump::Step(12)];
    insn.short = true;
    assert_eq!(insn.to_string(), "  4/0a000001%ffff00ff  yes->step 12  no->[X]  short->yes");
    insn.jump = [Jump::Output(3), Jump::Output(0)];
    assert_eq!(insn.to_string(), "  4/0a000001%ffff00ff  yes->[0]  no->[3]  short->yes");
    insn.test.offset = 1024;
    assert!(insn.to_string().starts_with("1024/"));
}

#[test]
fn required_lengths_reach_the_last_tested_byte() {
    let length = |mask| Test::new(8, 0, mask).required_length();
    let lengths = [0xff00_0000, 0x0100_0000, 0x0001_0000, 0xff00_0100, 0xff, 0].map(length);
    assert_eq!(lengths, [9, 9, 10, 11, 12, 0]);
}

#[test]
fn constant_results_need_no_instruction() {
    for (rules, text) in [
        (vec![], "all->[2147483647]\nsafe length 0\nalignment offset 0\n"),
        (vec![(is(0, 0, 0), Jump::Output(2))], "all->[2]\nsafe length 0\nalignment offset 0\n"),
        (
            vec![(is(4, 1, 1), Jump::Output(0)), (is(0, 0, 0), Jump::Output(0))],
            "all->[0]\nsafe length 0\nalignment offset 0\n",
        ),
        (vec![(is(4, 1, 1), Jump::Drop)], "all->[2147483647]\nsafe length 0\nalignment offset 0\n"),
    ] {
        assert_eq!(optimized(&rules), text);
    }
}

/// One example for each step of the optimisation.
#[test]
fn programs_are_optimised_as_in_click() {
    let (a, b) = (is(4, 0x0100_0000, 0xff00_0000), is(4, 0x0002_0000, 0x00ff_0000));
    let [bit1, bit2] = [0x0100_0000, 0x0200_0000].map(|bit| is(4, bit, bit));
    let far = is(12, 0xff, 0xff);
    for (what, rules, text) in [
        (
            "neighbours of one word join",
            vec![(Expr::All(vec![a.clone(), b.clone()]), Jump::Output(0))],
            " 0   4/01020000%ffff0000  yes->[0]  no->[X]\nsafe length 6\n",
        ),
        (
            "a test that failed before is not made again",
            vec![
                (Expr::All(vec![a.clone(), far.clone()]), Jump::Output(0)),
                (a.clone(), Jump::Output(1)),
            ],
            " 0   4/01000000%ff000000  yes->step 1  no->[X]
 1  12/000000ff%000000ff  yes->[0]  no->[1]\nsafe length 16\n",
        ),
        (
            "a value excludes the others",
            vec![
                (a.clone(), Jump::Output(0)),
                (Expr::All(vec![far.clone(), a.clone()]), Jump::Output(1)),
                (far.clone(), Jump::Output(2)),
            ],
            " 0   4/01000000%ff000000  yes->[0]  no->step 1
 1  12/000000ff%000000ff  yes->[2]  no->[X]\nsafe length 16\n",
        ),
        (
            "two values that differ in a bit are one test without it",
            vec![(
                Expr::Any(vec![is(4, 0x0600_0000, 0xff00_0000), is(4, 0x0700_0000, 0xff00_0000)]),
                Jump::Output(0),
            )],
            " 0   4/06000000%fe000000  yes->[0]  no->[X]\nsafe length 5\n",
        ),
        (
            "a single bit is turned round to join with the next",
            vec![(Expr::All(vec![bit1.clone(), bit2.clone().negate()]), Jump::Output(0))],
            " 0   4/01000000%03000000  yes->[0]  no->[X]\nsafe length 5\n",
        ),
        (
            "tests stand in the order of offsets, but for the first",
            vec![(
                Expr::All(vec![is(20, 1, 1), far.clone(), is(8, 2, 2), a.clone()]),
                Jump::Output(0),
            )],
            " 0  20/00000001%00000001  yes->step 1  no->[X]
 1   4/01000000%ff000000  yes->step 2  no->[X]
 2   8/00000002%00000002  yes->step 3  no->[X]
 3  12/000000ff%000000ff  yes->[0]  no->[X]\nsafe length 24\n",
        ),
        (
            "a contradiction leaves nothing",
            vec![
                (Expr::All(vec![a.clone(), is(4, 0, 0xff00_0000)]), Jump::Output(0)),
                (far.clone(), Jump::Output(1)),
            ],
            " 0  12/000000ff%000000ff  yes->[1]  no->[X]\nsafe length 16\n",
        ),
        (
            "present values that must differ",
            vec![(a.clone().negate_present(), Jump::Output(0))],
            " 0   4/01000000%ff000000  yes->[X]  no->[0]  short->yes\nsafe length 5\n",
        ),
    ] {
        assert_eq!(optimized(&rules), format!("{text}alignment offset 0\n"), "{what}");
    }
}

/// A program, found by chance, for which Click's analysis is wrong: both branches of an instruction come to lead to the
/// same place, and the analysis assumes there what is known on only one of them. Click drops this packet.
#[test]
fn classification_is_correct_where_clicks_analysis_is_wrong() {
    let first = Expr::All(vec![
        Expr::Choose(vec![
            is(0, 0x0011_0000, 0x00ff_0000),
            is(8, 0x0010_0000, 0x0010_0000),
            is(4, 0, 0xfc00),
        ]),
        Expr::Any(vec![
            is(0, 0, 0x0010_0000),
            is(12, 0x0006_0000, 0x00ff_0000),
            is(4, 0, 0),
            is(0, 0, 0x1fff),
        ]),
        is(0, 1, 0x1fff),
    ]);
    let rules = [(first, Jump::Output(0)), (is(0, 0, 0x0012_0000), Jump::Output(1))];
    let packet = [0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let wanted = naive::classify(&rules, Layout::Flat, &[&packet, &[], &[]]);
    assert_eq!(wanted, Jump::Output(1));
    let mut program = Program::from_rules(&rules, Layout::Flat, 0);
    program.optimize(Form::Click);
    assert_eq!(Matcher::<1>::for_programs(&program, &program, &[]).classify([&packet]), 1);
}
