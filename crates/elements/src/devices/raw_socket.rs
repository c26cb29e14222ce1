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
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::args::{IpProtocol, Kind, TcpPort, UdpPort};
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Lock, Notifier, Packet, Reason,
    Refused, Router, Setup, Task, register,
};
use millrace_io::pcap::LinkType;
use millrace_io::socket::{Address, Raw, Received};

use super::interface::force_ip::force_ip;
use super::sockets::outlet::{Fate, Outlet, Sent, Sink};
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct RawSocket {
    protocol: u8,
    port: Option<u16>,
    snap_length: usize,
    headroom: usize,
    burst: usize,
    end: Lock<End>,
    outlet: Outlet,
    receive_task: Task,
    count: AtomicU64,
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
        Ok(Self {
            protocol,
            port,
            snap_length: snap_length.unwrap_or(2048) as usize,
            headroom: headroom.unwrap_or(128) as usize,
            burst: burst.unwrap_or(32) as usize,
            end: Lock::default(),
            outlet,
            receive_task: setup.task(),
            count: 0.into(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let raw = Raw::open(self.protocol, self.port);
        let raw = raw.map_err(|error| Refused(format!("raw socket: {error}")))?;
        self.receive_task.wait_readable(raw.socket.readable().ok());
        self.end.lock().raw = Some(raw);
        self.receive_task.schedule();
        self.outlet.initialize(init);
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.outlet.push(cx, batch, &mut *self.end.lock());
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        if cx.index() == self.outlet.task().index() {
            return self.outlet.run(cx, self.burst, || self.end.lock());
        }
        self.receive(cx)
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.outlet.run_timer();
    }

    fn room_notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(self.outlet.room())
    }

    fn held(&self) -> usize {
        self.outlet.held()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |socket, _| socket.count.load(Relaxed));
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
        while batch.len() < self.burst
            && let Some(raw) = &end.raw
            && let Some(mut packet) = Packet::stale(self.headroom, 0, self.snap_length)
        {
            match raw.socket.receive_from(&mut packet, self.snap_length) {
                Ok((Received::Bytes { beyond }, _)) => {
                    packet.set_extra_length(u32::try_from(beyond).unwrap_or(u32::MAX));
                    packet.set_timestamp(cx.now());
                    // There is room.
                    let _ = batch.push(packet);
                }
                Ok((Received::Nothing | Received::Closed, _)) | Err(_) => break,
            }
        }
        drop(end);
        let n = batch.len();
        cx.created(n);
        self.count.fetch_add(n as u64, Relaxed);
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
    const TCP: u8 = 6;
    const UDP: u8 = 17;
    const ICMP: u8 = 1;
    const GRE: u8 = 47;
    let port = match protocol {
        TCP => args.optional("PORT").map(|TcpPort(port)| port),
        UDP => args.optional("PORT").map(|UdpPort(port)| port),
        _ => args.optional("PORT"),
    };
    let port = port.filter(|port| *port != 0);
    if port.is_some() && ![TCP, UDP, ICMP, GRE].contains(&protocol) {
        args.error("PORT", "PORT means something for TCP, UDP, ICMP and GRE only");
    }
    port
}
