//! Reads and rewrites TCP, UDP, and protocols with ports at the same place.

use millrace_core::headers::{Ipv4Header, tcp_flags};
use millrace_core::{Packet, Reason};

use super::flow_set::{FlowSet, seen};
use super::flow_table::{SHIFTED, View};
use super::sequence::SequenceShifts;
use crate::flows::checksum::{field, update, update_transport, updated};
use crate::flows::key::FlowId;

/// The flow and the protocol of a packet that has ports.
#[inline(always)]
pub(crate) fn read(packet: &Packet) -> Result<(FlowId, u8), Reason> {
    let bytes = packet.network_data().ok_or(Reason::NoHeader)?;
    // A header without options, and not a fragment.
    if let Some(head) = bytes.first_chunk::<28>()
        && head[0] == 0x45
        && head[6] & 0x1f == 0
        && head[7] == 0
    {
        let ports = u32::from_be_bytes([head[20], head[21], head[22], head[23]]);
        return Ok((FlowId { addresses: addresses(head), ports }, head[9]));
    }
    read_slowly(bytes)
}

#[inline(never)]
fn read_slowly(bytes: &[u8]) -> Result<(FlowId, u8), Reason> {
    let (head, transport) = split(bytes)?;
    let fragment = u16::from_be_bytes([head[6], head[7]]);
    if fragment & Ipv4Header::OFFSET_MASK != 0 {
        return Err(Reason::Fragment);
    }
    let [a, b, c, d, _, _, _, _] = transport.first_chunk().ok_or(Reason::Truncated)?;
    let ports = u32::from_be_bytes([*a, *b, *c, *d]);
    Ok((FlowId { addresses: addresses(head), ports }, head[9]))
}

/// The fixed part of an IP header, and what follows the header.
pub(crate) fn split(bytes: &[u8]) -> Result<(&[u8; 20], &[u8]), Reason> {
    let head: &[u8; 20] = bytes.first_chunk().ok_or(Reason::Truncated)?;
    match usize::from(head[0] & 0xf) * 4 {
        len if len < head.len() => Err(Reason::BadHeaderLength),
        len => Ok((head, bytes.get(len..).ok_or(Reason::Truncated)?)),
    }
}

#[inline(always)]
pub(crate) fn addresses<const N: usize>(head: &[u8; N]) -> u64 {
    let addresses = head.get(12..20).and_then(<[u8]>::first_chunk);
    u64::from_be_bytes(*addresses.unwrap_or(&[0; 8]))
}

/// Writes new addresses into an IP header, and returns what follows the header.
#[inline(always)]
pub(crate) fn write_addresses<'p>(
    bytes: &'p mut [u8],
    view: &View<'_>,
) -> Option<(&'p mut [u8; 20], &'p mut [u8])> {
    let len = usize::from(bytes.first()? & 0xf) * 4;
    let (header, transport) = bytes.split_at_mut_checked(len)?;
    let head: &mut [u8; 20] = header.first_chunk_mut()?;
    *head.last_chunk_mut()? = view.to.addresses.to_be_bytes();
    let checksum = u16::from_be_bytes([head[10], head[11]]);
    [head[10], head[11]] = updated(checksum, view.deltas.0).to_be_bytes();
    Some((head, transport))
}

/// Rewrites a datagram with ports, and returns the new state of the flow.
#[inline(always)]
pub(crate) fn apply_udp(packet: &mut Packet, view: &View<'_>) -> u32 {
    let state = view.state;
    let Some(bytes) = packet.network_data_mut() else { return state };
    let Some((head, transport)) = write_addresses(bytes, view) else { return state };
    if let Some(ports) = field(transport, 0) {
        *ports = view.to.ports.to_be_bytes();
    }
    update_transport(head[9], transport, view.deltas.1);
    let count = state & seen::MASK;
    let count = count | u32::from(view.found.reply);
    let count = if count < 6 { count + 2 } else { count };
    state & !seen::MASK | count
}

/// Rewrites a TCP segment, and returns the new state of the connection.
#[inline(always)]
pub(crate) fn apply_tcp(set: &FlowSet, packet: &mut Packet, view: &View<'_>) -> u32 {
    let state = view.state;
    let Some(bytes) = packet.network_data_mut() else { return state };
    let Some((head, transport)) = write_addresses(bytes, view) else { return state };
    let header_len = u16::from(head[0] & 0xf) * 4;
    let total_len = u16::from_be_bytes([head[2], head[3]]);
    let Some(tcp) = transport.first_chunk_mut::<18>() else { return state };
    [tcp[0], tcp[1], tcp[2], tcp[3]] = view.to.ports.to_be_bytes();
    let checksum = u16::from_be_bytes([tcp[16], tcp[17]]);
    [tcp[16], tcp[17]] = updated(checksum, view.deltas.1).to_be_bytes();
    let (offset, flags) = (u16::from(tcp[12] >> 4) * 4, tcp[13]);
    let has_data = header_len + offset < total_len;
    let reply = u32::from(view.found.reply);
    let mut state = state;
    if flags & tcp_flags::RST != 0 {
        state |= seen::BOTH_DONE;
    } else if flags & tcp_flags::FIN != 0 {
        state |= seen::DONE << reply;
    } else if flags & tcp_flags::SYN != 0 || has_data {
        state &= !(seen::DONE << reply);
    }
    if has_data {
        state |= seen::DATA << reply;
    }
    if state & SHIFTED != 0 && transport.len() >= usize::from(offset) {
        shift(set, transport, offset.into(), view);
    }
    state
}

/// Shifts the numbers in a TCP header.
#[cold]
fn shift(set: &FlowSet, tcp: &mut [u8], header_len: usize, view: &View<'_>) {
    let mut all = set.shifts();
    let Some(shifts) = all.get_mut(&view.found.record) else { return };
    let reply = view.found.reply;
    let Some(sequence) = field(tcp, 4).map(|field| u32::from_be_bytes(*field)) else { return };
    shifts.age(reply, sequence);
    let mut delta = 0;
    if shifts.shifts(reply) {
        delta += exchange(tcp, 4, |number| shifts.sequence(reply, number));
    }
    if shifts.shifts(!reply) {
        delta += exchange(tcp, 8, |number| shifts.acknowledgment(reply, number));
        delta += shift_selective(tcp, header_len, shifts, reply);
    }
    let delta = (delta % 0xffff) as u16;
    update(field(tcp, 16), delta);
}

/// Replaces a number; returns the change of the header's sum.
fn exchange(tcp: &mut [u8], at: usize, by: impl FnOnce(u32) -> u32) -> u64 {
    let Some(field) = field(tcp, at) else { return 0 };
    let old = u32::from_be_bytes(*field);
    let new = by(old);
    *field = new.to_be_bytes();
    // A number that begins in the middle of a word contributes to the sum as if its bytes were rotated.
    let turned = |number: u32| if at.is_multiple_of(2) { number } else { number.rotate_left(8) };
    u64::from(!turned(old)) + u64::from(turned(new))
}

/// Shifts the numbers of selective acknowledgments (RFC 2018).
fn shift_selective(tcp: &mut [u8], header_len: usize, shifts: &SequenceShifts, reply: bool) -> u64 {
    const END: u8 = 0;
    const NOTHING: u8 = 1;
    const SELECTIVE: u8 = 5;
    let (mut at, mut delta) = (20, 0);
    while at < header_len {
        let (kind, len) = match tcp.get(at..at + 2).and_then(<[u8]>::first_chunk) {
            Some([END, _]) | None => break,
            Some([NOTHING, _]) => {
                at += 1;
                continue;
            }
            Some([kind, len]) => (*kind, usize::from(*len)),
        };
        if len < 2 || at + len > header_len {
            break;
        }
        if kind == SELECTIVE {
            if len % 8 != 2 {
                break;
            }
            for edge in (at + 2..at + len).step_by(4) {
                delta += exchange(tcp, edge, |number| shifts.acknowledgment(reply, number));
            }
        }
        at += len;
    }
    delta
}
