//! Serves the control protocol on a TCP port or a Unix socket, on threads of its own.

use std::fmt;
use std::io::{self, ErrorKind, Read, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::str::FromStr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use millrace_core::Lock;
use rustix::event::{EventfdFlags, PollFd, PollFlags, eventfd, poll};

use super::protocol::{GREETING, Session, Target};

/// The most clients at a time.
const MOST_CLIENTS: usize = 128;

/// A client that takes no answers for so long is left.
const PATIENCE: Duration = Duration::from_secs(10);

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
    shared: Arc<Shared>,
    listener: Option<JoinHandle<()>>,
}

/// How a control socket treats its clients.
#[derive(Clone, Debug, Default)]
pub struct Manners {
    /// Whether clients may read alone.
    pub read_only: bool,
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
}

impl Server {
    /// Opens a control socket to `target`.
    ///
    /// # Errors
    /// The address is taken, or the system refuses.
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
        let (listener, address) = Listener::bind(address)?;
        let shared = Arc::new(Shared {
            target,
            manners,
            stopping: AtomicBool::new(false),
            wake: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?,
            clients: Lock::default(),
        });
        let thread = std::thread::Builder::new().name("control".to_owned()).spawn({
            let shared = shared.clone();
            move || shared.listen(&listener)
        })?;
        Ok(Self { address, shared, listener: Some(thread) })
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
        let clients = std::mem::take(&mut *self.shared.clients());
        for (stream, _) in &clients {
            stream.stop_reading();
        }
        for (_, thread) in clients {
            let _ = thread.join();
        }
        if let Address::Unix(path) = &self.address {
            // Somebody may have removed it already.
            let _ = std::fs::remove_file(path);
        }
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
        let mut session = match self.manners.read_only {
            true => Session::read_only(),
            false => Session::default(),
        };
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
        while !session.is_closed() {
            stream.write_all(&answer)?;
            answer.clear();
            if self.stopping.load(Ordering::SeqCst) {
                break;
            }
            match stream.read(&mut buffer) {
                Ok(0) => session.finish(&*self.target, &mut answer),
                Ok(n) => {
                    session.receive(buffer.get(..n).unwrap_or(&[]), &*self.target, &mut answer);
                }
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        stream.write_all(&answer)?;
        stream.end()
    }
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

/// Binds a socket in the file system; one that a crashed program left there is replaced.
fn bind_unix(path: &Path) -> io::Result<UnixListener> {
    match UnixListener::bind(path) {
        Err(error) if error.kind() == ErrorKind::AddrInUse => {
            match UnixStream::connect(path) {
                Err(refused) if refused.kind() == ErrorKind::ConnectionRefused => {}
                _ => return Err(error),
            }
            std::fs::remove_file(path)?;
            UnixListener::bind(path)
        }
        bound => bound,
    }
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
