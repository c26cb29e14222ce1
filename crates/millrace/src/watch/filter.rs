//! Which packets are captured.

use millrace_core::headers::{Header, Ipv4Header, Ipv6Header};
use millrace_core::{Packet, Router};
use millrace_elements::classify::program::{FilterProgram, IpSections};
use millrace_io::bpf;
use millrace_io::pcap::LinkType;

use super::link::link_of;
use super::wish::Wish;

/// Selects packets.
pub(super) struct Filter {
    /// A pattern in IPFilter's language.
    pattern: Option<FilterProgram>,
    /// Programs for packets with an Ethernet header, and for IP packets.
    program: Option<[Vec<bpf::Instruction>; 2]>,
}

impl Filter {
    /// The filter that is wished for.
    ///
    /// # Errors
    /// It is not a pattern.
    pub(super) fn new(wish: &Wish, router: &Router) -> Result<Self, String> {
        let text = wish.filter.trim();
        let compiled = (!text.is_empty()).then(|| {
            let compiled = FilterProgram::compile_patterns(&[text], &router.scope_of(0));
            compiled.map(|(program, _)| program).map_err(|findings| {
                let errors = findings.iter().filter(|finding| finding.is_error);
                let told: Vec<&str> = errors.map(|finding| &*finding.message).collect();
                format!(
                    "‘{text}’ is not a pattern of IPFilter: {} (with --pcap-filter it would be one of tcpdump)",
                    told.join("; ")
                )
            })
        });
        Ok(Self { pattern: compiled.transpose()?, program: wish.program.clone() })
    }

    /// Whether a packet is selected.
    pub(super) fn takes(&self, packet: &Packet) -> bool {
        let pattern = self.pattern.as_ref().is_none_or(|program| {
            program.is_constant() && program.classify(&IpSections::default()) == 0
                || sections(packet).is_some_and(|sections| program.classify(&sections) == 0)
        });
        pattern
            && self.program.as_ref().is_none_or(|[ethernet, ip]| {
                let program = if link_of(packet) == LinkType::IP { ip } else { ethernet };
                bpf::wants(program, packet.data())
            })
    }
}

/// The parts of a packet; `None` if there is no IP header.
fn sections(packet: &Packet) -> Option<IpSections<'_>> {
    let data = packet.data();
    let mac = packet.mac_data().unwrap_or_default();
    let state = packet.connection();
    if let Some(network) = packet.network_data() {
        let transport = packet.transport_data().unwrap_or_default();
        return Some(IpSections { mac, network, transport, state });
    }
    // Nobody has looked for its headers yet.
    let link = link_of(packet);
    let network = data.get(link.ip_offset(data)?..)?;
    let mac = if link == LinkType::IP { mac } else { data };
    let transport = match network.first()? >> 4 {
        4 => Ipv4Header::view(network).and_then(|(ip, _)| network.get(ip.header_len()..)),
        _ => Ipv6Header::view(network).and_then(|(ip, rest)| {
            let (_, offset) = ip.extensions(rest).upper()?;
            rest.get(offset..)
        }),
    };
    Some(IpSections { mac, network, transport: transport.unwrap_or_default(), state })
}
