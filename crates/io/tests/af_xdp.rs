//! AF_XDP on pairs of virtual interfaces in a network namespace of its own.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

use std::fs::File;
use std::net::UdpSocket;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use millrace_core::checksum::Sum;
use millrace_core::memory::copies;
use millrace_core::{Arena, Batch, Packet, PacketType};
use millrace_io::af_packet::AfPacket;
use millrace_io::af_xdp::AfXdp;
use millrace_io::{
    Backend, DeviceError, Method, Queues, Rule, RxOptions, RxQueue, TxOptions, TxQueue, XdpHook,
    XdpOptions,
};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace with the interfaces `a` and `b`, connected to each other, of two queues each;
/// and so `c` and `d`.
struct Namespace(String);

impl Namespace {
    fn new(name: &str) -> Self {
        let namespace = Self(format!("millrace-{name}-{}", std::process::id()));
        run(&format!("ip netns add {}", namespace.0));
        namespace.exec("sysctl -q -w net.ipv6.conf.default.disable_ipv6=1");
        for (one, other) in [("a", "b"), ("c", "d")] {
            namespace.pair(one, other);
        }
        namespace.exec("ip address add 10.9.0.1/24 dev a");
        namespace.exec("ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:0b dev a");
        namespace
    }

    fn pair(&self, one: &str, other: &str) {
        const QUEUES: &str = "numrxqueues 2 numtxqueues 2";
        let address = |name: &str| format!("address 02:00:00:00:00:0{name}");
        let (first, second) = (address(one), address(other));
        self.exec(&format!(
            "ip link add name {one} {first} {QUEUES} type veth peer name {other} {second} {QUEUES}"
        ));
        for device in [one, other] {
            self.exec(&format!("ip link set dev {device} up"));
        }
    }

    fn exec(&self, command: &str) {
        run(&format!("ip netns exec {} {command}", self.0));
    }

    /// Runs a test in the namespace, on a thread of its own.
    fn run(&self, test: impl FnOnce(&Self) + Send) {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), kind).unwrap();
                test(self);
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
    assert!(output(command).0, "{command}");
}

/// Whether a command succeeds, and what it prints.
fn output(command: &str) -> (bool, String) {
    let mut words = command.split(' ');
    let program = millrace_testkit::find_program(words.next().unwrap()).unwrap();
    let output = Command::new(program).args(words).stderr(Stdio::inherit()).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

fn link(device: &str) -> String {
    output(&format!("ip -details link show dev {device}")).1
}

fn two_queues() -> Queues {
    Queues { first: 0, count: 2 }
}

fn xdp(change: impl FnOnce(&mut XdpOptions)) -> Method {
    let mut options = XdpOptions::default();
    change(&mut options);
    Method::Xdp(options)
}

fn rx(queues: Queues) -> RxOptions {
    RxOptions { method: xdp(|_| {}), queues, ..RxOptions::default() }
}

fn receive_from(device: &str, options: &RxOptions) -> Vec<Box<dyn RxQueue>> {
    let opened = AfXdp.open_rx(device, options).unwrap();
    assert_eq!(opened.queues.len(), options.queues.count);
    opened.queues
}

fn transmit_to(device: &str, queues: Queues) -> Vec<Box<dyn TxQueue>> {
    let options = TxOptions { method: xdp(|_| {}), queues, ..TxOptions::default() };
    AfXdp.open_tx(device, &options).unwrap().queues
}

/// Receives until there are `n` packets, or none have come for a while.
fn receive(queue: &mut Box<dyn RxQueue>, n: usize) -> Vec<Packet> {
    let mut all = Vec::new();
    let mut batch = Batch::new();
    let end = Instant::now() + Duration::from_secs(if n > 0 { 5 } else { 0 });
    loop {
        queue.receive(&mut batch, 256).unwrap();
        all.extend(batch.drain());
        if all.len() >= n || Instant::now() > end {
            return all;
        }
    }
}

fn batch_of(frames: &[Vec<u8>]) -> Batch {
    let mut batch = Batch::new();
    for frame in frames {
        batch.push(Packet::from_bytes(frame).unwrap()).unwrap();
    }
    batch
}

fn send(queue: &mut Box<dyn TxQueue>, frames: &[Vec<u8>]) {
    let mut batch = batch_of(frames);
    while !batch.is_empty() {
        assert_ne!(queue.transmit(&mut batch).unwrap(), 0);
    }
}

const B: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];

fn frame(to: [u8; 6], ether_type: [u8; 2], payload: &[u8]) -> Vec<u8> {
    [&to[..], &[2, 0, 0, 0, 0, 0x0a], &ether_type, payload].concat()
}

/// A numbered frame of 60 bytes.
fn numbered(n: u32) -> Vec<u8> {
    let mut payload = [0; 46];
    payload[..4].copy_from_slice(&n.to_be_bytes());
    frame(B, [0x88, 0xb5], &payload)
}

fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame[14..].first_chunk().unwrap())
}

#[test]
fn frames_cross_the_wire() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("xdp-frames").run(|_| {
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
    Namespace::new("xdp-all").run(|_| {
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
    Namespace::new("xdp-kinds").run(|_| {
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
        let mut empty = batch_of(&[Vec::new()]);
        assert!(a.transmit(&mut empty).is_err());
        drop((a, b, original, empty));
        assert_eq!(Arena::stats().in_use(), in_use);
    });
}

#[test]
fn jumbo_frames_cross_in_parts() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("xdp-jumbo").run(|_| {
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
    Namespace::new("xdp-rules").run(|_| {
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

/// Protocol, addresses and ports over IPv4.
fn ipv4(protocol: u8, from: [u8; 4], to: [u8; 4], source: u16, destination: u16) -> Vec<u8> {
    let head = [0x46, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0];
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let ip = [&head[..], &from, &to, &[1, 1, 1, 1], &ports, &[0; 18]].concat();
    frame(B, [8, 0], &ip)
}

fn ipv6(protocol: u8, source: u16, destination: u16) -> Vec<u8> {
    let mut ip = [0; 40];
    (ip[0], ip[5], ip[6]) = (0x60, 12, protocol);
    ip[8..14].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 2]);
    ip[24..30].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 1]);
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    frame(B, [0x86, 0xdd], &[&ip[..], &ports, &[0; 8]].concat())
}

#[test]
fn what_a_neighbour_leaves_undone_is_done() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl", "ethtool") else { return };
    Namespace::new("xdp-offloads").run(|_| {
        // A kernel that merges packets would make it worse in generic mode.
        run("ethtool -K b gro on");
        let merges = || output("ethtool -k b").1.contains("generic-receive-offload: on");
        let generic = xdp(|xdp| xdp.hook = XdpHook::Generic);
        for method in [xdp(|_| {}), generic] {
            let is_generic = method != xdp(|_| {});
            let options = RxOptions { method, queues: Queues::default(), ..RxOptions::default() };
            let opened = AfXdp.open_rx("b", &options).unwrap();
            assert_eq!(opened.changes.join(";").contains("generic mode"), is_generic);
            let mut b = opened.queues.into_iter().next().unwrap();
            let socket = UdpSocket::bind("10.9.0.1:4000").unwrap();
            // The kernel leaves the checksum to the interface.
            socket.send_to(&[1; 101], "10.9.0.2:5000").unwrap();
            let packets = receive(&mut b, 1);
            assert_eq!(packets[0].len(), 14 + 20 + 8 + 101);
            assert!(has_right_checksum(packets[0].data()));
            // A train of TCP segments that is handed over as one; that they were of 1,400 bytes is lost.
            let mut a = AfPacket.open_tx("a", &TxOptions::default()).unwrap().queues.remove(0);
            send(&mut a, &(0..20).map(segment).collect::<Vec<_>>());
            let size = if is_generic { 1460 } else { 1400 };
            let packets = receive(&mut b, (20 * 1400usize).div_ceil(size));
            assert!(packets.iter().all(|packet| has_right_checksum(packet.data())));
            assert!(packets.iter().all(|packet| packet.len() <= 1514));
            let payload: Vec<u8> =
                packets.iter().flat_map(|packet| &packet.data()[54..]).copied().collect();
            assert_eq!(payload.len(), 20 * 1400);
            assert!(payload.chunks(1400).zip(0..).all(|(part, n)| part.iter().all(|b| *b == n)));
            assert_eq!(b.counts().segmented, u64::from(is_generic));
            assert_eq!(merges(), !is_generic);
            drop(b);
            assert!(merges());
        }
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
    frame(B, [8, 0], &[&ip[..], &tcp].concat())
}

/// Of UDP or TCP over IPv4 in Ethernet.
fn has_right_checksum(frame: &[u8]) -> bool {
    let length = frame.len() - 34;
    let pseudo = Sum::of(&frame[26..34]).add_u16(frame[23].into()).add_u16(length as u16);
    pseudo.add_bytes(&frame[34..]).is_right()
}

#[test]
fn queues_are_as_many_as_asked_for() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl", "ethtool") else { return };
    Namespace::new("xdp-queues").run(|_| {
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
    Namespace::new("xdp-two").run(|_| {
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

/// Whether a descriptor becomes readable within so many milliseconds.
fn is_readable(fd: &std::os::fd::OwnedFd, millis: i64) -> bool {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let timeout = Timespec { tv_sec: 0, tv_nsec: millis * 1_000_000 };
    poll(&mut [PollFd::new(fd, PollFlags::IN)], Some(&timeout)).unwrap() == 1
}

#[test]
fn a_thread_sleeps_until_packets_come() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("xdp-sleep").run(|_| {
        let mut a = transmit_to("a", Queues::default()).remove(0);
        let mut b = receive_from("b", &rx(two_queues())).remove(0);
        let ready = b.readiness().unwrap();
        let readable = |millis: i64| is_readable(&ready, millis);
        // That the interface was opened is told, too.
        for _ in 0..300 {
            assert_eq!(b.receive(&mut Batch::new(), 1).unwrap(), 0);
        }
        assert!(!readable(1));
        send(&mut a, &[numbered(1)]);
        assert!(readable(900));
        assert_eq!(receive(&mut b, 1).len(), 1);
        assert!(!readable(1));
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
    Namespace::new("xdp-arena").run(|_| {
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
            assert!(!lacks || is_readable(&queue.readiness().unwrap(), 900));
        }
        drop(taken);
        std::thread::sleep(Duration::from_millis(2));
        for queue in &mut b {
            assert_eq!(queue.receive(&mut batch, 256).unwrap(), 0);
            // The links of the machine may have changed meanwhile.
            for _ in 0..300 {
                queue.receive(&mut batch, 256).unwrap();
            }
            assert!(!is_readable(&queue.readiness().unwrap(), 3));
        }
        for _ in 0..100 {
            socket.send_to(&[1; 20], "10.9.0.2:5000").unwrap();
        }
        let got: usize = b.iter_mut().map(|queue| receive(queue, 0).len()).sum();
        assert_eq!(got, 100);
    });
}

#[test]
fn an_interface_goes_and_comes_back() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("xdp-gone").run(|namespace| {
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
        let end = Instant::now() + Duration::from_secs(5);
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
        namespace.pair("a", "b");
        let end = Instant::now() + Duration::from_secs(5);
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
    Namespace::new("xdp-moved").run(|namespace| {
        let mut a = transmit_to("a", Queues::default()).remove(0);
        let mut others = receive_from("a", &rx(two_queues()));
        let mut queues = receive_from("b", &rx(two_queues()));
        let mut sending = transmit_to("b", Queues::default()).remove(0);
        let away = format!("{}-away", namespace.0);
        run(&format!("ip netns add {away}"));
        run(&format!("ip link set dev b netns {away}"));
        run(&format!("ip -n {away} link set dev b netns {}", namespace.0));
        run(&format!("ip netns delete {away}"));
        run("ip link set dev b up");
        let end = Instant::now() + Duration::from_secs(5);
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
    Namespace::new("xdp-killed").run(|namespace| {
        let ip = millrace_testkit::find_program("ip").unwrap();
        let mut holder = Command::new(ip)
            .args(["netns", "exec", &namespace.0])
            .arg(std::env::current_exe().unwrap())
            .args(["--exact", "holds_an_interface"])
            .env(HOLD, "b")
            .stdout(Stdio::null())
            .spawn()
            .unwrap();
        let wait_for = |what: &str, is_there: bool| {
            let end = Instant::now() + Duration::from_secs(10);
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
    Namespace::new("xdp-refused").run(|_| {
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
