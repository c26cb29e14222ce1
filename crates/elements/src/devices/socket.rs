//! Socket - sends and receives packets through a TCP, UDP or Unix socket
//!
//! # Synopsis
//! `Socket(TCP, IP, PORT [, LOCALIP, LOCALPORT, keywords CLIENT, SNAPLEN, HEADROOM, BURST, TIMESTAMP,
//! NODELAY, SNDBUF, RCVBUF, ALLOW, DENY, VERBOSE, PROPER])`, `Socket(UDP, ...)`,
//! `Socket(UNIX, FILENAME [, LOCALFILENAME, ...])`, `Socket(UNIX_DGRAM, ...)`
//!
//! # Description
//! Sends input packets to another program, and pushes the packets that arrive from there. Packets do
//! not pass from input to output. The element is a server, unless CLIENT, a local address, or the lack
//! of an output makes it a client.
//!
//! A TCP or UNIX server accepts one connection at a time; the next one waits until the current one
//! ends. A client connects at startup and waits up to 10 seconds for the connection; after the
//! connection ends, it neither sends nor receives any more. A packet received from a stream holds the
//! bytes that have arrived when the element reads, at most SNAPLEN.
//!
//! A UDP or UNIX_DGRAM server receives from any address, and sends to the address from which it last
//! received. A client sends to the given address; a UDP client whose IP is 0.0.0.0 sends to each
//! packet's destination annotation.
//!
//! The element never blocks on the other program. Packets for which there is no room wait. Meanwhile a
//! Socket with a pull input does not pull; with a push input it keeps up to 1024 packets, and sources
//! that respect full Queues stop for it as well.
//!
//! # Arguments
//! - TYPE: TCP, UDP, UNIX or UNIX_DGRAM. Positional, mandatory.
//! - IP, PORT: a server's own address, or the address that a client connects or sends to. Positional,
//!   mandatory for TCP and UDP.
//! - LOCALIP, LOCALPORT: a client's own address. Positional.
//! - FILENAME, LOCALFILENAME: the same for UNIX and UNIX_DGRAM. A name that begins with a zero byte
//!   (`"\<00>name"`) is abstract: it is not a file. A file that the element creates is removed
//!   at the end.
//! - CLIENT: whether it is a client. A server ignores local addresses.
//! - SNAPLEN: maximum number of bytes of a packet, 1 to 65535. The extra length annotation holds the
//!   number of bytes cut off a datagram. Default 2048.
//! - HEADROOM: free bytes before each packet, at most 8190. Default 128.
//! - BURST: maximum number of packets received and pulled at a time, 1 to 256. Default 32.
//! - TIMESTAMP: whether received packets get a timestamp. Default true.
//! - NODELAY: whether TCP sends small packets at once. Default true.
//! - SNDBUF, RCVBUF: size in bytes of the system's buffer for each direction. Default: the system's.
//! - ALLOW, DENY: elements with routes. A TCP or UDP server accepts traffic from an address if ALLOW
//!   has a route for it; otherwise it rejects the traffic if DENY has one; otherwise it accepts it.
//! - VERBOSE: whether to report when connections open and close, and what is rejected. Default false.
//! - PROPER: accepted without effect: PlanetLab is not supported.
//!
//! # Ports
//! One optional agnostic input and one optional push output.
//!
//! # Handlers
//! - `count` (read): packets received. `sent` (read): packets sent.
//! - `connected` (read): whether there is a peer to send to.
//! - `local` (read): the socket's own address.
//! - `signal` (read): whether there may be packets to pull.
//! - `scheduled` (read, write), `home_thread` (read): the task that sends.
//!
//! # Drops
//! - device error: there is no peer to send to, or the connection broke.
//! - transmit full: too many pushed packets are waiting.
//! - port not connected: a packet arrived, and the output is not connected.
//!
//! # Example
//! ```click
//! Socket(UNIX_DGRAM, events.sock) -> Print(event) -> Discard;
//! InfiniteSource(DATA "hello", LIMIT 3) -> Socket(UDP, 127.0.0.1, 9);
//! ```
//!
//! # See also
//! McastSocket, RawSocket, KernelTun

use std::net::SocketAddrV4;

use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Lock, Packet, Reason, Refused, Router, Setup,
    register,
};
use millrace_io::socket::{self, Address, Received};

use super::sockets::arguments::Endpoint;
use super::sockets::intake::Intake;
use super::sockets::outlet::{self, Fate, Outlet, Sink};
use crate::task_handlers::task_handlers;

/// The element; its manual is at the top of the file.
pub struct Socket {
    endpoint: Endpoint,
    link: Lock<Link>,
    outlet: Outlet,
    intake: Intake,
}

/// The sockets.
#[derive(Default)]
struct Link {
    /// The listening socket of a stream server.
    listener: Option<socket::Socket>,
    /// The socket that transports packets.
    active: Option<socket::Socket>,
    /// The peer that datagrams are sent to.
    peer: Option<Address>,
    /// Send each datagram to its destination annotation, at this port.
    by_annotation: Option<u16>,
    is_stream: bool,
    /// The connection has ended, but the receiving task has not noticed yet.
    was_closed: bool,
    verbose: bool,
    sent: u64,
    /// A spare packet to receive into.
    spare: Option<Packet>,
}

register!(Socket, "socket.rs");

impl Element for Socket {
    const CLASS: Class =
        Class::new("Socket", "0-1/0-1", "a/h").flow("x/y").aliases(&["FromSocket", "ToSocket"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let endpoint = Endpoint::configure(setup)?;
        let link = Link {
            is_stream: endpoint.transport.is_stream(),
            verbose: endpoint.verbose,
            ..Link::default()
        };
        let outlet = Outlet::configure(setup);
        let intake = Intake::configure(setup, &endpoint.common);
        Ok(Self { endpoint, link: Lock::new(link), outlet, intake })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.endpoint.find_tables(init)?;
        self.open().map_err(|error| Refused(format!("{}: {error}", self.endpoint.remote)))?;
        self.outlet.initialize(init);
        self.watch(&self.link.lock());
        self.intake.task().schedule();
        Ok(())
    }

    outlet::methods!(link);

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |socket, _| socket.intake.count());
        handlers.read("sent", |socket, _| socket.link.lock().sent);
        handlers.read("connected", |socket, _| socket.link.lock().is_open());
        handlers.read("local", |socket, _| {
            let link = socket.link.lock();
            let own = link.listener.as_ref().or(link.active.as_ref());
            let address = own.and_then(|socket| socket.local().ok().flatten());
            address.map(|address| address.to_string()).unwrap_or_default()
        });
        handlers.read("signal", |socket, call| socket.outlet.signal(call.router()));
        task_handlers(handlers, |socket| socket.outlet.task());
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        let mut link = self.link.lock();
        link.active = None;
        link.listener = None;
        link.spare = None;
        self.intake.task().wait_readable([]);
        Ok(())
    }
}

impl Socket {
    fn open(&self) -> Result<(), socket::Failure> {
        let Endpoint { transport, remote, local, is_client, common, .. } = &self.endpoint;
        let options = &common.options;
        let mut link = self.link.lock();
        match (transport.is_stream(), is_client) {
            (true, true) => {
                link.active = Some(socket::Socket::connect(remote, local.as_ref(), options)?);
            }
            (true, false) => link.listener = Some(socket::Socket::listen(remote, options)?),
            (false, true) => {
                let active = socket::Socket::datagrams(remote, local.as_ref(), options)?;
                link.active = Some(active);
                match remote {
                    Address::Inet(address) if address.ip().is_unspecified() => {
                        link.by_annotation = Some(address.port());
                    }
                    _ => link.peer = Some(remote.clone()),
                }
            }
            (false, false) => {
                link.active = Some(socket::Socket::datagrams(remote, Some(remote), options)?);
            }
        }
        Ok(())
    }

    /// Puts the receiving task to sleep until a packet or connection arrives.
    fn watch(&self, link: &Link) {
        let watched = link.active.as_ref().or(link.listener.as_ref());
        let fd = watched.and_then(|socket| socket.readable().ok());
        match watched {
            Some(_) => self.intake.task().wait_readable(fd),
            // Nothing will arrive any more.
            None => self.intake.task().unschedule(),
        }
    }

    /// Accepts a connection if there is none, and emits the packets that have arrived.
    fn receive(&self, cx: &mut Context) -> bool {
        let mut link = self.link.lock();
        if std::mem::take(&mut link.was_closed) {
            self.watch(&link);
        }
        let accepted = link.active.is_none() && self.accept(cx, &mut link);
        if link.active.is_none() {
            return false;
        }
        let mut batch = cx.take_batch();
        let mut ended = false;
        self.intake.fill(cx, &mut batch, |cx| {
            let received = self.receive_one(cx, &mut link);
            ended = matches!(received, Err(Ended::Connection));
            received.ok()
        });
        if ended {
            link.close(cx);
        }
        drop(link);
        let n = batch.len();
        cx.push_batch(0, &mut batch);
        cx.give_batch(batch);
        n > 0 || accepted || ended
    }

    /// Receives a packet; None if it was rejected.
    fn receive_one(&self, cx: &Context, link: &mut Link) -> Result<Option<Packet>, Ended> {
        let is_client = self.endpoint.is_client;
        let snap_length = self.endpoint.common.snap_length;
        let spare = link.spare.take().or_else(|| self.intake.spare());
        let (Some(mut packet), Some(active)) = (spare, &link.active) else {
            return Err(Ended::ForNow);
        };
        let received = match link.is_stream {
            true => active.receive(&mut packet, snap_length).map(|received| (received, None)),
            false => active.receive_from(&mut packet, snap_length),
        };
        match received {
            Ok((Received::Bytes { beyond }, from)) => {
                if !self.is_allowed(from.as_ref()) {
                    self.say(cx, &format!("dropped a datagram from {}", name_of(from.as_ref())));
                    return Ok(None);
                }
                if !is_client && !link.is_stream && from.is_some() {
                    link.peer = from;
                    self.outlet.wake();
                }
                self.intake.annotate(cx, &mut packet, beyond);
                Ok(Some(packet))
            }
            Ok((Received::Nothing, _)) => {
                link.spare = Some(packet);
                Err(Ended::ForNow)
            }
            Ok((Received::Closed, _)) => Err(Ended::Connection),
            Err(error) => {
                self.say(cx, &error.to_string());
                Err(if link.is_stream { Ended::Connection } else { Ended::ForNow })
            }
        }
    }

    /// Accepts the next connection, if it is allowed.
    fn accept(&self, cx: &Context, link: &mut Link) -> bool {
        let Some(listener) = &link.listener else { return false };
        match listener.accept() {
            Ok(Some((connection, from))) => {
                let allowed = self.is_allowed(from.as_ref());
                let what = if allowed { "opened" } else { "denied" };
                self.say(cx, &format!("{what} a connection from {}", name_of(from.as_ref())));
                if allowed {
                    link.active = Some(connection);
                    self.watch(link);
                    self.outlet.wake();
                }
                true
            }
            Ok(None) => false,
            Err(error) => {
                self.say(cx, &format!("accept: {error}"));
                false
            }
        }
    }

    fn is_allowed(&self, from: Option<&Address>) -> bool {
        match from {
            Some(Address::Inet(from)) if !self.endpoint.is_client => {
                self.endpoint.allows(*from.ip())
            }
            _ => true,
        }
    }

    fn say(&self, cx: &Context, message: &str) {
        if self.endpoint.verbose {
            say(cx, message);
        }
    }
}

/// Why no packet was received.
enum Ended {
    ForNow,
    Connection,
}

impl Link {
    fn close(&mut self, cx: &Context) {
        if self.active.take().is_none() {
            return;
        }
        self.was_closed = true;
        if self.verbose {
            say(cx, "closed the connection");
        }
    }
}

impl Sink for Link {
    fn is_open(&self) -> bool {
        let has_peer = self.is_stream || self.peer.is_some() || self.by_annotation.is_some();
        self.active.is_some() && has_peer
    }

    fn send(&mut self, cx: &Context, packet: &mut Packet) -> Fate {
        let Some(active) = &self.active else { return Fate::Lost(Reason::DeviceError) };
        let outcome = if self.is_stream {
            active.send(packet.data()).map(|sent| match sent {
                Some(length) => {
                    let taken = packet.strip(length);
                    debug_assert!(taken);
                    packet.is_empty()
                }
                None => false,
            })
        } else {
            let port = self.by_annotation;
            let own = port.map(|port| Address::Inet(SocketAddrV4::new(packet.dst_ip(), port)));
            let Some(to) = own.as_ref().or(self.peer.as_ref()) else {
                return Fate::Lost(Reason::DeviceError);
            };
            active.send_to(packet.data(), to)
        };
        match outcome {
            Ok(true) => {
                self.sent += 1;
                Fate::Sent
            }
            Ok(false) => Fate::Waits,
            Err(error) => {
                if self.verbose {
                    say(cx, &error.to_string());
                }
                if self.is_stream {
                    // The receiving task sees that it is closed and accepts the next connection.
                    self.close(cx);
                }
                Fate::Lost(Reason::DeviceError)
            }
        }
    }

    fn writable(&self) -> Option<std::os::fd::OwnedFd> {
        self.active.as_ref()?.writable().ok()
    }
}

fn say(cx: &Context, message: &str) {
    let router = cx.router();
    router.chatter(&format!("{}: {message}", router.name_of(cx.element())));
}

fn name_of(address: Option<&Address>) -> String {
    address.map_or_else(|| "somebody without a name".to_owned(), Address::to_string)
}
