//! Frames of all kinds cross, and rules say which are taken.

use std::time::{Duration, Instant};

use millrace_core::memory::copies;
use millrace_core::{Arena, Batch, Packet, PacketType};
use millrace_io::af_packet::AfPacket;
use millrace_io::af_xdp::AfXdp;
use millrace_io::{Backend, Queues, Rule, RxOptions, RxQueue};

use super::{
    ipv4, ipv6, number_of, numbered, receive_from, rx, transmit_to, two_queues, wired, xdp,
};
use crate::rig::{B, batch_of, frame, link, receive, run, send};

#[test]
fn frames_cross_the_wire() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired().enter(|| {
        let opened = AfXdp.open_rx("b", &rx(two_queues())).unwrap();
        let said = opened.changes.join("; ");
        assert!(said.contains("native mode") && said.contains("COPIES EACH PACKET"), "{said}");
        let capabilities = &opened.capabilities;
        assert_eq!((capabilities.backend, capabilities.zero_copy), ("AF_XDP", false));
        assert_eq!(capabilities.max_length, Some(1514));
        assert!(link("b").contains("prog/xdp"), "{}", link("b"));
        let mut b = opened.queues;
        let mut a = transmit_to("a", two_queues());
        let frames = [
            frame(B, [0x88, 0xb5], &[7; 46]),
            frame([0xff; 6], [0x88, 0xb5], &[7; 1500]),
            frame([1, 0, 0, 0, 0, 1], [0x88, 0xb5], &[7]),
            frame([2, 0, 0, 0, 0, 0x0c], [0x88, 0xb5], &[7; 46]),
            frame(B, [0x81, 0], &[7; 1504]),
        ];
        for (a, b) in a.iter_mut().zip(&mut b) {
            send(a, &frames);
            let packets = receive(b, frames.len());
            assert!(packets.iter().map(Packet::data).eq(frames.iter().map(Vec::as_slice)));
            let types: Vec<_> = packets.iter().map(Packet::packet_type).collect();
            use PacketType::{Broadcast, Host, Multicast, OtherHost};
            assert_eq!(types, [Host, Broadcast, Multicast, OtherHost, Host]);
            assert!(packets.iter().all(|packet| packet.headroom() >= 128));
            let mut long = batch_of(&[frame(B, [0x88, 0xb5], &[7; 1501])]);
            let error = a.transmit(&mut long).unwrap_err();
            assert_eq!((error.raw_os_error(), long.len()), (Some(libc::EMSGSIZE), 1));
            assert_eq!(b.counts().lost + a.counts().lost, 0);
        }
        drop(b);
        assert!(!link("b").contains("xdp"), "{}", link("b"));
    });
}

#[test]
fn every_packet_arrives_and_none_is_copied() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    const PACKETS: u32 = 50_000;
    wired().enter(|| {
        let in_use = Arena::stats().in_use();
        let mut a = transmit_to("a", two_queues());
        let mut b = receive_from("b", &rx(two_queues()));
        let mut c = transmit_to("c", two_queues());
        let mut d = receive_from("d", &rx(two_queues()));
        // From outside to a, by b and c, and out again to d.
        let mut batch = Batch::new();
        let before = copies::snapshot();
        for queue in 0..2 {
            let (mut sent, mut forwarded, mut next) = (0, 0, 0);
            let end = Instant::now() + Duration::from_secs(60);
            while next < PACKETS {
                assert!(Instant::now() < end, "{sent} sent, {forwarded} forwarded, {next} arrived");
                if sent < PACKETS && sent - next < 128 {
                    let numbers = sent..(sent + 32).min(PACKETS);
                    sent = numbers.end;
                    let mut batch = batch_of(&numbers.map(numbered).collect::<Vec<_>>());
                    a[queue].transmit(&mut batch).unwrap();
                    assert!(batch.is_empty());
                }
                forwarded += b[queue].receive(&mut batch, 64).unwrap();
                c[queue].transmit(&mut batch).unwrap();
                let mut arrived = Batch::new();
                d[queue].receive(&mut arrived, 64).unwrap();
                for packet in &arrived {
                    assert_eq!(number_of(packet.data()), next);
                    next += 1;
                }
            }
            assert!(batch.is_empty());
            assert_eq!(forwarded, PACKETS as usize);
        }
        assert_eq!(copies::snapshot().since(&before).total(), 0);
        let lost = |queues: &[Box<dyn RxQueue>]| -> u64 {
            queues.iter().map(|queue| queue.counts().lost).sum()
        };
        assert_eq!(lost(&b) + lost(&d), 0);
        drop((a, b, c, d));
        assert_eq!(Arena::stats().in_use(), in_use, "all packets come back");
    });
}

#[test]
fn packets_of_all_kinds_are_transmitted() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired().enter(|| {
        let in_use = Arena::stats().in_use();
        let mut b = receive_from("b", &rx(two_queues())).remove(0);
        let mut a = transmit_to("a", Queues::default()).remove(0);
        let original = Packet::from_bytes(&numbered(1)).unwrap();
        let mut batch = Batch::new();
        for _ in 0..3 {
            batch.push(original.share().unwrap()).unwrap();
        }
        // One that is alone and yet not in its own slot.
        let other = Packet::from_bytes(&numbered(2)).unwrap();
        batch.push(other.share().unwrap()).unwrap();
        drop(other);
        let before = copies::snapshot();
        assert_eq!(a.transmit(&mut batch).unwrap(), 4);
        let numbers = |packets: &[Packet]| -> Vec<u32> {
            packets.iter().map(|packet| number_of(packet.data())).collect()
        };
        assert_eq!(numbers(&receive(&mut b, 4)), [1, 1, 1, 2]);
        assert_eq!(copies::snapshot().since(&before).total(), 0);
        // One of a jumbo slot.
        let mut roomy = Packet::with_room(5000, 60, 0).unwrap();
        roomy.data_mut().copy_from_slice(&numbered(3));
        batch.push(roomy).unwrap();
        assert_eq!(a.transmit(&mut batch).unwrap(), 1);
        assert_eq!(numbers(&receive(&mut b, 1)), [3]);
        assert_eq!(copies::snapshot().since(&before).total(), 1);
        let mut empty = batch_of(&[b""]);
        assert!(a.transmit(&mut empty).is_err());
        drop((a, b, original, empty));
        assert_eq!(Arena::stats().in_use(), in_use);
    });
}

#[test]
fn jumbo_frames_cross_in_parts() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired().enter(|| {
        let mut a = transmit_to("a", Queues::default()).remove(0);
        let long: Vec<u8> = (0..9000u32).map(|n| (n / 3) as u8).collect();
        let long = frame(B, [0x88, 0xb5], &long);
        assert!(a.transmit(&mut batch_of(std::slice::from_ref(&long))).is_err());
        for device in ["a", "b"] {
            run(&format!("ip link set dev {device} mtu 9000"));
        }
        let options = RxOptions { snap_length: 8000, ..rx(two_queues()) };
        let opened = AfXdp.open_rx("b", &options).unwrap();
        assert!(opened.changes.join(";").contains("native mode"), "{:?}", opened.changes);
        let mut b = opened.queues;
        let before = copies::snapshot();
        send(&mut a, &[numbered(1), long.clone(), numbered(2), long.clone()]);
        let packets = receive(&mut b[0], 4);
        let lengths: Vec<usize> = packets.iter().map(Packet::len).collect();
        assert_eq!(lengths, [60, 8000, 60, 8000]);
        assert_eq!(packets[1].data(), &long[..8000]);
        assert_eq!(packets[3].extra_length(), 1014);
        let copied = copies::snapshot().since(&before);
        assert_eq!(copied.get(copies::CopyCause::Receive), 2);
        assert_eq!(copied.get(copies::CopyCause::Transmit), 2);
        assert_eq!(a.counts().lost + b[0].counts().lost, 0);
    });
}

#[test]
fn rules_say_what_is_taken() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    wired().enter(|| {
        let udp = |from: u16, to: u16| ipv4(17, [10, 1, 2, 3], [10, 9, 0, 2], from, to);
        let tagged = |frame: &[u8]| [&frame[..12], &[0x81, 0, 0, 5], &frame[12..]].concat();
        let mut fragment = udp(7, 53);
        fragment[21] = 9;
        let frames = [
            udp(7, 53),
            udp(53, 7),
            ipv4(6, [10, 1, 2, 3], [10, 9, 0, 2], 7, 53),
            frame(B, [8, 6], &[0; 46]),
            ipv6(17, 7, 53),
            tagged(&tagged(&udp(7, 53))),
            fragment,
            frame(B, [0x88, 0xb5], &[]),
            ipv4(1, [192, 168, 0, 1], [10, 9, 0, 2], 0, 0),
        ];
        let mut a = transmit_to("a", Queues::default()).remove(0);
        // The first opening stays, so that the rules change while it is attached.
        let mut first = None;
        for (only, except, taken) in [
            ("", "", &[0, 1, 2, 3, 4, 5, 6, 7, 8][..]),
            ("udp dst port 53", "", &[0, 4, 5]),
            ("arp, port 53 and ip", "", &[0, 1, 2, 3, 5]),
            ("", "arp, udp port 53", &[2, 6, 7, 8]),
            ("ip", "src net 10.1.0.0/16", &[8]),
            ("net 10.1.2.0/24 tcp", "", &[2]),
            ("dst net 10.1.2.0/24", "", &[]),
            ("dst net 2001:db8:1::/48, icmp, ether 0x88b5", "", &[4, 7, 8]),
            ("src net 2001:db8:1::/48", "", &[]),
            ("src port 50-60, proto 1", "", &[1, 8]),
        ] {
            let [only, except] = [only, except].map(|rules| Rule::list(rules).unwrap());
            let method = xdp(|xdp| (xdp.only, xdp.except) = (only.clone(), except.clone()));
            let mut b = receive_from("b", &RxOptions { method, ..rx(two_queues()) });
            let mut kernel = AfPacket.open_rx("b", &RxOptions::default()).unwrap().queues.remove(0);
            send(&mut a, &frames);
            let got = receive(&mut b[0], taken.len());
            let which = |packet: &Packet| frames.iter().position(|frame| frame == packet.data());
            let got: Vec<usize> = got.iter().filter_map(which).collect();
            assert_eq!(got, taken, "{only:?} {except:?}");
            let left = receive(&mut kernel, frames.len() - taken.len());
            assert_eq!(left.len(), frames.len() - taken.len(), "{only:?} {except:?}");
            first.get_or_insert(b);
        }
    });
}
