//! Compares the schedulers, for pulls of all sizes, with loops that pull one packet at a time.

use std::collections::VecDeque;

use millrace_core::testing::Rig;
use millrace_core::{Packet, Timestamp};
use proptest::prelude::*;

use super::inputs::heap;

/// A packet: its number, length and time.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Sent {
    number: u16,
    length: usize,
    time: i64,
}

/// The packets that wait at each input.
type Waiting = [VecDeque<Sent>];

/// Packets for each input, in several rounds.
type Phases = Vec<Vec<Vec<Sent>>>;

fn phases(longest: usize) -> impl Strategy<Value = (usize, Phases)> {
    let sent = (2..longest, 0i64..50).prop_map(|(length, time)| Sent { number: 0, length, time });
    (1usize..5).prop_flat_map(move |inputs| {
        let input = prop_oneof![
            2 => prop::collection::vec(sent.clone(), 0..20),
            1 => prop::collection::vec(sent.clone(), 0..300),
        ];
        let phase = prop::collection::vec(input, inputs);
        let phases = prop::collection::vec(phase, 1..4).prop_map(|mut phases| {
            let all = phases.iter_mut().flatten().flatten();
            all.zip(0..).for_each(|(sent, number)| sent.number = number);
            phases
        });
        (Just(inputs), phases)
    })
}

/// How many packets are pulled at a time.
fn burst() -> impl Strategy<Value = usize> {
    prop_oneof![Just(1), Just(256), 2usize..40]
}

fn packet(sent: &Sent) -> Packet {
    let mut bytes = vec![0; sent.length];
    bytes[..2].copy_from_slice(&sent.number.to_be_bytes());
    let mut packet = Packet::from_bytes(&bytes).unwrap();
    packet.set_timestamp(Timestamp::from_millis(sent.time + 1));
    packet
}

/// Checks that an element gives the packets that `next` takes from the waiting ones, in this order.
fn agrees(
    element: &str,
    inputs: usize,
    phases: &Phases,
    burst: usize,
    mut next: impl FnMut(&mut Waiting) -> Option<Sent>,
) -> Result<(), TestCaseError> {
    let mut rig = Rig::new(element, inputs, 1).unwrap();
    rig.pull_at_most(burst);
    let mut waiting = vec![VecDeque::new(); inputs];
    for phase in phases {
        let packets = phase.iter().map(|input| input.iter().map(packet).collect()).collect();
        let out = rig.push_to_all(packets).remove(0);
        let given = out.iter().map(|out| u16::from_be_bytes(*out.data().first_chunk().unwrap()));
        waiting.iter_mut().zip(phase).for_each(|(waiting, input)| waiting.extend(input));
        // The rig stops after this many empty pulls; one empty pull may only have moved on to the next turn.
        let mut in_vain = 0;
        let mut expected = Vec::new();
        while in_vain < 16 {
            let before = expected.len();
            let pulled = std::iter::from_fn(|| next(&mut waiting)).take(burst);
            expected.extend(pulled.map(|sent| sent.number));
            in_vain = if expected.len() > before { 0 } else { in_vain + 1 };
        }
        prop_assert_eq!(given.collect::<Vec<_>>(), expected);
        prop_assert!(rig.stats().balanced());
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(96))]

    #[test]
    fn priorities((inputs, phases) in phases(64), burst in burst()) {
        for class in ["PrioSched", "SimplePrioSched"] {
            agrees(class, inputs, &phases, burst, |waiting| {
                waiting.iter_mut().find_map(VecDeque::pop_front)
            })?;
        }
    }

    #[test]
    fn turns((inputs, phases) in phases(64), burst in burst(), run in 1usize..6, all: bool, most in 1usize..5) {
        let most = if all { inputs } else { most.min(inputs) };
        let (mut first, mut given) = (0, 0);
        let element = format!("RoundRobinMultiSched({run}, {most})");
        agrees(&element, inputs, &phases, burst, |waiting| {
            for offset in 0..most {
                let input = (first + offset) % inputs;
                if let Some(sent) = waiting[input].pop_front() {
                    given += 1;
                    first = if given < run { input } else { (input + 1) % inputs };
                    given %= run;
                    return Some(sent);
                }
                given = 0;
            }
            None
        })?;
    }

    #[test]
    fn rounds((inputs, phases) in phases(64), burst in burst()) {
        let mut first = 0;
        agrees("SimpleRoundRobinSched", inputs, &phases, burst, |waiting| {
            let input = (0..inputs).map(|at| (first + at) % inputs).find(|&at| !waiting[at].is_empty())?;
            first = (input + 1) % inputs;
            waiting[input].pop_front()
        })?;
    }

    #[test]
    fn deficits((inputs, phases) in phases(400), burst in burst(), quantum in 400u64..9000) {
        let (mut turn, mut credits) = (0, vec![0u64; inputs]);
        agrees(&format!("DRRSched({quantum})"), inputs, &phases, burst, |waiting| {
            for _ in 0..inputs {
                match waiting[turn].front() {
                    Some(sent) if sent.length as u64 <= credits[turn] => {
                        credits[turn] -= sent.length as u64;
                        return waiting[turn].pop_front();
                    }
                    Some(_) => {}
                    None => credits[turn] = 0,
                }
                turn = (turn + 1) % inputs;
                credits[turn] += quantum;
            }
            None
        })?;
    }

    #[test]
    fn strides((inputs, phases) in phases(64), burst in burst(), tickets in prop::collection::vec(0u32..40, 4)) {
        let tickets = &tickets[..inputs];
        let text: Vec<String> = tickets.iter().map(u32::to_string).collect();
        // (pass, input), in the order in which they are tried.
        let stride = |input: usize| (1u64 << 16).checked_div(tickets[input].into()).unwrap_or(0) as u32 as u64;
        let mut row: Vec<(u64, usize)> = Vec::new();
        let insert = |row: &mut Vec<(u64, usize)>, one: (u64, usize)| {
            let at = row.iter().position(|other| other.0 >= one.0).unwrap_or(row.len());
            row.insert(at, one);
        };
        for input in (0..inputs).rev().filter(|&input| tickets[input] > 0) {
            insert(&mut row, (stride(input), input));
        }
        agrees(&format!("StrideSched({})", text.join(", ")), inputs, &phases, burst, |waiting| {
            let found = row.iter().position(|&(_, input)| !waiting[input].is_empty());
            let asked: Vec<_> = row.drain(..found.map_or(row.len(), |at| at + 1)).collect();
            for &(pass, input) in &asked {
                insert(&mut row, (pass + stride(input), input));
            }
            waiting[asked.last()?.1].pop_front()
        })?;
    }

    #[test]
    fn times((inputs, phases) in phases(64), burst in burst(), buffer in prop_oneof![Just(1usize), 2usize..20]) {
        let mut kept: Vec<(Sent, usize)> = Vec::new();
        let (mut room, mut ready) = (vec![buffer; inputs], (0..inputs).collect::<Vec<_>>());
        let earlier = |a: &(Sent, usize), b: &(Sent, usize)| a.0.time < b.0.time;
        let element = format!("TimeSortedSched(BUFFER {buffer})");
        agrees(&element, inputs, &phases, burst, |waiting| {
            for place in (0..ready.len()).rev() {
                let input = ready[place];
                while room[input] > 0 && let Some(sent) = waiting[input].pop_front() {
                    kept.push((sent, input));
                    heap::push(&mut kept, earlier);
                    room[input] -= 1;
                    if room[input] == 0 {
                        ready.swap_remove(place);
                    }
                }
            }
            let (sent, input) = heap::pop(&mut kept, earlier)?;
            room[input] += 1;
            if room[input] == 1 {
                ready.push(input);
            }
            Some(sent)
        })?;
    }
}
