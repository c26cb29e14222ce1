//! Compares the tree with a linear search through a list of routes, and with `prefix_trie`.

use std::collections::BTreeMap;
use std::net::Ipv6Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use prefix_trie::PrefixMap;
use proptest::prelude::*;

use super::TreeWriter;
use crate::ip::lookup::{Command, Hop, HopId, Order, Prefix, Route, RouteTable};

type Prefix6 = Prefix<Ipv6Addr>;
type Table = RouteTable<TreeWriter, Ipv6Addr>;

/// The routes as a list, with longest prefix match done literally as defined.
#[derive(Clone, Debug, Default)]
struct Naive(BTreeMap<Prefix6, Hop<Ipv6Addr>>);

impl Naive {
    fn lookup(&self, address: u128) -> Option<Hop<Ipv6Addr>> {
        let matching = self.0.iter().filter(|(prefix, _)| prefix.contains(address));
        matching.max_by_key(|(prefix, _)| prefix.length()).map(|(_, hop)| *hop)
    }

    /// Addresses at the edges of all networks, and a few others.
    fn probes(&self, others: &[Prefix6]) -> Vec<u128> {
        let edges = |prefix: &Prefix6| {
            let (first, last) = (prefix.first(), prefix.last());
            let upper = first | u128::from(u64::MAX);
            [
                first,
                last,
                first.wrapping_sub(1),
                last.wrapping_add(1),
                upper,
                upper.wrapping_add(1),
                first ^ 0x55,
            ]
        };
        let mut probes: Vec<u128> = self.0.keys().chain(others).flat_map(edges).collect();
        probes.extend([0, u128::MAX, 1 << 127]);
        probes
    }
}

fn hop(number: u32) -> Hop<Ipv6Addr> {
    Hop { gateway: Ipv6Addr::from_bits(u128::from(number / 3) << 64), port: number % 3 }
}

fn route(prefix: Prefix6, number: u32) -> Route<Ipv6Addr> {
    Route { prefix, hop: hop(number) }
}

/// Networks, many of which lie inside others, or begin or end where others do.
fn prefixes() -> impl Strategy<Value = Prefix6> {
    const BASES: [u128; 4] = [0, 0x2001_0db8 << 96, 0x2001_0db8_0000_0001 << 64, u128::MAX];
    let near = (
        prop::sample::select(&BASES[..]),
        0u128..1 << 4,
        prop::sample::select(&[0, 60, 64, 66, 92][..]),
    );
    let address = prop_oneof![
        4 => near.prop_map(|(base, bits, place)| base ^ bits << place),
        1 => any::<u128>(),
    ];
    let length = prop_oneof![
        1 => Just(0u8),
        2 => 1u8..=56,
        3 => 57u8..=72,
        1 => 73u8..=123,
        2 => 124u8..=128,
    ];
    (address, length).prop_map(|(address, length)| Prefix6::around(address, length))
}

fn check(table: &Table, naive: &Naive, others: &[Prefix6]) {
    let probes = naive.probes(others);
    let snapshot = table.snapshot();
    let mut ids = vec![HopId::NONE; probes.len()];
    snapshot.lookup_batch(&probes, &mut ids);
    for (&address, id) in probes.iter().zip(ids) {
        let expected = naive.lookup(address);
        let printed = Ipv6Addr::from_bits(address);
        assert_eq!(snapshot.lookup(address), expected, "{printed} in {naive:?}");
        assert_eq!(snapshot.hop(id), expected, "{printed} in a batch in {naive:?}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn the_tree_finds_the_longest_match(
        steps in prop::collection::vec(prefixes(), 3..40).prop_flat_map(|pool| {
            let step = (prop::sample::select(pool), 0u32..5, any::<bool>());
            prop::collection::vec(prop::collection::vec(step, 1..6), 1..25)
        }),
    ) {
        let table = Table::new(Order::Address).unwrap();
        let mut naive = Naive::default();
        let mut seen = Vec::new();
        for transaction in steps {
            let mut commands = Vec::new();
            for (prefix, number, remove) in transaction {
                seen.push(prefix);
                commands.push(match naive.0.remove(&prefix) {
                    Some(_) if remove => Command::Remove(prefix, None),
                    _ => {
                        naive.0.insert(prefix, hop(number));
                        Command::Set(route(prefix, number))
                    }
                });
            }
            table.apply(&commands).unwrap();
            check(&table, &naive, &seen);
        }
        let expected: Vec<_> =
            naive.0.iter().map(|(&prefix, &hop)| Route { prefix, hop }).collect();
        prop_assert_eq!(table.routes(), &expected[..]);

        // The same routes, loaded all at once.
        let loaded = Table::new(Order::Address).unwrap();
        prop_assert_eq!(loaded.load(&expected), Ok(vec![]));
        check(&loaded, &naive, &seen);
        table.flush().unwrap();
        check(&table, &Naive::default(), &seen);
    }
}

/// Compares tables of every height with another library's trie.
#[test]
fn large_tables_agree_with_prefix_trie() {
    let mut random = fastrand::Rng::with_seed(6);
    for count in [1, 15, 16, 17, 300, 20_000] {
        let mut trie = PrefixMap::<(u128, u8), u32>::new();
        let mut routes = Vec::new();
        for number in 0..count {
            let length = [random.u8(16..=48), 48, 64, random.u8(60..=128)][random.usize(..4)];
            // Few of the first bits vary, so that networks nest.
            let address = 0x2001 << 112 | random.u128(..) >> 16 & !(0xfff << 68);
            let prefix = Prefix6::around(address, length);
            let key = (prefix.first(), prefix.length());
            if trie.get(&key).is_none() {
                trie.insert(key, number);
                routes.push(route(prefix, number));
            }
        }
        let table = Table::new(Order::Address).unwrap();
        table.load(&routes).unwrap();
        let mut addresses: Vec<u128> = routes
            .iter()
            .flat_map(|Route { prefix, .. }| {
                let host = random.u128(..) & !prefix.mask();
                [prefix.first(), prefix.last(), prefix.first() | host]
            })
            .collect();
        addresses.extend((0..1000).map(|_| random.u128(..)));
        let mut ids = vec![HopId::NONE; addresses.len()];
        let snapshot = table.snapshot();
        snapshot.lookup_batch(&addresses, &mut ids);
        for (&address, id) in addresses.iter().zip(ids) {
            let expected = trie.get_lpm(&(address, 128)).map(|(_, &number)| hop(number));
            assert_eq!(snapshot.hop(id), expected, "{}", Ipv6Addr::from_bits(address));
            assert_eq!(snapshot.lookup(address), expected);
        }
    }
}

#[test]
fn the_hop_table_grows() {
    let table = Table::new(Order::Address).unwrap();
    let prefix = |number: u32| Prefix6::around(u128::from(number) << 96, 48);
    for numbers in (1..2000).collect::<Vec<u32>>().chunks(100) {
        let add = |&number: &u32| Command::Add(route(prefix(number), number));
        table.apply(&numbers.iter().map(add).collect::<Vec<_>>()).unwrap();
    }
    for number in 1..2000 {
        assert_eq!(table.lookup(prefix(number).last()), Some(hop(number)));
    }
}

/// Threads look up addresses while transactions replace routes and hops: each batch sees the table either
/// before a transaction or after it.
#[test]
fn readers_see_whole_transactions() {
    let table = Table::new(Order::Address).unwrap();
    let wide = Prefix6::around(0x2001_0db8 << 96, 32);
    let host = Prefix6::around(0x2001_0db8 << 96 | 7, 128);
    let transaction =
        |round: u32| [Command::Set(route(wide, round)), Command::Set(route(host, round))];
    table.apply(&transaction(0)).unwrap();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                let addresses: Vec<u128> = (0..40).map(|low| host.first() ^ (low % 3)).collect();
                let mut ids = vec![HopId::NONE; 40];
                while !done.load(Relaxed) {
                    let snapshot = table.snapshot();
                    snapshot.lookup_batch(&addresses, &mut ids);
                    let first = snapshot.hop(ids[0]);
                    assert!(first.is_some());
                    assert!(ids.iter().all(|&id| snapshot.hop(id) == first));
                    drop(snapshot);
                    std::thread::yield_now();
                }
            });
        }
        (1..300).for_each(|round| table.apply(&transaction(round)).unwrap());
        done.store(true, Relaxed);
    });
}

#[test]
fn memory_does_not_grow_with_changes() {
    let table = Table::new(Order::FirstFree).unwrap();
    let around = |round: u32| {
        for number in 0..20u32 {
            let prefix = Prefix6::around(u128::from(round % 50) << 80 | u128::from(number), 128);
            table.apply(&[Command::Add(route(prefix, round + number))]).unwrap();
        }
        for number in 0..20u32 {
            let prefix = Prefix6::around(u128::from(round % 50) << 80 | u128::from(number), 128);
            table.apply(&[Command::Remove(prefix, None)]).unwrap();
        }
    };
    (0..50).for_each(around);
    let (routes, structure) = table.memory();
    (50..200).for_each(around);
    let after = table.memory();
    assert!(after.0 <= routes && after.1 <= structure + 2048, "{after:?} {structure}");
}
