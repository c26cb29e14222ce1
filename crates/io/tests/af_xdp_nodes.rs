//! AF_XDP on a machine with several NUMA nodes: the arena is divided as it would be there.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::process::Command;
use std::time::{Duration, Instant};

use millrace_core::memory::{Arena, ArenaConfig};
use millrace_core::{Batch, Packet};
use millrace_io::af_xdp::AfXdp;
use millrace_io::{Backend, RxOptions, TxOptions};
use rustix::thread::{UnshareFlags, unshare_unsafe};

fn ip(arguments: &str) {
    let program = millrace_testkit::find_program("ip").unwrap();
    assert!(Command::new(program).args(arguments.split(' ')).status().unwrap().success());
}

/// The thread's packets are of one node, and the devices are on another.
#[test]
#[allow(unsafe_code, reason = "a network of its own for a thread")]
fn packets_go_by_devices_of_other_nodes() {
    let Some(_alone) = millrace_testkit::privileged!("ip") else { return };
    Arena::configure(ArenaConfig { nodes: Some(2), ..ArenaConfig::from(8192) }).unwrap();
    std::thread::spawn(|| {
        // SAFETY: this thread shares no descriptors that depend on its network.
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        Arena::use_node(0);
        ip("link add name a type veth peer name b");
        ip("link set dev a up");
        ip("link set dev b up");
        let there = Some(1);
        let options = TxOptions { numa_node: there, ..TxOptions::default() };
        let mut a = AfXdp.open_tx("a", &options).unwrap().queues.remove(0);
        let options = RxOptions { numa_node: there, ..RxOptions::default() };
        let mut b = AfXdp.open_rx("b", &options).unwrap().queues.remove(0);
        let mut batch = Batch::new();
        (0..100u8).for_each(|n| batch.push(Packet::from_bytes(&[n; 60]).unwrap()).unwrap());
        assert_eq!(a.transmit(&mut batch).unwrap(), 100);
        let end = Instant::now() + Duration::from_secs(60);
        let mut came = Batch::new();
        while came.iter().filter(|packet| packet.data() == [packet.data()[0]; 60]).count() < 100 {
            assert!(Instant::now() < end, "{} came, {:?} lost", came.len(), a.counts());
            b.receive(&mut came, 256).unwrap();
        }
        let regions = Arena::regions();
        let mut of_node_1 = regions.iter().filter(|region| region.node == 1);
        assert!(came.iter().all(|packet| of_node_1.clone().any(|r| r.offset_of(packet).is_some())));
        assert!(of_node_1.next().is_some());
    })
    .join()
    .unwrap();
}
