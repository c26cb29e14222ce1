//! Socket, McastSocket and RawSocket against other programs' sockets: those of the standard library.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests fail as tests do")]

#[path = "support/router.rs"]
mod router;

use std::io::{ErrorKind, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream, UdpSocket};
use std::os::unix::net::{UnixDatagram, UnixListener, UnixStream};
use std::time::{Duration, Instant};

use millrace_core::testing::Rig;
use millrace_core::{Packet, Reason, Timestamp};

use router::Bench;

/// For what takes a moment on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs an element until `done` says so of all that has come out.
fn until(rig: &mut Rig, done: impl Fn(&Rig, &[Packet]) -> bool) -> Vec<Packet> {
    let end = Instant::now() + PATIENCE;
    let mut all = Vec::new();
    loop {
        let out = rig.pass(Timestamp::from_millis(1));
        all.extend(out.into_iter().flatten());
        if done(rig, &all) {
            return all;
        }
        assert!(Instant::now() < end, "{:?}: {all:?}", rig.stats());
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn bytes(packets: &[Packet]) -> Vec<u8> {
    packets.iter().flat_map(|packet| packet.data().to_vec()).collect()
}

fn port_of(rig: &Rig) -> u16 {
    rig.read("local").unwrap().rsplit(':').next().unwrap().parse().unwrap()
}

fn connect(rig: &Rig) -> TcpStream {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port_of(rig))).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream
}

fn is_connected(rig: &Rig) -> bool {
    rig.read("connected").unwrap() == "true"
}

#[test]
fn a_tcp_server_serves_one_client_after_the_other() {
    let mut rig = Rig::new("Socket(TCP, 127.0.0.1, 0, SNAPLEN 4, VERBOSE true)", 1, 1).unwrap();
    rig.push(0, &["nobody listens"]);
    assert_eq!(rig.stats().drops, [(Reason::DeviceError, 1)]);
    let mut first = connect(&rig);
    let mut second = connect(&rig);
    first.write_all(b"hello there").unwrap();
    second.write_all(b"and me").unwrap();
    let got = until(&mut rig, |_, all| bytes(all).len() == 11);
    assert_eq!(bytes(&got), b"hello there");
    assert!(got.iter().all(|packet| packet.len() <= 4 && packet.extra_length() == 0));
    assert_eq!(got[0].timestamp().sec(), 1_000_000_000);
    rig.push(0, &["wel", "", "come"]);
    let mut buffer = [0; 7];
    first.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"welcome");

    drop(first);
    let got = until(&mut rig, |_, all| bytes(all).len() == 6);
    assert_eq!(bytes(&got), b"and me");
    drop(second);
    until(&mut rig, |rig, _| !is_connected(rig));
    assert_eq!((rig.read("count").unwrap(), rig.read("sent").unwrap()), ("5".into(), "3".into()));
    assert!(rig.stats().balanced());
    // Its port is free again at once.
    let port = port_of(&rig);
    assert!(rig.stop().complaints.is_empty());
    drop(Rig::new(&format!("Socket(TCP, 127.0.0.1, {port})"), 1, 1).unwrap());
}

#[test]
fn a_tcp_client_keeps_what_the_peer_does_not_take_yet() {
    const PACKETS: usize = 1000;
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let element =
        format!("Socket(TCP, 127.0.0.1, {port}, CLIENT true, SNDBUF 8192, NODELAY false)");
    let mut rig = Rig::new(&element, 1, 1).unwrap();
    let (mut peer, _) = listener.accept().unwrap();
    let packets: Vec<Vec<u8>> =
        (0..PACKETS).map(|n| (0..2000).map(|at| (n * 7 + at) as u8).collect()).collect();
    for burst in packets.chunks(100) {
        rig.push(0, burst);
    }
    let reader = std::thread::spawn(move || {
        let mut all = Vec::new();
        peer.read_to_end(&mut all).unwrap();
        all
    });
    until(&mut rig, |rig, _| rig.read("sent").unwrap() == PACKETS.to_string());
    let stats = rig.stats();
    assert!(stats.balanced() && stats.drops.is_empty(), "{stats:?}");
    rig.stop();
    assert!(reader.join().unwrap() == packets.concat(), "the stream is whole and in order");
}

#[test]
fn pushed_packets_beyond_what_is_kept_are_dropped() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let element = format!("Socket(TCP, 127.0.0.1, {port}, SNDBUF 8192)");
    let mut rig = Rig::new(&element, 1, 0).unwrap();
    let _peer = listener.accept().unwrap();
    for _ in 0..80 {
        rig.push(0, &[[0; 2000]; 100]);
    }
    let stats = rig.stats();
    assert!(stats.balanced(), "{stats:?}");
    let [(Reason::TransmitFull, dropped)] = stats.drops[..] else { panic!("{stats:?}") };
    assert!(dropped > 1000);
}

#[test]
fn a_connection_that_breaks_takes_nothing_down() {
    let mut rig = Rig::new("Socket(TCP, 127.0.0.1, 0)", 1, 1).unwrap();
    for _ in 0..3 {
        let mut peer = connect(&rig);
        peer.write_all(b"x").unwrap();
        until(&mut rig, |rig, _| is_connected(rig));
        rig.push(0, &["never read, so that the end is a reset"]);
        drop(peer);
        // What is sent now may arrive nowhere, or be refused.
        let end = Instant::now() + PATIENCE;
        while is_connected(&rig) {
            rig.push(0, &[[7; 1000]]);
            assert!(Instant::now() < end);
        }
    }
    let mut peer = connect(&rig);
    peer.write_all(b"still there?").unwrap();
    let got = until(&mut rig, |_, all| !all.is_empty());
    assert_eq!(bytes(&got), b"still there?");
    assert!(rig.stats().balanced());
}

#[test]
fn a_client_without_a_server_does_not_start() {
    let unused = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    for element in [
        format!("Socket(TCP, 127.0.0.1, {unused}, CLIENT true)"),
        "Socket(UNIX, /no/such/socket, CLIENT true)".to_owned(),
    ] {
        let errors = Rig::new(&element, 1, 1).err().unwrap();
        assert!(errors[0].message.contains("connect: "), "{errors:?}");
    }
}

#[test]
fn a_udp_server_answers_who_asked_last() {
    let mut rig = Rig::new("Socket(UDP, 127.0.0.1, 0, SNAPLEN 8)", 1, 1).unwrap();
    let server = (Ipv4Addr::LOCALHOST, port_of(&rig));
    let peers = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    for peer in &peers {
        peer.set_read_timeout(Some(PATIENCE)).unwrap();
        peer.send_to(b"a long question", server).unwrap();
        let got = until(&mut rig, |_, all| !all.is_empty());
        assert_eq!((got[0].data(), got[0].extra_length()), (&b"a long q"[..], 7));
        rig.push(0, &["answer"]);
        let mut buffer = [0; 99];
        let (length, from) = peer.recv_from(&mut buffer).unwrap();
        assert_eq!((&buffer[..length], from), (&b"answer"[..], server.into()));
    }
    assert!(rig.stats().balanced());
}

#[test]
fn a_udp_client_sends_where_it_is_told() {
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = peer.local_addr().unwrap().port();
    let mut buffer = [0; 99];

    let mut rig = Rig::new(&format!("ToSocket(UDP, 127.0.0.1, {port})"), 1, 0).unwrap();
    rig.push(0, &["fixed"]);
    assert_eq!(peer.recv(&mut buffer).unwrap(), 5);

    // To each packet's destination annotation.
    let mut rig = Rig::new(&format!("Socket(UDP, 0.0.0.0, {port}, CLIENT true)"), 1, 1).unwrap();
    let mut packet = Packet::from_bytes(b"annotated").unwrap();
    packet.set_dst_ip(Ipv4Addr::LOCALHOST);
    rig.push_packets(0, vec![packet]);
    let (length, from) = peer.recv_from(&mut buffer).unwrap();
    assert_eq!(length, 9);
    peer.send_to(b"back", from).unwrap();
    assert_eq!(bytes(&until(&mut rig, |_, all| !all.is_empty())), b"back");

    // From a port of its own.
    let own = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let element = format!("Socket(UDP, 127.0.0.1, {port}, 127.0.0.1, {})", own.port());
    let mut rig = Rig::new(&element, 1, 1).unwrap();
    // Longer than any datagram: lost, and the next one is not.
    rig.push(0, &[vec![0; 70_000], b"mine".to_vec()]);
    assert_eq!(peer.recv_from(&mut buffer).unwrap(), (4, own));
    assert_eq!(rig.stats().drops, [(Reason::DeviceError, 1)]);
    assert!(rig.stats().balanced());
}

#[test]
fn unix_sockets_have_files_while_they_are_needed() {
    let folder = tempfile::tempdir().unwrap();
    let [server, client, peer] = ["server", "client", "peer"].map(|name| folder.path().join(name));
    let path = |path: &std::path::Path| path.to_str().unwrap().to_owned();

    let mut rig = Rig::new(&format!("FromSocket(UNIX, {})", path(&server)), 0, 1).unwrap();
    let mut stream = UnixStream::connect(&server).unwrap();
    stream.write_all(b"stream").unwrap();
    assert_eq!(bytes(&until(&mut rig, |_, all| !all.is_empty())), b"stream");
    rig.stop();
    assert!(!server.exists());

    let listener = UnixListener::bind(&server).unwrap();
    let mut rig = Rig::new(&format!("Socket(UNIX, {})", path(&server)), 1, 0).unwrap();
    rig.push(0, &["from a client"]);
    let mut buffer = [0; 13];
    listener.accept().unwrap().0.read_exact(&mut buffer).unwrap();
    assert_eq!(&buffer, b"from a client");
    drop(rig);

    let peer_socket = UnixDatagram::bind(&peer).unwrap();
    let element = format!("Socket(UNIX_DGRAM, {}, {})", path(&peer), path(&client));
    let mut rig = Rig::new(&element, 1, 1).unwrap();
    rig.push(0, &["ping"]);
    let (length, from) = peer_socket.recv_from(&mut buffer).unwrap();
    assert_eq!((length, from.as_pathname()), (4, Some(client.as_path())));
    peer_socket.send_to(b"pong", &client).unwrap();
    assert_eq!(bytes(&until(&mut rig, |_, all| !all.is_empty())), b"pong");
    rig.stop();
    assert!(!client.exists());

    // Names of the abstract namespace are no files.
    let name = format!("\"\\<00>millrace-test-{}\"", std::process::id());
    let mut sink = Rig::new(&format!("Socket(UNIX_DGRAM, {name})"), 0, 1).unwrap();
    let mut source = Rig::new(&format!("Socket(UNIX_DGRAM, {name})"), 1, 0).unwrap();
    source.push(0, &["nameless"]);
    assert_eq!(bytes(&until(&mut sink, |_, all| !all.is_empty())), b"nameless");
}

#[test]
fn routes_say_who_is_let_in() {
    let config = |rules: &str| {
        format!(
            "inside :: RadixIPLookup(127.0.0.1 0);
             all :: RadixIPLookup(0.0.0.0/0 0);
             Idle -> inside -> Discard;
             Idle -> all -> Discard;
             server :: Socket(TCP, 127.0.0.1, 0, {rules}) -> got :: Counter -> Discard;"
        )
    };
    for (rules, count) in [
        ("ALLOW inside, DENY all", "1"),
        ("DENY all", "0"),
        ("DENY inside", "0"),
        ("ALLOW inside", "1"),
    ] {
        let mut bench = Bench::new(&config(rules));
        let read = |bench: &Bench, handler: &str| {
            String::from_utf8(bench.engine.router().read(handler, b"").unwrap()).unwrap()
        };
        let port: u16 = read(&bench, "server.local").rsplit(':').next().unwrap().parse().unwrap();
        let mut peer = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).unwrap();
        peer.write_all(b"x").unwrap();
        peer.set_read_timeout(Some(Duration::from_millis(1))).unwrap();
        let end = Instant::now() + PATIENCE;
        loop {
            bench.pass(Timestamp::from_millis(1));
            // Refused connections are closed; on others nothing comes back.
            match peer.read(&mut [0; 9]).map_err(|error| error.kind()) {
                Err(ErrorKind::WouldBlock) => assert!(Instant::now() < end, "{rules}"),
                closed => {
                    assert!(matches!(closed, Ok(0) | Err(ErrorKind::ConnectionReset)), "{rules}");
                    break;
                }
            }
            if read(&bench, "got.count") == "1" {
                break;
            }
        }
        assert_eq!(read(&bench, "got.count"), count, "{rules}");
    }
}

#[test]
fn groups_hear_what_is_sent_to_them() {
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let element = format!("McastSocket(239.255.77.3, {port}, 127.0.0.1)");
    let [mut one, mut other] = [(); 2].map(|()| Rig::new(&element, 1, 1).unwrap());
    one.push(0, &["hear me"]);
    assert_eq!(bytes(&until(&mut other, |_, all| !all.is_empty())), b"hear me");
    other.push(0, &["I do"]);
    let got = until(&mut one, |_, all| !all.is_empty());
    assert_eq!(bytes(&got), b"I do", "and not what it has sent itself");
    assert!(one.stats().balanced() && other.stats().balanced());
}

#[test]
fn raw_sockets_see_and_send_headers() {
    let Some(_alone) = millrace_testkit::privileged!() else { return };
    let other = UdpSocket::bind("127.0.0.1:0").unwrap();
    let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
    peer.set_read_timeout(Some(PATIENCE)).unwrap();
    let port = UdpSocket::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let mut rig = Rig::new(&format!("RawSocket(UDP, {port}, SNAPLEN 30)"), 1, 1).unwrap();
    peer.send_to(b"not for us", other.local_addr().unwrap()).unwrap();
    peer.send_to(b"for us", (Ipv4Addr::LOCALHOST, port)).unwrap();
    let got = until(&mut rig, |_, all| !all.is_empty());
    let packet = &got[0];
    assert_eq!((got.len(), packet.len(), packet.extra_length()), (1, 30, 4));
    assert_eq!((packet.network_offset(), &packet.data()[28..]), (Some(0), &b"fo"[..]));
    assert!(UdpSocket::bind(("127.0.0.1", port)).is_err(), "the port is kept");

    // An answer from the port: source and destination change places.
    let mut answer = [0; 32];
    answer[..28].copy_from_slice(&packet.data()[..28]);
    answer[3] = 32;
    answer.copy_within(20..22, 22);
    answer[20..22].copy_from_slice(&port.to_be_bytes());
    answer[24..28].copy_from_slice(&[0, 12, 0, 0]);
    answer[28..].copy_from_slice(b"back");
    rig.push(0, &[&answer[..], &answer[..19]]);
    let mut buffer = [0; 99];
    let (length, from) = peer.recv_from(&mut buffer).unwrap();
    assert_eq!((&buffer[..length], from.port()), (&b"back"[..], port));
    assert_eq!(rig.stats().drops, [(Reason::Truncated, 1)]);
    assert!(rig.stats().balanced());
}

#[test]
fn raw_sockets_get_what_goes_to_their_port_alone() {
    const OURS: u16 = 4711;
    let Some(_alone) = millrace_testkit::privileged!() else { return };
    // An IP packet on its way back to this machine; the system fills in what is 0.
    let ip = |protocol: u8, rest: &[u8]| {
        let mut packet = vec![0x45, 0, 0, 20 + rest.len() as u8, 0, 0, 0, 0, 64, protocol, 0, 0];
        packet.extend([127, 0, 0, 1, 127, 0, 0, 1]);
        packet.extend(rest);
        packet
    };
    let [a, b] = OURS.to_be_bytes();
    // ICMP: echo replies with an identifier, which nobody answers.
    let icmp = [vec![0, 0, 0, 0, a, b, 0, 1], vec![0, 0, 0, 0, a, b ^ 1, 0, 2]];
    let gre = [
        // With a key; with a checksum and a key.
        vec![0x20, 0, 8, 0, 9, 9, a, b],
        vec![0xa0, 0, 8, 0, 0, 0, 0, 0, 9, 9, a, b],
        // A call of PPTP.
        vec![0x30, 0x01, 0x88, 0x0b, 0, 4, a, b, 0, 0, 0, 1],
        // Without a key; with another one; with ours where the checksum is.
        vec![0, 0, 8, 0, 9, 9, a, b],
        vec![0x20, 0, 8, 0, 9, 9, a ^ 1, b],
        vec![0xa0, 0, 8, 0, 9, 9, a, b, 9, 9, a, 0],
    ];
    for (protocol, name, payloads, wanted) in [(1, "ICMP", &icmp[..], 1), (47, "GRE", &gre, 3)] {
        let mut rig = Rig::new(&format!("RawSocket({name}, {OURS})"), 0, 1).unwrap();
        let mut sender = Rig::new(&format!("RawSocket({name})"), 1, 0).unwrap();
        let packets: Vec<Vec<u8>> = payloads.iter().map(|payload| ip(protocol, payload)).collect();
        sender.push(0, &packets);
        assert_eq!(sender.read("sent").unwrap(), packets.len().to_string(), "{name}");
        let got = until(&mut rig, |_, all| all.len() >= wanted);
        let got: Vec<&[u8]> = got.iter().map(|packet| &packet.data()[20..]).collect();
        assert_eq!(got, payloads[..wanted], "{name}");
    }
}

#[test]
fn what_makes_no_sense_is_refused() {
    for bad in [
        "Socket",
        "Socket(SCTP, 127.0.0.1, 1)",
        "Socket(TCP, 127.0.0.1)",
        "Socket(TCP, 127.0.0.1, 70000)",
        "Socket(TCP, 192.0.2.1, 1, CLIENT false)",
        "Socket(UDP, 127.0.0.1, 0, SNAPLEN 0)",
        "Socket(UDP, 127.0.0.1, 0, ALLOW nothing)",
        "Socket(UDP, 127.0.0.1, 0, DENY x)",
        "Socket(UNIX, \"\")",
        "McastSocket(10.0.0.1, 1)",
        "McastSocket(239.0.0.1)",
        "RawSocket",
        "RawSocket(OSPF, 7)",
        "RawSocket(UDP, 7, SNAPLEN 19)",
    ] {
        assert!(Rig::new(bad, 1, 1).is_err(), "{bad}");
    }
    let long = "x".repeat(200);
    assert!(Rig::new(&format!("Socket(UNIX, /tmp/{long})"), 1, 1).is_err());
}
