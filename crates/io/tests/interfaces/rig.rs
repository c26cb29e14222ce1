//! Network namespaces with pairs of interfaces, and frames to send between them.

use std::os::fd::OwnedFd;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use millrace_core::checksum::Sum;
use millrace_core::{Batch, Packet};
use millrace_io::{RxQueue, TxQueue};
pub(crate) use millrace_testkit::Namespace;
use rustix::event::{PollFd, PollFlags, Timespec};

/// A network namespace with the interfaces `a` and `b`, connected to each other, of so many queues each.
pub(crate) fn wired(queues: usize) -> Namespace {
    let namespace = Namespace::new("wired");
    namespace.enter(|| {
        pair("a", "b", queues);
        run("ip address add 10.9.0.1/24 dev a");
        run("ip neighbour add 10.9.0.2 lladdr 02:00:00:00:00:0b dev a");
    });
    namespace
}

/// Makes two interfaces in the calling thread's namespace, connected to each other.
pub(crate) fn pair(one: &str, other: &str, queues: usize) {
    let end = |name: &str| {
        format!("{name} address 02:00:00:00:00:0{name} numrxqueues {queues} numtxqueues {queues}")
    };
    run(&format!("ip link add name {} type veth peer name {}", end(one), end(other)));
    for device in [one, other] {
        run(&format!("ip link set dev {device} up"));
    }
}

/// Runs a program in the calling thread's namespace.
pub(crate) fn run(command: &str) {
    assert!(output(command).0, "{command}");
}

/// Whether a command succeeds, and what it prints.
pub(crate) fn output(command: &str) -> (bool, String) {
    let mut words = command.split(' ');
    let program = millrace_testkit::find_program(words.next().unwrap()).unwrap();
    let output = Command::new(program).args(words).stderr(Stdio::inherit()).output().unwrap();
    (output.status.success(), String::from_utf8_lossy(&output.stdout).into_owned())
}

/// What `ip` says of an interface.
pub(crate) fn link(device: &str) -> String {
    output(&format!("ip -details link show dev {device}")).1
}

/// For what takes a moment on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(60);

/// Receives until there are `n` packets, or it takes too long; with 0, what is there.
pub(crate) fn receive(queue: &mut Box<dyn RxQueue>, n: usize) -> Vec<Packet> {
    receive_all(std::slice::from_mut(queue), n)
}

/// The same from several queues, `n` packets together.
pub(crate) fn receive_all(queues: &mut [Box<dyn RxQueue>], n: usize) -> Vec<Packet> {
    let mut all = Vec::new();
    let mut batch = Batch::new();
    let end = Instant::now() + PATIENCE;
    loop {
        for queue in &mut *queues {
            queue.receive(&mut batch, 256).unwrap();
            all.extend(batch.drain());
        }
        if all.len() >= n || Instant::now() > end {
            return all;
        }
    }
}

pub(crate) fn batch_of(frames: &[impl AsRef<[u8]>]) -> Batch {
    let mut batch = Batch::new();
    for frame in frames {
        batch.push(Packet::from_bytes(frame.as_ref()).unwrap()).unwrap();
    }
    batch
}

pub(crate) fn send(queue: &mut Box<dyn TxQueue>, frames: &[impl AsRef<[u8]>]) {
    let mut batch = batch_of(frames);
    while !batch.is_empty() {
        assert_ne!(queue.transmit(&mut batch).unwrap(), 0);
    }
}

pub(crate) const B: [u8; 6] = [2, 0, 0, 0, 0, 0x0b];

pub(crate) fn frame(to: [u8; 6], ether_type: [u8; 2], payload: &[u8]) -> Vec<u8> {
    [&to[..], &[2, 0, 0, 0, 0, 0x0a], &ether_type, payload].concat()
}

/// A segment with 1,400 bytes of a TCP stream.
pub(crate) fn segment(n: u32) -> Vec<u8> {
    let mut ip = [0x45, 0, 5, 0xa0, 0, n as u8, 0x40, 0, 64, 6, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    let sum = Sum::of(&ip).finish().to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let mut tcp = vec![n as u8; 1420];
    tcp[..4].copy_from_slice(&[0, 7, 0, 9]);
    tcp[4..8].copy_from_slice(&(n * 1400).to_be_bytes());
    tcp[8..20].copy_from_slice(&[0, 0, 0, 1, 0x50, 0x10, 1, 0, 0, 0, 0, 0]);
    let pseudo = Sum::of(&ip[12..20]).add_u16(6).add_u16(tcp.len() as u16);
    let sum = pseudo.add_bytes(&tcp).finish().to_be_bytes();
    tcp[16..18].copy_from_slice(&sum);
    frame(B, [8, 0], &[&ip[..], &tcp].concat())
}

/// Of UDP or TCP over IPv4 in Ethernet.
pub(crate) fn has_right_checksum(frame: &[u8]) -> bool {
    let length = frame.len() - 34;
    let pseudo = Sum::of(&frame[26..34]).add_u16(frame[23].into()).add_u16(length as u16);
    // A UDP checksum of 0 says that there is none.
    let is_there = frame[23] != 17 || frame[40..42] != [0, 0];
    is_there && pseudo.add_bytes(&frame[34..]).is_right()
}

/// Whether somebody who sleeps on one of some queues wakes up.
pub(crate) fn becomes_readable<'a>(descriptors: impl IntoIterator<Item = &'a OwnedFd>) -> bool {
    is_readable_within(descriptors, PATIENCE)
}

/// Whether somebody who sleeps on a queue would not sleep long.
pub(crate) fn is_readable(descriptor: &OwnedFd) -> bool {
    is_readable_within([descriptor], Duration::from_millis(2))
}

fn is_readable_within<'a>(
    descriptors: impl IntoIterator<Item = &'a OwnedFd>,
    time: Duration,
) -> bool {
    let polled = descriptors.into_iter().map(|one| PollFd::new(one, PollFlags::IN));
    let limit = Timespec::try_from(time).unwrap();
    rustix::event::poll(&mut polled.collect::<Vec<_>>(), Some(&limit)).unwrap() > 0
}

/// Waits until somebody who sleeps on a queue is not woken any more, because what there is to tell has been told: what
/// becomes of the machine's links, the kernel tells when it comes to it. Packets that come meanwhile are not wanted.
pub(crate) fn comes_to_rest(queue: &mut Box<dyn RxQueue>, descriptor: &OwnedFd) {
    let end = Instant::now() + PATIENCE;
    loop {
        for _ in 0..300 {
            queue.receive(&mut Batch::new(), 256).unwrap();
        }
        if !is_readable(descriptor) {
            return;
        }
        assert!(Instant::now() < end, "it does not come to rest");
    }
}
