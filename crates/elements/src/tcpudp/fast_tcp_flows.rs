//! FastTCPFlows - generates packets of many TCP flows for measurements
//!
//! # Synopsis
//! `FastTCPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, ACTIVE])`
//!
//! # Description
//! Emits TCP packets with Ethernet and IP headers, for measurements. There are FLOWS flows at a time, with random
//! ports; each packet belongs to a random one. The first packet of a flow is a SYN, and the last of its FLOWSIZE
//! packets is a FIN; those between have PSH and ACK set. After its FIN, a flow gets new ports. Sequence numbers are
//! random and the payload is zeros, so no host would accept such a connection.
//!
//! When LIMIT is reached, a FIN follows for each flow that has not ended.
//!
//! # Arguments
//! - RATE: packets per second, up to a million; 0 for as many as are pulled. Positional, mandatory.
//! - LIMIT: number of packets to send; negative for no limit. Positional, mandatory.
//! - LENGTH: length of a packet in bytes, including its Ethernet header; at least 60. Positional, mandatory.
//! - SRCETH: source Ethernet address. Positional, mandatory.
//! - SRCIP: source address. Positional, mandatory.
//! - DSTETH: destination Ethernet address. Positional, mandatory.
//! - DSTIP: destination address. Positional, mandatory.
//! - FLOWS: number of flows at a time, up to four million. Positional, mandatory.
//! - FLOWSIZE: number of packets of a flow, at least 3. Positional, mandatory.
//! - ACTIVE: whether to emit packets. Positional, default true.
//!
//! # Ports
//! One pull output.
//!
//! # Handlers
//! - `count` (read): packets sent.
//! - `rate` (read): packets per second achieved over LIMIT packets; 0 until they are sent.
//! - `rate` (write): RATE; 0 sends none.
//! - `limit` (write): LIMIT.
//! - `reset` (write): restarts the count at 0.
//! - `active` (write): ACTIVE. Writing true restarts the count at 0.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FastTCPFlows(0, 1000, 64, 0:0:0:1:1:1, 1.0.0.1, 0:0:0:2:2:2, 2.0.0.2, 100, 10)
//!     -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! FastUDPSource, FastUDPFlows

use std::net::Ipv4Addr;

use millrace_core::headers::{Header, TcpHeader, protocol, tcp_flags};
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Packet, Random, Refused, Setup,
    register,
};
use zerocopy::IntoBytes;

use super::fast_source::{FastSource, Frame, Given, MOST_FLOWS, random_port};

/// The element; its manual is at the top of the file.
pub struct FastTcpFlows {
    source: FastSource,
    frame: Frame,
    /// Flows at a time.
    count: u32,
    flow_size: u32,
    flows: Lock<Vec<Flow>>,
}

/// A flow.
#[derive(Clone, Copy)]
struct Flow {
    ports: (u16, u16),
    /// The sequence number and the acknowledged one of the SYN, of the packets between, and of the FIN.
    numbers: [[u32; 2]; 3],
    /// Packets sent.
    sent: u32,
}

impl Flow {
    fn random(random: &Random) -> Self {
        let ports = (random_port(random), random_port(random));
        // As ports: in the machine's byte order.
        let numbers = [(); 3].map(|()| [(); 2].map(|()| random.draw().to_be()));
        Self { ports, numbers, sent: 0 }
    }
}

register!(FastTcpFlows, "fast_tcp_flows.rs");

impl Element for FastTcpFlows {
    const CLASS: Class = Class::new("FastTCPFlows", "0/1", "/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let given = Given::read(args);
        let ether = args.mandatory("DSTETH");
        let destination: Ipv4Addr = args.mandatory("DSTIP");
        let flows: u32 = args.mandatory("FLOWS");
        let flow_size: u32 = args.mandatory("FLOWSIZE");
        let active = args.positional("ACTIVE", true);
        if !(1..=MOST_FLOWS).contains(&flows) {
            args.error("FLOWS", format!("FLOWS must be between 1 and {MOST_FLOWS}"));
        }
        let (mut source, frame) = given.finish(args, (ether, destination), active);
        args.complete()?;
        if flow_size < LEAST_SIZE {
            source.warn_of("warning: flow size < 3, defaulting to 3");
        }
        let (count, flow_size) = (flows, flow_size.max(LEAST_SIZE));
        Ok(Self { source, frame, count, flow_size, flows: Lock::default() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.source.initialize(init);
        let random = init.router().random();
        *self.flows.lock() = (0..self.count).map(|_| Flow::random(random)).collect();
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let now = cx.refresh_now();
        let mut sending = self.source.sending();
        let mut flows = self.flows.lock();
        while batch.len() < max && sending.is_due(now) {
            let random = cx.router().random();
            let flow = match sending.is_exhausted() {
                true => flows.iter_mut().find(|flow| flow.sent != self.flow_size),
                false => flows.get_mut(((random.draw() >> 2) % self.count) as usize),
            };
            let Some(flow) = flow else { return };
            let flags = self.advance(flow, sending.is_exhausted(), random);
            let Some(packet) = self.packet(flow, flags) else { return };
            sending.sent(cx, now);
            // There is room: the batch is shorter than `max`.
            let _ = batch.push(packet);
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        FastSource::handlers(handlers, |element| &element.source);
    }
}

/// Minimum number of packets of a flow.
const LEAST_SIZE: u32 = 3;

impl FastTcpFlows {
    /// Counts the next packet of a flow; returns its flags.
    fn advance(&self, flow: &mut Flow, ends: bool, random: &Random) -> u8 {
        if ends {
            flow.sent = self.flow_size;
            return tcp_flags::FIN;
        }
        if flow.sent == self.flow_size {
            flow.ports = (random_port(random), random_port(random));
            flow.sent = 0;
        }
        flow.sent += 1;
        match flow.sent {
            1 => tcp_flags::SYN,
            sent if sent == self.flow_size => tcp_flags::FIN,
            _ => tcp_flags::PSH | tcp_flags::ACK,
        }
    }

    fn packet(&self, flow: &Flow, flags: u8) -> Option<Packet> {
        let [sequence, acknowledgment] = match flags {
            tcp_flags::SYN => flow.numbers[0],
            tcp_flags::FIN => flow.numbers[2],
            _ => flow.numbers[1],
        };
        let mut tcp = TcpHeader {
            src_port: flow.ports.0.into(),
            dst_port: flow.ports.1.into(),
            sequence: sequence.into(),
            acknowledgment: acknowledgment.into(),
            data_offset: 0x50,
            flags,
            window: 65_535.into(),
            checksum: 0.into(),
            urgent: 0.into(),
        };
        let (mut packet, sum) = self.frame.packet(protocol::TCP, tcp.as_bytes())?;
        tcp.checksum.set(sum.finish());
        *TcpHeader::view_mut(packet.transport_data_mut()?)?.0 = tcp;
        Some(packet)
    }
}
