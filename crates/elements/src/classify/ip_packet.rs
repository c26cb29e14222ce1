//! How IPFilter and IPClassifier look at packets.

use millrace_core::{Packet, Reason};

use super::program::{DROP, FilterProgram, IpSections};

/// The output for a packet, or why there is none: `otherwise`, if the program says so.
#[inline]
pub(super) fn classify(
    program: &FilterProgram,
    packet: &Packet,
    otherwise: Reason,
) -> Result<usize, Reason> {
    let sections = if program.is_constant() {
        IpSections::default()
    } else {
        sections(program, packet).ok_or(Reason::NoHeader)?
    };
    match program.classify(&sections) {
        DROP => Err(otherwise),
        output => Ok(output),
    }
}

/// The parts of a packet that the program looks at; `None` if its IP header is not known.
#[inline]
fn sections<'p>(program: &FilterProgram, packet: &'p Packet) -> Option<IpSections<'p>> {
    let mac = if program.looks_at_mac() { packet.mac_data() } else { None };
    Some(IpSections {
        mac: mac.unwrap_or_default(),
        network: packet.network_data()?,
        transport: packet.transport_data().unwrap_or_default(),
    })
}

/// What the packets of a flow have in common: protocol and fragment fields, addresses, the first
/// word behind the IP header.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct FlowKey([u8; 15]);

impl FlowKey {
    /// The key of a packet; `None` if a part of it is missing.
    #[inline]
    pub(super) fn of(packet: &Packet) -> Option<Self> {
        let ip: &[u8; 20] = packet.network_data()?.first_chunk()?;
        let ports: &[u8; 4] = packet.transport_data()?.first_chunk()?;
        let mut key = [0; 15];
        let parts = [&ip[6..8], &ip[9..10], &ip[12..20], &ports[..]];
        for (to, from) in key.iter_mut().zip(parts.into_iter().flatten()) {
            *to = *from;
        }
        // Whether a packet may be fragmented says nothing of its flow.
        key[0] &= 0x3f;
        Some(Self(key))
    }
}
