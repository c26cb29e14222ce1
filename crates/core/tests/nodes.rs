//! Packets and NUMA nodes, on a machine that may have one node only: the arena is told that there are two.
//! In a process of its own, for the arena is one for the process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use millrace_core::memory::{Arena, ArenaConfig, Batch, Packet, PoolStats, SlotClass};

fn standard(node: usize) -> PoolStats {
    let mut pools = Arena::stats().pools.into_iter();
    pools.find(|pool| pool.node == node && pool.class == SlotClass::Standard).unwrap()
}

#[test]
fn packets_go_back_to_the_node_that_they_came_from() {
    let config = ArenaConfig { nodes: Some(2), ..ArenaConfig::from(4096) };
    Arena::configure(config).unwrap();
    Arena::use_node(1);
    let mut batch = Batch::new();
    assert_eq!(batch.allocate(200, 1500), 200);
    assert_eq!((standard(0).in_use, standard(1).in_use), (0, 200));
    assert_eq!(standard(1).slots, 2048);

    // What the thread kept of node 1 went home, and its next packets come from node 0.
    Arena::use_node(0);
    assert_eq!((standard(1).in_use, standard(1).cached), (200, 0));
    let mut other = Batch::new();
    assert_eq!(other.allocate(10, 1500), 10);
    assert_eq!((standard(0).in_use, standard(1).in_use), (10, 200));
    other.append(&mut batch);
    other.clear();
    let (first, second) = (standard(0), standard(1));
    assert_eq!((first.in_use, second.in_use), (0, 0));
    assert!(second.cached < 200, "most are at home already: {second:?}");

    // A node that does not exist is the first.
    Arena::use_node(77);
    assert_eq!(batch.allocate(1, 1500), 1);
    assert_eq!(standard(0).in_use, 1);

    // Where one node has nothing left, the other helps out.
    let mut all = Vec::new();
    while let Some(packet) = Packet::from_bytes(b"more") {
        all.push(packet);
    }
    assert_eq!(all.len() + 1, 4096);
    assert_eq!((standard(0).exhausted, standard(1).exhausted), (1, 0));
    drop(all);
    batch.clear();
    assert_eq!((standard(0).in_use, standard(1).in_use), (0, 0));
}
