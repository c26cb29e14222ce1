//! How IPFilter and IPClassifier access packets.

use millrace_core::memory::Ports;
use millrace_core::{Batch, Context, Packet, Reason, isa};

use super::program::{DROP, FilterProgram, IpSections, Otherwise};

/// The port of each packet of a batch, for [`Context::route_by`], according to the program. Packets without an output
/// are dropped for the reason `otherwise`.
pub(super) fn classify_all<'p>(
    program: &FilterProgram,
    batch: &Batch,
    otherwise: Reason,
    ports: &'p mut Ports,
) -> &'p [u16] {
    let ports = ports.get_mut(..batch.len()).unwrap_or_default();
    let otherwise = Otherwise {
        dropped: Context::port_to_drop(otherwise),
        no_sections: Context::port_to_drop(Reason::NoHeader),
    };
    let parts = Parts::of(program);
    isa::run(
        #[inline(always)]
        || {
            program.classify_all(
                batch,
                #[inline(always)]
                |packet| parts.take(packet),
                otherwise,
                ports,
            );
        },
    );
    ports
}

/// The output for a packet, or the reason for dropping it: `otherwise`, if the program drops it.
#[inline]
pub(super) fn classify(
    program: &FilterProgram,
    packet: &Packet,
    otherwise: Reason,
) -> Result<usize, Reason> {
    let sections = if program.is_constant() {
        IpSections::default()
    } else {
        Parts::of(program).take(packet).ok_or(Reason::NoHeader)?
    };
    match program.classify(&sections) {
        DROP => Err(otherwise),
        output => Ok(output),
    }
}

/// The parts of packets that a program tests, besides the network header.
#[derive(Clone, Copy)]
struct Parts {
    mac: bool,
    transport: bool,
}

impl Parts {
    #[inline(always)]
    fn of(program: &FilterProgram) -> Self {
        Self { mac: program.looks_at_mac(), transport: program.looks_at_transport() }
    }

    /// The parts of a packet; `None` if its IP header position is not set.
    #[inline(always)]
    fn take(self, packet: &Packet) -> Option<IpSections<'_>> {
        let mac = if self.mac { packet.mac_data() } else { None };
        let transport = if self.transport { packet.transport_data() } else { None };
        Some(IpSections {
            mac: mac.unwrap_or_default(),
            network: packet.network_data()?,
            transport: transport.unwrap_or_default(),
        })
    }
}

/// The fields that the packets of a flow share: protocol and fragment fields, addresses, and the first word after the
/// IP header.
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
        // The "don't fragment" flag does not identify a flow.
        key[0] &= 0x3f;
        Some(Self(key))
    }
}
