//! Sockets that transport packets: streams, datagrams and raw IP. None of them ever blocks, except while it
//! connects.
//!
//! ```
//! use millrace_core::Packet;
//! use millrace_io::socket::{Address, Options, Received, Socket, UnixAddress};
//!
//! let folder = tempfile::tempdir().unwrap();
//! let path = folder.path().join("sink");
//! let address = Address::Unix(UnixAddress::new(path.to_str().unwrap())?);
//! let listener = Socket::listen(&address, &Options::default())?;
//! let client = Socket::connect(&address, None, &Options::default())?;
//! let (server, _) = listener.accept()?.unwrap();
//! assert_eq!(client.send(b"hello")?, Some(5));
//! let mut packet = Packet::for_receive(2048).unwrap();
//! assert_eq!(server.receive(&mut packet, 2048)?, Received::Bytes { beyond: 0 });
//! assert_eq!(packet.data(), b"hello");
//! drop(client);
//! assert_eq!(server.receive(&mut packet, 2048)?, Received::Closed);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```

mod address;
mod raw;

use std::io;
use std::net::Ipv4Addr;
use std::os::fd::{AsFd, OwnedFd};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use millrace_core::{Packet, refusal_advice};
use rustix::event::{PollFd, PollFlags, Timespec, epoll, poll};
use rustix::net::{RecvFlags, SendFlags, Shutdown, SocketFlags, SocketType, sockopt};

pub use address::{Address, UnixAddress};
pub use raw::Raw;

use crate::queue::privileges;

/// The options of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Options {
    /// Whether a TCP connection sends small amounts of data at once (TCP_NODELAY).
    pub no_delay: bool,
    /// Bytes that may wait to be sent; by default the system chooses.
    pub send_buffer: Option<usize>,
    /// Bytes that may wait to be received; by default the system chooses.
    pub receive_buffer: Option<usize>,
}

impl Default for Options {
    fn default() -> Self {
        Self { no_delay: true, send_buffer: None, receive_buffer: None }
    }
}

/// Why a socket could not be created: the operation, and the system's error.
#[derive(Debug, thiserror::Error)]
#[error("{step}: {source}{}", self.advice())]
pub struct Failure {
    step: &'static str,
    source: io::Error,
    /// The capability that the operation needs, as setcap(8) names it.
    needs: Option<&'static str>,
}

impl Failure {
    fn advice(&self) -> String {
        match (self.source.kind(), self.needs) {
            (io::ErrorKind::PermissionDenied, Some(name)) => privileges(&self.source, name),
            _ => refusal_advice(&self.source),
        }
    }
}

/// Names an operation that may fail.
fn step<E: Into<io::Error>>(step: &'static str) -> impl FnOnce(E) -> Failure {
    move |source| Failure { step, source: source.into(), needs: None }
}

/// A socket that does not block. Dropping it closes it, and removes the file that it created.
#[derive(Debug)]
pub struct Socket {
    fd: OwnedFd,
    /// The file that binding created.
    file: Option<PathBuf>,
}

/// The result of receiving.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Received {
    /// Bytes, which are in the packet; `beyond` more did not fit.
    Bytes {
        /// Bytes of a datagram that were cut off.
        beyond: usize,
    },
    /// Nothing has arrived yet.
    Nothing,
    /// The end of the stream.
    Closed,
}

/// How long an attempt to connect may take.
const PATIENCE: Duration = Duration::from_secs(10);
/// How many connections may wait to be accepted.
const BACKLOG: i32 = 2;

/// # Opening
impl Socket {
    /// A stream socket that waits for connections.
    ///
    /// # Errors
    /// The system refuses an operation.
    pub fn listen(address: &Address, options: &Options) -> Result<Self, Failure> {
        let socket = Self::new(address, SocketType::STREAM, options)?;
        if matches!(address, Address::Inet(_)) {
            // A connection that has ended must not keep the next run from its port.
            sockopt::set_socket_reuseaddr(&socket.fd, true).map_err(step("SO_REUSEADDR"))?;
        }
        let socket = socket.bound_to(address)?;
        rustix::net::listen(&socket.fd, BACKLOG).map_err(step("listen"))?;
        Ok(socket)
    }

    /// A connected stream socket. Waits for the connection, at most 10 seconds.
    ///
    /// # Errors
    /// The system refuses an operation, or the peer does not answer.
    pub fn connect(
        remote: &Address,
        local: Option<&Address>,
        options: &Options,
    ) -> Result<Self, Failure> {
        let mut socket = Self::new(remote, SocketType::STREAM, options)?;
        if let Some(local) = local {
            socket = socket.bound_to(local)?;
        }
        match rustix::net::connect(&socket.fd, &remote.any()) {
            Err(rustix::io::Errno::INPROGRESS) => {
                socket.wait_until_writable().map_err(step("connect"))?;
                let outcome = sockopt::socket_error(&socket.fd).map_err(step("connect"))?;
                outcome.map_err(step("connect"))?;
            }
            outcome => outcome.map_err(step("connect"))?,
        }
        Ok(socket)
    }

    /// A socket for datagrams to and from addresses like `remote`.
    ///
    /// # Errors
    /// The system refuses an operation.
    pub fn datagrams(
        remote: &Address,
        local: Option<&Address>,
        options: &Options,
    ) -> Result<Self, Failure> {
        let socket = Self::new(remote, SocketType::DGRAM, options)?;
        if matches!(remote, Address::Inet(_)) {
            sockopt::set_socket_broadcast(&socket.fd, true).map_err(step("SO_BROADCAST"))?;
        }
        match local {
            Some(local) => socket.bound_to(local),
            None => Ok(socket),
        }
    }

    /// A socket that receives datagrams to a group, on the interface that has the address `by` or, if that is
    /// unspecified, on one that the system chooses. Other sockets may do so, too.
    ///
    /// # Errors
    /// The system refuses an operation.
    pub fn of_group(
        group: std::net::SocketAddrV4,
        by: Ipv4Addr,
        options: &Options,
    ) -> Result<Self, Failure> {
        let address = Address::Inet(group);
        let socket = Self::new(&address, SocketType::DGRAM, options)?;
        sockopt::set_socket_reuseaddr(&socket.fd, true).map_err(step("SO_REUSEADDR"))?;
        let socket = socket.bound_to(&address)?;
        sockopt::set_ip_add_membership(&socket.fd, group.ip(), &by)
            .map_err(step("IP_ADD_MEMBERSHIP"))?;
        Ok(socket)
    }

    /// A socket that sends to groups, from the address `from` unless that is unspecified. `looped` sets
    /// whether this machine receives its own packets.
    ///
    /// # Errors
    /// The system refuses an operation.
    pub fn to_groups(
        from: std::net::SocketAddrV4,
        looped: bool,
        options: &Options,
    ) -> Result<Self, Failure> {
        let address = Address::Inet(from);
        let mut socket = Self::new(&address, SocketType::DGRAM, options)?;
        if !from.ip().is_unspecified() {
            socket = socket.bound_to(&address)?;
            sockopt::set_ip_multicast_if(&socket.fd, from.ip()).map_err(step("IP_MULTICAST_IF"))?;
        }
        sockopt::set_ip_multicast_loop(&socket.fd, looped).map_err(step("IP_MULTICAST_LOOP"))?;
        Ok(socket)
    }

    fn new(address: &Address, kind: SocketType, options: &Options) -> Result<Self, Failure> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        let fd = rustix::net::socket_with(address.family(), kind, flags, None);
        let socket = Self { fd: fd.map_err(step("socket"))?, file: None };
        if let Some(bytes) = options.send_buffer {
            sockopt::set_socket_send_buffer_size(&socket.fd, bytes).map_err(step("SO_SNDBUF"))?;
        }
        if let Some(bytes) = options.receive_buffer {
            sockopt::set_socket_recv_buffer_size(&socket.fd, bytes).map_err(step("SO_RCVBUF"))?;
        }
        if kind == SocketType::STREAM && matches!(address, Address::Inet(_)) {
            sockopt::set_tcp_nodelay(&socket.fd, options.no_delay).map_err(step("TCP_NODELAY"))?;
        }
        Ok(socket)
    }

    fn bound_to(mut self, address: &Address) -> Result<Self, Failure> {
        rustix::net::bind(&self.fd, &address.any()).map_err(step("bind"))?;
        self.file = address.file().map(Into::into);
        Ok(self)
    }

    fn wait_until_writable(&self) -> io::Result<()> {
        let end = Instant::now() + PATIENCE;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            let timeout = Timespec {
                tv_sec: i64::try_from(left.as_secs()).unwrap_or(i64::MAX),
                tv_nsec: left.subsec_nanos().into(),
            };
            match poll(&mut [PollFd::new(&self.fd, PollFlags::OUT)], Some(&timeout)) {
                Ok(0) => return Err(io::ErrorKind::TimedOut.into()),
                Err(rustix::io::Errno::INTR) => {}
                outcome => return outcome.map(drop).map_err(Into::into),
            }
        }
    }
}

/// # Transport
impl Socket {
    /// The next connection that waits, and its peer.
    ///
    /// # Errors
    /// The system has no more descriptors or another resource; the connection continues to wait.
    pub fn accept(&self) -> io::Result<Option<(Self, Option<Address>)>> {
        let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
        match rustix::net::acceptfrom_with(&self.fd, flags) {
            Ok((fd, peer)) => {
                let peer = peer.and_then(Address::of);
                Ok(Some((Self { fd, file: None }, peer)))
            }
            Err(error) => if_pause(error, None),
        }
    }

    /// Receives at most this many bytes of a stream into the packet's buffer.
    ///
    /// # Errors
    /// The connection broke.
    pub fn receive(&self, packet: &mut Packet, most: usize) -> io::Result<Received> {
        match rustix::io::read(&self.fd, room(packet, most)) {
            Ok(0) => Ok(Received::Closed),
            Ok(length) => Ok(keep(packet, length, most)),
            Err(error) => if_pause(error, Received::Nothing),
        }
    }

    /// Receives at most this many bytes of a datagram into the packet's buffer, and returns its sender.
    ///
    /// # Errors
    /// The error of an earlier datagram, or another fault; the socket stays usable.
    pub fn receive_from(
        &self,
        packet: &mut Packet,
        most: usize,
    ) -> io::Result<(Received, Option<Address>)> {
        match rustix::net::recvfrom(&self.fd, room(packet, most), RecvFlags::TRUNC) {
            Ok((_, length, peer)) => Ok((keep(packet, length, most), peer.and_then(Address::of))),
            Err(error) => if_pause(error, (Received::Nothing, None)),
        }
    }

    /// Sends bytes on a stream: returns how many were accepted, `None` when there is no room.
    ///
    /// # Errors
    /// The connection broke.
    pub fn send(&self, bytes: &[u8]) -> io::Result<Option<usize>> {
        match rustix::net::send(&self.fd, bytes, SendFlags::NOSIGNAL) {
            Ok(length) => Ok(Some(length)),
            Err(error) => if_pause(error, None),
        }
    }

    /// Sends a datagram. Returns false when there is no room.
    ///
    /// # Errors
    /// It cannot be sent there; the socket stays usable.
    pub fn send_to(&self, bytes: &[u8], to: &Address) -> io::Result<bool> {
        match rustix::net::sendto(&self.fd, bytes, SendFlags::NOSIGNAL, &to.any()) {
            Ok(_) => Ok(true),
            Err(error) => if_pause(error, false),
        }
    }

    /// The socket's own address.
    ///
    /// # Errors
    /// The system does not provide it.
    pub fn local(&self) -> io::Result<Option<Address>> {
        Ok(Address::of(rustix::net::getsockname(&self.fd)?))
    }

    /// Binds a datagram socket to the address and the port from which it sends to `to`, and returns them; `None` while
    /// nothing leads there.
    pub fn source_towards(&self, to: &Address) -> Option<Address> {
        rustix::net::connect(&self.fd, &to.any()).ok()?;
        self.local().ok().flatten()
    }

    /// A file descriptor, owned by the caller, that is readable when something has arrived.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn readable(&self) -> io::Result<OwnedFd> {
        self.fd.try_clone()
    }

    /// A descriptor that is readable when there is room to send.
    ///
    /// # Errors
    /// The system has no more descriptors.
    pub fn writable(&self) -> io::Result<OwnedFd> {
        let watch = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        let data = epoll::EventData::new_u64(0);
        epoll::add(&watch, self.fd.as_fd(), data, epoll::EventFlags::OUT)?;
        Ok(watch)
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        // A process that was forked may hold the descriptor, too.
        let _ = rustix::net::shutdown(&self.fd, Shutdown::Both);
        if let Some(file) = &self.file {
            // Somebody else may have removed it.
            let _ = std::fs::remove_file(file);
        }
    }
}

/// The packet's buffer, up to the length to use.
fn room(packet: &mut Packet, most: usize) -> &mut [u8] {
    let buffer = packet.buffer_mut();
    let length = buffer.len().min(most);
    buffer.get_mut(..length).unwrap_or_default()
}

/// Sets the length of the received data.
fn keep(packet: &mut Packet, length: usize, most: usize) -> Received {
    let kept = length.min(room(packet, most).len());
    let fits = packet.set_len(kept);
    debug_assert!(fits);
    Received::Bytes { beyond: length - kept }
}

/// `pause` for an error that means no more than that.
fn if_pause<T>(error: rustix::io::Errno, pause: T) -> io::Result<T> {
    use rustix::io::Errno;
    match error {
        Errno::AGAIN | Errno::NOBUFS | Errno::INTR => Ok(pause),
        error => Err(error.into()),
    }
}
