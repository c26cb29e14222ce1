//! Packet sockets on a pair of virtual interfaces in a network namespace of its own.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd};
use std::process::Command;
use std::time::{Duration, Instant};

use millrace_core::checksum::Sum;
use millrace_core::names::DeviceAddresses;
use millrace_core::net::EtherAddress;
use millrace_core::{Batch, Packet, PacketType, Timestamp};
use millrace_io::af_packet::{AfPacket, Interfaces};
use millrace_io::{Backend, DeviceError, RxOptions, RxQueue, TxOptions, TxQueue};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace with the interfaces `a` and `b`, connected to each other.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Self {
        let namespace = Self(format!("millrace-{name}-{}", std::process::id()));
        run(&format!("ip netns add {}", namespace.0));
        for command in [
            "sysctl -q -w net.ipv6.conf.default.disable_ipv6=1",
            "ip link add name a address 02:00:00:00:00:0a type veth peer name b address 02:00:00:00:00:0b",
            "ip link set dev a up",
            "ip link set dev b up",
            "ip address add 10.9.0.1/24 dev a",
            "ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:0b dev a",
        ] {
            run(&format!("ip netns exec {} {command}", namespace.0));
        }
        namespace
    }

    /// Runs a test in the namespace, on a thread of its own.
    fn run(&self, test: impl FnOnce() + Send) {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), kind).unwrap();
                test();
            });
            thread.join().unwrap();
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run(&format!("ip netns delete {}", self.0));
    }
}

fn run(command: &str) {
    let mut words = command.split(' ');
    let program = millrace_testkit::find_program(words.next().unwrap()).unwrap();
    assert!(Command::new(program).args(words).status().unwrap().success(), "{command}");
}

fn receive_from(device: &str, options: &RxOptions) -> Box<dyn RxQueue> {
    AfPacket.open_rx(device, options).unwrap().queues.remove(0)
}

fn transmit_to(device: &str) -> Box<dyn TxQueue> {
    AfPacket.open_tx(device, &TxOptions::default()).unwrap().queues.remove(0)
}

/// Receives until there are `n` packets, or none have come for a while.
fn receive(queue: &mut Box<dyn RxQueue>, n: usize) -> Vec<Packet> {
    let mut batch = Batch::new();
    let end = Instant::now() + Duration::from_secs(if n > 0 { 5 } else { 0 });
    while batch.len() < n.max(1) && queue.receive(&mut batch, 256).unwrap() + n > 0 {
        if Instant::now() > end {
            break;
        }
    }
    batch.drain().collect()
}

fn send(queue: &mut Box<dyn TxQueue>, frames: &[&[u8]]) {
    let mut batch = Batch::new();
    for frame in frames {
        batch.push(Packet::from_bytes(frame).unwrap()).unwrap();
    }
    assert_eq!(queue.transmit(&mut batch).unwrap(), frames.len());
}

fn frame(to: [u8; 6], ether_type: [u8; 2], payload: usize) -> Vec<u8> {
    [&to[..], &[2, 0, 0, 0, 0, 0x0a], &ether_type, &vec![7; payload]].concat()
}

const B: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];

#[test]
fn frames_cross_the_wire() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("frames").run(|| {
        assert_eq!(Interfaces.ether("b"), Some(EtherAddress(B)));
        assert_eq!(Interfaces.ipv4("a"), "10.9.0.1/24".parse().ok());
        let mut b = receive_from("b", &RxOptions::default());
        let mut own = receive_from("a", &RxOptions { outbound: true, ..RxOptions::default() });
        let mut inbound = receive_from("a", &RxOptions::default());
        let nothing = RxOptions { filter: vec![(6, 0, 0, 0)], ..RxOptions::default() };
        let mut filtered = receive_from("b", &nothing);
        let mut a = transmit_to("a");
        let tagged = [&frame(B, [0x81, 0], 0)[..], &[0x60, 5], &frame([9; 6], [8, 0], 50)].concat();
        let frames = [
            frame(B, [0x88, 0xb5], 46),
            frame([0xff; 6], [0x88, 0xb5], 1500),
            frame([1, 0, 0, 0, 0, 1], [0x88, 0xb5], 0),
            frame([2, 0, 0, 0, 0, 0x0c], [0x88, 0xb5], 46),
            tagged,
        ];
        send(&mut a, &frames.each_ref().map(Vec::as_slice));
        let packets = receive(&mut b, frames.len());
        assert_eq!(packets.iter().map(Packet::data).collect::<Vec<_>>(), frames);
        let types: Vec<_> = packets.iter().map(Packet::packet_type).collect();
        use PacketType::{Broadcast, Host, Multicast, OtherHost};
        assert_eq!(types, [Host, Broadcast, Multicast, OtherHost, Host]);
        let age = Timestamp::now() - packets[0].timestamp();
        assert!(age < Timestamp::from_secs(5) && age >= Timestamp::ZERO);
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
    Namespace::new("lengths").run(|| {
        let mut b = receive_from("b", &RxOptions { snap_length: 100, ..RxOptions::default() });
        let mut a = transmit_to("a");
        let mut batch = Batch::new();
        batch.push(Packet::from_bytes(&frame(B, [0x88, 0xb5], 1501)).unwrap()).unwrap();
        let error = a.transmit(&mut batch).unwrap_err();
        assert_eq!((error.raw_os_error(), batch.len()), (Some(libc::EMSGSIZE), 1));
        for device in ["a", "b"] {
            run(&format!("ip link set dev {device} mtu 9000"));
        }
        // Longer than the buffers that packets are received into.
        let mut whole = receive_from("b", &RxOptions::default());
        let long: Vec<u8> = (0..9000u32).map(|n| (n / 3) as u8).collect();
        let long = [&frame(B, [0x88, 0xb5], 0)[..], &long].concat();
        send(&mut a, &[&long]);
        assert_eq!(receive(&mut whole, 1)[0].data(), long);
        let cut = receive(&mut b, 1);
        assert_eq!((cut[0].len(), cut[0].extra_length()), (100, 8914));
    });
}

#[test]
fn offloads_are_dealt_with() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("offloads").run(|| {
        let mut b = receive_from("b", &RxOptions::default());
        let socket = UdpSocket::bind("10.9.0.1:4000").unwrap();
        // The kernel leaves the checksum to the interface.
        socket.send_to(&[1; 101], "10.9.0.2:5000").unwrap();
        let packets = receive(&mut b, 1);
        assert_eq!(packets[0].len(), 14 + 20 + 8 + 101);
        assert!(has_right_checksum(packets[0].data()));
        segment_datagrams(&socket, 1000);
        socket.send_to(&[2; 3500], "10.9.0.2:5000").unwrap();
        let packets = receive(&mut b, 4);
        let lengths: Vec<usize> = packets.iter().map(|packet| packet.len() - 42).collect();
        assert_eq!(lengths, [1000, 1000, 1000, 500]);
        assert!(packets.iter().all(|packet| has_right_checksum(packet.data())));
        assert!(packets.iter().all(|packet| !packet.timestamp().is_zero()));
        assert_eq!(b.counts().segmented, 1);
    });
}

#[test]
fn streams_cross_the_wire_as_a_whole() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("streams").run(|| {
        let mut b = receive_from("b", &RxOptions::default());
        let mut a = transmit_to("a");
        let mut frames: Vec<Vec<u8>> = (0..40).map(segment).collect();
        // A wrong checksum stays wrong.
        frames[30][60] ^= 1;
        send(&mut a, &frames.iter().map(Vec::as_slice).collect::<Vec<_>>());
        let packets = receive(&mut b, frames.len());
        assert!(packets.iter().map(Packet::data).eq(frames.iter().map(Vec::as_slice)));
        // Those before and those behind it.
        assert_eq!(b.counts().segmented, 2);
    });
}

/// A segment with 1,400 bytes of a TCP stream.
fn segment(n: u32) -> Vec<u8> {
    let mut ip = [0x45, 0, 5, 0xa0, 0, n as u8, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    let sum = Sum::of(&ip).finish().to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let mut tcp = vec![n as u8; 1420];
    tcp[..4].copy_from_slice(&[0, 7, 0, 9]);
    tcp[4..8].copy_from_slice(&(n * 1400).to_be_bytes());
    tcp[8..20].copy_from_slice(&[0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let pseudo = Sum::of(&ip[12..20]).add_u16(6).add_u16(tcp.len() as u16);
    let sum = pseudo.add_bytes(&tcp).finish().to_be_bytes();
    tcp[16..18].copy_from_slice(&sum);
    [&frame(B, [8, 0], 0)[..], &ip, &tcp].concat()
}

/// Has the kernel cut what is sent into datagrams of so many bytes, as late as possible.
#[allow(unsafe_code, reason = "no library offers this option")]
fn segment_datagrams(socket: &UdpSocket, size: libc::c_int) {
    const UDP_SEGMENT: libc::c_int = 103;
    let length = size_of::<libc::c_int>() as libc::socklen_t;
    // SAFETY: the value is an integer of the length that is given.
    let result = unsafe {
        let value = (&raw const size).cast();
        libc::setsockopt(socket.as_raw_fd(), libc::SOL_UDP, UDP_SEGMENT, value, length)
    };
    assert_eq!(result, 0);
}

/// Of UDP over IPv4 in Ethernet.
fn has_right_checksum(frame: &[u8]) -> bool {
    let length = frame.len() - 34;
    let pseudo = Sum::of(&frame[26..34]).add_u16(17).add_u16(length as u16);
    frame[40..42] != [0, 0] && pseudo.add_bytes(&frame[34..]).is_right()
}

#[test]
fn what_cannot_be_opened_is_explained() {
    let open = |device: &str, options: RxOptions| AfPacket.open_rx(device, &options).err();
    assert!(matches!(
        open("no-such-device", RxOptions::default()),
        Some(DeviceError::Unknown(name)) if name == "no-such-device"
    ));
    let taken = RxOptions { sniffer: false, ..RxOptions::default() };
    let message = open("lo", taken).unwrap().to_string();
    assert!(message.contains("SNIFFER"), "{message}");
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("other").run(|| {
        run("ip tuntap add dev t0 mode tun");
        let message = open("t0", RxOptions::default()).unwrap().to_string();
        assert!(message.contains("no Ethernet header"), "{message}");
        let promiscuous = RxOptions { promiscuous: true, ..RxOptions::default() };
        let opened = AfPacket.open_rx("b", &promiscuous).unwrap();
        assert_eq!(opened.changes.len(), 1);
        assert_eq!(opened.capabilities.max_length, Some(1514));
        assert!(is_promiscuous("b"));
        drop(opened);
        assert!(!is_promiscuous("b"), "closing the device undoes it");
    });
}

fn is_promiscuous(device: &str) -> bool {
    let ip = millrace_testkit::find_program("ip").unwrap();
    let output =
        Command::new(ip).args(["-details", "link", "show", "dev", device]).output().unwrap();
    String::from_utf8_lossy(&output.stdout).contains("promiscuity 1")
}
