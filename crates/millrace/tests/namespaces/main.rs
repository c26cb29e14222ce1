//! The examples among real hosts: network namespaces of this machine, joined by virtual Ethernet
//! cables, with the program in the middle on packet sockets.
//!
//! The hosts are the kernel's, and keep its usual offloads: what they send has unfinished checksums
//! and comes in segments of up to 64 KiB.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be set up fails the test")]

mod consent;
mod firewall;
mod ip6;
mod mcast;
mod nat;
mod program;
mod rings;
mod sandbox;
mod server;
mod soak;
mod streams;
mod swap;
mod tap;
mod throughput;
mod xdp;

use std::process::Output;

use millrace_testkit::{Namespace, privileged};

use crate::program::{Millrace, Summary};

/// The router of `examples/ip-router.click` with a host on each of its four networks.
struct Routed {
    // Dropped first: it ends before its interfaces go.
    router: Millrace,
    hosts: Vec<Namespace>,
}

/// By which means the examples reach their devices in these tests.
pub(crate) const METHODS: &[&str] = &["LINUX", "XDP"];

impl Routed {
    fn new(method: &str) -> Self {
        let (hosts, inside) = four_networks();
        Self { router: Millrace::start(inside, &["--method", method, "ip-router.click"]), hosts }
    }

    /// Runs a test on a new router for each method.
    fn by_each_method(test: impl Fn(Self)) {
        for method in METHODS {
            eprintln!("method {method}:");
            test(Self::new(method));
        }
    }

    /// Stops the router, which has to end well with every packet accounted for.
    fn stop(self) -> Summary {
        self.router.stop()
    }
}

/// Hosts 10.0.0.2 to 10.0.3.2, each with an interface `lan`, and a namespace with the other ends of
/// their cables, eth0 to eth3. In there, the kernel has no addresses.
fn four_networks() -> (Vec<Namespace>, Namespace) {
    let router = Namespace::new("router");
    let hosts = (0..4).map(|n| {
        let host = Namespace::new(&format!("host{n}"));
        router.connect(&format!("eth{n}"), &host, "lan");
        host.ip(&format!("address add 10.0.{n}.2/24 dev lan"));
        host.ip(&format!("route add default via 10.0.{n}.1"));
        host
    });
    (hosts.collect(), router)
}

fn stdout(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// Whether a run of `ping` got an answer to each of its `n` requests, and only one.
fn answered(output: &Output, n: usize) -> bool {
    let text = stdout(output);
    let all = format!("{n} packets transmitted, {n} received, 0% packet loss");
    output.status.success() && text.contains(&all) && !text.contains("duplicates")
}

fn assert_pings(from: &Namespace, arguments: &str) {
    let output = from.run(&format!("ping -n -c 5 -i 0.02 -W 5 {arguments}"));
    assert!(answered(&output, 5), "ping {arguments}: {output:?}");
}

#[test]
fn hosts_reach_each_other_through_the_router() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    Routed::by_each_method(|net| {
        for (n, host) in net.hosts.iter().enumerate() {
            for other in (0..4).filter(|other| *other != n) {
                assert_pings(host, &format!("10.0.{other}.2"));
            }
        }
        let summary = net.stop();
        assert!(summary.received("ping") == 0 && summary.received("route") >= 4 * 3 * 2 * 5);
    });
}

#[test]
fn the_router_is_a_host_on_each_network() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    Routed::by_each_method(|net| {
        assert_pings(&net.hosts[0], "10.0.0.1");
        assert_pings(&net.hosts[0], "10.0.3.1");
        assert_pings(&net.hosts[2], "-s 1472 10.0.2.1");
        assert_eq!(net.stop().received("ping"), 15);
    });
}

#[test]
fn addresses_are_resolved() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping", "arping") else { return };
    Routed::by_each_method(|net| {
        for (n, host) in net.hosts.iter().enumerate() {
            let mac = format!("02:00:0a:00:0{n}:01");
            assert_pings(host, &format!("10.0.{n}.1"));
            let neighbour = stdout(&host.ip(&format!("neighbour show 10.0.{n}.1")));
            assert!(neighbour.contains(&mac) && neighbour.contains("REACHABLE"), "{neighbour}");
            let replies = stdout(&host.run(&format!("arping -f -w 5 -I lan 10.0.{n}.1")));
            assert!(replies.to_lowercase().contains(&mac), "{replies}");
        }
        // Of its own addresses alone, and each in its own network.
        for address in ["10.0.1.77", "10.0.2.1"] {
            let output = net.hosts[1].run(&format!("arping -c 1 -w 1 -I lan {address}"));
            assert!(!output.status.success(), "{output:?}");
        }
        net.stop();
    });
}

#[test]
fn undeliverable_packets_are_answered() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    Routed::by_each_method(|net| {
        let answer = |host: usize, arguments: &str| {
            let output = net.hosts[host].run(&format!("ping -n -c 1 -W 2 {arguments}"));
            assert!(!output.status.success(), "{arguments}: {output:?}");
            stdout(&output)
        };
        for (host, from) in [(0, "10.0.0.1"), (3, "10.0.3.1")] {
            let expired = answer(host, "-t 1 10.0.1.2");
            assert!(expired.contains(&format!("From {from} icmp_seq=1 Time to live")), "{expired}");
            let unknown = answer(host, "192.0.2.1");
            let expected = format!("From {from} icmp_seq=1 Destination Net Unreachable");
            assert!(unknown.contains(&expected), "{unknown}");
        }
        // The one hop that is needed is there.
        assert_pings(&net.hosts[0], "-t 2 10.0.1.2");

        // Sent by way of the router for no good reason.
        net.hosts[2].ip("route add 10.0.2.77 via 10.0.2.1");
        let redirect = answer(2, "10.0.2.77");
        assert!(redirect.contains("Redirect Host(New nexthop: 10.0.2.77)"), "{redirect}");
        net.stop();
    });
}

#[test]
fn traceroute_lists_the_hop() {
    let Some(_alone) = privileged!("ip", "sysctl", "traceroute") else { return };
    Routed::by_each_method(|net| {
        for probes in ["", "-I", "-T"] {
            let command = format!("traceroute -n -q 1 -w 5 -m 4 {probes} 10.0.2.2");
            let output = stdout(&net.hosts[1].run(&command));
            let hops: Vec<&str> =
                output.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
            assert_eq!(hops, ["10.0.1.1", "10.0.2.2"], "{command}: {output}");
        }
        // The router says that nobody listens at its own address.
        let output = stdout(&net.hosts[1].run("traceroute -n -q 1 -w 5 -m 4 10.0.2.1"));
        assert!(output.contains(" 1  10.0.1.1 ") && output.lines().count() == 2, "{output}");
        net.stop();
    });
}

#[test]
fn long_packets_arrive_in_fragments_or_are_answered() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    Routed::by_each_method(|net| {
        // The sender cuts.
        assert_pings(&net.hosts[2], "-s 3000 10.0.3.2");

        // The router cuts.
        let inside = net.router.namespace();
        inside.ip("link set dev eth0 mtu 4000");
        net.hosts[0].ip("link set dev lan mtu 4000");
        assert_pings(&net.hosts[0], "-s 2500 -M dont 10.0.1.2");

        // The router may not cut.
        let refused = net.hosts[0].run("ping -n -c 1 -W 5 -s 2500 -M do 10.0.1.2");
        let expected = "From 10.0.0.1 icmp_seq=1 Frag needed and DF set (mtu = 1500)";
        assert!(!refused.status.success() && stdout(&refused).contains(expected), "{refused:?}");
        let learned = stdout(&net.hosts[0].ip("route get 10.0.1.2"));
        assert!(learned.contains("mtu 1500"), "{learned}");

        let summary = net.stop();
        assert_eq!(summary.sent("eth1/fits") - summary.received("eth1/fits"), 5, "2 of each");
    });
}

#[test]
fn the_bridge_forwards_everything() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    for method in METHODS {
        let (left, right, between) = two_hosts();
        let bridge = Millrace::start(between, &["--method", method, "bridge.click"]);
        assert_pings(&left, "10.9.0.2");
        assert_pings(&right, "-s 3000 10.9.0.1");
        let summary = bridge.stop();
        assert!(summary.received("rightward") >= 5 && summary.received("leftward") >= 5);
    }
}

/// Hosts 10.9.0.1 and 10.9.0.2 on one network, and a namespace with the other ends of their cables,
/// eth0 and eth1.
fn two_hosts() -> (Namespace, Namespace, Namespace) {
    let between = Namespace::new("between");
    let [left, right] = ["left", "right"].map(Namespace::new);
    for (n, host) in [&left, &right].into_iter().enumerate() {
        between.connect(&format!("eth{n}"), host, "lan");
        host.ip(&format!("address add 10.9.0.{}/24 dev lan", n + 1));
    }
    (left, right, between)
}

#[test]
fn the_ping_responder_answers_a_host() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    let [host, inside] = ["host", "responder"].map(Namespace::new);
    inside.connect("port", &host, "lan");
    host.ip("address add 10.0.0.2/24 dev lan");
    let responder = Millrace::start(inside, &["ping-responder.click", "DEV=port"]);
    assert_pings(&host, "10.0.0.1");
    assert_pings(&host, "-s 1472 10.0.0.1");
    let neighbour = stdout(&host.ip("neighbour show 10.0.0.1"));
    assert!(neighbour.contains("02:00:0a:00:00:01"), "{neighbour}");
    responder.stop();
}
