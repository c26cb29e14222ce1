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
import socket
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 24)
s.bind(('10.9.0.2', 9))
print('ready', flush=True)
s.settimeout(3)
seen, twice = set(), 0
try:
    while True:
        n = int.from_bytes(s.recv(2048)[:4], 'big')
        twice += n in seen
        seen.add(n)
except TimeoutError:
    print(len(seen), twice, flush=True)
";

/// What arrived of numbered packets while the configuration between two hosts was replaced, and what arrived twice.
fn swapped(method: &str, swaps: usize) -> (usize, usize) {
    const COUNT: usize = 6000;
    let (left, right, between) = two_hosts();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let wire = |n: usize| {
        format!(
            "rightward :: FromDevice(eth0, PROMISC true, METHOD {method}) -> c{n} :: Counter
                 -> q0 :: Queue(10000) -> out0 :: ToDevice(eth1, METHOD {method});
             leftward :: FromDevice(eth1, PROMISC true, METHOD {method})
                 -> q1 :: Queue(10000) -> out1 :: ToDevice(eth0, METHOD {method});"
        )
    };
    let mut click = between
        .command(env!("CARGO_BIN_EXE_click"))
        .args(["-R", "-u", socket.to_str().unwrap(), "-e", &wire(0)])
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    while !left.run("ping -n -c 1 -W 1 10.9.0.2").status.success() {}

    let python = |host: &Namespace, script: &str, more: &[String]| {
        let mut command = host.command("python3");
        command.args(["-c", script]).args(more).stdout(Stdio::piped());
        command.spawn().unwrap()
    };
    let mut receiver = python(&right, RECEIVER, &[]);
    let mut ready = [0; 6];
    std::io::Read::read_exact(receiver.stdout.as_mut().unwrap(), &mut ready).unwrap();
    let mut sender = python(&left, SENDER, &[COUNT.to_string(), "2000".to_owned()]);
    for n in 1..=swaps {
        std::thread::sleep(Duration::from_millis(100));
        let mut swap = Command::new(env!("CARGO_BIN_EXE_millrace"))
            .args(["hotswap", "--socket", socket.to_str().unwrap(), "-"])
            .stdin(Stdio::piped())
            .spawn()
            .unwrap();
        swap.stdin.take().unwrap().write_all(wire(n).as_bytes()).unwrap();
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
        let (lost, twice) = swapped(method, 20);
        assert_eq!((lost, twice), (0, 0), "{method}: lost, twice");
    }
}
