//! Interfaces, processes and permissions that come and go.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use millrace_core::Batch;
use millrace_io::af_xdp::AfXdp;
use millrace_io::{Backend, DeviceError, Queues, RxOptions, TxOptions, XdpHook};

use super::{number_of, numbered, receive_from, rx, transmit_to, two_queues, wired, xdp};
use crate::rig::{PATIENCE, batch_of, link, pair, receive, run, send};

#[test]
fn an_interface_goes_and_comes_back() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    let namespace = wired();
    namespace.enter(|| {
        let mut a = transmit_to("a", Queues::default()).remove(0);
        let mut b = receive_from("b", &rx(two_queues())).remove(0);
        send(&mut a, &[numbered(1)]);
        assert_eq!(receive(&mut b, 1).len(), 1);

        run("ip link set dev a down");
        let mut batch = batch_of(&[numbered(2)]);
        // What the kernel took before it said so stays in the ring.
        while a.transmit(&mut batch).is_ok() {
            batch = batch_of(&[numbered(2)]);
        }
        assert_eq!(batch.len(), 1);
        run("ip link set dev a up");
        assert_eq!(a.transmit(&mut batch).unwrap(), 1);
        assert!(!receive(&mut b, 1).is_empty());

        run("ip link delete dev a");
        let end = Instant::now() + PATIENCE;
        let error = loop {
            assert!(Instant::now() < end);
            if let Err(error) = b.receive(&mut batch, 256) {
                break error;
            }
        };
        assert_eq!(error.raw_os_error(), Some(libc::ENODEV));
        assert_eq!(b.receive(&mut batch, 256).unwrap(), 0, "said once");
        let mut batch = batch_of(&[numbered(3)]);
        while a.transmit(&mut batch).is_ok() {
            batch = batch_of(&[numbered(3)]);
        }
        pair("a", "b", 2);
        let end = Instant::now() + PATIENCE;
        let mut arrived = Batch::new();
        while arrived.is_empty() {
            assert!(Instant::now() < end, "they find each other again");
            let mut batch = batch_of(&[numbered(4)]);
            let _ = a.transmit(&mut batch);
            b.receive(&mut arrived, 256).unwrap();
        }
        assert_eq!(number_of(arrived[0].data()), 4);
    });
}

/// It keeps its number on the way, and yet the kernel has forgotten who received from it.
#[test]
fn an_interface_goes_to_another_namespace_and_comes_back() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    let namespace = wired();
    namespace.enter(|| {
        let mut a = transmit_to("a", Queues::default()).remove(0);
        let mut others = receive_from("a", &rx(two_queues()));
        let mut queues = receive_from("b", &rx(two_queues()));
        let mut sending = transmit_to("b", Queues::default()).remove(0);
        let away = format!("{}-away", namespace.name());
        run(&format!("ip netns add {away}"));
        run(&format!("ip link set dev b netns {away}"));
        run(&format!("ip -n {away} link set dev b netns {}", namespace.name()));
        run(&format!("ip netns delete {away}"));
        run("ip link set dev b up");
        let end = Instant::now() + PATIENCE;
        let mut arrived = Batch::new();
        let mut back = Batch::new();
        while arrived.is_empty() || back.is_empty() {
            assert!(Instant::now() < end, "both directions go on");
            let _ = a.transmit(&mut batch_of(&[numbered(4)]));
            let _ = sending.transmit(&mut batch_of(&[numbered(5)]));
            for queue in &mut queues {
                // That it was away is said once.
                let _ = queue.receive(&mut arrived, 256);
            }
            for queue in &mut others {
                queue.receive(&mut back, 256).unwrap();
            }
        }
    });
}

/// By whatever name, it is the same interface. One of the old name is used only when it has gone.
#[test]
fn an_interface_is_renamed_and_back() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    let namespace = wired();
    namespace.enter(|| {
        let mut a = transmit_to("a", Queues::default()).remove(0);
        let mut others = receive_from("a", &rx(two_queues())).remove(0);
        let mut b = receive_from("b", &rx(two_queues())).remove(0);
        let mut sending = transmit_to("b", Queues::default()).remove(0);
        for (now, name) in [("b", "away"), ("away", "b"), ("b", "other"), ("other", "b")] {
            run(&format!("ip link set dev {now} name {name}"));
            for n in 0..200 {
                // Time to notice, for idle queues too.
                assert_eq!(receive(&mut b, 0).len() + receive(&mut others, 0).len(), 0);
                if n % 50 == 0 {
                    send(&mut a, &[numbered(n)]);
                    assert_eq!(receive(&mut b, 1).len(), 1, "{name}");
                    send(&mut sending, &[numbered(n)]);
                    assert_eq!(receive(&mut others, 1).len(), 1, "{name}");
                }
            }
        }
        run("ip link set dev b name away");
        pair("b", "e", 2);
        send(&mut a, &[numbered(1)]);
        assert_eq!(receive(&mut b, 1).len(), 1, "the new one of its name is another");
        run("ip link delete dev away");
        let mut peer = transmit_to("e", Queues::default()).remove(0);
        let end = Instant::now() + PATIENCE;
        let mut arrived = Batch::new();
        while arrived.is_empty() {
            assert!(Instant::now() < end, "the one of its name is used");
            let _ = peer.transmit(&mut batch_of(&[numbered(6)]));
            // That it was away is said once.
            let _ = b.receive(&mut arrived, 256);
        }
        assert_eq!(number_of(arrived[0].data()), 6);
    });
}

/// Names the interface that the test below is to hold until it is killed.
const HOLD: &str = "MILLRACE_TEST_HOLD";

#[test]
fn holds_an_interface() {
    let Ok(device) = std::env::var(HOLD) else { return };
    let _b = receive_from(&device, &RxOptions { promiscuous: true, ..rx(two_queues()) });
    loop {
        std::thread::sleep(Duration::from_secs(1));
    }
}

#[test]
fn a_killed_process_leaves_nothing_behind() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    let namespace = wired();
    namespace.enter(|| {
        let ip = millrace_testkit::find_program("ip").unwrap();
        let mut holder = Command::new(ip)
            .args(["netns", "exec", namespace.name()])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "xdp::life::holds_an_interface"])
            .env(HOLD, "b")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let wait_for = |what: &str, is_there: bool| {
            let end = Instant::now() + PATIENCE;
            while link("b").contains(what) != is_there {
                assert!(Instant::now() < end, "{what}: {}", link("b"));
                std::thread::sleep(Duration::from_millis(5));
            }
        };
        wait_for("promiscuity 2", true);
        assert!(link("b").contains("prog/xdp"));
        // A program that is there is respected.
        let error = AfXdp.open_rx("b", &rx(two_queues())).err().unwrap().to_string();
        assert!(error.contains("another XDP program"), "{error}");
        holder.kill().unwrap();
        holder.wait().unwrap();
        // What it had is free again, at the latest after some tries of the next one.
        let b = receive_from("b", &rx(two_queues()));
        assert!(link("b").contains("prog/xdp"));
        drop(b);
        wait_for("prog/xdp", false);
        wait_for("promiscuity 0", true);
    });
}

#[test]
fn what_cannot_be_opened_is_explained() {
    let open = |device: &str, options: RxOptions| AfXdp.open_rx(device, &options).err();
    assert!(matches!(
        open("no-such-device", RxOptions::default()),
        Some(DeviceError::Unknown(name)) if name == "no-such-device"
    ));
    for (options, problem) in [
        (RxOptions { filter: vec![(6, 0, 0, 0)], ..RxOptions::default() }, "ONLY"),
        (RxOptions { outbound: true, ..RxOptions::default() }, "OUTBOUND"),
        (RxOptions { headroom: 257, ..RxOptions::default() }, "HEADROOM"),
        (RxOptions { descriptors: Some(100), ..RxOptions::default() }, "power of two"),
        (RxOptions { queues: Queues { first: 9, count: 1 }, ..RxOptions::default() }, "no queue 9"),
    ] {
        let message = open("lo", options).unwrap().to_string();
        assert!(message.contains(problem), "{message}");
    }
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired().enter(|| {
        run("ip tuntap add dev t0 mode tun");
        let message = open("t0", RxOptions::default()).unwrap().to_string();
        assert!(message.contains("no Ethernet header"), "{message}");
        let in_place = xdp(|xdp| xdp.zero_copy = Some(true));
        assert!(open("b", RxOptions { method: in_place, ..rx(two_queues()) }).is_some());
        assert!(!link("b").contains("xdp"), "nothing is left of the attempt");
        let symmetric = RxOptions { spread: millrace_io::Spread::Symmetric, ..rx(two_queues()) };
        let message = open("b", symmetric).unwrap().to_string();
        assert!(message.contains("symmetrically"), "{message}");
        let in_driver = xdp(|xdp| xdp.hook = XdpHook::Driver);
        run("ip link add name bridge0 type bridge");
        assert!(open("bridge0", RxOptions { method: in_driver, ..RxOptions::default() }).is_some());
        let message = AfXdp.open_tx(
            "b",
            &TxOptions { queues: Queues { first: 5, count: 1 }, ..TxOptions::default() },
        );
        assert!(message.err().unwrap().to_string().contains("no transmit queue 5"));
    });
}
