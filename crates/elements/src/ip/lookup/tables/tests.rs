//! Compares every structure with a search through a plain list of routes.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering};

use proptest::prelude::*;

use super::fib::{Change, Fib, FibWriter, Part, Readers, Routes};
use super::rib::Rib;
use crate::ip::lookup::*;

/// The routes as a list, searched by the definition of the longest match.
#[derive(Clone, Debug, Default)]
struct Naive(BTreeMap<Prefix, Hop>);

impl Naive {
    fn lookup(&self, address: u32) -> Option<Hop> {
        let matching = self.0.iter().filter(|(prefix, _)| prefix.contains(address));
        matching.max_by_key(|(prefix, _)| prefix.length()).map(|(_, hop)| *hop)
    }

    fn apply(&mut self, command: Command) {
        match command {
            Command::Add(route) | Command::Set(route) => self.0.insert(route.prefix, route.hop),
            Command::Remove(prefix, _) => self.0.remove(&prefix),
        };
    }

    /// Addresses at the boundaries of all networks, and a few others.
    fn probes(&self, others: &[Prefix]) -> Vec<u32> {
        let edges = |prefix: &Prefix| {
            let (first, last) = (prefix.first(), prefix.last());
            [first, last, first.wrapping_sub(1), last.wrapping_add(1), first ^ 0x55]
        };
        let mut probes: Vec<u32> = self.0.keys().chain(others).flat_map(edges).collect();
        probes.extend([0, u32::MAX, 0x8000_0000]);
        probes
    }
}

fn hop(number: u32) -> Hop {
    Hop { gateway: Ipv4Addr::from_bits(number / 3), port: number % 3 }
}

fn route(prefix: Prefix, number: u32) -> Route {
    Route { prefix, hop: hop(number) }
}

/// Networks, many of which lie within others.
fn prefixes() -> impl Strategy<Value = Prefix> {
    let near =
        (prop::sample::select(vec![0x0a01_0200, 0x0a01_02f0, 0xfffe_ff80u32]), 0u32..1 << 12);
    let address = prop_oneof![
        4 => near.prop_map(|(base, low)| base ^ low),
        1 => any::<u32>(),
    ];
    let length = prop_oneof![
        1 => Just(0u8),
        2 => 6u8..=16,
        6 => 17u8..=32,
    ];
    (address, length).prop_map(|(address, length)| Prefix::new(address, length))
}

fn check<W: FibWriter>(table: &RouteTable<W>, naive: &Naive, others: &[Prefix]) {
    let probes = naive.probes(others);
    let snapshot = table.snapshot();
    let mut ids = vec![HopId::NONE; probes.len()];
    snapshot.lookup_batch(&probes, &mut ids);
    for (&address, id) in probes.iter().zip(ids) {
        let expected = naive.lookup(address);
        let printed = Ipv4Addr::from_bits(address);
        assert_eq!(snapshot.lookup(address), expected, "{printed} in {naive:?}");
        assert_eq!(snapshot.hop(id), expected, "{printed} in a batch in {naive:?}");
    }
}

/// Transactions of commands that set and remove routes. Each command depends on whether its network has a route at that
/// point.
type Steps = Vec<Vec<(Prefix, u32, bool)>>;

fn steps() -> impl Strategy<Value = Steps> {
    prop::collection::vec(prefixes(), 3..40).prop_flat_map(|pool| {
        let step = (prop::sample::select(pool), 0u32..5, any::<bool>());
        prop::collection::vec(prop::collection::vec(step, 1..6), 1..25)
    })
}

fn commands(steps: &[(Prefix, u32, bool)], naive: &mut Naive) -> Vec<Command> {
    let mut commands = Vec::new();
    for &(prefix, number, remove) in steps {
        let command = match (naive.0.contains_key(&prefix), remove) {
            (true, true) => Command::Remove(prefix, None),
            (true, false) => Command::Set(route(prefix, number)),
            (false, _) => Command::Add(route(prefix, number)),
        };
        naive.apply(command);
        commands.push(command);
    }
    commands
}

fn follows_the_definition<W: FibWriter>(steps: &Steps) {
    let table = RouteTable::<W>::new(Order::Address).unwrap();
    let mut naive = Naive::default();
    let mut seen = Vec::new();
    for transaction in steps {
        seen.extend(transaction.iter().map(|(prefix, ..)| *prefix));
        table.apply(&commands(transaction, &mut naive)).unwrap();
        check(&table, &naive, &seen);
    }
    let expected: Vec<_> = naive.0.iter().map(|(&prefix, &hop)| Route { prefix, hop }).collect();
    assert_eq!(table.routes(), expected);

    // Load the same routes at once.
    let loaded = RouteTable::<W>::new(Order::Address).unwrap();
    assert_eq!(loaded.load(&expected), Ok(vec![]));
    check(&loaded, &naive, &seen);
    table.flush().unwrap();
    check(&table, &Naive::default(), &seen);
}

/// A set of readers that is always empty.
struct Nobody;

impl<F> Readers<F> for Nobody {
    fn publish(&mut self, _: F) {}
    fn retire(&mut self, _: Part) {}
    fn forget(&mut self) {}
}

fn changes_each_address_once<W: FibWriter>(
    old: &BTreeMap<Prefix, u32>,
    new: &BTreeMap<Prefix, u32>,
) {
    let (mut writer, mut rib) = (W::new().unwrap(), Rib::new(Order::Address));
    for (&prefix, &number) in old {
        rib.set(prefix, HopId(number));
    }
    writer.rebuild(Routes { rib: &rib, hop_limit: 100 }).unwrap();
    let hop_of =
        |routes: &BTreeMap<Prefix, u32>, prefix| HopId(routes.get(&prefix).map_or(0, |id| *id));
    let change =
        |&prefix: &Prefix| Change { prefix, old: hop_of(old, prefix), new: hop_of(new, prefix) };
    let both = old.keys().chain(new.keys().filter(|prefix| !old.contains_key(prefix)));
    let mut changes: Vec<Change> =
        both.map(change).filter(|change| change.old != change.new).collect();
    changes.sort_by_key(Change::rank);
    for change in &changes {
        match change.new.is_none() {
            true => drop(rib.remove(change.prefix)),
            false => drop(rib.set(change.prefix, change.new)),
        }
    }

    let naive = |routes: &BTreeMap<Prefix, u32>| {
        Naive(routes.iter().map(|(&prefix, &number)| (prefix, hop(number))).collect())
    };
    let (naive_old, naive_new) = (naive(old), naive(new));
    let others: Vec<Prefix> = changes.iter().map(|change| change.prefix).collect();
    let probes = naive_old.probes(&others);
    let mut now: Vec<_> = probes.iter().map(|&address| naive_old.lookup(address)).collect();
    for change in changes {
        writer.update(Routes { rib: &rib, hop_limit: 100 }, &[change], &mut Nobody).unwrap();
        let fib = writer.fib();
        for (&address, now) in probes.iter().zip(&mut now) {
            let id = fib.lookup(address);
            let seen = (!id.is_none()).then(|| hop(id.0));
            if seen != *now {
                assert_eq!(
                    seen,
                    naive_new.lookup(address),
                    "{} after {change:?}",
                    Ipv4Addr::from(address)
                );
                *now = seen;
            }
        }
    }
    for (&address, now) in probes.iter().zip(now) {
        assert_eq!(now, naive_new.lookup(address));
    }
}

fn some_routes() -> impl Strategy<Value = (BTreeMap<Prefix, u32>, BTreeMap<Prefix, u32>)> {
    prop::collection::vec((prefixes(), 0u32..4, 0u32..4), 1..30).prop_map(|routes| {
        let pick = |choose: fn(&(Prefix, u32, u32)) -> u32| {
            let routes = routes.iter().map(|route| (route.0, choose(route)));
            routes.filter(|(_, number)| *number > 0).collect()
        };
        (pick(|route| route.1), pick(|route| route.2))
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn dir_24_8_follows_the_definition(steps in steps()) {
        follows_the_definition::<Dir24x8Writer>(&steps);
    }

    #[test]
    fn radix_follows_the_definition(steps in steps()) {
        follows_the_definition::<RadixWriter>(&steps);
    }

    #[test]
    fn linear_follows_the_definition(steps in steps()) {
        follows_the_definition::<LinearWriter>(&steps);
    }

    #[test]
    fn sorted_follows_the_definition(steps in steps()) {
        follows_the_definition::<SortedWriter>(&steps);
    }

    #[test]
    fn dir_24_8_changes_each_address_once((old, new) in some_routes()) {
        changes_each_address_once::<Dir24x8Writer>(&old, &new);
    }

    #[test]
    fn radix_changes_each_address_once((old, new) in some_routes()) {
        changes_each_address_once::<RadixWriter>(&old, &new);
    }

    #[test]
    fn a_transaction_that_fails_changes_nothing(
        steps in steps(),
        bad in prop::collection::vec((prefixes(), 0u32..5, any::<bool>()), 0..5),
        missing: bool,
    ) {
        let table = RouteTable::<Dir24x8Writer>::new(Order::LastLeft).unwrap();
        let mut naive = Naive::default();
        for transaction in &steps {
            table.apply(&commands(transaction, &mut naive)).unwrap();
        }
        let routes = table.routes();

        let mut after = naive.clone();
        let mut transaction = commands(&bad, &mut after);
        let (prefix, expected) = match after.0.first_key_value() {
            Some((&prefix, &hop)) if !missing => (prefix, Error::Exists(Route { prefix, hop })),
            _ => {
                let prefix = Prefix::new(0x7f00_0001, 32);
                after.apply(Command::Remove(prefix, None));
                transaction.retain(|command| !matches!(command, Command::Add(r) if r.prefix == prefix));
                (prefix, Error::NotFound { prefix, hop: None })
            }
        };
        transaction.push(match expected {
            Error::Exists(_) => Command::Add(route(prefix, 9)),
            _ => Command::Remove(prefix, None),
        });
        // The commands after the one that fails would all succeed.
        transaction.push(Command::Set(route(Prefix::new(0x0102_0304, 32), 9)));
        prop_assert_eq!(table.apply(&transaction), Err(expected));
        prop_assert_eq!(table.routes(), routes);
        check(&table, &naive, &[prefix]);
    }
}

proptest! {
    // A change of a short prefix changes a quarter of a million entries.
    #![proptest_config(ProptestConfig::with_cases(12))]

    #[test]
    fn ranges_follow_the_definition(steps in steps()) {
        follows_the_definition::<RangesWriter>(&steps);
    }

    #[test]
    fn poptrie_follows_the_definition(steps in steps()) {
        follows_the_definition::<PoptrieWriter>(&steps);
    }

    #[test]
    fn ranges_change_each_address_once((old, new) in some_routes()) {
        changes_each_address_once::<RangesWriter>(&old, &new);
    }

    #[test]
    fn poptrie_changes_each_address_once((old, new) in some_routes()) {
        changes_each_address_once::<PoptrieWriter>(&old, &new);
    }
}

#[test]
fn the_shortest_prefixes_are_found() {
    fn short<W: FibWriter>() {
        let table = RouteTable::<W>::new(Order::Address).unwrap();
        let mut naive = Naive::default();
        for length in 0..9 {
            let commands = [
                Command::Add(route(Prefix::new(u32::MAX, length), u32::from(length))),
                Command::Set(route(Prefix::new(0x0fff_ffff, length), 20 + u32::from(length))),
            ];
            table.apply(&commands).unwrap();
            commands.into_iter().for_each(|command| naive.apply(command));
            check(&table, &naive, &[]);
        }
        for length in [3, 0, 8, 1, 2] {
            let command = Command::Remove(Prefix::new(u32::MAX, length), None);
            table.apply(&[command]).unwrap();
            naive.apply(command);
            check(&table, &naive, &[]);
        }
    }
    short::<Dir24x8Writer>();
    short::<RadixWriter>();
    short::<RangesWriter>();
    short::<PoptrieWriter>();
}

#[test]
fn conflicting_commands_fail() {
    let table = RouteTable::<RadixWriter>::new(Order::LastLeft).unwrap();
    let prefix = Prefix::new(0x1210_0000, 12);
    let four = Hop { gateway: Ipv4Addr::new(4, 0, 0, 4), port: 0 };
    let add = Command::Add(Route { prefix, hop: four });
    table.apply(&[add]).unwrap();
    for (command, message) in [
        (add, "conflict with existing route ‘18.16.0.0/12 4.0.0.4 0’"),
        (Command::Remove(Prefix::new(0, 8), None), "route ‘0.0.0.0/8 - -1’ not found"),
        (
            Command::Remove(prefix, Some(Hop { port: 1, ..four })),
            "route ‘18.16.0.0/12 4.0.0.4 1’ not found",
        ),
    ] {
        assert_eq!(table.apply(&[command]).unwrap_err().to_string(), message);
    }
    table.apply(&[Command::Remove(prefix, Some(four))]).unwrap();
    assert!(table.is_empty());
}

#[test]
fn load_uses_the_first_of_several_routes_for_a_network() {
    let table = RouteTable::<LinearWriter>::new(Order::FirstFree).unwrap();
    let prefix = Prefix::new(0x0a00_0000, 8);
    assert_eq!(table.load(&[route(prefix, 1), route(prefix, 2), route(prefix, 3)]), Ok(vec![1, 2]));
    assert_eq!(table.routes(), [route(prefix, 1)]);
    // Loading replaces all routes.
    assert_eq!(table.load(&[route(Prefix::DEFAULT, 4)]), Ok(vec![]));
    assert_eq!(table.routes(), [route(Prefix::DEFAULT, 4)]);
}

#[test]
fn more_hops_than_narrow_entries_can_name_lead_to_wide_entries() {
    let table = RouteTable::<Dir24x8Writer>::new(Order::Address).unwrap();
    let route = |number: u32| route(Prefix::new(number << 8, 24), number);
    let routes: Vec<Route> = (1..40_000).map(route).collect();
    table.load(&routes[..30_000]).unwrap();
    let narrow = table.memory().1;
    for routes in routes[30_000..].chunks(900) {
        let commands: Vec<Command> = routes.iter().map(|&route| Command::Add(route)).collect();
        table.apply(&commands).unwrap();
    }
    assert!(table.memory().1 > narrow + (16 << 20), "the table is made of wide entries");
    for route in routes {
        assert_eq!(table.lookup(route.prefix.last()), Some(route.hop));
    }
}

#[test]
fn more_long_prefixes_than_narrow_entries_can_name_are_found() {
    let table = RouteTable::<Dir24x8Writer>::new(Order::Address).unwrap();
    table.load(&[route(Prefix::new(0x0a00_0000, 8), 1)]).unwrap();
    let host = |number: u32| route(Prefix::new(0x0a00_0007 | number << 8, 32), 2);
    for number in 0..40_000 {
        table.apply(&[Command::Add(host(number))]).unwrap();
    }
    for number in 0..40_000 {
        let host = host(number).prefix.first();
        assert_eq!(table.lookup(host), Some(hop(2)));
        assert_eq!(table.lookup(host + 1), Some(hop(1)));
    }
}

/// A writer that runs out of memory for routes to 127.0.0.0/8.
struct Narrow(LinearWriter);

impl FibWriter for Narrow {
    type Fib = Linear;

    fn new() -> Result<Self, Error> {
        LinearWriter::new().map(Self)
    }

    fn fib(&self) -> Linear {
        self.0.fib()
    }

    fn rebuild(&mut self, routes: Routes<'_>) -> Result<(), Error> {
        match routes.rib.get(Prefix::new(0x7f00_0000, 8)) {
            Some(_) => Err(Error::NoMemory),
            None => self.0.rebuild(routes),
        }
    }

    fn update(
        &mut self,
        routes: Routes<'_>,
        changes: &[Change],
        readers: &mut dyn Readers<Linear>,
    ) -> Result<(), Error> {
        self.rebuild(routes)?;
        self.0.update(routes, changes, readers)
    }

    fn memory(&self) -> usize {
        self.0.memory()
    }
}

#[test]
fn transactions_that_run_out_of_memory_change_nothing() {
    let table = RouteTable::<Narrow>::new(Order::FirstFree).unwrap();
    let (ten, eleven) = (Prefix::new(0x0a00_0000, 8), Prefix::new(0x0b00_0000, 8));
    let routes = [route(ten, 4), route(eleven, 5)];
    table.load(&routes).unwrap();
    let before = table.memory();
    let too_much = [
        Command::Set(route(ten, 6)),
        Command::Remove(eleven, None),
        Command::Add(route(Prefix::new(0x0c00_0000, 8), 7)),
        Command::Set(route(ten, 8)),
        Command::Add(route(Prefix::new(0x7f00_0000, 8), 9)),
    ];
    for _ in 0..1000 {
        assert_eq!(table.apply(&too_much), Err(Error::NoMemory));
    }
    assert_eq!(table.routes(), routes);
    check(&table, &Naive(routes.map(|route| (route.prefix, route.hop)).into()), &[]);
    assert!(table.memory().1 < before.1 + 1024, "hops of routes that failed are used again");
    table.apply(&too_much[..4]).unwrap();
    assert_eq!(table.routes(), [route(ten, 8), route(Prefix::new(0x0c00_0000, 8), 7)]);
}

/// Resources that routes leave behind are reused: a table that keeps changing does not grow.
#[test]
fn memory_does_not_grow_with_changes() {
    fn churn<W: FibWriter>(rounds: u32) {
        let table = RouteTable::<W>::new(Order::LastLeft).unwrap();
        let around = |round: u32| {
            for number in 0..20 {
                let prefix = Prefix::new((number << 24) | (round % 50) << 8 | 3, 32);
                // Each round has hops of its own.
                table.apply(&[Command::Add(route(prefix, round + number))]).unwrap();
            }
            for number in 0..20 {
                let prefix = Prefix::new((number << 24) | (round % 50) << 8 | 3, 32);
                table.apply(&[Command::Remove(prefix, None)]).unwrap();
            }
        };
        (0..100).for_each(around);
        let (routes, structure) = table.memory();
        (100..rounds).for_each(around);
        let after = table.memory();
        // The hash table of the hops in use may have another size each time.
        assert!(after.0 <= routes && after.1 <= structure + 2048, "{after:?} {structure}");
    }
    churn::<Dir24x8Writer>(1000);
    churn::<RadixWriter>(1000);
    churn::<RangesWriter>(250);
    churn::<PoptrieWriter>(250);
    churn::<LinearWriter>(1000);
}

/// Threads look up addresses while the routes around them, with their hops, come and go.
#[test]
fn readers_never_see_a_hop_that_was_not_set() {
    fn race<W: FibWriter>(rounds: u32) {
        let table = RouteTable::<W>::new(Order::Address).unwrap();
        let (short, long) = (Prefix::new(0x0a01_0200, 23), Prefix::new(0x0a01_0240, 27));
        let (inside, outside) = (0x0a01_0241, 0x0a01_0201);
        let done = AtomicBool::new(false);
        table.load(&[route(Prefix::DEFAULT, 0), route(short, 1)]).unwrap();
        std::thread::scope(|scope| {
            for _ in 0..2 {
                scope.spawn(|| {
                    let addresses = [inside, outside, 1, inside];
                    let mut ids = [HopId::NONE; 4];
                    while !done.load(Ordering::Relaxed) {
                        let snapshot = table.snapshot();
                        snapshot.lookup_batch(&addresses, &mut ids);
                        let hops = ids.map(|id| snapshot.hop(id).map(|hop| hop.gateway.to_bits()));
                        // `inside` has gateway 0 from `short`, or one of 1000 and above from `long`.
                        assert!(hops[0].is_some_and(|hop| hop == 0 || hop >= 1000), "{hops:?}");
                        assert_eq!(hops[1], Some(0), "{hops:?}");
                        assert!(hops[2].is_none_or(|hop| hop == 0 || hop == 7), "{hops:?}");
                        drop(snapshot);
                        std::thread::yield_now();
                    }
                });
            }
            for round in 0..rounds {
                // Each round has its own hop, so that numbers are freed and reused.
                let specific = route(long, 3000 + round * 3);
                table.apply(&[Command::Add(specific)]).unwrap();
                let default = route(Prefix::DEFAULT, 21 * (round % 2));
                table.apply(&[Command::Remove(long, None), Command::Set(default)]).unwrap();
                if round % 3 == 0 {
                    table.apply(&[Command::Remove(Prefix::DEFAULT, None)]).unwrap();
                    table.apply(&[Command::Add(default)]).unwrap();
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
    race::<Dir24x8Writer>(200);
    race::<RadixWriter>(200);
    // A change of the default route changes a quarter of a million entries.
    race::<RangesWriter>(20);
    race::<PoptrieWriter>(20);
    race::<SortedWriter>(200);
}

/// Routes come and go in half of the networks. Lookups in the other half always find their routes. In a network that
/// changes, lookups only find hops that it has had.
#[test]
fn routes_that_do_not_change_are_found_while_others_do() {
    fn race<W: FibWriter>() {
        const ROUTES: u32 = 200;
        let table = RouteTable::<W>::new(Order::Address).unwrap();
        // Neighbouring /24 networks, each with a /26 within: even ones stay, odd ones change.
        let outer = |number: u32| Prefix::new(0x0a00_0000 | number << 8, 24);
        let inner = |number: u32| Prefix::new(0x0a00_0040 | number << 8, 26);
        let routes = (0..ROUTES)
            .flat_map(|n| [route(outer(n), 3 * n), route(inner(n), 3 * (n + ROUTES))])
            .collect::<Vec<_>>();
        table.load(&routes).unwrap();
        let done = AtomicBool::new(false);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let addresses: Vec<u32> =
                    routes.iter().map(|route| route.prefix.first() | 0x3f).collect();
                let mut ids = vec![HopId::NONE; addresses.len()];
                while !done.load(Ordering::Relaxed) {
                    let snapshot = table.snapshot();
                    snapshot.lookup_batch(&addresses, &mut ids);
                    for (route, &id) in routes.iter().zip(&ids) {
                        let number = route.prefix.first() >> 8 & 0xffff;
                        let (found, outer) = (snapshot.hop(id), hop(3 * number));
                        let expected = match number % 2 {
                            0 => found == Some(route.hop),
                            _ => found.is_none_or(|found| found == route.hop || found == outer),
                        };
                        assert!(expected, "{route}: {found:?}");
                    }
                    drop(snapshot);
                    std::thread::yield_now();
                }
            });
            for round in 0..4 {
                for number in (1..ROUTES).step_by(2) {
                    let (outer, inner) =
                        (routes[2 * number as usize], routes[2 * number as usize + 1]);
                    let commands = match round % 2 {
                        0 => [
                            Command::Remove(inner.prefix, None),
                            Command::Remove(outer.prefix, None),
                        ],
                        _ => [Command::Add(outer), Command::Add(inner)],
                    };
                    commands.iter().for_each(|&command| table.apply(&[command]).unwrap());
                }
            }
            done.store(true, Ordering::Relaxed);
        });
    }
    race::<Dir24x8Writer>();
    race::<RadixWriter>();
    race::<RangesWriter>();
    race::<PoptrieWriter>();
}

#[test]
fn in_a_sorted_list_each_network_precedes_those_around_it() {
    let mut rib = Rib::new(Order::FirstFree);
    let prefixes =
        [(0, 0), (0x0a00_0000, 8), (0x1200_0000, 8), (0x0a01_0000, 16), (0x0a01_0200, 24)];
    for (bits, length) in prefixes {
        rib.set(Prefix::new(bits, length), HopId(1));
    }
    let sorted: Vec<String> =
        super::linear::sorted(&rib).into_iter().map(|(prefix, _)| prefix.to_string()).collect();
    assert_eq!(sorted, ["18.0.0.0/8", "10.1.2.0/24", "10.1.0.0/16", "10.0.0.0/8", "0.0.0.0/0"]);
}
