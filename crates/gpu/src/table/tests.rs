//! Compares tables and their kernels with a search through all routes.

use std::collections::HashMap;

use fastrand::Rng;

use super::check as check_table;
use super::*;
use crate::kernel::testing::{Batch, Slice};
use crate::kernel::{Condition, DROP, Kernel, NONE};

/// A table as its kernel sees it.
trait Address: Copy + Into<u128> {
    const BITS: u8;
    const KERNEL: Kernel;

    fn to_bytes(self) -> Vec<u8>;
    fn random(rng: &mut Rng) -> Self;
    fn truncate(number: u128) -> Self;
}

impl Address for u32 {
    const BITS: u8 = 32;
    const KERNEL: Kernel = Kernel::Lpm4;

    fn to_bytes(self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }
    fn random(rng: &mut Rng) -> Self {
        rng.u32(..)
    }
    fn truncate(number: u128) -> Self {
        number as u32
    }
}

impl Address for u128 {
    const BITS: u8 = 128;
    const KERNEL: Kernel = Kernel::Lpm6;

    fn to_bytes(self) -> Vec<u8> {
        self.to_be_bytes().to_vec()
    }
    fn random(rng: &mut Rng) -> Self {
        rng.u128(..)
    }
    fn truncate(number: u128) -> Self {
        number
    }
}

/// The first bits of an address, as a number.
fn head<A: Address>(address: A, length: u8) -> u128 {
    address.into().checked_shr(u32::from(A::BITS - length)).unwrap_or(0)
}

/// Searches for each length, longest first.
struct Oracle {
    routes: HashMap<(u8, u128), u32>,
}

impl Oracle {
    fn new<A: Address>(routes: &[Route<A>]) -> Self {
        let key = |route: &Route<A>| (route.length, head(route.prefix, route.length));
        Self { routes: routes.iter().map(|route| (key(route), route.hop)).collect() }
    }

    fn lookup<A: Address>(&self, address: A) -> Option<u32> {
        (0..=A::BITS)
            .rev()
            .find_map(|length| self.routes.get(&(length, head(address, length))).copied())
    }
}

/// The smallest and the greatest address of a prefix, and their neighbours.
fn corners<A: Address>(route: &Route<A>) -> Vec<A> {
    let whole = if A::BITS == 128 { u128::MAX } else { (1 << A::BITS) - 1 };
    let host = whole.checked_shr(u32::from(route.length)).unwrap_or(0);
    let host = if A::BITS == 128 && route.length == 0 { u128::MAX } else { host };
    let (least, greatest) = (route.prefix.into() & !host, route.prefix.into() | host);
    [least, least.wrapping_sub(1), greatest, greatest.wrapping_add(1)]
        .map(|number| A::truncate(number & whole))
        .to_vec()
}

/// Looks addresses up by the kernel, in batches, and compares.
fn check<A: Address>(
    rng: &mut Rng,
    table: &[u32],
    oracle: &Oracle,
    decisions: Decisions<'_>,
    addresses: &[A],
) {
    assert_eq!(check_table(table), Ok(()));
    for chunk in addresses.chunks(3000) {
        let slices: Vec<Vec<u8>> = chunk.iter().map(|address| address.to_bytes()).collect();
        let width = usize::from(A::BITS / 8);
        let mut batch = Batch::new(rng, chunk.len(), &[Slice { rows: &slices, width }], &[]);
        (batch.launch.field_shift, batch.launch.field_mask) = (4, 0xff << 4);
        batch.run(rng, A::KERNEL, table, None);
        for (row, &address) in chunk.iter().enumerate() {
            let expected = oracle.lookup(address);
            assert_eq!(batch.result(row), expected.unwrap_or(NONE), "{:x}", address.into());
            let decision = expected.map_or(decisions.miss, |hop| decisions.hops[hop as usize]);
            let field = if decision == DROP { 0xff } else { decision + 1 };
            assert_eq!(batch.predicate(row), field << 4);
        }
    }
}

/// Routes that are nested or adjacent.
fn routes<A: Address>(rng: &mut Rng, count: usize, hops: u32) -> Vec<Route<A>> {
    let mut routes: Vec<Route<A>> = Vec::new();
    for _ in 0..count {
        let near =
            rng.bool().then(|| rng.choice(routes.iter()).map(|route| route.prefix)).flatten();
        let prefix = match near {
            Some(near) => A::truncate(near.into() ^ 1_u128 << rng.u32(0..u32::from(A::BITS))),
            None => A::random(rng),
        };
        routes.push(Route { prefix, length: rng.u8(0..=A::BITS), hop: rng.u32(0..hops) });
    }
    routes
}

fn addresses<A: Address>(rng: &mut Rng, routes: &[Route<A>]) -> Vec<A> {
    let mut addresses: Vec<A> = routes.iter().flat_map(corners).collect();
    addresses.extend((0..500).map(|_| A::random(rng)));
    addresses
}

/// Decisions of which some are equal, and some drop.
fn outputs(hops: u32) -> Vec<u32> {
    (0..hops).map(|hop| if hop % 7 == 3 { DROP } else { hop % 5 }).collect()
}

#[test]
pub(crate) fn random_routes_of_ipv4() {
    let mut rng = Rng::with_seed(4);
    for (count, hops) in [(0, 0), (1, 1), (40, 9), (10_000, 300)] {
        let outputs = outputs(hops);
        let decisions = Decisions { hops: &outputs, miss: DROP };
        let routes = routes::<u32>(&mut rng, count, hops);
        let table = Lpm4::build(routes.iter().copied(), decisions).unwrap();
        assert_eq!(table.words()[2], 0, "narrow entries");
        let addresses = addresses(&mut rng, &routes);
        check(&mut rng, table.words(), &Oracle::new(&routes), decisions, &addresses);
    }
}

#[test]
pub(crate) fn many_hops_of_ipv4_take_wide_entries() {
    let mut rng = Rng::with_seed(5);
    let outputs = outputs(40_000);
    let decisions = Decisions { hops: &outputs, miss: 2 };
    let mut routes = routes::<u32>(&mut rng, 2000, 40_000);
    routes.push(Route { prefix: 0x0a00_0001, length: 32, hop: 39_999 });
    let table = Lpm4::build(routes.iter().copied(), decisions).unwrap();
    assert_eq!(table.words()[2], 1, "wide entries");
    let addresses = addresses(&mut rng, &routes);
    check(&mut rng, table.words(), &Oracle::new(&routes), decisions, &addresses);
}

#[test]
pub(crate) fn random_routes_of_ipv6() {
    let mut rng = Rng::with_seed(6);
    for (count, hops) in [(0, 0), (1, 1), (40, 9), (10_000, 300)] {
        let outputs = outputs(hops);
        let decisions = Decisions { hops: &outputs, miss: 1 };
        let routes = routes::<u128>(&mut rng, count, hops);
        let table = Lpm6::build(routes.iter().copied(), decisions).unwrap();
        assert!(table.words().len() * 4 <= (1 << 18) + 256 + 4 * outputs.len() + 250 * count);
        let addresses = addresses(&mut rng, &routes);
        check(&mut rng, table.words(), &Oracle::new(&routes), decisions, &addresses);
    }
}

/// Hosts whose paths are long and differ late, with and without a default route.
#[test]
pub(crate) fn hosts_of_ipv6() {
    let mut rng = Rng::with_seed(7);
    let outputs = outputs(8);
    let decisions = Decisions { hops: &outputs, miss: DROP };
    for default in [false, true] {
        let base = rng.u128(..);
        let mut routes: Vec<Route<u128>> = (0..64)
            .map(|_| {
                let prefix = base ^ 1 << rng.u32(0..100);
                Route {
                    prefix,
                    length: *rng.choice([64, 120, 127, 128].iter()).unwrap(),
                    hop: rng.u32(0..8),
                }
            })
            .collect();
        if default {
            routes.push(Route { prefix: 0, length: 0, hop: 7 });
        }
        let table = Lpm6::build(routes.iter().copied(), decisions).unwrap();
        let addresses = addresses(&mut rng, &routes);
        check(&mut rng, table.words(), &Oracle::new(&routes), decisions, &addresses);
    }
}

/// A table that was changed one route at a time is equal to one that is built from the remaining routes.
#[test]
pub(crate) fn changes_of_ipv4() {
    let mut rng = Rng::with_seed(8);
    let outputs = outputs(20);
    let decisions = Decisions { hops: &outputs, miss: DROP };
    let mut table = Lpm4::build([], decisions).unwrap();
    let held = table.words().clone();
    // A copy that is updated only by the reported changes, and a reader that sometimes reads an earlier one.
    let (mut far, mut copied) = (Vec::new(), 0);
    let mut reader = None;
    // Many routes are in the same few networks. The largest networks take long to write, so they are rare.
    let mut kept: HashMap<(u32, u8), u32> = HashMap::new();
    for step in 0..2000 {
        let length = if rng.u8(..) == 0 { rng.u8(0..8) } else { rng.u8(12..=32) };
        let prefix =
            rng.u32(..) & 0x0003_03ff & u32::MAX.checked_shl(32 - u32::from(length)).unwrap_or(0);
        if rng.u8(0..3) == 0 {
            let there = kept.remove(&(prefix, length)).is_some();
            assert_eq!(table.remove(prefix, length), Ok(there));
        } else {
            let hop = rng.u32(0..20);
            kept.insert((prefix, length), hop);
            table.insert(Route { prefix, length, hop }).unwrap();
        }
        assert_eq!(table.routes(), kept.len());
        far.resize(table.words().len(), 0);
        for range in table.take_changes() {
            copied += range.len();
            far[range.clone()].copy_from_slice(&table.words()[range]);
        }
        if rng.u8(..) < 32 {
            reader = rng.bool().then(|| table.words().clone());
        }
        if step % 200 == 199 {
            let routes: Vec<Route<u32>> = kept
                .iter()
                .map(|(&(prefix, length), &hop)| Route { prefix, length, hop })
                .collect();
            let addresses = addresses(&mut rng, &routes);
            check(&mut rng, table.words(), &Oracle::new(&routes), decisions, &addresses);
            assert!(far == **table.words(), "step {step}: what has changed was not said");
        }
    }
    drop(reader);
    assert!(copied < 30 * far.len(), "2,000 changes, {copied} words");
    assert!(
        held[16..].iter().all(|&word| word == 0 || word < 20 || word == DROP),
        "what a device holds does not change"
    );
    // Groups are reused.
    for (prefix, length) in kept.into_keys() {
        table.remove(prefix, length).unwrap();
    }
    let bytes = table.words().len() * 4;
    assert!(bytes < (32 << 20) + 1024 + 1024 * 512, "{bytes}");
    check(&mut rng, table.words(), &Oracle::new::<u32>(&[]), decisions, &[0, 1, 0x300, u32::MAX]);
}

#[test]
pub(crate) fn decisions_of_ipv4_change_and_grow() {
    let mut rng = Rng::with_seed(9);
    let mut outputs = vec![0];
    let mut routes = vec![Route { prefix: 0, length: 0, hop: 0 }];
    let mut table = Lpm4::build(routes.clone(), Decisions { hops: &outputs, miss: 9 }).unwrap();
    assert_eq!(table.set_output(2, 0), Err(TableError::Hop { hop: 2, hops: 1 }));
    for hop in 1..100_u32 {
        table.set_output(hop, hop % 13).unwrap();
        outputs.push(hop % 13);
        let route = Route { prefix: hop << 20, length: 12, hop };
        table.insert(route).unwrap();
        routes.push(route);
    }
    table.set_output(0, DROP).unwrap();
    outputs[0] = DROP;
    let decisions = Decisions { hops: &outputs, miss: 9 };
    let addresses = addresses(&mut rng, &routes);
    check(&mut rng, table.words(), &Oracle::new(&routes), decisions, &addresses);
}

#[test]
pub(crate) fn a_packet_without_a_whole_address_has_no_route() {
    let mut rng = Rng::with_seed(10);
    let decisions = Decisions { hops: &[5], miss: 2 };
    let four = Lpm4::build([Route { prefix: 0, length: 0, hop: 0 }], decisions).unwrap();
    let six = Lpm6::build([Route { prefix: 0, length: 0, hop: 0 }], decisions).unwrap();
    for (kernel, words, width) in [(Kernel::Lpm4, four.words(), 4), (Kernel::Lpm6, six.words(), 16)]
    {
        let slices: Vec<Vec<u8>> = (0..=width).map(|bytes| vec![1; bytes]).collect();
        let mut batch = Batch::new(&mut rng, width + 1, &[Slice { rows: &slices, width }], &[]);
        (batch.launch.field_shift, batch.launch.field_mask) = (0, 7);
        batch.set_conditions(&[Condition { mask: 0x80, value: 0 }]);
        batch.set_predicate(1, 0x80);
        batch.run(&mut rng, kernel, words, None);
        for row in 0..width {
            assert_eq!(
                (batch.result(row), batch.predicate(row)),
                (NONE, if row == 1 { 0x80 } else { 3 })
            );
        }
        assert_eq!((batch.result(width), batch.predicate(width)), (0, 6));
    }
}

#[test]
pub(crate) fn invalid_tables_are_rejected() {
    let decisions = Decisions { hops: &[0, 1], miss: 0 };
    let wrong = [
        (33, 0, TableError::PrefixLength { length: 33, most: 32 }),
        (8, 2, TableError::Hop { hop: 2, hops: 2 }),
    ];
    let mut table = Lpm4::build([], decisions).unwrap();
    for (length, hop, error) in wrong {
        let route = Route { prefix: 0, length, hop };
        assert_eq!(Lpm4::build([route], decisions).unwrap_err(), error);
        assert_eq!(table.insert(route), Err(error));
    }
    let long = Route { prefix: 0, length: 129, hop: 0 };
    let error = TableError::PrefixLength { length: 129, most: 128 };
    assert_eq!(Lpm6::build([long], decisions).unwrap_err(), error);
    // A group for each of 250,000 networks.
    let hosts = (0..250_000).map(|network| Route { prefix: network << 8, length: 32, hop: 0 });
    let error = Lpm4::build(hosts, decisions).unwrap_err();
    assert!(matches!(error, TableError::TooLarge { .. }), "{error}");
}

/// The IPv6 routes of a file of Debian's python3-pyasn. The number of the autonomous system determines the hop.
fn real_routes_of_ipv6(text: &str) -> Vec<Route<u128>> {
    let route = |line: &str| {
        let (prefix, system) = line.split_once('\t')?;
        let (address, length) = prefix.split_once('/')?;
        let address: std::net::Ipv6Addr = address.parse().ok()?;
        let system: u32 = system.trim().parse().ok()?;
        Some(Route { prefix: address.to_bits(), length: length.parse().ok()?, hop: system % 200 })
    };
    text.lines().filter_map(route).collect()
}

/// Corners of some routes, and random addresses.
fn some_addresses<A: Address>(rng: &mut Rng, routes: &[Route<A>]) -> Vec<A> {
    let some: Vec<Route<A>> = rng.choose_multiple(routes.iter().copied(), 3000);
    addresses(rng, &some)
}

#[test]
pub(crate) fn real_routes() {
    let Some(four) = millrace_testkit::routes!() else { return };
    let mut rng = Rng::with_seed(11);
    let outputs = outputs(200);
    let decisions = Decisions { hops: &outputs, miss: DROP };
    let four: Vec<Route<u32>> = four
        .iter()
        .map(|&(prefix, length, system)| Route { prefix, length, hop: system % 200 })
        .collect();
    let table = Lpm4::build(four.iter().copied(), decisions).unwrap();
    let bytes = table.words().len() * 4;
    // The comment at the start of `lpm4` promises this size for an H100.
    assert!(bytes < 50_000_000, "{bytes}");
    let addresses = some_addresses(&mut rng, &four);
    check(&mut rng, table.words(), &Oracle::new(&four), decisions, &addresses);

    let folder = millrace_testkit::data::Data::Routes.folder().unwrap();
    let six =
        real_routes_of_ipv6(&std::fs::read_to_string(folder.join("ipasn6_20151101.dat")).unwrap());
    assert!(six.len() > 20_000, "{}", six.len());
    let table = Lpm6::build(six.iter().copied(), decisions).unwrap();
    let bytes = table.words().len() * 4;
    assert!(bytes < 3 << 20, "{bytes}");
    let addresses = some_addresses(&mut rng, &six);
    check(&mut rng, table.words(), &Oracle::new(&six), decisions, &addresses);
}
