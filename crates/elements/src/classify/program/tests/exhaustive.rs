//! Every small expression on every small packet.

use super::super::{Expr, Form, Jump, Layout, Program, Test};
use super::naive;

/// Tests of two bytes of one word, alone and together, and of a byte of another word.
const TESTS: [Test; 4] = [
    Test { offset: 4, mask: 0xff00_0000, value: 0x0100_0000 },
    Test { offset: 4, mask: 0x0001_0000, value: 0x0001_0000 },
    Test { offset: 4, mask: 0xffff_0000, value: 0x0101_0000 },
    Test { offset: 0, mask: 0x0000_00ff, value: 0x0000_0001 },
];

/// Each test, plain and negated in both ways.
fn leaves() -> Vec<Expr<Test>> {
    let all = TESTS.map(Expr::Is);
    let ways = [|it| it, Expr::negate, Expr::negate_present];
    ways.iter().flat_map(|way| all.clone().map(way)).collect()
}

fn expressions() -> Vec<Expr<Test>> {
    let leaves = leaves();
    let mut expressions = leaves.clone();
    type Of = fn(Vec<Expr<Test>>) -> Expr<Test>;
    let (all, any): (Of, Of) = (Expr::All, Expr::Any);
    for a in &leaves {
        for b in &leaves {
            let pair = vec![a.clone(), b.clone()];
            expressions.extend([all(pair.clone()), any(pair.clone()), all(pair).negate()]);
            for c in &leaves {
                let one = |of: Of| of(vec![a.clone(), b.clone()]);
                expressions.extend([
                    all(vec![one(any), c.clone()]),
                    any(vec![one(all), c.clone()]),
                    all(vec![c.clone(), one(any).negate_present()]),
                    Expr::Choose(vec![a.clone(), b.clone(), c.clone()]),
                ]);
            }
        }
    }
    expressions
}

/// All packets with bytes 0 and 1 where tests look, of all lengths.
fn packets() -> Vec<Vec<u8>> {
    let mut packets = Vec::new();
    for length in 0..=6 {
        for bits in 0..8_u8 {
            let mut packet = vec![0, 0, 0, bits & 1, bits >> 1 & 1, bits >> 2 & 1];
            packet.truncate(length);
            packets.push(packet);
        }
    }
    packets.dedup();
    packets
}

#[test]
fn optimisation_preserves_classification() {
    let packets = packets();
    for expr in expressions() {
        let rules = [(expr, Jump::Output(0)), (Expr::Is(TESTS[1]), Jump::Output(1))];
        let mut exact = Program::from_rules(&rules, Layout::Flat, 0);
        let mut click = exact.clone();
        exact.optimize(Form::Exact);
        click.optimize(Form::Click);
        for packet in &packets {
            let sections = [&packet[..], &[], &[]];
            let wanted = naive::classify(&rules, Layout::Flat, &sections);
            assert_eq!(run(&exact, packet), wanted, "{rules:?} on {packet:?}:\n{exact}");
            if packet.len() == 6 {
                assert_eq!(run(&click, packet), wanted, "{rules:?} on {packet:?}:\n{click}");
            }
        }
    }
}

fn run(program: &Program, packet: &[u8]) -> Jump {
    let mut at = 0;
    while let Some(insn) = program.insns().get(at) {
        let mut word = [0; 4];
        let rest = &packet[packet.len().min(insn.test.offset.into())..];
        word[..rest.len().min(4)].copy_from_slice(&rest[..rest.len().min(4)]);
        let present = packet.len() >= insn.test.required_length() as usize;
        let yes = if present { insn.test.accepts(u32::from_be_bytes(word)) } else { insn.short };
        match insn.branch(yes) {
            Jump::Step(next) => at = next as usize,
            end => return end,
        }
    }
    program.constant().unwrap()
}
