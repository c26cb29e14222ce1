//! TAP and TUN interfaces in network namespaces of their own, with the kernel at the other end.

use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use millrace_core::net::EtherAddress;
use millrace_core::{Batch, Packet, PacketType};
use millrace_io::tap::{self, Tap, TapKind, TapOptions};
use millrace_io::{DeviceError, RxQueue, TxQueue};

use crate::rig::{Namespace, PATIENCE, output, run};

/// Whether the calling thread's namespace has such an interface.
fn exists(name: &str) -> bool {
    text(&format!("ip link show {name}")).contains("mtu")
}

fn text(command: &str) -> String {
    output(command).1
}

fn open(options: TapOptions) -> Tap {
    tap::open(&options).unwrap()
}

/// Receives packets that start with `with` until there are `n`, or none have come for too long.
fn receive_with(queue: &mut Box<dyn RxQueue>, with: &[u8], n: usize) -> Vec<Packet> {
    let mut found = Vec::new();
    let mut batch = Batch::new();
    let end = Instant::now() + PATIENCE;
    while found.len() < n && Instant::now() < end {
        queue.receive(&mut batch, 256).unwrap();
        found.extend(batch.drain().filter(|packet| packet.data().starts_with(with)));
    }
    found
}

fn send_all(queue: &mut Box<dyn TxQueue>, packets: Vec<Packet>) {
    let mut batch = Batch::new();
    let n = packets.len();
    packets.into_iter().for_each(|packet| batch.push(packet).unwrap());
    assert_eq!(queue.transmit(&mut batch).unwrap(), n);
}

/// Turns a packet of UDP over IPv4 around: the checksums stay right.
fn turn_around(packet: &mut Packet, network: usize) {
    let data = packet.data_mut();
    let (a, b) = (network + 12, network + 16);
    for (x, y) in (a..b).zip(b..b + 4).chain([(0, 2), (1, 3)].map(|(x, y)| (x + b + 4, y + b + 4)))
    {
        data.swap(x, y);
    }
    if network > 0 {
        (0..6).for_each(|at| data.swap(at, at + 6));
    }
}

const NEAR: [u8; 6] = [2, 0, 0, 0, 0, 1];
const FAR: [u8; 6] = [2, 0, 0, 0, 0, 2];

fn ethernet() -> TapOptions {
    TapOptions {
        ipv4: "10.8.0.1/24".parse().ok(),
        ether: Some(EtherAddress(NEAR)),
        ..TapOptions::default()
    }
}

#[test]
fn the_kernel_is_at_the_other_end() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("tap").enter(|| {
        let ipv6 = "2001:db8::1/64".parse().ok();
        run("sysctl -q -w net.ipv6.conf.default.disable_ipv6=0");
        let mut tap = open(TapOptions { mtu: Some(1400), ipv6, headroom: 200, ..ethernet() });
        assert_eq!(tap.name, "tap0");
        let shown = text("ip address show tap0");
        for part in [
            "mtu 1400",
            "UP",
            "link/ether 02:00:00:00:00:01",
            "10.8.0.1/24 brd 10.8.0.255",
            "2001:db8::1/64",
        ] {
            assert!(shown.contains(part), "{part}: {shown}");
        }
        assert_eq!(tap.rx.capabilities.max_length, Some(1414));
        assert_eq!(tap.rx.changes.len(), 3, "{:?}", tap.rx.changes);

        let socket = UdpSocket::bind("10.8.0.1:5000").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        // Its neighbour is asked for first.
        socket.send_to(b"anybody?", "10.8.0.2:7").unwrap();
        let asked = &receive_with(&mut tap.rx.queues[0], &[0xff; 6], 1)[0];
        assert_eq!(asked.packet_type(), PacketType::Broadcast);
        assert_eq!(asked.headroom(), 200);
        assert_eq!(&asked.data()[6..14], [&NEAR[..], &[8, 6]].concat());
        run("ip neighbour replace 10.8.0.2 lladdr 02:00:00:00:00:02 dev tap0");

        socket.send_to(b"ping", "10.8.0.2:7").unwrap();
        let mut echo = receive_with(&mut tap.rx.queues[0], &FAR, 2).pop().unwrap();
        assert_eq!(&echo.data()[42..], b"ping");
        turn_around(&mut echo, 14);
        send_all(&mut tap.tx.queues[0], vec![echo]);
        let mut buffer = [0; 9];
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from.to_string().as_str()), (&b"ping"[..], "10.8.0.2:7"));

        drop(tap.rx);
        assert!(exists("tap0"), "the other direction holds it");
        drop(tap.tx);
        assert!(!exists("tap0"));
    });
}

#[test]
fn a_tun_carries_ip_packets() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("tun").enter(|| {
        let mut tap = open(TapOptions {
            kind: TapKind::Tun,
            name: Some("wire%d".to_owned()),
            ipv4: "10.8.0.1/24".parse().ok(),
            gateway: "10.8.0.254".parse().ok(),
            ..TapOptions::default()
        });
        assert_eq!(tap.name, "wire0");
        assert!(text("ip route show default").contains("via 10.8.0.254 dev wire0"));
        let socket = UdpSocket::bind("0.0.0.0:5000").unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket.send_to(b"over the hills", "192.0.2.9:7").unwrap();
        let mut echo = receive_with(&mut tap.rx.queues[0], &[0x45], 1).pop().unwrap();
        assert_eq!(&echo.data()[28..], b"over the hills");
        turn_around(&mut echo, 0);
        send_all(&mut tap.tx.queues[0], vec![echo]);
        let mut buffer = [0; 99];
        let (length, from) = socket.recv_from(&mut buffer).unwrap();
        assert_eq!((length, from.to_string().as_str()), (14, "192.0.2.9:7"));
        // Not an IP packet.
        let mut batch = Batch::new();
        batch.push(Packet::from_bytes(&[0; 40]).unwrap()).unwrap();
        assert!(tap.tx.queues[0].transmit(&mut batch).is_err());
        assert_eq!(batch.len(), 1);
    });
}

/// One TCP connection from one namespace to another, with the test in the middle.
#[test]
fn streams_cross_with_all_offloads() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    const LENGTH: usize = 8 << 20;
    let [left, right] = ["left", "right"].map(Namespace::new);
    for (kind, offloads) in [(TapKind::Tap, true), (TapKind::Tun, true), (TapKind::Tap, false)] {
        let make = |address: &str| TapOptions {
            kind,
            offloads,
            ipv4: address.parse().ok(),
            ..TapOptions::default()
        };
        let mut a = left.enter(|| open(make("10.8.0.1/24")));
        let mut b = right.enter(|| open(make("10.8.0.2/24")));
        let listener = right.enter(|| TcpListener::bind("10.8.0.2:5000").unwrap());
        let done = AtomicBool::new(false);
        let received = std::thread::scope(|scope| {
            scope.spawn(|| {
                while !done.load(Relaxed) {
                    if carry(&mut a, &mut b) + carry(&mut b, &mut a) == 0 {
                        std::thread::sleep(Duration::from_micros(50));
                    }
                }
            });
            let sender = scope.spawn(|| {
                let mut stream = left.enter(|| {
                    TcpStream::connect_timeout(&"10.8.0.2:5000".parse().unwrap(), PATIENCE)
                });
                if let Ok(stream) = &mut stream {
                    let data: Vec<u8> = pattern(LENGTH).collect();
                    stream.write_all(&data).unwrap();
                }
                stream.is_ok()
            });
            let mut bytes = Vec::new();
            let (mut stream, _) = listener.accept().unwrap();
            stream.set_read_timeout(Some(PATIENCE)).unwrap();
            stream.read_to_end(&mut bytes).unwrap();
            assert!(sender.join().unwrap());
            done.store(true, Relaxed);
            bytes
        });
        assert_eq!(received.len(), LENGTH, "{kind:?}");
        assert!(pattern(LENGTH).eq(received), "{kind:?}");
        let segmented = a.rx.queues[0].counts().segmented;
        assert_eq!(segmented > 0, offloads, "{kind:?}: {segmented}");
        assert_eq!(a.rx.queues[0].counts().lost, 0);
    }
}

/// Moves what waits on one interface to the other. Returns how many packets.
fn carry(from: &mut Tap, to: &mut Tap) -> usize {
    let mut batch = Batch::new();
    let moved = from.rx.queues[0].receive(&mut batch, 256).unwrap();
    while !batch.is_empty() {
        to.tx.queues[0].transmit(&mut batch).unwrap();
    }
    moved
}

/// Bytes that do not repeat soon.
fn pattern(length: usize) -> impl Iterator<Item = u8> {
    (0..length as u32).map(|n| (n.wrapping_mul(n) >> 11) as u8)
}

#[test]
fn flows_spread_over_queues_and_stay_where_they_are_answered() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    const FLOWS: u16 = 40;
    Namespace::new("queues").enter(|| {
        let mut tap = open(TapOptions { queues: 3, ..ethernet() });
        assert_eq!((tap.rx.queues.len(), tap.tx.queues.len()), (3, 3));
        run("ip neighbour replace 10.8.0.2 lladdr 02:00:00:00:00:02 dev tap0");
        let sockets: Vec<UdpSocket> =
            (0..FLOWS).map(|n| UdpSocket::bind(("10.8.0.1", 6000 + n)).unwrap()).collect();
        let ask = || {
            for socket in &sockets {
                socket.send_to(b"x", "10.8.0.2:7").unwrap();
            }
        };
        ask();
        let mut came: Vec<Vec<Packet>> = tap.rx.queues.iter_mut().map(drain).collect();
        let counts: Vec<usize> = came.iter().map(Vec::len).collect();
        assert_eq!(counts.iter().sum::<usize>(), usize::from(FLOWS));
        assert!(counts.iter().filter(|count| **count > 0).count() > 1, "{counts:?}");
        // All are answered by the last queue.
        for packets in &mut came {
            packets.iter_mut().for_each(|packet| turn_around(packet, 14));
            send_all(&mut tap.tx.queues[2], std::mem::take(packets));
        }
        ask();
        let counts: Vec<usize> = tap.rx.queues.iter_mut().map(|queue| drain(queue).len()).collect();
        assert_eq!(counts, [0, 0, usize::from(FLOWS)]);
    });
}

/// The UDP packets that wait.
fn drain(queue: &mut Box<dyn RxQueue>) -> Vec<Packet> {
    let mut batch = Batch::new();
    while queue.receive(&mut batch, 256).unwrap() > 0 {}
    batch.drain().filter(|packet| packet.data().starts_with(&FAR)).collect()
}

#[test]
fn an_interface_that_was_there_stays_as_it_was() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("stays").enter(|| {
        run("ip tuntap add name old mode tap");
        run("ip link set dev old address 02:00:00:00:00:09 mtu 1300");
        let before = text("ip -brief link show old");
        let options = TapOptions { name: Some("old".to_owned()), ..ethernet() };
        let tap = open(TapOptions { mtu: Some(9000), ..options.clone() });
        assert!(text("ip address show old").contains("mtu 9000"));
        assert!(matches!(tap::open(&options), Err(DeviceError::Unsupported { what, .. })
            if what.contains("in use")));
        drop(tap);
        assert!(exists("old"));
        assert!(!text("ip address show old").contains("10.8.0.1"));
        let address = "02:00:00:00:00:09";
        assert!(before.contains(address) && text("ip link show old").contains("mtu 1300"));
        assert!(text("ip link show old").contains(address));
        assert!(!text("ip link show old").contains(",UP"));
        let several = TapOptions { queues: 2, ..options.clone() };
        for (options, part) in [
            (several, "with several queues"),
            (TapOptions { name: Some("lo".to_owned()), ..options.clone() }, "not a TAP"),
            (
                TapOptions { kind: TapKind::Tun, ..options },
                "not a TAP or TUN interface of this kind",
            ),
        ] {
            let error = tap::open(&options).err().unwrap().to_string();
            assert!(error.contains(part), "{error}");
        }
    });
}

#[test]
fn the_default_route_goes_although_the_interface_stays() {
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("route").enter(|| {
        run("ip tuntap add name old mode tap");
        // With addresses left, the kernel would keep the route.
        run("ip address add 10.7.0.1/24 dev old");
        run("ip address add 10.6.0.1/24 dev old");
        run("ip link set dev old up");
        let gateway = "10.8.0.254".parse().ok();
        let tap = open(TapOptions { name: Some("old".to_owned()), gateway, ..ethernet() });
        assert!(text("ip route show default").contains("via 10.8.0.254 dev old"));
        drop(tap);
        assert_eq!(text("ip route show default"), "");
        let left = text("ip -4 -brief address show old");
        assert!(left.contains("10.7.0.1/24 10.6.0.1/24") && !left.contains("10.8"), "{left}");
    });
}

#[test]
fn what_a_thread_sleeps_on_ends_with_the_interface() {
    use rustix::event::{PollFd, PollFlags, Timespec, poll};
    let Some(_alone) = millrace_testkit::privileged!("ip", "sysctl") else { return };
    Namespace::new("deleted").enter(|| {
        let mut tap = open(ethernet());
        let queue = &mut tap.rx.queues[0];
        let ready = queue.readiness().unwrap();
        let is_readable = || {
            let soon = Timespec { tv_sec: 0, tv_nsec: 1_000_000 };
            poll(&mut [PollFd::new(&ready, PollFlags::IN)], Some(&soon)).unwrap() == 1
        };
        run("ip link delete dev tap0");
        assert!(is_readable(), "somebody should look");
        let mut batch = Batch::new();
        let error = loop {
            match queue.receive(&mut batch, 256) {
                Ok(_) => batch.clear(),
                Err(error) => break error.to_string(),
            }
        };
        assert!(error.contains("deleted"), "{error}");
        assert_eq!(queue.receive(&mut batch, 256).unwrap(), 0, "said once");
        assert!(queue.is_finished());
        assert!(!is_readable(), "nothing will ever come");

        let tap = open(ethernet());
        let _ready = tap.rx.queues[0].readiness().unwrap();
        drop(tap);
        assert!(!exists("tap0"), "who sleeps does not hold it");
    });
}
