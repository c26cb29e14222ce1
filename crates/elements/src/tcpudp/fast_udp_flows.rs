//! FastUDPFlows - generates packets of many UDP flows for measurements
//!
//! # Synopsis
//! `FastUDPFlows(RATE, LIMIT, LENGTH, SRCETH, SRCIP, DSTETH, DSTIP, FLOWS, FLOWSIZE [, CHECKSUM, ACTIVE,
//! STOP])`
//!
//! # Description
//! Emits UDP packets with Ethernet and IP headers, for measurements. There are FLOWS flows at a time, with random
//! ports; each packet belongs to a random one. After FLOWSIZE packets, a flow gets new ports. The payload is zeros.
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
//! - FLOWSIZE: number of packets of a flow. Positional, mandatory.
//! - CHECKSUM: whether to compute UDP checksums. Positional, default true.
//! - ACTIVE: whether to emit packets. Positional, default true.
//! - STOP: whether to stop the program after LIMIT packets. Positional, default false.
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
//! - `length` (read, write): LENGTH. Another length begins with new flows, and restarts the count at 0.
//! - `srceth`, `dsteth` (write): SRCETH and DSTETH.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FastUDPFlows(0, 1000, 64, 0:0:0:1:1:1, 1.0.0.1, 0:0:0:2:2:2, 2.0.0.2, 100, 10)
//!     -> Unqueue -> Discard;
//! ```
//!
//! # See also
//! FastUDPSource, FastTCPFlows

use std::net::Ipv4Addr;

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Random, Refused, Setup, register,
};

use super::fast_source::{FastSource, Frame, Given, MOST_FLOWS, random_port};
use super::fast_udp_source::udp_packet;

/// The element; its manual is at the top of the file.
pub struct FastUdpFlows {
    source: FastSource,
    /// Flows at a time.
    count: u32,
    flow_size: u32,
    checksum: bool,
    stop: bool,
    traffic: Lock<Traffic>,
}

/// What is sent; handlers change it.
struct Traffic {
    frame: Frame,
    flows: Vec<Flow>,
}

/// A flow: its ports, and how many packets of it have been sent.
#[derive(Clone, Copy)]
struct Flow {
    ports: (u16, u16),
    sent: u32,
}

impl Flow {
    fn random(random: &Random) -> Self {
        Self { ports: (random_port(random), random_port(random)), sent: 0 }
    }
}

register!(FastUdpFlows, "fast_udp_flows.rs");

impl Element for FastUdpFlows {
    const CLASS: Class = Class::new("FastUDPFlows", "0/1", "/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let given = Given::read(args);
        let ether = args.mandatory("DSTETH");
        let destination: Ipv4Addr = args.mandatory("DSTIP");
        let flows: u32 = args.mandatory("FLOWS");
        let flow_size = args.mandatory("FLOWSIZE");
        let checksum = args.positional("CHECKSUM", true);
        let active = args.positional("ACTIVE", true);
        let stop = args.positional("STOP", false);
        if !(1..=MOST_FLOWS).contains(&flows) {
            args.error("FLOWS", format!("FLOWS must be between 1 and {MOST_FLOWS}"));
        }
        let (source, frame) = given.finish(args, (ether, destination), active);
        args.complete()?;
        let count = flows;
        let traffic = Lock::new(Traffic { frame, flows: Vec::new() });
        Ok(Self { source, count, flow_size, checksum, stop, traffic })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.source.initialize(init);
        self.traffic.lock().begin(self.count, init.router().random());
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _port: usize, max: usize, batch: &mut Batch) {
        let now = cx.refresh_now();
        let mut sending = self.source.sending();
        let Traffic { frame, flows } = &mut *self.traffic.lock();
        while batch.len() < max && !sending.is_exhausted() && sending.is_due(now) {
            let random = cx.router().random();
            let at = (random.draw() >> 2) % self.count;
            let Some(flow) = flows.get_mut(at as usize) else { return };
            if flow.sent == self.flow_size {
                *flow = Flow::random(random);
            }
            flow.sent = flow.sent.wrapping_add(1);
            let Some(packet) = udp_packet(frame, flow.ports, self.checksum) else { return };
            sending.sent(cx, now);
            if self.stop && sending.is_exhausted() {
                cx.router().request_stop();
            }
            // There is room: the batch is shorter than `max`.
            let _ = batch.push(packet);
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        FastSource::handlers(handlers, |element| &element.source);
        handlers.read("length", |element, _| element.traffic.lock().frame.len());
        handlers.write("length", |element, call| {
            let len: u32 = call.parse().map_err(|_| "length parameter must be integer")?;
            let mut traffic = element.traffic.lock();
            if traffic.frame.set_len(len)? {
                traffic.begin(element.count, call.router().random());
                drop(traffic);
                element.source.begin_anew();
            }
            Ok(())
        });
        handlers.write("srceth", |element, call| {
            element.traffic.lock().frame.set_source(call.parse()?);
            Ok(())
        });
        handlers.write("dsteth", |element, call| {
            element.traffic.lock().frame.set_destination(call.parse()?);
            Ok(())
        });
    }
}

impl Traffic {
    fn begin(&mut self, flows: u32, random: &Random) {
        self.flows = (0..flows).map(|_| Flow::random(random)).collect();
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn length_and_ethernet_addresses_can_be_written() {
        let config = "FastUDPFlows(0, 1, 64, 0:0:0:1:1:1, 1.0.0.1, 0:0:0:2:2:2, 2.0.0.2, 1, 9)";
        let mut rig = Rig::new(config, 0, 1).unwrap();
        assert_eq!(rig.push(0, &[""; 0])[0][0].len(), 64);
        rig.write("srceth", "2:0:0:0:0:7").unwrap();
        rig.write("dsteth", "2:0:0:0:0:8").unwrap();
        rig.write("length", "100").unwrap();
        assert_eq!(rig.read("length").unwrap(), "100");
        let packet = rig.push(0, &[""; 0]).remove(0).remove(0);
        assert_eq!(packet.len(), 100);
        assert_eq!(packet[..12], [2, 0, 0, 0, 0, 8, 2, 0, 0, 0, 0, 7]);
        rig.write("length", "100").unwrap();
        assert!(rig.push(0, &[""; 0])[0].is_empty(), "the same length changes nothing");
        rig.write("length", "7").unwrap();
        assert_eq!(rig.read("length").unwrap(), "60");
        assert!(rig.write("length", "70000").is_err());
        assert!(rig.write("length", "long").is_err());
        assert!(rig.write("srceth", "nobody").is_err());
    }
}
