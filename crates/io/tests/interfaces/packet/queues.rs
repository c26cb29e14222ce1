//! How many packets queues share, hold, lose and keep in order.

use std::time::{Duration, Instant};

use millrace_core::{Batch, Packet};
use millrace_io::af_packet::AfPacket;
use millrace_io::{Backend, Queues, RxOptions};

use super::{by_each_method, numbered, receive_from, transmit_by, transmit_to};
use crate::rig::{B, PATIENCE, frame, receive, run, send, wired};

#[test]
fn queues_share_packets_by_flow() {
    const FLOWS: u32 = 32;
    const EACH: u32 = 50;
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method(|method| {
        let queues = Queues { first: 0, count: 2 };
        let options = RxOptions { method: method.clone(), queues, ..RxOptions::default() };
        let mut b = AfPacket.open_rx("b", &options).unwrap().queues;
        assert_eq!(b.len(), 2);
        let mut a = transmit_by(method, "a");
        for n in 0..EACH {
            let frames: Vec<_> = (0..FLOWS).map(|flow| numbered(flow, n)).collect();
            send(&mut a, &frames);
        }
        let mut seen: Vec<Vec<u32>> = vec![Vec::new(); FLOWS as usize];
        let mut shares = [0, 0];
        let end = Instant::now() + PATIENCE;
        while shares[0] + shares[1] < FLOWS * EACH && Instant::now() < end {
            for (queue, share) in b.iter_mut().zip(&mut shares) {
                for packet in receive(queue, 0) {
                    let bytes = packet.data();
                    seen[usize::from(bytes[35])].push(u32::from(bytes[45]));
                    *share += 1;
                }
            }
        }
        let in_order: Vec<u32> = (0..EACH).collect();
        assert!(seen.iter().all(|numbers| *numbers == in_order), "{seen:?}");
        assert!(shares.iter().all(|share| *share > 0), "{shares:?}");
        assert!(b.iter().all(|queue| queue.counts() == millrace_io::QueueCounts::default()));
    });
}

/// Now one packet, now many, with pauses and without: none is lost, doubled or overtaken.
#[test]
fn packets_keep_their_order_at_any_pace() {
    const PHASES: u32 = 20;
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method(|method| {
        let options = RxOptions { method: method.clone(), ..RxOptions::default() };
        let mut b = receive_from("b", &options);
        let mut a = transmit_by(method, "a");
        let mut random = 1u32;
        let mut draw = |below: u32| {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (random >> 16) % below.max(1)
        };
        // Bursts, and the pauses behind them.
        let mut shape = Vec::new();
        for _ in 0..PHASES {
            shape.extend((0..40).map(|_| ([1, 1, 2, 5][draw(4) as usize], 500 + draw(3000))));
            shape.extend((0..draw(20)).map(|_| ([30, 70, 150][draw(3) as usize], draw(400))));
        }
        let mut sent = 0u32;
        let mut numbered = || {
            sent += 1;
            [&frame(B, [0x88, 0xb5], &[7; 40])[..], &(sent - 1).to_be_bytes()].concat()
        };
        let bursts: Vec<(Vec<Vec<u8>>, u32)> = shape
            .into_iter()
            .map(|(count, pause)| ((0..count).map(|_| numbered()).collect(), pause))
            .collect();
        let mut received = 0u32;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (frames, pause) in &bursts {
                    send(&mut a, frames);
                    std::thread::sleep(Duration::from_micros((*pause).into()));
                }
            });
            let end = Instant::now() + PATIENCE;
            while received < sent && Instant::now() < end {
                let mut batch = Batch::new();
                b.receive(&mut batch, 64).unwrap();
                for packet in batch.drain() {
                    assert_eq!(packet.data()[54..58], received.to_be_bytes());
                    received += 1;
                }
            }
        });
        assert_eq!(received, sent);
        assert!(receive(&mut b, 0).is_empty());
        assert_eq!(b.counts(), millrace_io::QueueCounts::default());
    });
}

#[test]
fn what_nobody_takes_is_counted() {
    const SENT: usize = 2048;
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired(1).enter(|| {
        let options = RxOptions { descriptors: Some(64), ..RxOptions::default() };
        let mut b = receive_from("b", &options);
        let mut a = transmit_to("a");
        let long = frame(B, [0x88, 0xb5], &[7; 1500]);
        for _ in 0..SENT / 64 {
            send(&mut a, &[&long[..]; 64]);
        }
        let mut received = 0;
        while let n @ 1.. = receive(&mut b, 1).len() {
            received += n;
            if received as u64 + b.counts().lost == SENT as u64 {
                break;
            }
        }
        let lost = b.counts().lost as usize;
        assert!(received >= 64 && lost > 0 && received + lost == SENT, "{received} {lost}");
        // It goes on with room.
        send(&mut a, &[&long]);
        assert_eq!(receive(&mut b, 1).len(), 1);
        assert_eq!(b.counts().lost as usize, lost, "told once");
    });
}

#[test]
fn a_slow_interface_takes_no_more_than_it_has_room_for() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl", "tc") else { return };
    wired(1).enter(|| {
        let mut b = receive_from("b", &RxOptions::default());
        // 100 packets of 1,514 bytes a second, and a queue that holds more than the ring does.
        run("tc qdisc add dev a root tbf rate 1211kbit burst 3028 limit 100000000");
        let mut a = transmit_to("a");
        let mut sent = 0;
        loop {
            let mut batch = Batch::new();
            for n in 0..64 {
                let mut long = frame(B, [0x88, 0xb5], &[7; 1500]);
                long[14..18].copy_from_slice(&(sent + n as u32).to_be_bytes());
                batch.push(Packet::from_bytes(&long).unwrap()).unwrap();
            }
            let taken = a.transmit(&mut batch).unwrap();
            assert_eq!(batch.len(), 64 - taken, "what is not taken stays");
            sent += taken as u32;
            if taken == 0 {
                break;
            }
            assert!(sent < 10_000, "there is an end to its room");
        }
        assert!(sent >= 1024, "{sent}");
        run("tc qdisc change dev a root tbf rate 10gbit burst 1000000 limit 100000000");
        let mut packets = Vec::new();
        while packets.len() < sent as usize {
            let some = receive(&mut b, 1);
            assert!(!some.is_empty(), "{} of {sent}", packets.len());
            packets.extend(some);
        }
        let numbers = packets.iter().map(|packet| packet.data()[14..18].try_into().unwrap());
        let numbers: Vec<u32> = numbers.map(u32::from_be_bytes).collect();
        assert!(numbers.iter().copied().eq(0..sent), "{numbers:?}");
        send(&mut a, &[&frame(B, [0x88, 0xb5], &[7; 50])]);
    });
}
