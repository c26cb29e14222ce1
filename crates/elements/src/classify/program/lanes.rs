//! Small programs on many packets at once.
//!
//! The words that a program tests are first gathered from [`LANES`] packets, one array for each word. Then every step
//! is executed for all of these packets, from the last step to the first: the result of a step is, lane by lane, the
//! result of one of the two steps that it leads to. No branch depends on a packet, and a step is a comparison and a
//! selection over vectors, for which processors have instructions. That costs less than jumping from test to test as
//! long as there are few steps.

use super::insn::Insn;
use super::next::{Next, Otherwise};
use super::place::{Place, as_loaded};

/// The number of packets that are classified together.
pub(super) const LANES: usize = 16;

/// Registers for the results of steps and for ends: a program may need no more in all.
const REGISTERS: usize = 16;

/// The maximum number of words to gather.
const MAX_WORDS: usize = 4;

/// A value for each lane.
type Register = [u16; LANES];

/// A program that runs on many packets at once, of `N` sections each.
#[derive(Clone, Debug)]
pub(super) struct Lanes {
    /// Section and first byte of the words; padded with repetitions to a power of two.
    words: Box<[(u8, u16)]>,
    /// From the last one to the first.
    steps: Box<[Step]>,
    /// The register with the result.
    result: u8,
    /// The ends, in the last registers.
    ends: Box<[Next]>,
}

#[derive(Clone, Copy, Debug)]
struct Step {
    /// Words are as the machine loads them.
    mask: u32,
    value: u32,
    word: u8,
    /// The register to write, and those written by the two branches.
    result: u8,
    ways: [u8; 2],
}

impl Lanes {
    /// Prepares a program; `None` if it is not small.
    pub(super) fn new(insns: &[Insn], place: impl Fn(&Insn) -> Place) -> Option<Self> {
        let mut words: Vec<(u8, u16)> = Vec::new();
        let mut ends: Vec<Next> = Vec::new();
        let mut steps = Vec::new();
        for (at, insn) in insns.iter().enumerate().take(REGISTERS) {
            let place = place(insn);
            let word = find_or_add(&mut words, (place.section, place.start));
            let mut way = |next: Next| match next.step() {
                Some(step) => step,
                None => REGISTERS - 1 - find_or_add(&mut ends, next).min(REGISTERS - 1),
            };
            let ways = insn.jump.map(|jump| way(Next::new(jump)) as u8);
            steps.push(Step {
                mask: as_loaded(place.test.mask),
                value: as_loaded(place.test.value),
                word: word as u8,
                result: at as u8,
                ways,
            });
        }
        if words.len() > MAX_WORDS || insns.len() + ends.len() > REGISTERS || insns.is_empty() {
            return None;
        }
        steps.reverse();
        let again = *words.first()?;
        words.resize(words.len().next_power_of_two(), again);
        Some(Self { words: words.into(), steps: steps.into(), result: 0, ends: ends.into() })
    }

    /// Writes the port of each packet. `short` classifies packets whose sections are not all as long as `enough`.
    #[inline(always)]
    pub(super) fn classify<'a, P, const N: usize>(
        &self,
        packets: &'a [P],
        sections: impl Fn(&'a P) -> Option<[&'a [u8]; N]>,
        enough: &[usize; N],
        short: impl Fn([&'a [u8]; N]) -> usize,
        otherwise: Otherwise,
        ports: &mut [u16],
    ) {
        match self.words.len() {
            1 => self.classify_by::<P, N, 1>(packets, sections, enough, short, otherwise, ports),
            2 => self.classify_by::<P, N, 2>(packets, sections, enough, short, otherwise, ports),
            _ => self
                .classify_by::<P, N, MAX_WORDS>(packets, sections, enough, short, otherwise, ports),
        }
    }

    #[inline(always)]
    fn classify_by<'a, P, const N: usize, const W: usize>(
        &self,
        packets: &'a [P],
        sections: impl Fn(&'a P) -> Option<[&'a [u8]; N]>,
        enough: &[usize; N],
        short: impl Fn([&'a [u8]; N]) -> usize,
        otherwise: Otherwise,
        ports: &mut [u16],
    ) {
        // Iterators over several things at once are not always inlined into code compiled for another instruction set;
        // plain loops contain no calls.
        let mut places = [(0, 0); W];
        for (nth, place) in places.iter_mut().enumerate() {
            *place = self.words.get(nth).copied().unwrap_or_default();
        }
        let mut registers = [[0; LANES]; REGISTERS];
        for (nth, end) in self.ends.iter().enumerate() {
            registers[(REGISTERS - 1 - nth) % REGISTERS] = [otherwise.port(end.output()); LANES];
        }
        let (mut packets, mut ports) = (packets, ports);
        while !packets.is_empty() && !ports.is_empty() {
            let count = packets.len().min(LANES).min(ports.len());
            let (now, later) = packets.split_at(count);
            let (result, free) = ports.split_at_mut(count);
            (packets, ports) = (later, free);

            let mut words = [[0; LANES]; W];
            // The lanes that do not have all the words.
            let mut odd = 0_u32;
            for (lane, packet) in now.iter().enumerate() {
                match sections(packet) {
                    Some(sections) if are_enough(&sections, enough) => {
                        for nth in 0..W {
                            words[nth][lane % LANES] = load(&sections, places[nth]);
                        }
                    }
                    _ => odd |= 1 << (lane % LANES),
                }
            }
            let found = self.run(&words, &mut registers);
            match result.first_chunk_mut() {
                Some(all) => *all = found,
                None => {
                    for (lane, port) in result.iter_mut().enumerate() {
                        *port = found[lane % LANES];
                    }
                }
            }
            while odd != 0 {
                let lane = odd.trailing_zeros() as usize;
                odd &= odd - 1;
                if let (Some(packet), Some(port)) = (now.get(lane), result.get_mut(lane)) {
                    *port = match sections(packet) {
                        Some(sections) => otherwise.port(short(sections)),
                        None => otherwise.no_sections,
                    };
                }
            }
        }
    }

    /// Executes the steps for all lanes.
    #[inline(always)]
    fn run<const W: usize>(
        &self,
        words: &[[u32; LANES]; W],
        registers: &mut [Register; REGISTERS],
    ) -> Register {
        for step in &self.steps {
            // The remainders change nothing, and avoid bounds checks.
            let words = &words[usize::from(step.word) % W];
            let no = registers[usize::from(step.ways[0]) % REGISTERS];
            let yes = registers[usize::from(step.ways[1]) % REGISTERS];
            let result = &mut registers[usize::from(step.result) % REGISTERS];
            for lane in 0..LANES {
                let holds = words[lane] & step.mask == step.value;
                result[lane] = if holds { yes[lane] } else { no[lane] };
            }
        }
        registers[usize::from(self.result) % REGISTERS]
    }
}

/// Whether the sections are long enough for the program.
#[inline(always)]
fn are_enough<const N: usize>(sections: &[&[u8]; N], enough: &[usize; N]) -> bool {
    let mut are = true;
    for nth in 0..N {
        are &= sections[nth].len() >= enough[nth];
    }
    are
}

#[inline(always)]
fn load<const N: usize>(sections: &[&[u8]; N], (section, start): (u8, u16)) -> u32 {
    // Branches instead of an index keep the sections in registers.
    let bytes = match section {
        1 if N > 1 => sections[1 % N],
        2 if N > 2 => sections[2 % N],
        _ => sections[0],
    };
    // There are enough bytes for every word.
    super::place::load(bytes, start).unwrap_or(0)
}

/// The index of an element in a list, to which it is appended if it is missing.
fn find_or_add<T: PartialEq>(list: &mut Vec<T>, wanted: T) -> usize {
    list.iter().position(|it| *it == wanted).unwrap_or_else(|| {
        list.push(wanted);
        list.len() - 1
    })
}
