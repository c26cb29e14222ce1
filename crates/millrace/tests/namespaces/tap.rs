//! Routers on TAP interfaces: each is given to a host's namespace as its network card, so that
//! nothing but the program is between the hosts.

use std::fs;
use std::io::Write;

use millrace_testkit::{Namespace, privileged};

use crate::program::Millrace;
use crate::throughput::{ATTEMPTS, CRAWL, tcp};
use crate::{Routed, assert_pings, stdout};

/// The router of `examples/ip-router.click` with a TAP interface for each of its devices.
fn routed() -> Routed {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/ip-router.click");
    let example = fs::read_to_string(example).unwrap();
    let tap = "tap :: KernelTap(198.51.100.1/24, DEVNAME $device, ETHER 02:00:00:00:00:0$color)";
    let router = example
        .replace("FromDevice($device, PROMISC true)", tap)
        .replace("Queue -> ToDevice($device);", "Queue -> tap;");
    assert_ne!(router.matches("tap").count(), example.matches("tap").count());
    start(&router, "10.0.{n}.2/24", Some("10.0.{n}.1"), 4)
}

/// Runs a configuration whose devices are called eth0, eth1, ... and gives each to a host.
fn start(configuration: &str, address: &str, gateway: Option<&str>, hosts: usize) -> Routed {
    let file = tempfile::NamedTempFile::with_suffix(".click").unwrap();
    file.as_file().write_all(configuration.as_bytes()).unwrap();
    let path = file.path().to_str().unwrap();
    let router = Millrace::start(Namespace::new("router"), &[path]);
    let number = |text: &str, n: usize| text.replace("{n}", &n.to_string());
    let hosts = (0..hosts).map(|n| {
        let host = Namespace::new(&format!("host{n}"));
        router.namespace().give(&format!("eth{n}"), &host, "lan");
        host.ip(&format!("address add {} dev lan", number(address, n)));
        if let Some(gateway) = gateway {
            host.ip(&format!("route add default via {}", number(gateway, n)));
        }
        host
    });
    Routed { hosts: hosts.collect(), router }
}

#[test]
fn hosts_reach_each_other_over_tap_interfaces() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    let net = routed();
    for (n, host) in net.hosts.iter().enumerate() {
        assert_pings(host, &format!("10.0.{n}.1"));
        for other in (0..4).filter(|other| *other != n) {
            assert_pings(host, &format!("10.0.{other}.2"));
        }
    }
    assert_pings(&net.hosts[2], "-s 3000 10.0.3.2");
    let summary = net.stop();
    assert!(summary.received("route") >= 4 * 3 * 2 * 5);
}

#[test]
fn traceroute_lists_the_hop_over_tap_interfaces() {
    let Some(_alone) = privileged!("ip", "sysctl", "traceroute") else { return };
    let net = routed();
    for probes in ["", "-I", "-T"] {
        let command = format!("traceroute -n -q 1 -w 5 -m 4 {probes} 10.0.2.2");
        let output = stdout(&net.hosts[1].run(&command));
        let hops: Vec<&str> =
            output.lines().skip(1).filter_map(|line| line.split_whitespace().nth(1)).collect();
        assert_eq!(hops, ["10.0.1.1", "10.0.2.2"], "{command}: {output}");
    }
    net.stop();
}

#[test]
fn tcp_flows_over_tap_interfaces() {
    let Some(_alone) = privileged!("ip", "sysctl", "timeout", "iperf3") else { return };
    assert!((0..ATTEMPTS).any(|_| flows()), "see the figures above");
}

/// Whether TCP flows. Says how fast.
fn flows() -> bool {
    let bridge = "a :: KernelTap(198.51.100.1/24, DEVNAME eth0, ETHER 02:00:00:00:00:01)
        -> b :: KernelTap(198.51.100.1/24, DEVNAME eth1, ETHER 02:00:00:00:00:02)
        -> a;";
    let bridge = start(bridge, "10.9.0.1{n}/24", None, 2);
    let straight = tcp(&bridge.hosts[0], &bridge.hosts[1], "10.9.0.11");
    bridge.stop();
    let net = routed();
    let routed = tcp(&net.hosts[0], &net.hosts[1], "10.0.1.2");
    net.stop();
    // Straight to the descriptor: what is printed is kept back when the test passes.
    let mut out = std::io::stderr().lock();
    let _ = writeln!(out, "TCP, Mbit/s, by TAP: bridge {straight:.0}, ip-router.click {routed:.0}");
    straight > CRAWL && routed > CRAWL
}

#[test]
fn the_machine_reaches_a_tun_and_nothing_stays_after_a_kill() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    let responder = "tun :: KernelTun(10.7.0.1/24, DEVNAME eth0)
        -> IPClassifier(icmp type echo) -> ICMPPingResponder -> tun;";
    let file = tempfile::NamedTempFile::with_suffix(".click").unwrap();
    file.as_file().write_all(responder.as_bytes()).unwrap();
    let machine = Namespace::new("machine");
    let mut running = Millrace::start(machine, &["-j", "2", file.path().to_str().unwrap()]);
    assert_pings(running.namespace(), "10.7.0.2");
    assert_pings(running.namespace(), "-s 1472 10.7.0.9");
    running.kill();
    let links = stdout(&running.namespace().run("ip link show"));
    assert!(links.contains("lo") && !links.contains("eth0"), "{links}");
}
