//! Rewrites addresses without ports.

use millrace_core::headers::Ipv4Header;
use millrace_core::{Packet, Reason, Setup};

use super::flow_set::{Policy, Seen, Timeouts, time};
use super::flow_table::View;
use super::transport::{addresses, split, write_addresses};
use crate::flows::checksum::{update_transport, updated};
use crate::flows::key::FlowId;

/// Reads the timeout and the guarantee of address mappings.
pub(crate) fn policy(setup: &mut Setup<'_>, seconds: u64) -> Policy {
    let timeout = time(setup, "TIMEOUT").unwrap_or(seconds * 1000);
    let guarantee = time(setup, "GUARANTEE").unwrap_or(5000);
    Policy { guarantee, timeouts: Timeouts::Plain(timeout) }
}

/// The flow of a packet between two hosts, whatever it carries.
#[inline(always)]
pub(in crate::rewrite) fn read(packet: &Packet) -> Result<Seen, Reason> {
    let (head, _) = split(packet.network_data().ok_or(Reason::NoHeader)?)?;
    let flow = FlowId { addresses: addresses(head), ports: 0 };
    Ok(Seen { flow, map: 0, protocol: 0 })
}

/// Writes both addresses of a mapping into a packet.
#[inline(always)]
pub(crate) fn apply_both(packet: &mut Packet, view: &View<'_>) {
    let Some(bytes) = packet.network_data_mut() else { return };
    let Some((head, transport)) = write_addresses(bytes, view) else { return };
    if u16::from_be_bytes([head[6], head[7]]) & Ipv4Header::OFFSET_MASK == 0 {
        update_transport(head[9], transport, view.deltas.1);
    }
}

/// Writes the one address of a mapping into a packet: the source, or the destination of replies.
#[inline(always)]
pub(crate) fn apply_one(packet: &mut Packet, view: &View<'_>) {
    let Some(bytes) = packet.network_data_mut() else { return };
    let Some(len) = bytes.first().map(|first| usize::from(first & 0xf) * 4) else { return };
    let Some((header, transport)) = bytes.split_at_mut_checked(len) else { return };
    let Some(head) = header.first_chunk_mut::<20>() else { return };
    let [.., s0, s1, s2, s3, d0, d1, d2, d3] = head;
    let (place, address) = match view.found.reply {
        false => ([s0, s1, s2, s3], view.to.source()),
        true => ([d0, d1, d2, d3], view.to.destination()),
    };
    for (place, byte) in place.into_iter().zip(address.to_be_bytes()) {
        *place = byte;
    }
    let checksum = u16::from_be_bytes([head[10], head[11]]);
    [head[10], head[11]] = updated(checksum, view.deltas.0).to_be_bytes();
    if u16::from_be_bytes([head[6], head[7]]) & Ipv4Header::OFFSET_MASK == 0 {
        update_transport(head[9], transport, view.deltas.1);
    }
}
