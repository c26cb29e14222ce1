//! Serves the control protocol on a TCP port or a Unix socket, on its own threads.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use millrace_core::Lock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};
use rustix::fs::{self, Mode};
use rustix::io::Errno;
use rustix::net::{self, AddressFamily, SocketAddrUnix, SocketFlags, SocketType};

use super::protocol::{Access, GREETING, Session, Target};
use crate::sandbox::gate;

/// The maximum number of clients at a time. One more takes the place of the one that has been idle for longest.
const MOST_CLIENTS: usize = 128;

/// The connection of a client is closed if the client has not read [`PIECE`] bytes of an answer within this time.
const PATIENCE: Duration = Duration::from_secs(10);

/// The number of bytes of an answer that are sent at a time.
const PIECE: usize = 64 << 10;

/// The maximum number of bytes of commands and answers in memory, for all clients together.
const MOST_HELD: usize = 256 << 20;

/// When the server stops, clients have this time to read pending answers, and then the same time again to end.
const FAREWELL: Duration = Duration::from_millis(500);

/// The address of a control socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// The local address to listen on.
        host: IpAddr,
        /// The port.
        port: u16,
        /// True if the next free port is to be used when this one is taken.
        or_next: bool,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// Reads a TCP address, `[HOST:]PORT[+]`. A plus sign means this port or the next free one.
    ///
    /// # Errors
    /// The text is not an address; the message says what was expected.
    pub fn tcp(text: &str, default_host: IpAddr) -> Result<Self, String> {
        let expected = || format!("expected [ADDRESS:]PORT[+], not ‘{text}’");
        let (number, or_next) = match text.strip_suffix('+') {
            Some(rest) => (rest, true),
            None => (text, false),
        };
        if let Ok(address) = SocketAddr::from_str(number) {
            return Ok(Self::Tcp { host: address.ip(), port: address.port(), or_next });
        }
        let port = number.parse().map_err(|_| expected())?;
        Ok(Self::Tcp { host: default_host, port, or_next })
    }

    /// Reads a TCP address, by default on this machine's loopback interface.
    ///
    /// # Errors
    /// As [`tcp`](Self::tcp).
    pub fn local(text: &str) -> Result<Self, String> {
        Self::tcp(text, IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// True if only this machine can reach the address.
    pub fn is_local(&self) -> bool {
        match self {
            Self::Tcp { host, .. } => host.is_loopback(),
            Self::Unix(_) => true,
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp { host, port, .. } => write!(f, "TCP {}", SocketAddr::new(*host, *port)),
            Self::Unix(path) => write!(f, "{}", path.display()),
        }
    }
}

/// An open control socket. When it is dropped, it answers pending commands and closes.
pub struct Server {
    address: Address,
    /// The file of a Unix socket, removed at the end.
    file: Option<SocketFile>,
    shared: Arc<Shared>,
    listener: Option<gate::Thread>,
}

/// How a control socket treats its clients.
#[derive(Clone, Debug, Default)]
pub struct Manners {
    /// What clients may do.
    pub access: Access,
    /// The name under which connections are reported on standard error; `None` reports nothing.
    pub announces: Option<String>,
}

struct Shared {
    target: Arc<dyn Target>,
    manners: Manners,
    stopping: AtomicBool,
    /// Readable when the server stops.
    wake: OwnedFd,
    clients: Lock<Vec<Client>>,
    /// The bytes that clients keep in memory.
    held: AtomicUsize,
}

/// A client that is connected.
struct Client {
    stream: Stream,
    thread: JoinHandle<()>,
    /// Since when it has asked for nothing; none while it is answered.
    idle: Arc<Lock<Option<Instant>>>,
}

impl Client {
    fn is_gone(&self) -> bool {
        self.thread.is_finished()
    }
}

impl Server {
    /// Opens a control socket to `target`.
    ///
    /// # Errors
    /// The address is taken, or the system refuses; or other machines can reach the address, and there is no token.
    pub fn start(address: &Address, target: Arc<dyn Target>) -> io::Result<Self> {
        Self::start_with(address, target, Manners::default())
    }

    /// As [`start`](Self::start), with the given manners.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        address: &Address,
        target: Arc<dyn Target>,
        manners: Manners,
    ) -> io::Result<Self> {
        must_have_token(address, &manners.access)?;
        let (listener, address) = Listener::bind(address)?;
        let file = match &address {
            Address::Unix(path) => SocketFile::of(path),
            Address::Tcp { .. } => None,
        };
        let shared = Arc::new(Shared {
            target,
            manners,
            stopping: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            clients: Lock::default(),
            held: AtomicUsize::new(0),
        });
        let thread = gate::spawn("control", {
            let shared = shared.clone();
            move || shared.listen(&listener)
        })?;
        Ok(Self { address, file, shared, listener: Some(thread) })
    }

    /// The address of the server, with the port that was found free.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // A full counter means that the listener is already being woken.
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        if let Some(listener) = self.listener.take() {
            listener.join();
        }
        let mut clients = std::mem::take(&mut *self.shared.clients());
        clients.iter().for_each(|client| client.stream.stop_reading());
        wait_for(&mut clients);
        // These clients do not read their answers.
        clients.iter().for_each(|client| drop(client.stream.end()));
        wait_for(&mut clients);
        // A thread that is left waits for a handler, and ends after the handler.
        self.file = None;
    }
}

/// Closes the connection that has asked for nothing for the longest time. Returns false if all are being answered.
fn close_idlest(clients: &mut Vec<Client>) -> bool {
    let idle = clients.iter().enumerate();
    let idle = idle.filter_map(|(at, client)| Some(((*client.idle.lock())?, at)));
    let Some((_, at)) = idle.min() else { return false };
    // Its thread ends by itself, and may answer what has come by now.
    clients.swap_remove(at).stream.stop_reading();
    true
}

/// Waits a limited time for clients' threads to end. Removes those that have ended.
fn wait_for(clients: &mut Vec<Client>) {
    let until = Instant::now() + FAREWELL;
    while Instant::now() < until {
        clients.retain(|client| !client.is_gone());
        if clients.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Shared {
    fn clients(&self) -> std::sync::MutexGuard<'_, Vec<Client>> {
        self.clients.lock()
    }

    fn listen(self: &Arc<Self>, listener: &Listener) {
        while !self.stopping.load(Ordering::SeqCst) {
            let mut fds = [
                PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
                PollFd::new(&self.wake, PollFlags::IN),
            ];
            // An interrupted poll is repeated.
            let _ = poll(&mut fds, None);
            match listener.accept() {
                Ok(stream) => self.welcome(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // For example, no descriptor is free: others may be closed before the next attempt.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn welcome(self: &Arc<Self>, mut stream: Stream) {
        let mut clients = self.clients();
        clients.retain(|client| !client.is_gone());
        let ready = stream.prepare().and_then(|()| stream.try_clone());
        let Ok(handle) = ready else { return };
        if clients.len() >= MOST_CLIENTS && !close_idlest(&mut clients) {
            // The client may have left already.
            let _ = stream.write_all(b"590 Too many connections\r\n");
            return;
        }
        let shared = self.clone();
        let idle = Arc::new(Lock::new(Some(Instant::now())));
        let own = idle.clone();
        let spawned =
            std::thread::Builder::new().name("control-client".to_owned()).spawn(move || {
                // The client has left, so there is nobody to answer.
                let _ = shared.serve(&mut stream, &own);
            });
        if let Ok(thread) = spawned {
            clients.push(Client { stream: handle, thread, idle });
        }
    }

    fn serve(&self, stream: &mut Stream, idle: &Lock<Option<Instant>>) -> io::Result<()> {
        let mut session = Session::new(self.manners.access.clone());
        let name = stream.describe();
        self.announce(&format!("opened connection {name}"));
        let outcome = self.converse(stream, &mut session, idle);
        let number = name.split(' ').next().unwrap_or_default();
        self.announce(&format!("closed connection {number}"));
        outcome
    }

    fn announce(&self, what: &str) {
        if let Some(who) = &self.manners.announces {
            crate::messages::complain_as_click(format_args!("{who}: {what}"));
        }
    }

    fn converse(
        &self,
        stream: &mut Stream,
        session: &mut Session,
        idle: &Lock<Option<Instant>>,
    ) -> io::Result<()> {
        let mut answer = GREETING.to_vec();
        let mut buffer = vec![0; 16 << 10];
        let mut held = Held { all: &self.held, own: 0 };
        while !session.is_closed() {
            send(stream, &answer)?;
            answer = Vec::new();
            if session.is_unfinished() {
                session.receive(&[], &*self.target, &mut answer);
            } else if self.stopping.load(Ordering::SeqCst) {
                break;
            } else {
                idle.lock().get_or_insert_with(Instant::now);
                let read = stream.read(&mut buffer);
                *idle.lock() = None;
                match read {
                    Ok(0) => session.finish(&*self.target, &mut answer),
                    Ok(n) => {
                        let bytes = buffer.get(..n).unwrap_or(&[]);
                        session.receive(bytes, &*self.target, &mut answer);
                    }
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Err(error) => return Err(error),
                }
            }
            if !held.set(session.held() + answer.capacity()) {
                answer = b"521 Clients ask for too much at a time\r\n".to_vec();
                break;
            }
        }
        send(stream, &answer)?;
        stream.end()
    }
}

/// The bytes that one client keeps in memory, as a part of the bytes of all clients.
struct Held<'a> {
    all: &'a AtomicUsize,
    own: usize,
}

impl Held<'_> {
    /// Returns true if all clients together stay within the limit.
    fn set(&mut self, bytes: usize) -> bool {
        let others = self.all.fetch_sub(self.own, Ordering::Relaxed) - self.own;
        self.all.fetch_add(bytes, Ordering::Relaxed);
        self.own = bytes;
        others + bytes <= MOST_HELD
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.set(0);
    }
}

/// Sends an answer to a client as long as the client reads.
fn send(stream: &mut Stream, answer: &[u8]) -> io::Result<()> {
    for mut piece in answer.chunks(PIECE) {
        let since = Instant::now();
        while !piece.is_empty() {
            match stream.write(piece) {
                Ok(0) => return Err(ErrorKind::WriteZero.into()),
                Ok(n) => piece = piece.get(n..).unwrap_or(&[]),
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
            if !piece.is_empty() && since.elapsed() > PATIENCE {
                return Err(ErrorKind::TimedOut.into());
            }
        }
    }
    Ok(())
}

enum Listener {
    Tcp(TcpListener),
    Unix(UnixListener),
}

impl Listener {
    /// Binds, and returns the actual address.
    fn bind(address: &Address) -> io::Result<(Self, Address)> {
        let (listener, address) = match address {
            Address::Tcp { host, port, or_next } => {
                let listener = bind_tcp(*host, *port, *or_next)?;
                let port = listener.local_addr()?.port();
                listener.set_nonblocking(true)?;
                (Self::Tcp(listener), Address::Tcp { host: *host, port, or_next: false })
            }
            Address::Unix(path) => {
                let listener = bind_unix(path)?;
                listener.set_nonblocking(true)?;
                (Self::Unix(listener), address.clone())
            }
        };
        Ok((listener, address))
    }

    fn accept(&self) -> io::Result<Stream> {
        Ok(match self {
            Self::Tcp(listener) => Stream::Tcp(listener.accept()?.0),
            Self::Unix(listener) => Stream::Unix(listener.accept()?.0),
        })
    }

    fn as_fd(&self) -> std::os::fd::BorrowedFd<'_> {
        match self {
            Self::Tcp(listener) => listener.as_fd(),
            Self::Unix(listener) => listener.as_fd(),
        }
    }
}

pub(crate) fn bind_tcp(host: IpAddr, port: u16, or_next: bool) -> io::Result<TcpListener> {
    let mut port = port;
    loop {
        match TcpListener::bind((host, port)) {
            Err(error) if or_next && error.kind() == ErrorKind::AddrInUse => {
                port = port.checked_add(1).ok_or(error)?;
            }
            bound => return bound,
        }
    }
}

/// Binds a Unix socket that only its owner can open. A socket file that a crashed program left is replaced. Any other
/// file is left alone, and symbolic links are not followed.
pub(crate) fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file gets the socket's mode (unix(7)), so there is no moment at which others can connect.
    fs::fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
    if let Err(error) = net::bind(&socket, &address) {
        let is_left = || {
            let is_socket = path.symlink_metadata().is_ok_and(|file| file.file_type().is_socket());
            let refused = |error: io::Error| error.kind() == ErrorKind::ConnectionRefused;
            is_socket && UnixStream::connect(path).is_err_and(refused)
        };
        if error != Errno::ADDRINUSE || !is_left() {
            return Err(error.into());
        }
        std::fs::remove_file(path)?;
        net::bind(&socket, &address)?;
    }
    net::listen(&socket, BACKLOG)?;
    Ok(socket.into())
}

/// The number of clients that can wait to be accepted.
const BACKLOG: i32 = 128;

/// The file of a Unix socket. It is removed when this is dropped, unless another one has its name by then.
pub(crate) struct SocketFile {
    path: PathBuf,
    /// Its device and inode.
    identity: (u64, u64),
}

impl SocketFile {
    /// The file of this name.
    pub(crate) fn of(path: &Path) -> Option<Self> {
        Some(Self { path: path.to_owned(), identity: identity_of(path)? })
    }
}

impl Drop for SocketFile {
    fn drop(&mut self) {
        if identity_of(&self.path) == Some(self.identity) {
            // The file may have been removed meanwhile.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

/// The device and inode of a file, without following a symbolic link.
fn identity_of(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|file| (file.dev(), file.ino()))
}

/// Refuses to listen where other machines can connect, and no token keeps them out.
pub(crate) fn must_have_token(address: &Address, access: &Access) -> io::Result<()> {
    if address.is_local() || access.token.is_some() {
        return Ok(());
    }
    let why = "other machines can reach this address: set a token, or use a loopback address";
    Err(io::Error::new(ErrorKind::PermissionDenied, why))
}

enum Stream {
    Tcp(TcpStream),
    Unix(UnixStream),
}

impl Stream {
    fn prepare(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_nodelay(true)?;
                stream.set_write_timeout(Some(PATIENCE))
            }
            Self::Unix(stream) => {
                stream.set_nonblocking(false)?;
                stream.set_write_timeout(Some(PATIENCE))
            }
        }
    }

    fn try_clone(&self) -> io::Result<Self> {
        Ok(match self {
            Self::Tcp(stream) => Self::Tcp(stream.try_clone()?),
            Self::Unix(stream) => Self::Unix(stream.try_clone()?),
        })
    }

    /// The number of the connection's descriptor, and its peer.
    fn describe(&self) -> String {
        match self {
            Self::Tcp(stream) => {
                let number = stream.as_raw_fd();
                let peer =
                    stream.peer_addr().map(|peer| format!(" from {}.{}", peer.ip(), peer.port()));
                format!("{number}{}", peer.unwrap_or_default())
            }
            Self::Unix(stream) => stream.as_raw_fd().to_string(),
        }
    }

    /// Ends the wait of a thread that reads from the connection.
    fn stop_reading(&self) {
        // It may be closed already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Read),
            Self::Unix(stream) => stream.shutdown(Shutdown::Read),
        };
    }

    /// Closes the sending direction. The list of clients keeps a descriptor of the connection open.
    fn end(&self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Both),
            Self::Unix(stream) => stream.shutdown(Shutdown::Both),
        }
    }
}

impl Read for Stream {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.read(buffer),
            Self::Unix(stream) => stream.read(buffer),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Self::Tcp(stream) => stream.write(bytes),
            Self::Unix(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Self::Tcp(stream) => stream.flush(),
            Self::Unix(stream) => stream.flush(),
        }
    }
}
