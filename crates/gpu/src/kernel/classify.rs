//! The slices that the kernel `classify` reads, and tests that compare the kernel with the engine of the CPU.

use crate::region::{Base, Region};

/// The slices of [`Kernel::Classify`](super::Kernel::Classify), in its order: Ethernet header, EtherType, network header,
/// ports. [`millrace_match::rules::Key::of_slices`] takes the same, and its table is
/// [`millrace_match::rules::LiveRules::table`].
pub const CLASSIFY_REGIONS: [Region; 4] = [
    Region::read(Base::Ethernet, 0, 14),
    Region::read(Base::Network, -2, 2),
    Region::read(Base::Network, 0, 20),
    Region::read(Base::Transport, 0, 4),
];

#[cfg(test)]
pub(crate) mod tests {
    use fastrand::Rng;
    use millrace_core::Packet;
    use millrace_match::rules::{Action, Key, LiveRules, NONE, Rule, RuleSet};
    use millrace_testkit::generate::frame::Frame;
    use millrace_testkit::generate::rules::{self, Fields, KINDS};
    use millrace_testkit::generate::trace::{Trace, anything};

    use super::super::testing::{Batch, Slice};
    use super::super::{DROP, Kernel};
    use super::CLASSIFY_REGIONS;
    use crate::region::{Base, View};

    /// Bytes of the slices of packets.
    fn slices(packets: &[Packet]) -> [Vec<Vec<u8>>; 4] {
        CLASSIFY_REGIONS.map(|region| {
            let slice = |packet: &Packet| View::of(packet, Base::Transport).slice(&region).to_vec();
            packets.iter().map(slice).collect()
        })
    }

    /// Checks that the kernel finds the same rules and decisions as the engine.
    fn check(random: &mut Rng, live: &LiveRules, packets: &[Packet]) {
        let rows = slices(packets);
        let widths = [14, 2, 20, 4];
        let of = |at: usize| Slice { rows: &rows[at], width: widths[at] };
        let mut batch = Batch::new(random, packets.len(), &[of(0), of(1), of(2), of(3)], &[]);
        (batch.launch.field_shift, batch.launch.field_mask) = (4, 0xf0);
        let miss = [3, DROP][random.usize(..2)];
        let table = live.table(miss);
        assert_eq!(crate::table::check(&table), Ok(()));
        batch.run(random, Kernel::Classify, &table, None);
        let [ethernet, ether_type, network, transport] = &rows;
        let key = |row: usize| {
            Key::of_slices(&ethernet[row], &ether_type[row], &network[row], &transport[row])
        };
        let keys: Vec<Key> = (0..packets.len()).map(key).collect();
        let mut found = vec![0; keys.len()];
        live.classify(&keys, &mut found);
        for (row, found) in found.into_iter().enumerate() {
            assert_eq!(batch.result(row), found, "{:x?}", keys[row]);
            let output = match live.action(found) {
                None => miss,
                Some(Action::Output(output)) => output.into(),
                Some(Action::Drop) => DROP,
            };
            let field = if output == DROP { 0xf } else { output + 1 };
            assert_eq!(batch.predicate(row), field << 4);
        }
    }

    /// Frames that match rules or nearly do, and random ones; with tags and options, some of them cut short.
    fn packets(made: &[rules::Rule], count: usize, random: &mut Rng) -> Vec<Packet> {
        let trace = Trace { misses: 20, seed: random.u64(..), ..Trace::new(count) };
        let frames = trace.make(made).into_iter().map(|header| {
            let header = if random.u8(..8) == 0 { anything(random) } else { header };
            let vlans = [&[][..], &[], &[7], &[100, 7]][random.usize(..4)];
            let options = [0, 0, random.u8(..11)][random.usize(..3)];
            let mut bytes = Frame { header, vlans, options, payload: b"payload" }.bytes();
            match random.u8(..8) {
                0 => bytes.truncate(random.usize(..=bytes.len())),
                1 => bytes[random.usize(12..40)] = random.u8(..),
                // The highest length and the lowest type.
                2 => bytes[12..14].copy_from_slice(&[[5, 0xff], [6, 0]][random.usize(..2)]),
                _ => {}
            }
            bytes
        });
        let mut packets: Vec<Packet> =
            frames.map(|bytes| Packet::from_bytes(&bytes).unwrap()).collect();
        // Some begin at the IP header.
        for packet in &mut packets {
            if random.u8(..8) == 0 && packet.len() > 40 && packet.strip(14) {
                packet.set_network_header(0, 20);
            }
        }
        packets
    }

    #[test]
    pub(crate) fn generated_rules_and_their_changes() {
        let mut random = Rng::with_seed(31);
        for round in 0..12 {
            let fields = [Fields::Five, Fields::Seven][round % 2];
            let kind = &KINDS[round % 3];
            let count = [1, 40, 1200][round % 3];
            let set = rules::RuleSet { fields, ..rules::RuleSet::new(kind, count) };
            let mut made = set.make();
            random.shuffle(&mut made);
            let read = RuleSet::parse(&rules::text(&made)).unwrap();
            let mut live = LiveRules::new(read);
            let packets = packets(&made, 600, &mut random);
            check(&mut random, &live, &packets);
            for _ in 0..30 {
                let place = random.usize(..=live.len());
                // In front of a rule with the same conditions.
                let mut rule = live.rules().nth(place).copied().unwrap_or(Rule::any(Action::Drop));
                rule.action = [Action::Drop, Action::Output(random.u16(..8))][random.usize(..2)];
                live = match live.without(place) {
                    Ok(without) if random.bool() => without,
                    _ => live.with(place, rule),
                };
            }
            check(&mut random, &live, &packets);
        }
    }

    #[test]
    pub(crate) fn packets_without_a_matching_rule_take_the_default() {
        let mut random = Rng::with_seed(32);
        let made = [rules::Rule::any(0)];
        let packets = packets(&made, 300, &mut random);
        let empty = LiveRules::new(RuleSet::default());
        check(&mut random, &empty, &packets);
        let any = empty.with(0, Rule::any(Action::Output(5)));
        check(&mut random, &any, &packets);
        let mut found = [0];
        any.without(0).unwrap().classify(&[Key::default()], &mut found);
        assert_eq!(found, [NONE]);
    }

    /// For packets without header annotations, the key from the whole frame equals the key from slices.
    #[test]
    pub(crate) fn slices_are_those_of_the_frame() {
        let mut random = Rng::with_seed(33);
        let set = rules::RuleSet { fields: Fields::Seven, ..rules::RuleSet::new(&KINDS[0], 50) };
        for packet in packets(&set.make(), 3000, &mut random) {
            let one = [packet];
            let [ethernet, ether_type, network, transport] = slices(&one);
            let key = Key::of_slices(&ethernet[0], &ether_type[0], &network[0], &transport[0]);
            let [packet] = one;
            let expected = match packet.network_header() {
                None => Key::of_frame(packet.data()),
                Some(_) => Key::of_datagram(packet.data()),
            };
            assert_eq!(key, expected, "{:02x?}", packet.data());
        }
    }
}
