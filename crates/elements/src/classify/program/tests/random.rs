//! Random rules on random packets: compares every form of a program with the rules.

use proptest::prelude::*;

use super::super::filter::merge;
use super::super::live::LiveRules;
use super::super::matcher::Matcher;
use super::super::{DROP, Expr, Form, Grouped, Insn, Jump, Layout, Otherwise, Program, Test};
use super::naive;

type Rules = Vec<(Expr<Test>, Jump)>;

/// Few words, masks and values, so that tests interact.
fn test(offsets: &'static [u16]) -> impl Strategy<Value = Test> {
    let masks = prop::sample::select(vec![
        0xff00_0000_u32,
        0xffff_0000,
        0x0000_ffff,
        0xffff_ffff,
        0x00ff_0000,
        0x0010_0000,
        0x0002_0000,
        0x0012_0000,
        0x8000_0000,
        0xfc00_0000,
        0xfc00,
        0x1fff,
        0xff,
        0,
    ]);
    let values = prop::sample::select(VALUES.to_vec());
    (prop::sample::select(offsets.to_vec()), values, masks)
        .prop_map(|(offset, value, mask)| Test::new(offset, value, mask))
}

const VALUES: [u32; 9] = [
    0,
    0x0800_0000,
    0x0806_0001,
    0x0006_0050,
    0x0011_0051,
    0x0002_0000,
    0x8010_0000,
    0xffff_ffff,
    0x0400_0400,
];

fn expr(offsets: &'static [u16]) -> impl Strategy<Value = Expr<Test>> {
    test(offsets).prop_map(Expr::Is).prop_recursive(4, 24, 4, |inner| {
        let list = prop::collection::vec(inner.clone(), 1..4);
        prop_oneof![
            2 => list.clone().prop_map(Expr::All),
            2 => list.prop_map(Expr::Any),
            1 => prop::collection::vec(inner.clone(), 3..=3).prop_map(Expr::Choose),
            1 => prop::collection::vec(inner.clone(), 5..=5).prop_map(Expr::Choose),
            1 => inner.clone().prop_map(Expr::negate),
            1 => inner.prop_map(Expr::negate_present),
        ]
    })
}

fn rules(offsets: &'static [u16]) -> impl Strategy<Value = Rules> {
    let output = prop_oneof![4 => (0..3_u32).prop_map(Jump::Output), 1 => Just(Jump::Drop)];
    prop::collection::vec((expr(offsets), output), 1..6)
}

/// Sections made of the words that tests look for, some with a byte changed, truncated anywhere.
fn section() -> impl Strategy<Value = Vec<u8>> {
    let word = (prop::sample::select(VALUES.to_vec()), any::<u32>(), any::<bool>()).prop_map(
        |(value, noise, noisy)| if noisy { value ^ (noise & 0x8412_0402) } else { value },
    );
    (prop::collection::vec(word, 5), 0..=20_usize).prop_map(|(words, length)| {
        let mut bytes: Vec<u8> = words.iter().flat_map(|word| word.to_be_bytes()).collect();
        bytes.truncate(length);
        bytes
    })
}

fn packets() -> impl Strategy<Value = Vec<[Vec<u8>; 3]>> {
    prop::collection::vec([section(), section(), section()], 40)
}

/// Runs a program unchanged, also on missing bytes.
fn run(program: &Program, packet: &[&[u8]; 3]) -> Jump {
    let mut at = 0;
    while let Some(insn) = program.insns().get(at) {
        let expr = Expr::Is(insn.test);
        let answer = |short: bool| {
            let expr = if short { expr.clone().negate().negate_present() } else { expr.clone() };
            let rules = [(expr, Jump::Output(0))];
            naive::classify(&rules, program.layout(), packet) == Jump::Output(0)
        };
        match insn.branch(answer(insn.short)) {
            Jump::Step(next) => at = next as usize,
            end => return end,
        }
    }
    program.constant().unwrap()
}

fn port(jump: Jump) -> usize {
    match jump {
        Jump::Output(port) => port as usize,
        _ => DROP,
    }
}

/// The ports of packets that are classified together; every seventh has no sections.
fn ports<const N: usize>(matcher: &Matcher<N>, packets: &[[Vec<u8>; 3]]) -> Vec<u16> {
    let numbered: Vec<(usize, &[Vec<u8>; 3])> = packets.iter().enumerate().collect();
    let otherwise = Otherwise { dropped: 1000, no_sections: 1001 };
    let mut ports = vec![0; packets.len()];
    matcher.classify_all(
        &numbered,
        |(nth, packet)| (nth % 7 != 6).then(|| std::array::from_fn(|at| &packet[at][..])),
        otherwise,
        &mut ports,
    );
    ports
}

/// The expected result of [`ports`] for a packet that alone leaves by this output.
fn expected_port(nth: usize, output: usize) -> u16 {
    match output {
        _ if nth % 7 == 6 => 1001,
        DROP => 1000,
        output => output as u16,
    }
}

fn has_all(tests: &[Insn], layout: Layout, packet: &[&[u8]; 3]) -> bool {
    let whole = |insn: &Insn| {
        // A byte is present if the test and its opposite disagree.
        let holds =
            |expr| naive::classify(&[(expr, Jump::Output(0))], layout, packet) == Jump::Output(0);
        holds(Expr::Is(insn.test)) != holds(Expr::Is(insn.test).negate_present())
    };
    tests.iter().all(|insn| insn.test.mask == 0 || whole(insn))
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn flat_programs_classify_as_their_rules(
        rules in rules(&[0, 4, 8, 12]),
        packets in packets(),
    ) {
        let original = Program::from_rules(&rules, Layout::Flat, 0);
        let [mut program, mut exact] = [original.clone(), original.clone()];
        program.optimize(Form::Click);
        exact.optimize(Form::Exact);
        let matcher = Matcher::<1>::for_programs(&program, &exact, original.insns());
        let ports = ports(&matcher, &packets);
        for (nth, packet) in packets.iter().enumerate() {
            let sections = [&packet[0][..], &[], &[]];
            let wanted = naive::classify(&rules, Layout::Flat, &sections);
            prop_assert_eq!(run(&original, &sections), wanted);
            prop_assert_eq!(run(&exact, &sections), wanted);
            prop_assert_eq!(matcher.classify([&packet[0]]), port(wanted));
            prop_assert_eq!(ports[nth], expected_port(nth, port(wanted)));
            if has_all(original.insns(), Layout::Flat, &sections) {
                prop_assert_eq!(run(&program, &sections), wanted);
            }
        }
    }

    #[test]
    fn ip_programs_classify_as_their_rules(
        rules in rules(&[4, 8, 256, 260, 264, 512, 524]),
        packets in packets(),
    ) {
        let original = Program::from_rules(&rules, Layout::Ip, 0);
        let [program, exact] = [Form::Click, Form::Exact].map(|form| merge(&rules, form));
        let matcher = Matcher::<3>::for_programs(&program, &exact, original.insns());
        let ports = ports(&matcher, &packets);
        let index = LiveRules::new(rules.as_slice().into());
        for (nth, packet) in packets.iter().enumerate() {
            let sections = packet.each_ref().map(Vec::as_slice);
            let wanted = naive::classify(&rules, Layout::Ip, &sections);
            prop_assert_eq!(run(&exact, &sections), wanted);
            prop_assert_eq!(matcher.classify(sections), port(wanted));
            prop_assert_eq!(index.classify(sections), port(wanted));
            prop_assert_eq!(ports[nth], expected_port(nth, port(wanted)));
            if has_all(original.insns(), Layout::Ip, &sections) {
                prop_assert_eq!(run(&program, &sections), wanted);
            }
        }
    }

    #[test]
    fn optimised_programs_are_never_longer(rules in rules(&[0, 4, 8, 12])) {
        let original = Program::from_rules(&rules, Layout::Flat, 0);
        for form in [Form::Click, Form::Exact] {
            let mut program = original.clone();
            program.optimize(form);
            prop_assert!(program.insns().len() <= original.insns().len());
            prop_assert!(program.safe_length() <= original.safe_length());
            let forward = |(at, insn): (usize, &Insn)| {
                insn.jump.iter().all(|jump| match jump {
                    Jump::Step(to) => *to as usize > at && (*to as usize) < program.insns().len(),
                    Jump::Output(_) | Jump::Drop => true,
                    Jump::Failure | Jump::Success => false,
                })
            };
            prop_assert!(program.insns().iter().enumerate().all(forward));
        }
    }

    #[test]
    fn grouping_keeps_every_test(rules in rules(&[0, 4, 8, 12])) {
        let mut program = Program::from_rules(&rules, Layout::Flat, 0);
        program.optimize(Form::Click);
        let grouped = Grouped::new(&program);
        let tests = grouped.groups().iter().map(|group| group.values.len()).sum::<usize>();
        prop_assert_eq!(tests, program.insns().len());
        prop_assert_eq!(grouped.to_string().lines().count(), program.to_string().lines().count());
    }
}
