//! Interfaces that come and go, and what opening them changes.

use std::net::UdpSocket;
use std::time::{Duration, Instant};

use millrace_core::{Batch, Packet};
use millrace_io::af_packet::AfPacket;
use millrace_io::{
    Backend, DeviceError, Machine, Method, Queues, RxOptions, RxQueue, TxOptions, TxQueue,
    XdpOptions, bpf,
};

use super::{by_each_method, numbered, transmit_by, transmit_to};
use crate::rig::{PATIENCE, becomes_readable, link, receive, receive_all, run, send, wired};

#[test]
fn interfaces_come_and_go() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    for (count, method) in [(1, Method::Ring), (2, Method::Ring), (1, Method::Socket)] {
        wired(1).enter(|| {
            let queues = Queues { first: 0, count };
            let options = RxOptions { method: method.clone(), queues, ..RxOptions::default() };
            let mut b = AfPacket.open_rx("b", &options).unwrap().queues;
            let mut a = transmit_by(method.clone(), "a");
            let works = |a: &mut Box<dyn TxQueue>, b: &mut Vec<Box<dyn RxQueue>>| {
                let end = Instant::now() + PATIENCE;
                while Instant::now() < end {
                    let mut batch = Batch::new();
                    batch.push(Packet::from_bytes(&numbered(1, 1)).unwrap()).unwrap();
                    let _ = a.transmit(&mut batch);
                    std::thread::sleep(Duration::from_millis(20));
                    let mut all = Batch::new();
                    b.iter_mut().for_each(|queue| while queue.receive(&mut all, 1).unwrap() > 0 {});
                    if !all.is_empty() {
                        return true;
                    }
                }
                false
            };
            assert!(works(&mut a, &mut b));
            // Down and up again.
            run("ip link set dev b down");
            b.iter_mut().for_each(|queue| says_once(queue, libc::ENETDOWN));
            run("ip link set dev b up");
            assert!(works(&mut a, &mut b));
            // Away, and another one of the same name.
            run("ip link delete dev a");
            b.iter_mut().for_each(|queue| says_once(queue, libc::ENETDOWN));
            let mut batch = Batch::new();
            batch.push(Packet::from_bytes(&numbered(1, 1)).unwrap()).unwrap();
            let error = a.transmit(&mut batch).unwrap_err().raw_os_error();
            assert!(matches!(error, Some(libc::ENXIO | libc::ENETDOWN)), "{error:?}");
            assert_eq!(batch.len(), 1);
            run("ip link add name a type veth peer name b");
            run("ip link set dev a up");
            run("ip link set dev b up");
            assert!(works(&mut a, &mut b));
            // What sleeps on a queue wakes up for packets of the new one, too.
            let asleep: Vec<_> = b.iter().map(|queue| queue.readiness().unwrap()).collect();
            send(&mut a, &[&numbered(1, 1)]);
            assert!(becomes_readable(&asleep));
        });
    }
}

#[test]
fn a_queue_waits_for_an_interface_that_is_down() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired(1).enter(|| {
        run("ip link set dev b down");
        for count in [1, 2] {
            let queues = Queues { first: 0, count };
            let options = RxOptions { queues, ..RxOptions::default() };
            let mut b = AfPacket.open_rx("b", &options).unwrap().queues;
            b.iter_mut().for_each(|queue| says_once(queue, libc::ENETDOWN));
            let asleep: Vec<_> = b.iter().map(|queue| queue.readiness().unwrap()).collect();
            run("ip link set dev b up");
            let looks = asleep.iter().all(|one| becomes_readable([one]));
            assert!(looks, "it looks for the interface");
            let mut a = transmit_to("a");
            let end = Instant::now() + PATIENCE;
            let mut received = Vec::new();
            while received.is_empty() {
                assert!(Instant::now() < end, "it finds the interface");
                send(&mut a, &[&numbered(1, 1)]);
                std::thread::sleep(Duration::from_millis(20));
                received = receive_all(&mut b, 0);
            }
            // Those that came together with it, and later.
            while !receive_all(&mut b, 0).is_empty() {}
            send(&mut a, &[&numbered(1, 1)]);
            assert_eq!(receive_all(&mut b, 1).len(), 1);
            run("ip link set dev b down");
        }
    });
}

#[test]
fn the_kernel_is_left_out() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method(|method| {
        run("ip address add 10.9.0.2/24 dev b");
        run("ip address delete 10.9.0.1/24 dev a");
        let host = UdpSocket::bind("10.9.0.2:9").unwrap();
        let mut a = transmit_by(method.clone(), "a");
        let mut reaches_the_host_within = |time: Duration| {
            host.set_read_timeout(Some(time)).unwrap();
            send(&mut a, &[&numbered(1, 1)]);
            host.recv(&mut [0; 16]).is_ok()
        };
        // The sender is nowhere, which the host must not mind.
        run("sysctl -q -w net.ipv4.conf.all.rp_filter=0");
        run("sysctl -q -w net.ipv4.conf.b.rp_filter=0");
        assert!(reaches_the_host_within(PATIENCE));
        for count in [1, 2] {
            let queues = Queues { first: 0, count };
            let method = method.clone();
            let options = RxOptions { method, queues, sniffer: false, ..RxOptions::default() };
            let mut opened = AfPacket.open_rx("b", &options).unwrap();
            assert_eq!(opened.changes.len(), 1, "{:?}", opened.changes);
            assert!(!reaches_the_host_within(Duration::from_millis(50)));
            assert_eq!(receive_all(&mut opened.queues, 1).len(), 1, "we get it");
            drop(opened);
            assert!(reaches_the_host_within(PATIENCE), "closing the device undoes it");
        }
    });
}

#[test]
fn the_best_is_af_xdp_or_else_rings() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired(1).enter(|| {
        let method = Method::Best(XdpOptions::default());
        let mut a = transmit_to("a");
        let out = TxOptions { method: method.clone(), ..TxOptions::default() };
        let out = Machine.open_tx("a", &out).unwrap();
        assert_eq!(out.changes[0], "AF_XDP is used");
        // AF_XDP runs no such filters.
        let filter = bpf::of_protocol(0x0800, &[]);
        for (filter, chosen) in [(vec![], "AF_XDP is used"), (filter, "packet rings are used")] {
            let options = RxOptions { method: method.clone(), filter, ..RxOptions::default() };
            let mut opened = Machine.open_rx("b", &options).unwrap();
            assert!(opened.changes[0].starts_with(chosen), "{:?}", opened.changes);
            send(&mut a, &[&numbered(1, 1)]);
            assert_eq!(receive(&mut opened.queues[0], 1).len(), 1);
        }
        let error = Machine.open_rx("c", &RxOptions { method, ..RxOptions::default() }).err();
        assert!(matches!(error, Some(DeviceError::Unknown(name)) if name == "c"));
    });
}

#[test]
fn what_cannot_be_opened_is_explained() {
    let open = |device: &str, options: RxOptions| AfPacket.open_rx(device, &options).err();
    assert!(matches!(
        open("no-such-device", RxOptions::default()),
        Some(DeviceError::Unknown(name)) if name == "no-such-device"
    ));
    let numbered = Queues { first: 1, count: 1 };
    let message = open("lo", RxOptions { queues: numbered, ..RxOptions::default() });
    let message = message.unwrap().to_string();
    assert!(message.contains("QUEUE"), "{message}");
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired(1).enter(|| {
        run("ip tuntap add dev t0 mode tun");
        let message = open("t0", RxOptions::default()).unwrap().to_string();
        assert!(message.contains("no Ethernet header"), "{message}");
        let promiscuous = RxOptions { promiscuous: true, ..RxOptions::default() };
        let opened = AfPacket.open_rx("b", &promiscuous).unwrap();
        assert_eq!(opened.changes.len(), 1);
        assert_eq!(opened.capabilities.max_length, Some(1514));
        assert!(link("b").contains("promiscuity 1"));
        drop(opened);
        assert!(!link("b").contains("promiscuity 1"), "closing the device undoes it");
    });
}

/// Waits until a queue fails, which it does once.
fn says_once(queue: &mut Box<dyn RxQueue>, error: libc::c_int) {
    let mut batch = Batch::new();
    let end = Instant::now() + PATIENCE;
    let said = loop {
        match queue.receive(&mut batch, 256) {
            Err(error) => break error.raw_os_error(),
            Ok(_) => assert!(Instant::now() < end, "it says nothing"),
        }
    };
    assert_eq!(said, Some(error));
    for _ in 0..1000 {
        queue.receive(&mut batch, 256).unwrap();
    }
}
