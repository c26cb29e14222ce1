//! The arena's books, in a process of their own: size, exhaustion, the way to the heap, and that all comes
//! back. One test, for the arena is one for the process.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::thread;

use millrace_core::memory::{
    Arena, ArenaConfig, ArenaInUse, Batch, CopyCause, JUMBO_ROOM, Packet, SlotClass, copies,
};

#[test]
fn the_books_balance() {
    let config = ArenaConfig { standard: 100, jumbo: 3, shells: 10, nodes: None };
    assert_eq!(Arena::configure(7), Ok(()));
    assert_eq!(Arena::configure(config), Ok(()), "until the first packet, the last word counts");
    let first = Packet::from_bytes(b"first").unwrap();
    assert_eq!(Arena::configure(1000), Err(ArenaInUse));
    assert_eq!(Arena::stats().class(SlotClass::Standard).slots, 100);
    assert_eq!(Arena::stats().in_use(), 1);

    exhaust(&first);
    grow_on_the_heap();
    drop(first);
    assert_eq!(Arena::stats().in_use(), 0);
    drain_by_halves();
    cross_threads();
    every_slot_is_there_once();
    regions();
}

fn exhaust(first: &Packet) {
    let mut batch = Batch::new();
    assert_eq!(batch.allocate(200, 1500), 99);
    assert!(Packet::from_bytes(b"one too many").is_none());
    let stats = Arena::stats().class(SlotClass::Standard);
    assert_eq!((stats.in_use, stats.cached, stats.exhausted), (100, 0, 2));
    assert_eq!(stats.peak, 100);

    // What must not fail takes memory from the heap, and gives it back.
    let mut shared = first.share().unwrap();
    assert!(first.copy().is_none());
    let before = copies::snapshot();
    shared.data_mut()[0] = b'F';
    assert_eq!((shared.data(), first.data()), (&b"First"[..], &b"first"[..]));
    assert_eq!(copies::snapshot().since(&before).get(CopyCause::Unshare), 1);
    assert_eq!(Arena::stats().heap_slots, 1);
    drop(shared);
    assert_eq!(Arena::stats().heap_slots, 0);

    let shares: Vec<Packet> = (0..20).map_while(|_| first.share()).collect();
    assert_eq!(shares.len(), 10);
    drop(shares);
    assert_eq!(Arena::stats().class(SlotClass::Shell).in_use, 0);
    batch.clear();
    assert_eq!(Arena::stats().in_use(), 1);

    let jumbo: Vec<Packet> = (0..9).map_while(|_| Packet::with_len(9000)).collect();
    assert_eq!(jumbo.len(), 3);
    assert_eq!(jumbo[0].tailroom(), JUMBO_ROOM - 128 - 9000);
}

fn grow_on_the_heap() {
    let mut packet = Packet::with_len(300_000).unwrap();
    assert_eq!(Arena::stats().heap_slots, 1);
    packet.set_mac_header(0);
    assert!(packet.strip(250_000));
    assert_eq!((packet.len(), packet.headroom()), (50_000, 250_128));
    assert_eq!(packet.mac_header(), None, "too far off");
    packet.set_network_header(49_000, 20);
    assert_eq!(packet.network_offset(), None, "an offset that 16 bits cannot say");
    packet.set_network_header(20, 20);
    assert_eq!(packet.network_offset(), Some(20));
    let share = packet.share().unwrap();
    drop(packet);
    assert_eq!(Arena::stats().heap_slots, 1);
    let mut share = share;
    share.prepend(200_000).fill(7);
    assert_eq!((share.len(), share.network_header()), (250_000, None));
    drop(share);
    assert_eq!(Arena::stats().heap_slots, 0);
}

fn cross_threads() {
    let (send, receive) = std::sync::mpsc::sync_channel::<Batch>(2);
    let producer = thread::spawn(move || {
        let mut made = 0;
        while made < 20_000 {
            let mut batch = Batch::new();
            match batch.allocate(16, 1500) {
                0 => thread::yield_now(),
                n => made += n,
            }
            send.send(batch).unwrap();
        }
        made
    });
    let freed: usize = receive.iter().map(|batch| batch.len()).sum();
    assert_eq!(producer.join().unwrap(), freed);
    let stats = Arena::stats().class(SlotClass::Standard);
    assert_eq!(stats.in_use, 0);
    assert!(stats.cached <= 100 && stats.peak <= 100);
}

fn drain_by_halves() {
    let mut batch = Batch::new();
    assert_eq!(batch.allocate(50, 1500), 50);
    assert_eq!(batch.drain_run(10..40).take(5).count(), 5);
    assert_eq!((batch.len(), Arena::stats().in_use()), (20, 20));
    batch.map_filter(|packet| Some(packet).filter(|_| false));
    assert_eq!((batch.len(), Arena::stats().in_use()), (0, 0));

    // An element that panics in the middle of routing loses the batch, not the memory.
    assert_eq!(batch.allocate(50, 1500), 50);
    let ports = std::array::from_fn::<u16, 50, _>(|index| index as u16 / 10);
    let routing = AssertUnwindSafe(|| {
        batch.distribute(&ports, |port, run| {
            assert_eq!(run.take(3).count(), 3);
            if port == 2 {
                resume_unwind(Box::new(()));
            }
        });
    });
    assert!(catch_unwind(routing).is_err());
    assert_eq!((batch.len(), Arena::stats().in_use()), (0, 0));
}

fn every_slot_is_there_once() {
    let mut batch = Batch::new();
    assert_eq!(batch.allocate(200, 1500), 100);
    let mut places: Vec<_> = batch.iter().map(|packet| packet.data().as_ptr()).collect();
    places.sort_unstable();
    places.dedup();
    assert_eq!(places.len(), 100);
}

fn regions() {
    let packet = Packet::for_receive(1500).unwrap();
    let at = packet.data().as_ptr() as usize;
    let regions = Arena::regions();
    let region = regions.iter().find(|region| region.class == SlotClass::Standard).unwrap();
    let base = region.base.as_ptr() as usize;
    assert_eq!(region.offset_of(&packet), Some(at - base));
    assert_eq!((at - base) % region.stride, 192 + 128);
    assert_eq!(region.descriptor_at(at - base), Some(packet.into_raw()));
    assert_eq!(region.descriptor_at(region.slots * region.stride), None);
    let report = Arena::stats().to_string();
    assert!(report.contains("100 standard slots") && report.contains("pages"), "{report}");
}
