//! RawSocket - sends and receives IP packets through a raw socket
//!
//! # Synopsis
//! `RawSocket(TYPE [, PORT, keywords SNAPLEN, HEADROOM, BURST])`
//!
//! # Description
//! Pushes the IPv4 packets of one protocol that arrive at the machine, including their headers. Input
//! packets must begin with their IP headers; it sends them to the destination in the header. The
//! machine's own network stack also gets the received packets. It requires root or CAP_NET_RAW.
//!
//! With PORT, it receives only packets for that port: a TCP or UDP port, which other programs cannot
//! use meanwhile; an ICMP identifier; or a GRE key or PPTP call.
//!
//! Received packets have their IP header annotations set. In packets that it sends, the system fills in
//! the header checksum, and the source address and identification if they are 0. Packets wait while the
//! system has no room for them, as described in Socket's manual.
//!
//! # Arguments
//! - TYPE: the protocol, by name (TCP, UDP, ICMP, GRE, ...) or number. Positional, mandatory.
//! - PORT: the port, identifier or key to receive. Positional.
//! - SNAPLEN: maximum number of bytes of a packet, 20 to 65535. The extra length annotation holds the
//!   number of bytes cut off. Default 2048.
//! - HEADROOM: free bytes before each packet, at most 8190. Default 128.
//! - BURST: maximum number of packets received and pulled at a time, 1 to 256. Default 32.
//!
//! # Ports
//! One optional agnostic input and one optional push output.
//!
//! # Handlers
//! - `count` (read): packets received. `sent` (read): packets sent.
//! - `signal` (read): whether there may be packets to pull.
//! - `scheduled` (read, write), `home_thread` (read): the task that sends.
//!
//! # Drops
//! - truncated: the packet is shorter than an IP header.
//! - header not set: the received packet has no complete IP header.
//! - device error: the system rejected the packet (too long, no route).
//! - transmit full: too many pushed packets are waiting.
//! - port not connected: a packet arrived, and the output is not connected.
//!
//! # Example
//! ```click
//! raw :: RawSocket(ICMP) -> IPPrint(icmp) -> Discard;
//! ```
//!
//! # See also
//! Socket, KernelTun

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use millrace_core::args::{IpProtocol, Kind, TcpPort, UdpPort};
use millrace_core::headers::protocol;
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Packet, Reason, Refused,
    Router, Setup, register,
};
use millrace_io::pcap::LinkType;
use millrace_io::socket::{Address, Options, Raw};

use super::interface::force_ip::force_ip;
use super::sockets::arguments::Common;
use super::sockets::intake::Intake;
use super::sockets::outlet::{self, Fate, Outlet, Sent, Sink};
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct RawSocket {
    protocol: u8,
    port: Option<u16>,
    end: Lock<End>,
    outlet: Outlet,
    intake: Intake,
}

/// The socket.
#[derive(Default)]
struct End {
    raw: Option<Raw>,
    sent: Sent,
}

register!(RawSocket, "raw_socket.rs");

impl Element for RawSocket {
    const CLASS: Class = Class::new("RawSocket", "0-1/0-1", "a/h").flow("x/y");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let IpProtocol(protocol) = args.mandatory("TYPE");
        let port = port(args, protocol);
        let snap_length = args.in_range("SNAPLEN", Kind::Keyword, 20..=65_535u32);
        let headroom = args.in_range("HEADROOM", Kind::Keyword, 0..=8190u32);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        args.complete()?;
        let outlet = Outlet::configure(setup);
        let common = Common {
            options: Options::default(),
            snap_length: snap_length.unwrap_or(2048) as usize,
            headroom: headroom.unwrap_or(128) as usize,
            burst: burst.unwrap_or(32) as usize,
            timestamp: true,
        };
        let intake = Intake::configure(setup, &common);
        Ok(Self { protocol, port, end: Lock::default(), outlet, intake })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let raw = Raw::open(self.protocol, self.port);
        let raw = raw.map_err(|error| Refused(format!("raw socket: {error}")))?;
        self.intake.task().wait_readable(raw.socket.readable().ok());
        self.end.lock().raw = Some(raw);
        self.intake.task().schedule();
        self.outlet.initialize(init);
        Ok(())
    }

    outlet::methods!(end);

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |socket, _| socket.intake.count());
        handlers.read("sent", |socket, _| socket.end.lock().sent.count());
        handlers.read("signal", |socket, call| socket.outlet.signal(call.router()));
        task_handlers(handlers, |socket| socket.outlet.task());
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        self.end.lock().raw = None;
        Ok(())
    }
}

impl RawSocket {
    fn receive(&self, cx: &mut Context) -> bool {
        let mut batch = cx.take_batch();
        let end = self.end.lock();
        self.intake.fill(cx, &mut batch, |cx| {
            let (packet, _) = self.intake.datagram(cx, &end.raw.as_ref()?.socket)?;
            Some(Some(packet))
        });
        drop(end);
        let n = batch.len();
        batch.map_filter(|mut packet| match force_ip(&mut packet, LinkType::IP) {
            true => Some(packet),
            false => cx.drop(packet, Reason::NoHeader),
        });
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        n > 0
    }
}

impl Sink for End {
    fn is_open(&self) -> bool {
        self.raw.is_some()
    }

    fn send(&mut self, cx: &Context, packet: &mut Packet) -> Fate {
        const IPV4_HEADER: usize = 20;
        const DESTINATION: usize = 16;
        let Some(raw) = &self.raw else { return Fate::Lost(Reason::DeviceError) };
        let data = packet.data();
        let destination = data.get(DESTINATION..).and_then(|bytes| bytes.first_chunk::<4>());
        let Some(destination) = destination.filter(|_| data.len() >= IPV4_HEADER) else {
            return Fate::Lost(Reason::Truncated);
        };
        let to = Address::Inet(SocketAddrV4::new(Ipv4Addr::from(*destination), 0));
        self.sent.note(cx, raw.socket.send_to(data, &to))
    }

    fn writable(&self) -> Option<OwnedFd> {
        self.raw.as_ref()?.socket.writable().ok()
    }
}

/// Reads PORT, a number or a name; 0 means none.
fn port(args: &mut Args<'_>, protocol: u8) -> Option<u16> {
    let port = match protocol {
        protocol::TCP => args.optional("PORT").map(|TcpPort(port)| port),
        protocol::UDP => args.optional("PORT").map(|UdpPort(port)| port),
        _ => args.optional("PORT"),
    };
    let port = port.filter(|port| *port != 0);
    if port.is_some()
        && !matches!(protocol, protocol::TCP | protocol::UDP | protocol::ICMP | protocol::GRE)
    {
        args.error("PORT", "PORT means something for TCP, UDP, ICMP and GRE only");
    }
    port
}
