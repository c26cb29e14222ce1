//! AF_XDP.

mod frames;
mod life;
mod offloads;
mod queues;

use millrace_io::af_xdp::AfXdp;
use millrace_io::{Backend, Method, Queues, RxOptions, RxQueue, TxOptions, TxQueue, XdpOptions};

use crate::rig::{B, Namespace, frame, pair};

/// A network namespace with the interfaces `a` and `b`, connected to each other, of two queues each;
/// and so `c` and `d`.
fn wired() -> Namespace {
    let namespace = crate::rig::wired(2);
    namespace.enter(|| pair("c", "d", 2));
    namespace
}

fn two_queues() -> Queues {
    Queues { first: 0, count: 2 }
}

fn xdp(change: impl FnOnce(&mut XdpOptions)) -> Method {
    let mut options = XdpOptions::default();
    change(&mut options);
    Method::Xdp(options)
}

fn rx(queues: Queues) -> RxOptions {
    RxOptions { method: xdp(|_| {}), queues, ..RxOptions::default() }
}

fn receive_from(device: &str, options: &RxOptions) -> Vec<Box<dyn RxQueue>> {
    let opened = AfXdp.open_rx(device, options).unwrap();
    assert_eq!(opened.queues.len(), options.queues.count);
    opened.queues
}

fn transmit_to(device: &str, queues: Queues) -> Vec<Box<dyn TxQueue>> {
    let options = TxOptions { method: xdp(|_| {}), queues, ..TxOptions::default() };
    AfXdp.open_tx(device, &options).unwrap().queues
}

/// A numbered frame of 60 bytes.
fn numbered(n: u32) -> Vec<u8> {
    let mut payload = [0; 46];
    payload[..4].copy_from_slice(&n.to_be_bytes());
    frame(B, [0x88, 0xb5], &payload)
}

fn number_of(frame: &[u8]) -> u32 {
    u32::from_be_bytes(*frame[14..].first_chunk().unwrap())
}

/// Protocol, addresses and ports over IPv4.
fn ipv4(protocol: u8, from: [u8; 4], to: [u8; 4], source: u16, destination: u16) -> Vec<u8> {
    let head = [0x46, 0, 0, 46, 0, 0, 0, 0, 64, protocol, 0, 0];
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    let ip = [&head[..], &from, &to, &[1, 1, 1, 1], &ports, &[0; 18]].concat();
    frame(B, [8, 0], &ip)
}

fn ipv6(protocol: u8, source: u16, destination: u16) -> Vec<u8> {
    let mut ip = [0; 40];
    (ip[0], ip[5], ip[6]) = (0x60, 12, protocol);
    ip[8..14].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 2]);
    ip[24..30].copy_from_slice(&[0x20, 1, 0x0d, 0xb8, 0, 1]);
    let ports = [source.to_be_bytes(), destination.to_be_bytes()].concat();
    frame(B, [0x86, 0xdd], &[&ip[..], &ports, &[0; 8]].concat())
}
