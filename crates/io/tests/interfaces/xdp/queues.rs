//! Queues: how many, who has them, what they wait for.

use std::net::UdpSocket;
use std::time::Instant;

use millrace_core::{Batch, Packet};
use millrace_io::af_xdp::AfXdp;
use millrace_io::{Backend, Method, Queues, RxOptions};

use super::{number_of, numbered, receive_from, rx, transmit_to, two_queues, wired, xdp};
use crate::rig::{
    PATIENCE, becomes_readable, comes_to_rest, link, receive, receive_all, run, send,
};

#[test]
fn queues_are_as_many_as_asked_for() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl", "ethtool") else { return };
    wired().enter(|| {
        let facts = AfXdp.facts("b", &Method::default());
        assert_eq!((facts.rx_queues, facts.tx_queues), (Some(2), Some(2)));
        assert_eq!(AfXdp.facts("no-such-device", &Method::default()), Default::default());
        let mut a = transmit_to("a", Queues { first: 0, count: 7 });
        assert_eq!(a.len(), 2, "as many as there are");
        // One queue of ours stands for both of the device.
        let mut b = receive_from("b", &rx(Queues::default()));
        for n in 0..8 {
            send(&mut a[n as usize % 2], &[numbered(n)]);
        }
        assert_eq!(receive(&mut b[0], 8).len(), 8);
        drop(b);
        // Only the one that was named.
        let named = xdp(|xdp| xdp.every_queue = false);
        let options =
            RxOptions { method: named, queues: Queues { first: 1, count: 1 }, ..rx(two_queues()) };
        let opened = AfXdp.open_rx("b", &options).unwrap();
        assert!(opened.changes.iter().any(|change| change.contains("other queues")));
        let mut b = opened.queues;
        for n in 0..8 {
            send(&mut a[n as usize % 2], &[numbered(n)]);
        }
        let numbers: Vec<u32> = receive(&mut b[0], 4).iter().map(|p| number_of(p.data())).collect();
        assert_eq!(numbers, [1, 3, 5, 7]);
        drop(b);
        // A device that could have more gets them for a while.
        drop(a);
        run("ethtool -L d rx 1 tx 1");
        run("ethtool -L c rx 1 tx 1");
        let d = receive_from("d", &rx(two_queues()));
        assert_eq!(AfXdp.facts("d", &Method::default()).rx_queues, Some(2));
        drop(d);
        assert_eq!(AfXdp.facts("d", &Method::default()).rx_queues, Some(1));
    });
}

#[test]
fn two_users_share_a_queue() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired().enter(|| {
        let promiscuous = RxOptions { promiscuous: true, ..rx(two_queues()) };
        let mut old = receive_from("b", &promiscuous);
        assert!(link("b").contains("promiscuity 2"), "one for each queue: {}", link("b"));
        let opened = AfXdp.open_rx("b", &rx(two_queues())).unwrap();
        assert!(opened.changes.iter().any(|change| change.contains("shared")));
        let mut new = opened.queues;
        let mut a = transmit_to("a", two_queues()).remove(0);
        send(&mut a, &[numbered(1)]);
        assert_eq!(receive(&mut old[0], 1).len(), 1);
        drop(old);
        assert!(link("b").contains("promiscuity 0"));
        send(&mut a, &[numbered(2)]);
        assert_eq!(receive(&mut new[0], 1).len(), 1);
        drop(new);
        assert!(!link("b").contains("xdp"));
    });
}

#[test]
fn a_thread_sleeps_until_packets_come() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired().enter(|| {
        let mut a = transmit_to("a", Queues::default()).remove(0);
        let mut b = receive_from("b", &rx(two_queues())).remove(0);
        let ready = b.readiness().unwrap();
        // That the interface was opened is told, too.
        comes_to_rest(&mut b, &ready);
        send(&mut a, &[numbered(1)]);
        assert!(becomes_readable([&ready]));
        assert_eq!(receive(&mut b, 1).len(), 1);
        comes_to_rest(&mut b, &ready);
        let polled = xdp(|xdp| xdp.busy_poll = Some(20));
        drop(b);
        let mut b = receive_from("b", &RxOptions { method: polled, ..rx(two_queues()) }).remove(0);
        assert!(b.readiness().is_none());
        send(&mut a, &[numbered(2)]);
        assert_eq!(receive(&mut b, 1).len(), 1);
    });
}

#[test]
fn an_exhausted_arena_is_survived() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired().enter(|| {
        let mut b = receive_from("b", &rx(two_queues()));
        let mut taken: Vec<Packet> = std::iter::from_fn(|| Packet::with_len(60)).collect();
        let socket = UdpSocket::bind("10.9.0.1:4000").unwrap();
        let mut batch = Batch::new();
        // More than the kernel has packets for.
        for _ in 0..10_000 {
            socket.send_to(&[1; 20], "10.9.0.2:5000").unwrap();
            for queue in &mut b {
                queue.receive(&mut batch, 256).unwrap();
                taken.extend(batch.drain());
            }
        }
        let lost: u64 = b.iter().map(|queue| queue.counts().lost).sum();
        assert!(lost > 1000, "{lost}");
        assert!(Packet::with_len(60).is_none());
        // Threads that sleep are woken to ask again, although nothing comes.
        for queue in &mut b {
            while queue.receive(&mut batch, 256).unwrap() > 0 {
                taken.extend(batch.drain());
            }
            // The flow came by one of them.
            let lacks = queue.counts().lost > 0;
            assert!(!lacks || becomes_readable([&queue.readiness().unwrap()]));
        }
        drop(taken);
        for queue in &mut b {
            let ready = queue.readiness().unwrap();
            comes_to_rest(queue, &ready);
        }
        for _ in 0..100 {
            socket.send_to(&[2; 20], "10.9.0.2:5000").unwrap();
        }
        // The kernel may still have some from before on its hands.
        let end = Instant::now() + PATIENCE;
        let mut got = 0;
        while got < 100 {
            assert!(Instant::now() < end, "{got} of 100");
            let some = receive_all(&mut b, 0);
            got += some.iter().filter(|packet| packet.data().ends_with(&[2; 20])).count();
        }
    });
}
