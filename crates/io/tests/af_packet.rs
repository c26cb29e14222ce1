//! Packet sockets on a pair of virtual interfaces in a network namespace of its own.

#![allow(clippy::unwrap_used, reason = "helpers of tests fail as tests do")]

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::process::Command;
use std::time::{Duration, Instant};

use millrace_core::checksum::Sum;
use millrace_core::names::DeviceAddresses;
use millrace_core::net::EtherAddress;
use millrace_core::{Batch, Packet, PacketType, Timestamp};
use millrace_io::af_packet::{AfPacket, Interfaces};
use millrace_io::{
    Backend, DeviceError, Machine, Method, Queues, RxOptions, RxQueue, TxOptions, TxQueue,
    XdpOptions, bpf,
};
use rustix::event::{PollFd, PollFlags, Timespec};
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
    transmit_by(Method::Ring, device)
}

fn transmit_by(method: Method, device: &str) -> Box<dyn TxQueue> {
    let options = TxOptions { method, ..TxOptions::default() };
    AfPacket.open_tx(device, &options).unwrap().queues.remove(0)
}

/// Runs a test in a namespace, with rings and without.
fn by_each_method(name: &str, test: impl Fn(Method) + Send + Sync) {
    for (method, kind) in [(Method::Ring, "ring"), (Method::Socket, "socket")] {
        Namespace::new(&format!("{name}-{kind}")).run(|| test(method.clone()));
    }
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
    by_each_method("frames", |method| {
        assert_eq!(Interfaces.ether("b"), Some(EtherAddress(B)));
        assert_eq!(Interfaces.ipv4("a"), "10.9.0.1/24".parse().ok());
        let options = RxOptions { method: method.clone(), ..RxOptions::default() };
        let mut b = receive_from("b", &options);
        let mut own = receive_from("a", &RxOptions { outbound: true, ..options.clone() });
        let mut inbound = receive_from("a", &options);
        let filter = bpf::NOTHING.to_vec();
        let mut filtered = receive_from("b", &RxOptions { filter, ..options });
        let mut a = transmit_by(method, "a");
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
    by_each_method("lengths", |method| {
        let options = RxOptions { method: method.clone(), ..RxOptions::default() };
        let mut b = receive_from("b", &RxOptions { snap_length: 100, ..options.clone() });
        let mut a = transmit_by(method, "a");
        let mut batch = Batch::new();
        batch.push(Packet::from_bytes(&frame(B, [0x88, 0xb5], 1501)).unwrap()).unwrap();
        let error = a.transmit(&mut batch).unwrap_err();
        assert_eq!((error.raw_os_error(), batch.len()), (Some(libc::EMSGSIZE), 1));
        for device in ["a", "b"] {
            run(&format!("ip link set dev {device} mtu 9000"));
        }
        // Longer than the buffers that packets are received into.
        let mut whole = receive_from("b", &options);
        let long: Vec<u8> = (0..9000u32).map(|n| (n / 3) as u8).collect();
        let long = [&frame(B, [0x88, 0xb5], 0)[..], &long].concat();
        send(&mut a, &[&long]);
        let packets = receive(&mut whole, 1);
        assert_eq!((packets[0].data(), packets[0].mac_header()), (&long[..], Some(0)));
        let cut = receive(&mut b, 1);
        assert_eq!((cut[0].len(), cut[0].extra_length()), (100, 8914));
    });
}

#[test]
fn offloads_are_dealt_with() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method("offloads", |method| {
        let mut b = receive_from("b", &RxOptions { method, ..RxOptions::default() });
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
        assert!(packets.iter().all(|packet| packet.mac_header() == Some(0)));
        assert_eq!(b.counts().segmented, 1);
    });
}

#[test]
fn streams_cross_the_wire_as_a_whole() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method("streams", |method| {
        let options = RxOptions { method: method.clone(), ..RxOptions::default() };
        let mut b = receive_from("b", &options);
        let mut a = transmit_by(method, "a");
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
fn queues_share_packets_by_flow() {
    const FLOWS: u32 = 32;
    const EACH: u32 = 50;
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method("fanout", |method| {
        let queues = Queues { first: 0, count: 2 };
        let options = RxOptions { method: method.clone(), queues, ..RxOptions::default() };
        let mut b = AfPacket.open_rx("b", &options).unwrap().queues;
        assert_eq!(b.len(), 2);
        let mut a = transmit_by(method, "a");
        for n in 0..EACH {
            let frames: Vec<_> = (0..FLOWS).map(|flow| numbered(flow, n)).collect();
            send(&mut a, &frames.iter().map(Vec::as_slice).collect::<Vec<_>>());
        }
        let mut seen: Vec<Vec<u32>> = vec![Vec::new(); FLOWS as usize];
        let mut shares = [0, 0];
        let end = Instant::now() + Duration::from_secs(5);
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
    by_each_method("pace", |method| {
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
            [&frame(B, [0x88, 0xb5], 40)[..], &(sent - 1).to_be_bytes()].concat()
        };
        let bursts: Vec<(Vec<Vec<u8>>, u32)> = shape
            .into_iter()
            .map(|(count, pause)| ((0..count).map(|_| numbered()).collect(), pause))
            .collect();
        let mut received = 0u32;
        std::thread::scope(|scope| {
            scope.spawn(move || {
                for (frames, pause) in &bursts {
                    send(&mut a, &frames.iter().map(Vec::as_slice).collect::<Vec<_>>());
                    std::thread::sleep(Duration::from_micros((*pause).into()));
                }
            });
            let end = Instant::now() + Duration::from_secs(20);
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

/// A datagram of a flow, which the source port tells, with a number in its last byte.
fn numbered(flow: u32, number: u32) -> Vec<u8> {
    let mut ip = [0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    let sum = Sum::of(&ip).finish().to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let udp = [4, flow as u8, 0, 9, 0, 12, 0, 0, 0, 0, 0, number as u8];
    [&frame(B, [8, 0], 0)[..], &ip, &udp].concat()
}

#[test]
fn the_kernel_filters() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method("filter", |method| {
        let mut a = transmit_by(method.clone(), "a");
        let tagged =
            |inner: [u8; 2]| [&frame(B, [0x81, 0], 0)[..], &[0, 5], &inner, &[7; 50]].concat();
        let frames = [
            frame(B, [0x88, 0xb5], 200),
            frame(B, [0x88, 0xb6], 200),
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
            send(&mut a, &frames.each_ref().map(Vec::as_slice));
            let packets = receive(&mut b, wanted.len());
            let seen = packets.iter().map(|packet| (packet.data(), packet.extra_length() as usize));
            let wanted = wanted.iter().map(|n: &usize| &frames[*n]);
            assert!(seen.eq(wanted.map(|frame| (&frame[..60], frame.len() - 60))));
            std::thread::sleep(Duration::from_millis(5));
            assert!(receive(&mut b, 0).is_empty());
        }
    });
}

#[test]
fn what_nobody_takes_is_counted() {
    const SENT: usize = 2048;
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("late").run(|| {
        let options = RxOptions { descriptors: Some(64), ..RxOptions::default() };
        let mut b = receive_from("b", &options);
        let mut a = transmit_to("a");
        let long = frame(B, [0x88, 0xb5], 1500);
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
    Namespace::new("slow").run(|| {
        let mut b = receive_from("b", &RxOptions::default());
        // 100 packets of 1,514 bytes a second, and a queue that holds more than the ring does.
        run("tc qdisc add dev a root tbf rate 1211kbit burst 3028 limit 100000000");
        let mut a = transmit_to("a");
        let mut sent = 0;
        loop {
            let mut batch = Batch::new();
            for n in 0..64 {
                let mut long = frame(B, [0x88, 0xb5], 1500);
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
        send(&mut a, &[&frame(B, [0x88, 0xb5], 50)]);
    });
}

#[test]
fn interfaces_come_and_go() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    for (count, method) in [(1, Method::Ring), (2, Method::Ring), (1, Method::Socket)] {
        Namespace::new("gone").run(|| {
            let queues = Queues { first: 0, count };
            let options = RxOptions { method: method.clone(), queues, ..RxOptions::default() };
            let mut b = AfPacket.open_rx("b", &options).unwrap().queues;
            let mut a = transmit_by(method.clone(), "a");
            let works = |a: &mut Box<dyn TxQueue>, b: &mut Vec<Box<dyn RxQueue>>| {
                let end = Instant::now() + Duration::from_secs(5);
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
            assert!(asleep.iter().any(becomes_readable));
        });
    }
}

/// Waits until a queue fails, which it does once.
fn says_once(queue: &mut Box<dyn RxQueue>, error: libc::c_int) {
    let mut batch = Batch::new();
    let end = Instant::now() + Duration::from_secs(5);
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

fn becomes_readable(descriptor: &OwnedFd) -> bool {
    let mut polled = [PollFd::new(descriptor, PollFlags::IN)];
    let limit = Timespec { tv_sec: 1, tv_nsec: 0 };
    rustix::event::poll(&mut polled, Some(&limit)).unwrap() == 1
}

#[test]
fn a_queue_waits_for_an_interface_that_is_down() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("down").run(|| {
        run("ip link set dev b down");
        for count in [1, 2] {
            let queues = Queues { first: 0, count };
            let options = RxOptions { queues, ..RxOptions::default() };
            let mut b = AfPacket.open_rx("b", &options).unwrap().queues;
            b.iter_mut().for_each(|queue| says_once(queue, libc::ENETDOWN));
            let asleep: Vec<_> = b.iter().map(|queue| queue.readiness().unwrap()).collect();
            run("ip link set dev b up");
            assert!(asleep.iter().all(becomes_readable), "it looks for the interface");
            std::thread::sleep(Duration::from_millis(250));
            b.iter_mut().for_each(|queue| assert!(receive(queue, 0).is_empty()));
            let mut a = transmit_to("a");
            send(&mut a, &[&numbered(1, 1)]);
            std::thread::sleep(Duration::from_millis(20));
            let received: usize = b.iter_mut().map(|queue| receive(queue, 0).len()).sum();
            assert_eq!(received, 1);
            run("ip link set dev b down");
        }
    });
}

#[test]
fn the_kernel_is_left_out() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    by_each_method("taken", |method| {
        run("ip address add 10.9.0.2/24 dev b");
        run("ip address delete 10.9.0.1/24 dev a");
        let host = UdpSocket::bind("10.9.0.2:9").unwrap();
        host.set_read_timeout(Some(Duration::from_millis(50))).unwrap();
        let mut a = transmit_by(method.clone(), "a");
        let mut reaches_the_host = || {
            send(&mut a, &[&numbered(1, 1)]);
            host.recv(&mut [0; 16]).is_ok()
        };
        // The sender is nowhere, which the host must not mind.
        run("sysctl -q -w net.ipv4.conf.all.rp_filter=0");
        run("sysctl -q -w net.ipv4.conf.b.rp_filter=0");
        assert!(reaches_the_host());
        for count in [1, 2] {
            let queues = Queues { first: 0, count };
            let method = method.clone();
            let options = RxOptions { method, queues, sniffer: false, ..RxOptions::default() };
            let mut opened = AfPacket.open_rx("b", &options).unwrap();
            assert_eq!(opened.changes.len(), 1, "{:?}", opened.changes);
            assert!(!reaches_the_host());
            let received = opened.queues.iter_mut().map(|queue| receive(queue, 0).len());
            assert_eq!(received.sum::<usize>(), 1, "we get it");
            drop(opened);
            assert!(reaches_the_host(), "closing the device undoes it");
        }
    });
}

#[test]
fn the_best_is_af_xdp_or_else_rings() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("best").run(|| {
        let method = Method::Best(XdpOptions::default());
        let mut a = transmit_to("a");
        let out = TxOptions { method: method.clone(), ..TxOptions::default() };
        let out = Machine.open_tx("a", &out).unwrap();
        assert_eq!(out.changes[0], "AF_XDP is used");
        // AF_XDP runs no such filters.
        let filter = bpf::of_protocol(0x0800, &[]);
        for (filter, chosen) in
            [(vec![], "AF_XDP is used"), (filter, "packet sockets with rings are used")]
        {
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
