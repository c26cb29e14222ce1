//! The whole IP router against packets of every kind, in memory and on virtual time: nothing
//! panics, and every element's packets are accounted for.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/router.rs"]
mod router;

use fastrand::Rng;
use millrace_core::Timestamp;
use millrace_io::pcap::Reader;

use router::Bench;

const IP_ROUTER: &str = include_str!("../../../examples/ip-router.click");

#[test]
fn random_frames_do_no_harm() {
    let mut bench = Bench::new(IP_ROUTER);
    let mut rng = Rng::with_seed(11);
    let mut left = 0;
    for round in 0..300 {
        let frames: Vec<_> = (0..rng.usize(0..60)).map(|_| frame(&mut rng)).collect();
        left += bench.feed(round, &frames);
        if round % 50 == 0 {
            bench.pass(Timestamp::from_millis(700));
        }
    }
    assert!(left > 0, "nothing came out of the router");
    bench.end();
}

#[test]
fn captures_of_tcpdumps_tests_pass_through() {
    let Some(captures) = millrace_testkit::captures!() else { return };
    let mut bench = Bench::new(IP_ROUTER);
    for (n, capture) in captures.iter().enumerate() {
        let Ok(mut reader) = Reader::open(capture) else { continue };
        let mut frames = Vec::new();
        // A capture that breaks off has been read as far as it goes.
        while let Ok(Some(record)) = reader.next() {
            frames.push(record.data.to_vec());
        }
        for burst in frames.chunks(256) {
            bench.feed(n, burst);
        }
        bench.assert_balanced();
    }
}

/// A frame for the router: broadcast or its own address, ARP or IP, right or nearly.
fn frame(rng: &mut Rng) -> Vec<u8> {
    let port = rng.u8(0..4);
    let mut frame = if rng.bool() { vec![2, 0, 10, 0, port, 1] } else { vec![0xff; 6] };
    frame.extend([2, 0, 0, 0, port, 9]);
    if rng.u8(0..4) == 0 {
        frame.extend([
            8,
            6,
            0,
            1,
            8,
            0,
            6,
            4,
            0,
            rng.u8(1..3),
            2,
            0,
            0,
            0,
            port,
            9,
            10,
            0,
            port,
            9,
        ]);
        frame.extend([0, 0, 0, 0, 0, 0, 10, 0, port, rng.u8(0..3)]);
    } else {
        frame.extend([8, 0]);
        let options: Vec<u8> = (0..rng.usize(0..4) * 4).map(|_| rng.u8(0..140)).collect();
        let payload: Vec<u8> = (0..rng.usize(0..1800)).map(|_| rng.u8(..)).collect();
        let total = (20 + options.len() + payload.len()) as u16;
        let mut header = vec![0x45 + (options.len() / 4) as u8, 0];
        header.extend(total.to_be_bytes());
        let flags: u16 = [0, 0x4000, 0x2000, rng.u16(..)][rng.usize(0..4)];
        header.extend([0, rng.u8(..)]);
        header.extend(flags.to_be_bytes());
        let protocol = [1, 6, 17, rng.u8(..)][rng.usize(0..4)];
        header.extend([rng.u8(0..4), protocol, 0, 0, 10, 0, port, 9]);
        header.extend([10, 0, rng.u8(0..5), rng.u8(0..4)]);
        header.extend(options);
        let sum = millrace_core::checksum::checksum(&header).to_be_bytes();
        header[10..12].copy_from_slice(&sum);
        frame.extend(header);
        frame.extend(payload);
    }
    if rng.u8(0..6) == 0 {
        let at = rng.usize(0..frame.len());
        frame[at] ^= 1 << rng.u8(0..8);
    }
    if rng.u8(0..8) == 0 {
        frame.truncate(rng.usize(0..frame.len()));
    }
    frame
}
