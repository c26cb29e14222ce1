//! The stateful firewall between two hosts, and nftables with the same rules in its place.

use std::io::{ErrorKind, Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::Duration;

use millrace_testkit::{Namespace, privileged};

use crate::program::Millrace;
use crate::{METHODS, answered};

/// What is refused is dropped, so that the one who tries waits for as long as this.
const PATIENCE: Duration = Duration::from_millis(400);

/// The same rules as the example's, for a router.
const NFTABLES: &str = "table inet firewall {
    chain forward {
        type filter hook forward priority 0; policy drop;
        ct state invalid drop
        iifname eth0 accept
        ct state established,related accept
        ct state new tcp dport 22 accept
        ct state new icmp type echo-request accept
        ct state new icmpv6 type echo-request accept
    }
}";

/// A host inside and one outside, each with its IPv4 and its IPv6 address.
struct Hosts([(Namespace, [IpAddr; 2]); 2]);

impl Hosts {
    /// The hosts, and the namespace with the other ends of their cables, eth0 and eth1: the hosts are on one network, or
    /// on two if there shall be a router between them.
    fn new(routed: bool) -> (Self, Namespace) {
        let between = Namespace::new("firewall");
        if routed {
            ["default", "all"].iter().for_each(|of| enable_ip6(&between, of));
        }
        let hosts = [1, 2].map(|n| {
            let host = Namespace::new(["inside", "outside"][n - 1]);
            between.connect(&format!("eth{}", n - 1), &host, "lan");
            enable_ip6(&host, "lan");
            let network = if routed { n } else { 0 };
            let (four, six) = (format!("10.9.{network}"), format!("2001:db8:{network}:"));
            host.ip(&format!("address add {four}.{n}/24 dev lan"));
            host.ip(&format!("-6 address add {six}:{n}/64 dev lan nodad"));
            if routed {
                between.ip(&format!("address add {four}.9/24 dev eth{}", n - 1));
                between.ip(&format!("-6 address add {six}:9/64 dev eth{} nodad", n - 1));
                host.ip(&format!("route add default via {four}.9"));
                host.ip(&format!("-6 route add default via {six}:9"));
            }
            (host, [format!("{four}.{n}"), format!("{six}:{n}")].map(|text| text.parse().unwrap()))
        });
        hosts.iter().map(|host| &host.0).chain([&between]).for_each(wait_for_addresses);
        (Self(hosts), between)
    }

    /// Everything that may pass or not, with its name and whether it did.
    fn attempts(&self) -> Vec<(String, bool)> {
        let mut found = Vec::new();
        let [inside, outside] = &self.0;
        for (one, other, way) in [(inside, outside, "out"), (outside, inside, "in")] {
            let ((from, its), (to, at)) = (one, other);
            for (&from_address, &address) in its.iter().zip(at) {
                let client = (from, from_address);
                let mut note =
                    |what: &str, passed| found.push((format!("{what} {way} to {address}"), passed));
                note("ping", pings(from, "", address));
                // Into the wire, rules that look at more than the state see no more than the first fragment.
                if way == "out" {
                    note("ping in fragments", pings(from, "-s 3000", address));
                }
                note("ssh", exchanges_by_tcp(from, to, SocketAddr::new(address, 22)));
                note("web", exchanges_by_tcp(from, to, SocketAddr::new(address, 80)));
                note("datagram", exchanges_datagrams(client, (to, address)));
                note("refused", is_told_of_closed_port(client, address));
            }
        }
        found
    }
}

fn enable_ip6(namespace: &Namespace, interface: &str) {
    let setting = format!("net.ipv6.conf.{interface}.disable_ipv6=0");
    let enabled = namespace.run(&format!("sysctl -q -w {setting}"));
    assert!(enabled.status.success(), "{enabled:?}");
}

/// Waits until nobody can object to the interfaces' own addresses: without one, no neighbour can be asked for.
fn wait_for_addresses(namespace: &Namespace) {
    while !namespace.ip("-6 address show tentative").stdout.is_empty() {
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn pings(from: &Namespace, options: &str, to: IpAddr) -> bool {
    answered(&from.run(&format!("ping -n -c 1 -W 1 {options} {to}")), 1)
}

/// A connection that carries data both ways.
fn exchanges_by_tcp(from: &Namespace, to: &Namespace, server: SocketAddr) -> bool {
    let listener = to.enter(|| TcpListener::bind(server)).unwrap();
    let Ok(mut client) = from.enter(|| TcpStream::connect_timeout(&server, PATIENCE)) else {
        return false;
    };
    let (mut peer, _) = listener.accept().unwrap();
    let mut said = [0; 5];
    client.write_all(b"hello").unwrap();
    peer.read_exact(&mut said).unwrap();
    peer.write_all(&said).unwrap();
    client.read_exact(&mut said).unwrap();
    said == *b"hello"
}

/// A datagram that arrives, and whose answer does.
fn exchanges_datagrams((from, at): (&Namespace, IpAddr), (to, its): (&Namespace, IpAddr)) -> bool {
    let socket = |host: &Namespace, address| {
        let socket = host.enter(|| UdpSocket::bind(SocketAddr::new(address, 0))).unwrap();
        socket.set_read_timeout(Some(PATIENCE)).unwrap();
        socket
    };
    let (client, server) = (socket(from, at), socket(to, its));
    client.send_to(b"question", server.local_addr().unwrap()).unwrap();
    let Ok((_, sender)) = server.recv_from(&mut [0; 100]) else { return false };
    server.send_to(b"answer", sender).unwrap();
    client.recv_from(&mut [0; 100]).is_ok()
}

/// A datagram to a port where nobody listens: the error about it comes back.
fn is_told_of_closed_port((from, at): (&Namespace, IpAddr), to: IpAddr) -> bool {
    let client = from.enter(|| UdpSocket::bind(SocketAddr::new(at, 0))).unwrap();
    client.set_read_timeout(Some(PATIENCE)).unwrap();
    client.connect(SocketAddr::new(to, 9)).unwrap();
    client.send(b"question").unwrap();
    let told = client.recv(&mut [0; 100]);
    told.is_err_and(|error| error.kind() == ErrorKind::ConnectionRefused)
}

/// What should pass: all from inside; from outside pings and ssh.
fn expected(name: &str) -> bool {
    name.contains(" out ") || name.starts_with("ping") || name.starts_with("ssh")
}

#[test]
fn connections_pass_from_inside_and_others_only_by_the_rules() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    for method in METHODS {
        let (hosts, between) = Hosts::new(false);
        let firewall = ["stateful-firewall.click", "INSIDE=eth0", "OUTSIDE=eth1"];
        let firewall = Millrace::start(between, &[&["--method", method], &firewall[..]].concat());
        for (name, passed) in hosts.attempts() {
            assert_eq!(passed, expected(&name), "{method}: {name}");
        }
        firewall.stop();
    }
}

/// The kernel with the same rules lets the same pass, so that these are what users expect of the words.
#[test]
fn nftables_agrees() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping", "nft") else { return };
    let (hosts, between) = Hosts::new(true);
    for forwarding in ["net.ipv4.ip_forward", "net.ipv6.conf.all.forwarding"] {
        assert!(between.run(&format!("sysctl -q -w {forwarding}=1")).status.success());
    }
    let mut nft = between.command("nft");
    let mut nft = nft.args(["-f", "-"]).stdin(std::process::Stdio::piped()).spawn().unwrap();
    nft.stdin.take().unwrap().write_all(NFTABLES.as_bytes()).unwrap();
    assert!(nft.wait().unwrap().success());
    for (name, passed) in hosts.attempts() {
        assert_eq!(passed, expected(&name), "{name}");
    }
}
