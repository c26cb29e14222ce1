//! What packet sockets and what stands in netmap's place have to bear.

use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use millrace_testkit::{Namespace, privileged};

use crate::program::Millrace;
use crate::{answered, assert_pings, two_hosts};

/// Whether a host gets an answer from 10.9.0.2 within a while, or else none.
fn reaches(host: &Namespace, wanted: bool) -> bool {
    let end = Instant::now() + Duration::from_secs(120);
    while Instant::now() < end {
        let output = host.run("ping -n -c 1 -W 1 10.9.0.2");
        if answered(&output, 1) == wanted {
            return true;
        }
    }
    false
}

#[test]
fn a_bridge_outlives_its_cables() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    for method in ["LINUX", "SOCKET"] {
        let (left, right, between) = two_hosts();
        let bridge = Millrace::start(between, &["--method", method, "bridge.click"]);
        assert_pings(&left, "10.9.0.2");
        // Unplugged and plugged in again.
        bridge.namespace().ip("link set dev eth1 down");
        bridge.namespace().ip("link set dev eth1 up");
        assert!(reaches(&left, true), "{method}");
        // Another cable in its place, and a longer MTU.
        right.ip("link delete dev lan");
        bridge.namespace().connect("eth1", &right, "lan");
        right.ip("address add 10.9.0.2/24 dev lan");
        left.ip("neighbour flush dev lan");
        assert!(reaches(&left, true), "{method}");
        for (host, device) in [
            (&left, "lan"),
            (&right, "lan"),
            (bridge.namespace(), "eth0"),
            (bridge.namespace(), "eth1"),
        ] {
            host.ip(&format!("link set dev {device} mtu 4000"));
        }
        assert_pings(&left, "-s 3500 -M do 10.9.0.2");
        bridge.stop();
    }
}

#[test]
fn threads_share_an_interface() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    let (left, right, between) = two_hosts();
    let wire = "FromDevice(eth0, PROMISC true, N_QUEUES 2) -> rightward :: Counter -> ToDevice(eth1);
                FromDevice(eth1, PROMISC true, N_QUEUES 2) -> leftward :: Counter -> ToDevice(eth0);";
    let bridge = Millrace::start(between, &["-j", "2", "-e", wire]);
    assert_pings(&left, "10.9.0.2");
    assert_pings(&right, "-s 3000 10.9.0.1");
    let summary = bridge.stop();
    assert!(summary.received("rightward") >= 5 && summary.received("leftward") >= 5);
}

#[test]
fn configurations_for_netmap_run_as_they_are() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    let (left, right, between) = two_hosts();
    let wire = "FromNetmapDevice(netmap:eth0, PROMISC true) -> ToNetmapDevice(netmap:eth1);
                FromNetmapDevice(netmap:eth1, PROMISC true) -> ToNetmapDevice(netmap:eth0);";
    let bridge = Millrace::start(between, &["-e", wire]);
    assert_pings(&left, "10.9.0.2");
    assert_pings(&right, "10.9.0.1");
    bridge.stop();
}

#[test]
fn the_kernel_has_its_packets_back_after_a_kill() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    let [host, inside] = ["host", "inside"].map(Namespace::new);
    inside.connect("port", &host, "lan");
    host.ip("address add 10.9.0.1/24 dev lan");
    inside.ip("address add 10.9.0.2/24 dev port");
    assert!(reaches(&host, true));
    let mut program = Killed(
        inside
            .command(env!("CARGO_BIN_EXE_millrace"))
            .args(["run", "-e", "FromDevice(port, SNIFFER false) -> Discard"])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    assert!(reaches(&host, false), "the kernel gets nothing");
    program.kill();
    assert!(reaches(&host, true), "and then all of it again");
}

/// A program that is killed at the latest when this is dropped.
struct Killed(Child);

impl Killed {
    fn kill(&mut self) {
        // It may have ended, which the test finds out.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Drop for Killed {
    fn drop(&mut self) {
        self.kill();
    }
}
