//! Hot swaps under traffic from outside: numbered packets, of which none is lost and none comes twice.

use std::io::Write;
use std::process::{Command, Stdio};
use std::time::Duration;

use millrace_testkit::{Namespace, privileged};

use crate::two_hosts;

/// Sends COUNT numbered datagrams, RATE a second, to 10.9.0.2; and counts there what arrives.
const SENDER: &str = "
import socket, sys, time
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
count, rate = int(sys.argv[1]), float(sys.argv[2])
begun = time.monotonic()
for n in range(count):
    while time.monotonic() < begun + n / rate: time.sleep(0.0001)
    s.sendto(n.to_bytes(4, 'big') + bytes(60), ('10.9.0.2', 9))
";
const RECEIVER: &str = "
import socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
SO_RCVBUFFORCE = 33  # beyond the limit of the machine: a busy one may let this program wait
s.setsockopt(socket.SOL_SOCKET, SO_RCVBUFFORCE, 1 << 24)
s.bind(('10.9.0.2', 9))
print('ready', flush=True)
s.settimeout(20)
seen, twice = set(), 0
try:
    while True:
        n = int.from_bytes(s.recv(2048)[:4], 'big')
        twice += n in seen
        seen.add(n)
        if len(seen) == int(sys.argv[1]): s.settimeout(0.5)
except TimeoutError:
    print(len(seen), twice, flush=True)
";

/// What of numbered packets was lost, and what arrived twice, while the `n`th configuration between two hosts was
/// replaced by the next one. `ready` is called once the first one runs.
fn swapped(
    [left, right, between]: [&Namespace; 3],
    configuration: impl Fn(usize) -> String,
    ready: impl FnOnce(),
) -> (usize, usize) {
    const COUNT: usize = 6000;
    const SWAPS: usize = 20;
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let mut click = between
        .command(env!("CARGO_BIN_EXE_click"))
        .args(["-R", "-u", socket.to_str().unwrap(), "-e", &configuration(0)])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !socket.exists() {
        assert!(click.try_wait().unwrap().is_none(), "it ended");
        std::thread::sleep(Duration::from_millis(10));
    }
    ready();
    while !left.run("ping -n -c 1 -W 1 10.9.0.2").status.success() {}

    let python = |host: &Namespace, script: &str, more: &[String]| {
        let mut command = host.command("python3");
        command.args(["-c", script]).args(more).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut receiver = python(right, RECEIVER, &[COUNT.to_string()]);
    let mut ready = [0; 6];
    std::io::Read::read_exact(receiver.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let mut sender = python(left, SENDER, &[COUNT.to_string(), "2000".to_owned()]);
    for n in 1..=SWAPS {
        std::thread::sleep(Duration::from_millis(100));
        let mut swap = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["hotswap", "--socket", socket.to_str().unwrap(), "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        swap.stdin.take().unwrap().write_all(configuration(n).as_bytes()).unwrap();
        assert!(swap.wait().unwrap().success(), "swap {n}");
    }
    assert!(sender.wait().unwrap().success());
    let output = receiver.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let mut numbers = text.split_whitespace().map(|number| number.parse::<usize>().unwrap());
    let told = (COUNT - numbers.next().unwrap(), numbers.next().unwrap());
    Command::new("kill").arg(click.id().to_string()).status().unwrap();
    click.wait().unwrap();
    told
}

#[test]
fn a_hot_swap_neither_loses_nor_doubles_a_packet() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping", "python3") else { return };
    for method in ["LINUX", "SOCKET", "XDP"] {
        let (left, right, between) = two_hosts();
        let configuration = |n| bridge(n, &format!("METHOD {method}"), &format!("METHOD {method}"));
        let told = swapped([&left, &right, &between], configuration, || ());
        assert_eq!(told, (0, 0), "{method}: lost, twice");
    }
}

#[test]
fn the_best_method_is_handed_over_where_it_ends_at_packet_rings() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping", "python3") else { return };
    let (left, right, between) = two_hosts();
    // AF_XDP has less headroom.
    let configuration = |n| bridge(n, "METHOD BEST, HEADROOM 300", "METHOD LINUX");
    let told = swapped([&left, &right, &between], configuration, || ());
    assert_eq!(told, (0, 0), "lost, twice");
}

#[test]
fn interfaces_of_the_machine_are_handed_over() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping", "python3") else { return };
    let [left, right, between] = ["left", "right", "between"].map(Namespace::new);
    let configuration = |n| {
        format!(
            "left :: KernelTap(198.51.100.1/24, DEVNAME eth0, ETHER 02:00:00:00:00:01)
                 -> c{n} :: Counter -> q0 :: Queue(10000) -> out :: ToHost(eth1);
             right :: FromHost(eth1, ETHER 02:00:00:00:00:02) -> q1 :: Queue(10000) -> left;"
        )
    };
    let give = || {
        for (n, host) in [&left, &right].into_iter().enumerate() {
            between.give(&format!("eth{n}"), host, "lan");
            host.ip(&format!("address add 10.9.0.{}/24 dev lan", n + 1));
        }
    };
    assert_eq!(swapped([&left, &right, &between], configuration, give), (0, 0), "lost, twice");
}

/// The `n`th configuration of a bridge, with arguments to receive and to transmit.
fn bridge(n: usize, receive: &str, transmit: &str) -> String {
    format!(
        "rightward :: FromDevice(eth0, PROMISC true, {receive}) -> c{n} :: Counter
             -> q0 :: Queue(10000) -> out0 :: ToDevice(eth1, {transmit});
         leftward :: FromDevice(eth1, PROMISC true, {receive})
             -> q1 :: Queue(10000) -> out1 :: ToDevice(eth0, {transmit});"
    )
}
