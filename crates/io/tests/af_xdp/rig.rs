//! A network namespace with pairs of interfaces, and frames to send between them.

use std::fs::File;
use std::os::fd::AsFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use millrace_core::{Batch, Packet};
use millrace_io::af_xdp::AfXdp;
use millrace_io::{Backend, Method, Queues, RxOptions, RxQueue, TxOptions, TxQueue, XdpOptions};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace with the interfaces `a` and `b`, connected to each other, of two queues each;
/// and so `c` and `d`.
pub(super) struct Namespace(pub(super) String);

impl Namespace {
    pub(super) fn new(name: &str) -> Self {
        let namespace = Self(format!("millrace-{name}-{}", std::process::id()));
        run(&format!("ip netns add {}", namespace.0));
        namespace.exec("sysctl -q -w net.ipv6.conf.default.disable_ipv6=1");
        for (one, other) in [("a", "b"), ("c", "d")] {
            namespace.pair(one, other);
        }
        namespace.exec("ip address add 10.9.0.1/24 dev a");
        namespace.exec("ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:0b dev a");
        namespace
    }

    pub(super) fn pair(&self, one: &str, other: &str) {
        const QUEUES: &str = "numrxqueues 2 numtxqueues 2";
        let address = |name: &str| format!("address 02:00:00:00:00:0{name}");
        let (first, second) = (address(one), address(other));
        self.exec(&format!(
            "ip link add name {one} {first} {QUEUES} type veth peer name {other} {second} {QUEUES}"
        ));
        for device in [one, other] {
            self.exec(&format!("ip link set dev {device} up"));
        }
    }

    pub(super) fn exec(&self, command: &str) {
        run(&format!("ip netns exec {} {command}", self.0));
    }

    /// Runs a test in the namespace, on a thread of its own.
    pub(super) fn run(&self, test: impl FnOnce(&Self) + Send) {
        let file = File::open(format!("/run/netns/{}", self.0)).unwrap();
        std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let kind = Some(LinkNameSpaceType::Network);
                move_into_link_name_space(file.as_fd(), kind).unwrap();
                test(self);
            });
            thread.join().unwrap();
        });
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        run(&format!("ip netns delete {}", self.0));
    }
}

pub(super) fn run(command: &str) {
    assert!(output(command).0, "{command}");
}

/// Whether a command succeeds, and what it prints.
pub(super) fn output(command: &str) -> (bool, String) {
    let mut words = command.split(' ');
    let program = millrace_testkit::find_program(words.next().unwrap()).unwrap();
    let output = Command::new(program).args(words).stderr(Stdio::inherit()).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

pub(super) fn link(device: &str) -> String {
    output(&format!("ip -details link show dev {device}")).1
}

pub(super) fn two_queues() -> Queues {
    Queues { first: 0, count: 2 }
}

pub(super) fn xdp(change: impl FnOnce(&mut XdpOptions)) -> Method {
    let mut options = XdpOptions::default();
    change(&mut options);
    Method::Xdp(options)
}

pub(super) fn rx(queues: Queues) -> RxOptions {
    RxOptions { method: xdp(|_| {}), queues, ..RxOptions::default() }
}

pub(super) fn receive_from(device: &str, options: &RxOptions) -> Vec<Box<dyn RxQueue>> {
    let opened = AfXdp.open_rx(device, options).unwrap();
    assert_eq!(opened.queues.len(), options.queues.count);
    opened.queues
}

pub(super) fn transmit_to(device: &str, queues: Queues) -> Vec<Box<dyn TxQueue>> {
    let options = TxOptions { method: xdp(|_| {}), queues, ..TxOptions::default() };
    AfXdp.open_tx(device, &options).unwrap().queues
}

/// Receives until there are `n` packets, or none have come for a while.
pub(super) fn receive(queue: &mut Box<dyn RxQueue>, n: usize) -> Vec<Packet> {
    let mut all = Vec::new();
    let mut batch = Batch::new();
    let end = Instant::now() + Duration::from_secs(if n > 0 { 5 } else { 0 });
    loop {
        queue.receive(&mut batch, 256).unwrap();
        all.extend(batch.drain());
        if all.len() >= n || Instant::now() > end {
            return all;
        }
    }
}

pub(super) fn batch_of(frames: &[Vec<u8>]) -> Batch {
    let mut batch = Batch::new();
    for frame in frames {
        batch.push(Packet::from_bytes(frame).unwrap()).unwrap();
    }
    batch
}

pub(super) fn send(queue: &mut Box<dyn TxQueue>, frames: &[Vec<u8>]) {
    let mut batch = batch_of(frames);
    while !batch.is_empty() {
        assert_ne!(queue.transmit(&mut batch).unwrap(), 0);
    }
}

pub(super) const B: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];

pub(super) fn frame(to: [u8; 6], ether_type: [u8; 2], payload: &[u8]) -> Vec<u8> {
    [&to[..], &[2, 0, 0, 0, 0, 0x0a], &ether_type, payload].concat()
}

/// A numbered frame of 60 bytes.
pub(super) fn numbered(n: u32) -> Vec<u8> {
    let mut payload = [0; 46];
    payload[..4].copy_from_slice(&n.to_be_bytes());
    frame(B, [0x88, 0xb5], &payload)
}

pub(super) fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame[14..].first_chunk().unwrap())
}

/// Protocol, addresses and ports over IPv4.
pub(super) fn ipv4(
    protocol: u8,
    from: [u8; 4],
    to: [u8; 4],
    source: u16,
    destination: u16,
) -> Vec<u8> {
    let head = [0x46, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0];
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let ip = [&head[..], &from, &to, &[1, 1, 1, 1], &ports, &[0; 18]].concat();
    frame(B, [8, 0], &ip)
}

pub(super) fn ipv6(protocol: u8, source: u16, destination: u16) -> Vec<u8> {
    let mut ip = [0; 40];
    (ip[0], ip[5], ip[6]) = (0x60, 12, protocol);
    ip[8..14].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 2]);
    ip[24..30].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 1]);
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    frame(B, [0x86, 0xdd], &[&ip[..], &ports, &[0; 8]].concat())
}
