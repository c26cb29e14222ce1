//! TCPIPSend - generates TCP packets on demand through a handler
//!
//! # Synopsis
//! `TCPIPSend()`
//!
//! # Description
//! Sends TCP/IP packets without payload when the handler `send` is written. They have the don't-fragment flag, a time
//! to live of 255, an identification of 0 and a window of 32120.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! - `send` (write): sends packets: `SRC SPORT DST DPORT SEQNO ACKNO FLAGS [COUNT STOP]`, separated by spaces. FLAGS is
//!   the byte of control bits as a number; COUNT is the number of packets, default 1; STOP is whether to stop the
//!   program afterwards, default false.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! s :: TCPIPSend -> Discard;
//! DriverManager(write s.send 1.0.0.1 1234 2.0.0.2 80 1 0 2, stop);
//! ```
//!
//! # See also
//! FastTCPFlows, InfiniteSource

use std::net::Ipv4Addr;

use millrace_core::args::{ArgText, Args, TcpPort};
use millrace_core::checksum::Sum;
use millrace_core::headers::{Header, Ipv4Header, TcpHeader, protocol};
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Lock, Packet, Setup, Timer, Timestamp, register,
};
use zerocopy::IntoBytes;

/// The element; its manual is at the top of the file.
pub struct TcpIpSend {
    /// The packets to send.
    orders: Lock<Vec<Order>>,
    /// Runs on the element's thread, where packets can be sent.
    timer: Timer,
}

/// Packets to send.
struct Order {
    bytes: Vec<u8>,
    count: u32,
    stop: bool,
}

register!(TcpIpSend, "tcp_ip_send.rs");

impl Element for TcpIpSend {
    const CLASS: Class = Class::new("TCPIPSend", "0/1", "/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self { orders: Lock::default(), timer: setup.timer() })
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        let orders = std::mem::take(&mut *self.orders.lock());
        for order in orders {
            for _ in 0..order.count {
                let Some(mut packet) = Packet::from_bytes(&order.bytes) else { break };
                packet.set_network_header(0, Ipv4Header::LEN);
                cx.created(1);
                cx.push(0, packet);
            }
            if order.stop {
                cx.router().request_stop();
            }
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("send", |element, call| {
            let text = call.text();
            let mut args = Args::of_words(&ArgText::from(&*text), call.scope());
            let order = Order::read(&mut args);
            args.complete().map_err(|Failed| args.messages())?;
            element.orders.lock().push(order);
            element.timer.schedule_at(Timestamp::ZERO);
            Ok(())
        });
    }
}

impl Order {
    fn read(args: &mut Args<'_>) -> Self {
        let source: Ipv4Addr = args.mandatory("SRC");
        let TcpPort(src_port) = args.mandatory("SPORT");
        let destination: Ipv4Addr = args.mandatory("DST");
        let TcpPort(dst_port) = args.mandatory("DPORT");
        let sequence: u32 = args.mandatory("SEQNO");
        let acknowledgment: u32 = args.mandatory("ACKNO");
        let flags = args.mandatory("FLAGS");
        let count = args.positional("COUNT", 1);
        let stop = args.positional("STOP", false);
        let ip = Ipv4Header {
            version_ihl: 0x45,
            tos: 0,
            total_len: ((Ipv4Header::LEN + TcpHeader::LEN) as u16).into(),
            id: 0.into(),
            flags_fragment: Ipv4Header::DONT_FRAGMENT.into(),
            ttl: 255,
            protocol: protocol::TCP,
            checksum: 0.into(),
            src: source.octets(),
            dst: destination.octets(),
        };
        let mut tcp = TcpHeader {
            src_port: src_port.into(),
            dst_port: dst_port.into(),
            sequence: sequence.into(),
            acknowledgment: acknowledgment.into(),
            data_offset: 0x50,
            flags,
            window: 32_120.into(),
            checksum: 0.into(),
            urgent: 0.into(),
        };
        let len = TcpHeader::LEN as u16;
        let sum = Sum::of_pseudo_v4(source, destination, protocol::TCP, len);
        tcp.checksum.set(sum.add_bytes(tcp.as_bytes()).finish());
        let mut bytes = [ip.as_bytes(), tcp.as_bytes()].concat();
        Ipv4Header::fill_checksum(&mut bytes);
        Self { bytes, count, stop }
    }
}
