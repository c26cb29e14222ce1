//! Packets that somebody might send to do harm.

#![allow(dead_code, unreachable_pub, reason = "a module of several programs")]

use fastrand::Rng;

/// The bytes of a packet that is random, or nearly right, or cut short; with an Ethernet header or without.
pub fn frame(rng: &mut Rng) -> Vec<u8> {
    let mut bytes: Vec<u8> = match rng.u8(0..5) {
        0 => (0..rng.usize(0..120)).map(|_| rng.u8(..)).collect(),
        1 => arp(rng),
        2 => ip6(rng),
        _ => ip(rng),
    };
    for _ in 0..rng.usize(0..3) {
        if !bytes.is_empty() {
            let at = rng.usize(0..bytes.len());
            bytes[at] = rng.u8(..);
        }
    }
    if rng.u8(0..4) == 0 {
        bytes.truncate(rng.usize(0..=bytes.len()));
    }
    bytes
}

fn arp(rng: &mut Rng) -> Vec<u8> {
    let mut frame = vec![0xff; 6];
    frame.extend([2, 0, 0, 0, 0, 9, 8, 6, 0, 1, 8, 0, 6, 4, 0, rng.u8(1..4)]);
    frame.extend([2, 0, 0, 0, 0, 9, 10, 0, 0, 9, 0, 0, 0, 0, 0, 0, 10, 0, 0, rng.u8(..)]);
    frame
}

/// An IP packet, in a frame or bare; options, fragments and wrong lengths among them.
fn ip(rng: &mut Rng) -> Vec<u8> {
    let options: Vec<u8> = (0..rng.usize(0..3) * 4).map(|_| rng.u8(0..140)).collect();
    let payload: Vec<u8> = (0..rng.usize(0..300)).map(|_| rng.u8(..)).collect();
    let header_len = 20 + options.len();
    let total = (header_len + payload.len()) as u16;
    let total = if rng.u8(0..8) == 0 { rng.u16(..) } else { total };
    let fragment: u16 = if rng.u8(0..4) == 0 { rng.u16(..) } else { 0 };
    let protocol = [1, 6, 17, rng.u8(..)][rng.usize(0..4)];
    let mut packet = vec![0x40 | (header_len / 4) as u8, 0];
    packet.extend(total.to_be_bytes());
    packet.extend([0, rng.u8(..)]);
    packet.extend(fragment.to_be_bytes());
    packet.extend([
        rng.u8(0..3),
        protocol,
        0,
        0,
        10,
        0,
        rng.u8(..),
        rng.u8(..),
        10,
        0,
        0,
        rng.u8(..),
    ]);
    packet.extend(options);
    if rng.u8(0..8) > 0 {
        let sum = millrace_core::checksum::checksum(&packet).to_be_bytes();
        packet[10..12].copy_from_slice(&sum);
    }
    packet.extend(payload);
    if rng.bool() {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 8, 0];
        frame.append(&mut packet);
        return frame;
    }
    packet
}

/// An IPv6 packet, in a frame or bare; extension headers and wrong lengths among them.
fn ip6(rng: &mut Rng) -> Vec<u8> {
    let payload: Vec<u8> = (0..rng.usize(0..300)).map(|_| rng.u8(..)).collect();
    let length = if rng.u8(0..8) == 0 { rng.u16(..) } else { payload.len() as u16 };
    let next_header = [0, 6, 17, 43, 44, 58, rng.u8(..)][rng.usize(0..7)];
    let mut packet = vec![0x60, rng.u8(..), 0, 0];
    packet.extend(length.to_be_bytes());
    packet.extend([next_header, rng.u8(0..3)]);
    for host in [rng.u8(..), rng.u8(..)] {
        packet.extend([[0x20, 1, 0xd, 0xb8], [0; 4], [0; 4], [0, 0, 0, host]].concat());
    }
    packet.extend(payload);
    if rng.bool() {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 9, 0x86, 0xdd];
        frame.append(&mut packet);
        return frame;
    }
    packet
}
