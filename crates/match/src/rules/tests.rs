//! Compares the classifier with the definition: rules tried one after the other.

use fastrand::Rng;
use proptest::prelude::*;

use super::parse::tests::any_rule;
use super::rule::ETHER_BITS;
use super::*;

/// A rule with few different values, so that rules overlap, contain each other or are equal.
fn narrow_rule(random: &mut Rng) -> Rule {
    let mut net = || {
        let address = random.choice([0x0a00_0000, 0x0a01_8000, 0x0a01_80ff, 0xffff_ffff, 0]);
        match random.u8(..10) {
            0 => Masked::new(address.unwrap_or(0), random.u32(..)),
            _ => Masked::prefix(
                address.unwrap_or(0) ^ u32::from(random.u8(..4)),
                random.choice([0, 0, 1, 7, 9, 15, 17, 23, 30, 31, 32]).unwrap_or(0),
            ),
        }
    };
    let (source, destination) = (net(), net());
    let mut ports = || {
        let ends = [0, 1, 79, 80, 81, 1023, 1024, 65534, 65535];
        let (a, b) = (random.choice(ends).unwrap_or(0), random.choice(ends).unwrap_or(0));
        match random.u8(..3) {
            0 => Ports::ANY,
            1 => Ports::new(a, a).unwrap(),
            _ => Ports::new(a.min(b), a.max(b)).unwrap(),
        }
    };
    let (source_ports, destination_ports) = (ports(), ports());
    let mut ether = || {
        let mask = random.choice([0, 0, 0, 0, 0, ETHER_BITS, 0xffff_ff00_0000, 0xff]).unwrap_or(0);
        Masked::new(0x0200_0000_0000 | u64::from(random.u8(..3)), mask)
    };
    let (ether_source, ether_destination) = (ether(), ether());
    let protocol = random.choice([(0, 0), (6, 0xff), (17, 0xff), (1, 0xff), (0, 0xff), (1, 1)]);
    let ether_type = random.choice([(0, 0), (0, 0), (0x0800, 0xffff), (0x0806, 0xffff), (8, 8)]);
    Rule {
        ether_source,
        ether_destination,
        ether_type: ether_type.map(|(value, mask)| Masked::new(value, mask)).unwrap(),
        source,
        destination,
        protocol: protocol.map(|(value, mask)| Masked::new(value, mask)).unwrap(),
        source_ports,
        destination_ports,
        action: Action::Output(random.u16(..8)),
    }
}

/// A packet at the limits of a rule, in it or next to it, or one that lacks fields.
fn key_near(rule: &Rule, random: &mut Rng) -> Key {
    let mut at_border = |first: u64, last: u64| match random.u8(..8) {
        0 => first.wrapping_sub(1),
        1 => last.wrapping_add(1),
        2..5 => first,
        5..7 => last,
        _ => random.u64(first..=last),
    };
    let mut masked =
        |value: u64, mask: u64, all: u64| at_border(value, value | (!mask & all)) & all;
    let (to, from) = (&rule.ether_destination, &rule.ether_source);
    let to = masked(to.value(), to.mask(), ETHER_BITS);
    let from = masked(from.value(), from.mask(), ETHER_BITS);
    let ether_type = masked(rule.ether_type.value().into(), rule.ether_type.mask().into(), 0xffff);
    let protocol = masked(rule.protocol.value().into(), rule.protocol.mask().into(), 0xff);
    let mut net =
        |net: &Masked<u32>| masked(net.value().into(), net.mask().into(), 0xffff_ffff) as u32;
    let (source, destination) = (net(&rule.source), net(&rule.destination));
    let mut port = |ports: &Ports| at_border(ports.first().into(), ports.last().into()) as u16;
    let (from_port, to_port) = (port(&rule.source_ports), port(&rule.destination_ports));
    let all = Key::ETHERNET | Key::TYPE | Key::IPV4 | Key::PORTS;
    let flags = random
        .choice([all, all, all, all, all & !Key::PORTS, 3, 1, 0, Key::IPV4, Key::IPV4 | Key::PORTS])
        .unwrap();
    let has = |flag: u32, value: u32| if flags & flag != 0 { value } else { 0 };
    Key::from_words([
        has(Key::ETHERNET, (to >> 16) as u32),
        has(Key::ETHERNET, (to << 16) as u32 | (from >> 32) as u32),
        has(Key::ETHERNET, from as u32),
        has(Key::TYPE, (ether_type as u32) << 16) | has(Key::IPV4, (protocol as u32) << 8) | flags,
        has(Key::IPV4, source),
        has(Key::IPV4, destination),
        has(Key::PORTS, u32::from(from_port) << 16 | u32::from(to_port)),
        0,
    ])
}

fn keys_near(rules: &[Rule], count: usize, random: &mut Rng) -> Vec<Key> {
    let any = Rule::any(Action::Drop);
    let mut key = || {
        let rule = random.choice(rules).unwrap_or(&any);
        key_near(rule, random)
    };
    (0..count).map(|_| key()).collect()
}

fn assert_finds(set: &RuleSet, keys: &[Key]) {
    let classifier = Classifier::new(set);
    let mut found = vec![7; keys.len()];
    classifier.classify(keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        let expected = set.first_match(key).map_or(NONE, |rule| rule as u32);
        assert_eq!(found, expected, "{key:x?}\n{set}");
    }
}

#[test]
fn overlapping_rules_at_their_borders() {
    for seed in 0..60 {
        let mut random = Rng::with_seed(seed);
        let count = [0, 1, 2, 3, 10, 40, 200][seed as usize % 7];
        let rules: Vec<Rule> = (0..count).map(|_| narrow_rule(&mut random)).collect();
        // More than a block, and not a multiple of the lanes.
        let keys = keys_near(&rules, 300 + seed as usize, &mut random);
        assert_finds(&RuleSet { rules }, &keys);
    }
}

#[test]
fn equal_rules_and_unreachable_rules() {
    let mut random = Rng::with_seed(3);
    let wide = "@10.0.0.0/8 0.0.0.0/0 0:65535 0:65535 6/255 1".parse().unwrap();
    let narrow = "@10.1.0.0/16 0.0.0.0/0 0:65535 80:80 6/255 2".parse().unwrap();
    let any = Rule::any(Action::Drop);
    for rules in [
        vec![wide; 500],
        vec![any; 300],
        [vec![wide; 20], vec![narrow; 20], vec![any; 20], vec![narrow; 20]].concat(),
        [vec![narrow; 20], vec![any], vec![wide; 20]].concat(),
    ] {
        let keys = keys_near(&rules, 400, &mut random);
        assert_finds(&RuleSet { rules }, &keys);
    }
}

#[test]
fn the_earlier_rule_of_two_trees_decides() {
    // Rules for sources alternate with rules for destinations.
    let rule = |n: u32| {
        let mut rule = Rule::any(Action::Output(n as u16));
        *(if n.is_multiple_of(2) { &mut rule.source } else { &mut rule.destination }) =
            Masked::prefix(n << 12, 24);
        rule
    };
    let set = RuleSet { rules: (0..600).map(rule).collect() };
    assert!(Classifier::new(&set).image().words()[4] > 1, "one tree alone shows nothing");
    let key = |source: u32, destination: u32| {
        Key::from_words([0, 0, 0, Key::IPV4, source << 12 | 5, destination << 12 | 7, 0, 0])
    };
    let keys: Vec<Key> = (0..20).flat_map(|n| (0..20).map(move |m| key(n, m))).collect();
    assert_finds(&set, &keys);
}

#[test]
fn many_rules_on_each_field_alone() {
    let mut random = Rng::with_seed(4);
    let rule = |change: &dyn Fn(&mut Rule, u32)| -> Vec<Rule> {
        let one = |n: u32| {
            let mut rule = Rule::any(Action::Output(n as u16));
            change(&mut rule, n);
            rule
        };
        (0..600).map(one).collect()
    };
    let port = |n: u32| Ports::new(n as u16, (n + n % 3) as u16).unwrap();
    let sets = [
        rule(&|rule, n| rule.source = Masked::prefix(n << 9, 23)),
        rule(&|rule, n| rule.destination = Masked::new(n, 0xfff)),
        rule(&|rule, n| rule.source_ports = port(n)),
        rule(&|rule, n| rule.destination_ports = port(n)),
        rule(&|rule, n| rule.protocol = Masked::new(n as u8, 0xff)),
        rule(&|rule, n| rule.ether_type = Masked::new(0x800 + n as u16, 0xffff)),
        rule(&|rule, n| rule.ether_source = Masked::new(n.into(), ETHER_BITS)),
        rule(&|rule, n| rule.ether_source = Masked::new(u64::from(n) << 36, ETHER_BITS)),
        rule(&|rule, n| rule.ether_destination = Masked::new(n.into(), ETHER_BITS)),
        rule(&|rule, n| rule.ether_destination = Masked::new(u64::from(n) << 24, 0xffff_ff00_0000)),
    ];
    for (field, rules) in sets.into_iter().enumerate() {
        let keys = keys_near(&rules, 500, &mut random);
        let set = RuleSet { rules };
        assert_finds(&set, &keys);
        // Leaves have few rules, whatever the field is, even for a mask of the last bits, which is not a range.
        let nodes = Classifier::new(&set).image().words()[6];
        assert!(nodes > 300, "{field}: {nodes} nodes");
    }
}

/// The number of entries of the longest leaf.
fn longest_leaf(set: &RuleSet) -> usize {
    let image = Classifier::new(set).image().words().to_vec();
    let numbers = &image[image[9] as usize..][..image[8] as usize];
    numbers.split_inclusive(|number| number & image::LAST != 0).map(<[u32]>::len).max().unwrap()
}

#[test]
fn masks_with_gaps_are_separated_by_bits() {
    let mut random = Rng::with_seed(7);
    let any = Rule::any(Action::Drop);
    let sets: [&dyn Fn(u32) -> Rule; 5] = [
        &|n| Rule { source: Masked::new(n << 3, 0xfff), ..any },
        &|n| Rule { destination: Masked::new((n & 0xff) << 16 | n >> 8, 0x00ff_000f), ..any },
        &|n| Rule { ether_source: Masked::new(u64::from(n) << 20, 0x0000_fff0_0000), ..any },
        &|n| Rule { ether_type: Masked::new(n as u16, 0x01ff), ..any },
        &|n| Rule {
            protocol: Masked::new(n as u8, 0x0f),
            source: Masked::new(n >> 4, 0x3f),
            destination: Masked::prefix(n << 9, 23),
            ..any
        },
    ];
    for (at, rule) in sets.into_iter().enumerate() {
        let mut rules: Vec<Rule> = (0..500).map(rule).collect();
        random.shuffle(&mut rules);
        let keys = keys_near(&rules, 500, &mut random);
        let set = RuleSet { rules };
        assert_finds(&set, &keys);
        assert!(longest_leaf(&set) <= 3, "{at}: {}", longest_leaf(&set));
    }
}

#[test]
fn unreachable_rules_are_not_split_but_stay() {
    let mut random = Rng::with_seed(8);
    let any = Rule::any(Action::Drop);
    let narrow = |n: u32| Rule { source: Masked::prefix(0x0a00_0000 | n << 8, 24), ..any };
    let wide = Rule { source: Masked::prefix(0x0a00_0000, 8), ..any };
    let mut rules: Vec<Rule> = [wide].into_iter().chain((0..500).map(narrow)).collect();
    let keys = keys_near(&rules, 500, &mut random);
    let live = LiveRules::new(RuleSet { rules: rules.clone() });
    let nodes = live.trees().image().words()[6];
    assert!(nodes < 100, "{nodes} nodes");
    assert_live(&live, &rules, &keys);
    rules.remove(0);
    assert_live(&live.without(0).unwrap(), &rules, &keys);
    // A packet without addresses does not match, although its address is stored as 0.
    let zero = Rule { source: Masked::prefix(0, 8), ..any };
    let rules = [zero, zero, any, any].to_vec();
    assert_finds(&RuleSet { rules }, &[Key::default(), Key::from_words([0, 0, 0, 4, 5, 0, 0, 0])]);
}

/// Each rule overlaps with all rules about other fields, so a single tree could not separate them.
#[test]
fn rules_of_one_field_each_have_a_tree_for_each_field() {
    let mut random = Rng::with_seed(10);
    let any = Rule::any(Action::Drop);
    let port = |n: u32| Ports::new(n as u16, n as u16).unwrap();
    let rule = |n: u32| match n % 5 {
        0 => Rule { source: Masked::prefix(n << 9, 24), ..any },
        1 => Rule { destination: Masked::prefix(n << 9, 24), ..any },
        2 => Rule { source_ports: port(n), ..any },
        3 => Rule { destination_ports: port(n), ..any },
        _ => Rule { ether_type: Masked::new(0x800 + n as u16, 0xffff), ..any },
    };
    let set = RuleSet { rules: (0..4000).map(rule).collect() };
    assert_finds(&set, &keys_near(&set.rules, 400, &mut random));
    assert_eq!(Classifier::new(&set).image().words()[4], 5);
    assert!(longest_leaf(&set) <= 3, "{}", longest_leaf(&set));
}

#[test]
fn a_sample_decides_how_very_many_rules_are_sorted() {
    let mut random = Rng::with_seed(9);
    let any = Rule::any(Action::Drop);
    let rule = |n: u32| match n % 2 {
        0 => Rule { source: Masked::prefix(n << 9, 24), ..any },
        _ => Rule { destination: Masked::prefix(n << 10, 25), ..any },
    };
    let set = RuleSet { rules: (0..17_000).map(rule).collect() };
    assert_finds(&set, &keys_near(&set.rules, 400, &mut random));
    assert!(Classifier::new(&set).image().words()[4] > 1, "one tree would have too many copies");
}

#[test]
fn an_image_has_the_documented_layout() {
    let mut random = Rng::with_seed(5);
    let rules: Vec<Rule> = (0..300).map(|_| narrow_rule(&mut random)).collect();
    let image = Classifier::new(&RuleSet { rules }).image().words().to_vec();
    assert_eq!(image[..2], [image::MAGIC, image::VERSION]);
    assert_eq!((image[2] as usize, image[3]), (image.len(), 300));
    assert!((1..=8).contains(&image[4]));
    assert!(image[7].is_multiple_of(8) && image[10].is_multiple_of(8) && image[10] != 0);
    assert_eq!(image[11..16], [0; 5]);
    let firsts: Vec<u32> = (0..image[4] as usize).map(|tree| image[17 + 2 * tree]).collect();
    assert!(firsts.is_sorted());
    // Numbers ascend within each leaf.
    let numbers = &image[image[9] as usize..][..image[8] as usize];
    let ascends = |pair: &[u32]| pair[0] & image::LAST != 0 || pair[0] < pair[1] & !image::LAST;
    assert!(numbers.windows(2).all(ascends));
    assert!(numbers.len() <= 2 + 12_000, "copies are bounded");
}

/// The place of the rule with a number.
fn place_of(live: &LiveRules, number: u32) -> Option<usize> {
    live.numbers().iter().position(|it| *it == number)
}

fn assert_live(live: &LiveRules, rules: &[Rule], keys: &[Key]) {
    assert!(live.rules().eq(rules));
    let mut found = vec![7; keys.len()];
    live.classify(keys, &mut found);
    for (key, found) in keys.iter().zip(found) {
        let expected = rules.iter().position(|rule| rule.matches(key));
        assert_eq!(place_of(live, found), expected, "{key:x?}");
        let action = expected.map(|place| rules[place].action);
        assert_eq!(live.action(found), action);
    }
}

/// A random change of both.
fn change(live: &mut LiveRules, rules: &mut Vec<Rule>, random: &mut Rng) {
    let place = random.usize(..=rules.len());
    // Often before a rule with the same conditions.
    let equal = rules.get(place).filter(|_| random.bool()).copied();
    let mut rule = equal.unwrap_or_else(|| narrow_rule(random));
    rule.action = Action::Output(random.u16(..8));
    match random.u8(..4) {
        0 | 1 => {
            *live = live.with(place, rule);
            rules.insert(place, rule);
        }
        2 if place < rules.len() => {
            *live = live.without(place).unwrap();
            rules.remove(place);
        }
        3 if place < rules.len() => {
            *live = live.replaced(place, rule).unwrap();
            rules[place] = rule;
        }
        _ => {
            let none = NoSuchRule { place: rules.len(), rules: rules.len() };
            assert_eq!(live.without(rules.len()).unwrap_err(), none);
            assert_eq!(live.replaced(rules.len(), rule).unwrap_err(), none);
        }
    }
}

#[test]
fn changes_come_to_the_same_as_building_anew() {
    for seed in 0..12 {
        let mut random = Rng::with_seed(seed);
        let mut rules: Vec<Rule> = (0..seed * 4).map(|_| narrow_rule(&mut random)).collect();
        let mut live = LiveRules::new(RuleSet { rules: rules.clone() });
        for step in 1..100 {
            change(&mut live, &mut rules, &mut random);
            if step % 3 == 0 {
                let keys = keys_near(&rules, 40, &mut random);
                assert_live(&live, &rules, &keys);
            }
        }
        assert!(live.has_changed_much());
        assert_live(&live.renewed(), &rules, &keys_near(&rules, 200, &mut random));
        assert!(!live.renewed().has_changed_much());
    }
}

#[test]
fn changes_go_on_while_the_trees_are_made_anew() {
    for seed in 0..12 {
        let mut random = Rng::with_seed(seed);
        let mut rules: Vec<Rule> = (0..50).map(|_| narrow_rule(&mut random)).collect();
        let mut live = LiveRules::new(RuleSet { rules: rules.clone() });
        (0..20).for_each(|_| change(&mut live, &mut rules, &mut random));
        let before = live.clone();
        (0..20).for_each(|_| change(&mut live, &mut rules, &mut random));
        let moved = live.moved_to(before.renewed(), &before).unwrap();
        let keys = keys_near(&rules, 200, &mut random);
        assert_live(&moved, &rules, &keys);
        // And after that.
        let mut live = moved;
        (0..20).for_each(|_| change(&mut live, &mut rules, &mut random));
        assert_live(&live, &rules, &keys);
        assert!(live.moved_to(before.renewed(), &before).is_none(), "not of one family");
    }
}

#[test]
fn a_cache_answers_as_the_rules_do() {
    let mut random = Rng::with_seed(6);
    let mut rules: Vec<Rule> = (0..100).map(|_| narrow_rule(&mut random)).collect();
    let mut live = LiveRules::new(RuleSet { rules: rules.clone() });
    for places in [0, 1, 60] {
        let mut cache = FlowCache::new(places);
        assert_eq!(cache.len(), [0, 1, 64][usize::from(places > 0) + usize::from(places > 1)]);
        for epoch in 1..20 {
            change(&mut live, &mut rules, &mut random);
            let keys = keys_near(&rules, 300, &mut random);
            let keys = [keys.clone(), keys].concat();
            let (mut found, mut expected) = (vec![7; keys.len()], vec![7; keys.len()]);
            cache.classify(&live, epoch, &keys, &mut found);
            live.classify(&keys, &mut expected);
            assert_eq!(found, expected);
        }
        let (hits, misses) = cache.take_counts();
        assert_eq!(hits + misses, if places == 0 { 0 } else { 19 * 600 });
        assert_eq!(hits > 100, places > 1);
    }
    // A generation's number is reused after 15 epochs; entries from its earlier use must not count.
    let any = RuleSet { rules: vec![Rule::any(Action::Drop)] };
    let (none, one) = (LiveRules::new(RuleSet::default()), LiveRules::new(any));
    for places in [1, 2, 16, 64] {
        let mut cache = FlowCache::new(places);
        for epoch in 1..100 {
            let mut found = [7];
            match (epoch % 15, epoch / 15 % 2) {
                (0, 0) => cache.classify(&none, epoch, &[Key::default()], &mut found),
                (0, _) => cache.classify(&one, epoch, &[Key::default()], &mut found),
                _ => cache.classify(&none, epoch, &[], &mut []),
            }
            let expected = [[NONE], [0]][epoch as usize / 15 % 2];
            assert_eq!(found, if epoch % 15 == 0 { expected } else { [7] }, "{places}, {epoch}");
        }
    }
    // Packets that differ only in bits that no rule examines are equal.
    let live =
        LiveRules::new(RuleSet::parse("@0.0.0.0/0 1.0.0.0/8 0:65535 0:65535 0/0 1").unwrap());
    let mut cache = FlowCache::new(16);
    let flags = Key::IPV4 | Key::PORTS;
    let key = |n: u32| Key::from_words([0, 0, 0, 6 << 8 | flags, n, 0x0100_0000 + n, n, 0]);
    let keys: Vec<Key> = (0..200).map(key).collect();
    cache.classify(&live, 1, &keys[..1], &mut [0]);
    cache.classify(&live, 1, &keys, &mut [0; 200]);
    assert_eq!(cache.take_counts(), (200, 1));
}

proptest! {
    #[test]
    fn rules_of_any_kind(
        rules in proptest::collection::vec(any_rule(), 0..60), seed in any::<u64>(),
    ) {
        let keys = keys_near(&rules, 60, &mut Rng::with_seed(seed));
        assert_finds(&RuleSet { rules }, &keys);
    }
}
