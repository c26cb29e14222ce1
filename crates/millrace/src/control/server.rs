//! Serves the control protocol on a TCP port or a Unix socket, on threads of its own.

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

/// The most clients at a time.
const MOST_CLIENTS: usize = 128;

/// A client that has not read [`PIECE`] bytes of an answer by then is left.
const PATIENCE: Duration = Duration::from_secs(10);

/// The bytes of an answer that are sent at a time.
const PIECE: usize = 64 << 10;

/// The bytes of commands and answers that all clients together may keep in memory.
const MOST_HELD: usize = 256 << 20;

/// When the server stops, clients have so long to read what they asked for, and then as long again to end.
const FAREWELL: Duration = Duration::from_millis(500);

/// Where a control socket listens, or is found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// A TCP port.
    Tcp {
        /// The address of this machine to listen on.
        host: IpAddr,
        /// The port.
        port: u16,
        /// Whether to take the next free port when this one is taken.
        or_next: bool,
    },
    /// A socket in the file system.
    Unix(PathBuf),
}

impl Address {
    /// Reads a TCP address, `[HOST:]PORT[+]`; a plus sign means this port or the next free one.
    ///
    /// # Errors
    /// It is none; the message says what was expected.
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

    /// Reads a TCP address on this machine's loopback interface, unless it names another.
    ///
    /// # Errors
    /// As [`tcp`](Self::tcp).
    pub fn local(text: &str) -> Result<Self, String> {
        Self::tcp(text, IpAddr::V4(Ipv4Addr::LOCALHOST))
    }

    /// Whether this machine alone reaches it.
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

/// A control socket that is open. Dropping it closes it, once what was asked has been answered.
pub struct Server {
    address: Address,
    /// The file of a Unix socket, by device and number.
    file: Option<(u64, u64)>,
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

/// How a control socket treats its clients.
#[derive(Clone, Debug, Default)]
pub struct Manners {
    /// What clients may do.
    pub access: Access,
    /// Who says on standard error when a connection is opened and closed; nobody unless given.
    pub announces: Option<String>,
}

struct Shared {
    target: Arc<dyn Target>,
    manners: Manners,
    stopping: AtomicBool,
    /// Readable when the server stops.
    wake: OwnedFd,
    clients: Lock<Vec<(Stream, JoinHandle<()>)>>,
    /// The bytes that clients keep in memory.
    held: AtomicUsize,
}

impl Server {
    /// Opens a control socket to `target`.
    ///
    /// # Errors
    /// The address is taken, or the system refuses; or other machines reach it, and there is no token.
    pub fn start(address: &Address, target: Arc<dyn Target>) -> io::Result<Self> {
        Self::start_with(address, target, Manners::default())
    }

    /// As [`start`](Self::start), with manners of its own.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub fn start_with(
        address: &Address,
        target: Arc<dyn Target>,
        manners: Manners,
    ) -> io::Result<Self> {
        if !address.is_local() && manners.access.token.is_none() {
            let why = "other machines reach this address: a token is needed, or a loopback address";
            return Err(io::Error::new(ErrorKind::PermissionDenied, why));
        }
        let (listener, address) = Listener::bind(address)?;
        let file = match &address {
            Address::Unix(path) => file_of(path),
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
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn({
            let shared = shared.clone();
            move || shared.listen(&listener)
        })?;
        Ok(Self { address, file, shared, listener: Some(thread) })
    }

    /// Where the server listens; the port is the one that was found free.
    pub fn address(&self) -> &Address {
        &self.address
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.shared.stopping.store(true, Ordering::SeqCst);
        // A full counter means that the listener is being woken.
        let _ = rustix::io::write(&self.shared.wake, &1u64.to_ne_bytes());
        if let Some(listener) = self.listener.take() {
            let _ = listener.join();
        }
        let mut clients = std::mem::take(&mut *self.shared.clients());
        clients.iter().for_each(|(stream, _)| stream.stop_reading());
        wait_for(&mut clients);
        // They do not read what they asked for.
        clients.iter().for_each(|(stream, _)| drop(stream.end()));
        wait_for(&mut clients);
        // A thread that is left waits for a handler, and ends behind it.
        if let Address::Unix(path) = &self.address
            && self.file.is_some()
            && file_of(path) == self.file
        {
            // It may have been removed by now.
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Waits for clients' threads to end, for a while. Those that have ended are removed.
fn wait_for(clients: &mut Vec<(Stream, JoinHandle<()>)>) {
    let until = Instant::now() + FAREWELL;
    while Instant::now() < until {
        clients.retain(|(_, thread)| !thread.is_finished());
        if clients.is_empty() {
            return;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

impl Shared {
    fn clients(&self) -> std::sync::MutexGuard<'_, Vec<(Stream, JoinHandle<()>)>> {
        self.clients.lock()
    }

    fn listen(self: &Arc<Self>, listener: &Listener) {
        while !self.stopping.load(Ordering::SeqCst) {
            let mut fds = [
                PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN),
                PollFd::new(&self.wake, PollFlags::IN),
            ];
            // An interrupted poll looks again.
            let _ = poll(&mut fds, None);
            match listener.accept() {
                Ok(stream) => self.welcome(stream),
                Err(error) if error.kind() == ErrorKind::WouldBlock => {}
                // No descriptor is free, say: let others end before the next look.
                Err(_) => std::thread::sleep(Duration::from_millis(10)),
            }
        }
    }

    fn welcome(self: &Arc<Self>, mut stream: Stream) {
        let mut clients = self.clients();
        clients.retain(|(_, thread)| !thread.is_finished());
        let ready = stream.prepare().and_then(|()| stream.try_clone());
        let Ok(handle) = ready else { return };
        if clients.len() >= MOST_CLIENTS {
            // The client may be gone already.
            let _ = stream.write_all(b"590 Too many connections\r\n");
            return;
        }
        let shared = self.clone();
        let spawned =
            std::thread::Builder::new().name("control-client".to_owned()).spawn(move || {
                // The client went away: nothing is owed to it.
                let _ = shared.serve(&mut stream);
            });
        if let Ok(thread) = spawned {
            clients.push((handle, thread));
        }
    }

    fn serve(&self, stream: &mut Stream) -> io::Result<()> {
        let mut session = Session::new(self.manners.access.clone());
        let name = stream.describe();
        self.announce(&format!("opened connection {name}"));
        let outcome = self.converse(stream, &mut session);
        let number = name.split(' ').next().unwrap_or_default();
        self.announce(&format!("closed connection {number}"));
        outcome
    }

    fn announce(&self, what: &str) {
        if let Some(who) = &self.manners.announces {
            crate::messages::complain_as_click(format_args!("{who}: {what}"));
        }
    }

    fn converse(&self, stream: &mut Stream, session: &mut Session) -> io::Result<()> {
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
                match stream.read(&mut buffer) {
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

/// The bytes that one client keeps in memory, among those of all.
struct Held<'a> {
    all: &'a AtomicUsize,
    own: usize,
}

impl Held<'_> {
    /// Returns whether all clients together keep no more than they may.
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

/// Sends an answer to a client, as long as it reads.
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
    /// Binds, and says where.
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

fn bind_tcp(host: IpAddr, port: u16, or_next: bool) -> io::Result<TcpListener> {
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

/// Binds a socket in the file system, which its owner alone can open. One that a crashed program left there is replaced;
/// any other file is left alone, and no symbolic link is followed.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    let address = SocketAddrUnix::new(path)?;
    let socket =
        net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?;
    // The file gets the socket's mode (unix(7)): so there is no moment at which others could connect.
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

/// The clients that wait until they are accepted.
const BACKLOG: i32 = 128;

/// Which file a path leads to, without following a symbolic link.
fn file_of(path: &Path) -> Option<(u64, u64)> {
    path.symlink_metadata().ok().map(|file| (file.dev(), file.ino()))
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

    /// The number of its descriptor, and whom it leads to.
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

    /// Ends the wait of whoever reads from it.
    fn stop_reading(&self) {
        // It may be closed already.
        let _ = match self {
            Self::Tcp(stream) => stream.shutdown(Shutdown::Read),
            Self::Unix(stream) => stream.shutdown(Shutdown::Read),
        };
    }

    /// Says that nothing more comes; the list of clients keeps a descriptor of it open.
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
