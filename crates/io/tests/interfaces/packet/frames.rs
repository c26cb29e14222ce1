//! Frames of all kinds, and filters.

use std::time::Duration;

use millrace_core::names::DeviceAddresses;
use millrace_core::net::EtherAddress;
use millrace_core::{Batch, Packet, PacketType, Timestamp};
use millrace_io::af_packet::Interfaces;
use millrace_io::{RxOptions, bpf};

use super::{by_each_method, receive_from, transmit_by};
use crate::rig::{B, frame, receive, run, send};

#[test]
fn frames_cross_the_wire() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method(|method| {
        assert_eq!(Interfaces.ether("b"), Some(EtherAddress(B)));
        assert_eq!(Interfaces.ipv4("a"), "10.9.0.1/24".parse().ok());
        let options = RxOptions { method: method.clone(), ..RxOptions::default() };
        let mut b = receive_from("b", &options);
        let mut own = receive_from("a", &RxOptions { outbound: true, ..options.clone() });
        let mut inbound = receive_from("a", &options);
        let filter = bpf::NOTHING.to_vec();
        let mut filtered = receive_from("b", &RxOptions { filter, ..options });
        let mut a = transmit_by(method, "a");
        let tagged =
            [&frame(B, [0x81, 0], &[])[..], &[0x60, 5], &frame([9; 6], [8, 0], &[7; 50])].concat();
        let frames = [
            frame(B, [0x88, 0xb5], &[7; 46]),
            frame([0xff; 6], [0x88, 0xb5], &[7; 1500]),
            frame([1, 0, 0, 0, 0, 1], [0x88, 0xb5], &[]),
            frame([2, 0, 0, 0, 0, 0x0c], [0x88, 0xb5], &[7; 46]),
            tagged,
        ];
        send(&mut a, &frames);
        let packets = receive(&mut b, frames.len());
        assert_eq!(packets.iter().map(Packet::data).collect::<Vec<_>>(), frames);
        let types: Vec<_> = packets.iter().map(Packet::packet_type).collect();
        use PacketType::{Broadcast, Host, Multicast, OtherHost};
        assert_eq!(types, [Host, Broadcast, Multicast, OtherHost, Host]);
        let age = Timestamp::now() - packets[0].timestamp();
        assert!(age < Timestamp::from_secs(3600) && age >= Timestamp::ZERO, "of this clock");
        let seen = receive(&mut own, frames.len());
        assert!(seen.iter().all(|packet| packet.packet_type() == PacketType::Outgoing));
        assert_eq!(seen.len(), frames.len());
        assert!(receive(&mut inbound, 0).is_empty());
        assert!(receive(&mut filtered, 0).is_empty());
        assert_eq!(b.counts(), millrace_io::QueueCounts::default());
    });
}

#[test]
fn frames_of_any_length() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method(|method| {
        let options = RxOptions { method: method.clone(), ..RxOptions::default() };
        let mut b = receive_from("b", &RxOptions { snap_length: 100, ..options.clone() });
        let mut a = transmit_by(method, "a");
        let mut batch = Batch::new();
        batch.push(Packet::from_bytes(&frame(B, [0x88, 0xb5], &[7; 1501])).unwrap()).unwrap();
        let error = a.transmit(&mut batch).unwrap_err();
        assert_eq!((error.raw_os_error(), batch.len()), (Some(libc::EMSGSIZE), 1));
        for device in ["a", "b"] {
            run(&format!("ip link set dev {device} mtu 9000"));
        }
        // Longer than the buffers that packets are received into.
        let mut whole = receive_from("b", &options);
        let long: Vec<u8> = (0..9000u32).map(|n| (n / 3) as u8).collect();
        let long = [&frame(B, [0x88, 0xb5], &[])[..], &long].concat();
        send(&mut a, &[&long]);
        let packets = receive(&mut whole, 1);
        assert_eq!((packets[0].data(), packets[0].mac_header()), (&long[..], Some(0)));
        let cut = receive(&mut b, 1);
        assert_eq!((cut[0].len(), cut[0].extra_length()), (100, 8914));
    });
}

#[test]
fn the_kernel_filters() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method(|method| {
        let mut a = transmit_by(method.clone(), "a");
        let tagged =
            |inner: [u8; 2]| [&frame(B, [0x81, 0], &[])[..], &[0, 5], &inner, &[7; 50]].concat();
        let frames = [
            frame(B, [0x88, 0xb5], &[7; 200]),
            frame(B, [0x88, 0xb6], &[7; 200]),
            tagged([0x88, 0xb5]),
            tagged([0x88, 0xb6]),
        ];
        // A filter sees a frame with its tag, as it was on the wire.
        let inside = vec![(0x28, 0, 0, 16), (0x15, 0, 1, 0x88b6), (6, 0, 0, 99), (6, 0, 0, 0)];
        let cases = [
            (bpf::of_protocol(0x88b6, &[]), vec![1]),
            (bpf::of_protocol(0x8100, &[]), vec![2, 3]),
            (bpf::of_protocol(0x8100, &inside), vec![3]),
        ];
        for (filter, wanted) in cases {
            let snap_length = 60;
            let options = RxOptions { filter, snap_length, ..RxOptions::default() };
            let mut b = receive_from("b", &RxOptions { method: method.clone(), ..options });
            send(&mut a, &frames);
            let packets = receive(&mut b, wanted.len());
            let seen = packets.iter().map(|packet| (packet.data(), packet.extra_length() as usize));
            let wanted = wanted.iter().map(|n: &usize| &frames[*n]);
            assert!(seen.eq(wanted.map(|frame| (&frame[..60], frame.len() - 60))));
            std::thread::sleep(Duration::from_millis(5));
            assert!(receive(&mut b, 0).is_empty());
        }
    });
}
