//! TCP with its offloads, measured against the kernel's bridge.

use std::io::Write;
use std::process::{Child, Stdio};
use std::time::{Duration, Instant};

use millrace_testkit::{Namespace, privileged};
use serde_json::Value;

use crate::program::Millrace;
use crate::{METHODS, four_networks, stdout, two_hosts};

/// Mbit/s. Less than this is a TCP that is kept alive, not transported: segments that are longer than
/// the MTU get lost, and each is sent again when a timer says so, 64 KiB each 200 ms at most: 2.6 Mbit/s. Any machine,
/// and a build without optimisation on one that is busy, does more.
pub(crate) const CRAWL: f64 = 10.0;
/// How many times faster than we the kernel may be, which moves segments of 64 KiB as a whole.
const ORDER: f64 = if cfg!(debug_assertions) { 300.0 } else { 30.0 };
/// What else the machine does may spoil a measurement, but not all of them.
pub(crate) const ATTEMPTS: usize = 3;

#[test]
fn tcp_flows_as_it_does_through_the_kernel() {
    let Some(_alone) = privileged!("ip", "sysctl", "timeout", "iperf3", "ethtool") else { return };
    for method in METHODS {
        assert!((0..ATTEMPTS).any(|_| flows(method)), "by {method}: see the figures above");
    }
}

/// Whether TCP flows by this method. Says how fast.
fn flows(method: &str) -> bool {
    let kernel = through_the_kernel(true);
    let unaided = through_the_kernel(false);
    let [bridge, router] = [through_the_bridge(method), through_the_router(method)];
    // Straight to the descriptor: what is printed is kept back when the test passes.
    let _ = writeln!(
        std::io::stderr().lock(),
        "TCP, Mbit/s: bridge of the kernel {kernel:.0}, without offloads {unaided:.0}; by \
         {method}: bridge.click {bridge:.0}, ip-router.click {router:.0}"
    );
    let ours = bridge.min(router);
    ours > CRAWL && ours > kernel / ORDER
}

fn through_the_bridge(method: &str) -> f64 {
    let (left, right, between) = two_hosts();
    let bridge = Millrace::start(between, &["--method", method, "bridge.click"]);
    let rate = tcp(&left, &right, "10.9.0.2");
    bridge.stop();
    rate
}

fn through_the_router(method: &str) -> f64 {
    let (hosts, inside) = four_networks();
    let router = Millrace::start(inside, &["--method", method, "ip-router.click"]);
    let rate = tcp(&hosts[0], &hosts[1], "10.0.1.2");
    router.stop();
    rate
}

/// By a bridge of the kernel, where the hosts send long segments or packets of the MTU.
fn through_the_kernel(offloads: bool) -> f64 {
    let (left, right, between) = two_hosts();
    between.ip("link add name bridge type bridge");
    between.ip("link set dev bridge up");
    for port in ["eth0", "eth1"] {
        between.ip(&format!("link set dev {port} master bridge"));
    }
    if !offloads {
        for host in [&left, &right] {
            let done = host.run("ethtool -K lan tx off tso off gso off gro off");
            assert!(done.status.success(), "{done:?}");
        }
    }
    tcp(&left, &right, "10.9.0.2")
}

/// Mbit/s of payload that one TCP connection gets across.
pub(crate) fn tcp(from: &Namespace, to: &Namespace, address: &str) -> f64 {
    let _server = Server::start(to, address);
    let end = Instant::now() + Duration::from_secs(120);
    loop {
        let client = format!("timeout 20 iperf3 --client {address} --time 1 --json");
        let report: Value = serde_json::from_str(&stdout(&from.run(&client))).unwrap_or_default();
        match report["end"]["sum_received"]["bits_per_second"].as_f64() {
            Some(rate) => return rate / 1e6,
            // The server may not listen yet.
            None => assert!(Instant::now() < end, "{report:#}"),
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// An iperf3 server, which is killed when this is dropped.
struct Server(Child);

impl Server {
    fn start(host: &Namespace, address: &str) -> Self {
        let mut command = host.command("iperf3");
        command.args(["--server", "--bind", address]).stdout(Stdio::null()).stderr(Stdio::null());
        Self(command.spawn().unwrap())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
