//! Packet sockets.

mod frames;
mod life;
mod offloads;
mod queues;

use millrace_core::checksum::Sum;
use millrace_io::af_packet::AfPacket;
use millrace_io::{Backend, Method, RxOptions, RxQueue, TxOptions, TxQueue};

use crate::rig::{B, frame, wired};

fn receive_from(device: &str, options: &RxOptions) -> Box<dyn RxQueue> {
    AfPacket.open_rx(device, options).unwrap().queues.remove(0)
}

fn transmit_to(device: &str) -> Box<dyn TxQueue> {
    transmit_by(Method::Ring, device)
}

fn transmit_by(method: Method, device: &str) -> Box<dyn TxQueue> {
    let options = TxOptions { method, ..TxOptions::default() };
    AfPacket.open_tx(device, &options).unwrap().queues.remove(0)
}

/// Runs a test in a namespace, with rings and without.
fn by_each_method(test: impl Fn(Method) + Send + Sync) {
    for method in [Method::Ring, Method::Socket] {
        wired(1).enter(|| test(method));
    }
}

/// A datagram of a flow, which the source port tells, with a number in its last byte.
fn numbered(flow: u32, number: u32) -> Vec<u8> {
    let mut ip = [0x45, 0, 0, 32, 0, 0, 0x40, 0, 64, 17, 0, 0, 10, 9, 0, 1, 10, 9, 0, 2];
    let sum = Sum::of(&ip).finish().to_be_bytes();
    ip[10..12].copy_from_slice(&sum);
    let udp = [4, flow as u8, 0, 9, 0, 12, 0, 0, 0, 0, 0, number as u8];
    [&frame(B, [8, 0], &[])[..], &ip, &udp].concat()
}
