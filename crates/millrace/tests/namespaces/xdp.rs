//! What AF_XDP alone can do, and what can happen to its interfaces.

use std::time::{Duration, Instant};

use millrace_testkit::{Namespace, privileged};

use crate::program::Millrace;
use crate::{answered, assert_pings, two_hosts};

/// A host 10.9.0.2 and a namespace with the other end of its cable, eth0, where the kernel has
/// 10.9.0.1. The host believes that 10.9.0.77 is there, too.
fn shared_interface() -> (Namespace, Namespace) {
    let [host, inside] = ["host", "shared"].map(Namespace::new);
    inside.connect("eth0", &host, "lan");
    inside.ip("link set dev eth0 address 02:00:00:00:00:77");
    inside.ip("address add 10.9.0.1/24 dev eth0");
    host.ip("address add 10.9.0.2/24 dev lan");
    host.ip("neighbour add 10.9.0.77 lladdr 02:00:00:00:00:77 dev lan");
    (host, inside)
}

#[test]
fn the_kernel_keeps_what_the_graph_does_not_want() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    for (rules, taken) in [
        ("ONLY \"icmp dst net 10.9.0.77/32\"", 5),
        // ARP and the address of the kernel are its own; what else comes is for the graph.
        ("EXCEPT \"arp, dst net 10.9.0.1/32\"", 5),
    ] {
        let (host, inside) = shared_interface();
        let config = format!(
            "FromXDPDevice(eth0, {rules}) -> Strip(14) -> CheckIPHeader -> taken :: Counter
                -> ICMPPingResponder -> Unstrip(14) -> EtherMirror -> ToXDPDevice(eth0);"
        );
        let responder = Millrace::start(inside, &["-e", &config]);
        // One answer comes from the graph, the other one from the kernel.
        assert_pings(&host, "10.9.0.77");
        assert_pings(&host, "10.9.0.1");
        assert_eq!(responder.stop().received("taken"), taken, "{rules}");
    }
}

#[test]
fn an_interface_that_comes_back_is_used_again() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    let (left, right, between) = two_hosts();
    // Its neighbour does not ask for it again.
    let keep_address = || right.ip("link set dev lan address 02:00:00:00:00:02");
    keep_address();
    let bridge = Millrace::start(between, &["--method", "XDP", "bridge.click"]);
    assert_pings(&left, "10.9.0.2");
    let inside = bridge.namespace();
    inside.ip("link delete dev eth1");
    assert!(!answered(&left.run("ping -n -c 1 -W 1 10.9.0.2"), 1));
    inside.connect("eth1", &right, "lan");
    keep_address();
    right.ip("address add 10.9.0.2/24 dev lan");
    let end = Instant::now() + Duration::from_secs(120);
    while !answered(&left.run("ping -n -c 1 -W 1 10.9.0.2"), 1) {
        assert!(Instant::now() < end, "the bridge does not find its interface again");
    }
    // Another MTU, without and with.
    for host in [&left, &right] {
        host.ip("link set dev lan mtu 3000");
    }
    for port in ["eth0", "eth1"] {
        inside.ip(&format!("link set dev {port} mtu 3000"));
    }
    assert_pings(&left, "-s 2900 -M do 10.9.0.2");
    bridge.stop();
}
