//! McastSocket - sends and receives packets through a UDP multicast group
//!
//! # Synopsis
//! `McastSocket(MCASTIP, MCASTPORT [, SOURCEIP, SOURCEPORT, keywords LOOP, SNAPLEN, HEADROOM, BURST,
//! TIMESTAMP, SNDBUF, RCVBUF])`
//!
//! # Description
//! Sends the data of input packets to a multicast group, and pushes the packets that others send to it.
//! Packets do not pass from input to output. It connects any number of programs on any number of
//! machines, including QEMU's `-net socket,mcast=...`.
//!
//! With SOURCEIP, the element joins the group on the interface that has this address and sends packets
//! from it; it does not receive the packets that it sends. Without SOURCEIP, the system chooses the
//! interface, and the element receives its own packets unless LOOP is false. (It does not even if the
//! system chooses the loopback interface, where LOOP has no effect on packets of other programs.)
//!
//! Packets wait while the system has no room for them, as described in Socket's manual.
//!
//! # Arguments
//! - MCASTIP, MCASTPORT: the group and its port. Positional, mandatory.
//! - SOURCEIP, SOURCEPORT: the source of the packets sent. By default any free port. Positional.
//! - LOOP: whether this machine also receives the packets sent. Default true.
//! - SNAPLEN: maximum number of bytes of a packet, 1 to 65535. Default 2048.
//! - HEADROOM: free bytes before each packet, at most 8190. Default 128.
//! - BURST: maximum number of packets received and pulled at a time, 1 to 256. Default 32.
//! - TIMESTAMP: whether received packets get a timestamp. Default true.
//! - SNDBUF, RCVBUF: size in bytes of the system's buffer for each direction. Default: the system's.
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
//! - device error: the system rejected the packet.
//! - transmit full: too many pushed packets are waiting.
//! - port not connected: a packet arrived, and the output is not connected.
//!
//! # Example
//! ```click
//! link :: McastSocket(239.255.77.1, 7701, 127.0.0.1) -> Discard;
//! InfiniteSource(LIMIT 10) -> link;
//! ```
//!
//! # See also
//! Socket, RawSocket

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::OwnedFd;

use millrace_core::args::UdpPort;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Lock, Packet, Reason, Refused, Router, Setup,
    register,
};
use millrace_io::socket::{Address, Failure, Options, Socket};

use super::sockets::arguments::Common;
use super::sockets::intake::Intake;
use super::sockets::outlet::{self, Fate, Outlet, Sent, Sink};
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct McastSocket {
    group: SocketAddrV4,
    source: SocketAddrV4,
    looped: bool,
    options: Options,
    ends: Lock<Ends>,
    outlet: Outlet,
    intake: Intake,
}

/// The sockets.
struct Ends {
    receiver: Option<Socket>,
    sender: Option<Socket>,
    group: Address,
    /// The address that packets are sent from, if known: packets from there are our own.
    own: Option<Address>,
    sent: Sent,
}

register!(McastSocket, "mcast_socket.rs");

impl Element for McastSocket {
    const CLASS: Class = Class::new("McastSocket", "0-1/0-1", "a/h").flow("x/y");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let ip: Ipv4Addr = args.mandatory("MCASTIP");
        let UdpPort(port) = args.mandatory("MCASTPORT");
        let source: Ipv4Addr = args.positional("SOURCEIP", Ipv4Addr::UNSPECIFIED);
        let UdpPort(source_port) = args.positional("SOURCEPORT", UdpPort(0));
        let looped = args.keyword("LOOP", true);
        let common = Common::read(args);
        if !ip.is_multicast() {
            args.error("MCASTIP", "MCASTIP must be a multicast address, 224.0.0.0 or above");
        }
        args.complete()?;
        let group = SocketAddrV4::new(ip, port);
        let outlet = Outlet::configure(setup);
        let intake = Intake::configure(setup, &common);
        Ok(Self {
            group,
            source: SocketAddrV4::new(source, source_port),
            looped,
            options: common.options,
            ends: Lock::new(Ends {
                receiver: None,
                sender: None,
                group: Address::Inet(group),
                own: None,
                sent: Sent::default(),
            }),
            outlet,
            intake,
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.open().map_err(|error| Refused(format!("{}: {error}", self.group)))?;
        self.intake.task().wait_readable(
            self.ends.lock().receiver.as_ref().and_then(|receiver| receiver.readable().ok()),
        );
        self.intake.task().schedule();
        self.outlet.initialize(init);
        Ok(())
    }

    outlet::methods!(ends);

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |socket, _| socket.intake.count());
        handlers.read("sent", |socket, _| socket.ends.lock().sent.count());
        handlers.read("signal", |socket, call| socket.outlet.signal(call.router()));
        task_handlers(handlers, |socket| socket.outlet.task());
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        let mut ends = self.ends.lock();
        ends.receiver = None;
        ends.sender = None;
        Ok(())
    }
}

impl McastSocket {
    fn open(&self) -> Result<(), Failure> {
        let options = &self.options;
        let sender = Socket::to_groups(self.source, self.looped, options)?;
        let mut ends = self.ends.lock();
        ends.own = match (self.source.ip().is_unspecified(), self.looped) {
            (false, _) => sender.local().ok().flatten(),
            (true, false) => sender.source_towards(&Address::Inet(self.group)),
            (true, true) => None,
        };
        ends.receiver = Some(Socket::of_group(self.group, *self.source.ip(), options)?);
        ends.sender = Some(sender);
        Ok(())
    }

    fn receive(&self, cx: &mut Context) -> bool {
        let mut batch = cx.take_batch();
        let ends = self.ends.lock();
        self.intake.fill(cx, &mut batch, |cx| {
            let (packet, from) = self.intake.datagram(cx, ends.receiver.as_ref()?)?;
            let is_own = ends.own.is_some() && from == ends.own;
            Some((!is_own).then_some(packet))
        });
        drop(ends);
        let n = batch.len();
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        n > 0
    }
}

impl Sink for Ends {
    fn is_open(&self) -> bool {
        self.sender.is_some()
    }

    fn send(&mut self, cx: &Context, packet: &mut Packet) -> Fate {
        let Some(sender) = &self.sender else { return Fate::Lost(Reason::DeviceError) };
        self.sent.note(cx, sender.send_to(packet.data(), &self.group))
    }

    fn writable(&self) -> Option<OwnedFd> {
        self.sender.as_ref()?.writable().ok()
    }
}
