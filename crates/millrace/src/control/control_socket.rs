//! ControlSocket - serves handlers over TCP or a Unix socket
//!
//! # Synopsis
//! `ControlSocket(TCP, PORT)`, `ControlSocket(UNIX, FILENAME)`
//!
//! # Description
//! Lets other programs read and write the handlers of the running router, in version 1.3 of Click's
//! protocol. A Unix socket can be opened by its owner alone (mode 0600). A TCP port is open to this machine
//! alone, unless the configuration says otherwise: then clients must know a token, which they send first
//! (`AUTH token`). A client sends lines: `READ handler`, `READDATA handler n`, `READUNTIL handler end`,
//! `WRITE handler text`, `WRITEDATA handler n`, `WRITEUNTIL handler end`, `CHECKREAD handler`,
//! `CHECKWRITE handler`, `LLRPC element#number n`, `AUTH token`, `HELP`, `QUIT`. Each is answered by lines that begin with a number, 200
//! when all went well; a hyphen after it says that more of them follow. A value that was read
//! follows a line `DATA n`.
//!
//! Of more than 128 connections, the one that has been idle for longest is closed. A control socket stays open,
//! with its connections, when the configuration is replaced by one that has an element of this name with the
//! same address.
//!
//! # Arguments
//! - TYPE: `TCP` or `UNIX`. Mandatory. `SOCKET`, an open descriptor, is refused.
//! - PORT: the TCP port, by number or name. With a plus sign, that one or the next free one.
//! - FILENAME: the name of the Unix socket; it is removed in the end.
//! - READONLY: whether writing is refused. Default: false.
//! - PROXY: an element that answers instead of the router: `READ a.b` reads its handler `a.b`.
//! - VERBOSE: whether connections are told of on standard error. Default: false.
//! - LOCALHOST: whether only this machine can connect. Default: true, unless ADDRESS is given. (In Click the default is
//!   false.)
//! - ADDRESS: the address of this machine to listen on.
//! - TOKEN_FILE: a file whose first line is the token that clients must send. Mandatory where other machines
//!   can connect.
//! - RETRIES: how often to try again, a second later, when the address is taken. Default: 0.
//! - RETRY_WARNINGS: whether to warn when that happens. Default: true.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `port` (read): the TCP port. `filename` (read): the name of the Unix socket.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! ControlSocket(TCP, 41900+, LOCALHOST true);
//! Idle -> Counter -> Discard;
//! ```
//!
//! # See also
//! Script

use std::net::Ipv4Addr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, MutexGuard, Weak};
use std::time::Duration;

use millrace_core::args::{ElementRef, FileName, Word};
use millrace_core::element::HandlerError;
use millrace_core::names::NumberKind;
use millrace_core::{
    Class, Context, Element, Failed, Handlers, Init, Lock, Need, Refused, Router, Setup, Timer,
    Timestamp, os_error_text, register,
};

use super::{Access, Address, Manners, Server, Target};

/// The element; its manual is at the top of the file.
pub struct ControlSocket {
    address: Address,
    read_only: bool,
    announces: Option<String>,
    token: Option<PathBuf>,
    proxy: Option<usize>,
    tries: AtomicI64,
    warns: bool,
    timer: Timer,
    open: Lock<Open>,
}

/// The state that a hot swap hands over.
#[derive(Default)]
struct Open {
    server: Option<Server>,
    served: Arc<Served>,
}

/// The router that clients access, and the element that answers instead of it, if any.
#[derive(Default)]
struct Served(Lock<(Weak<Router>, Option<usize>)>);

register!(ControlSocket, "control_socket.rs");

const TCP: u8 = 6;

/// The maximum time to wait until a connection has ended.
const PATIENCE: Duration = Duration::from_secs(1);

impl Element for ControlSocket {
    const CLASS: Class = Class::new("ControlSocket", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let Word(kind) = args.mandatory("TYPE");
        let read_only = args.keyword("READONLY", false);
        let proxy: Option<ElementRef> = args.optional_keyword("PROXY");
        let verbose = args.keyword("VERBOSE", false);
        let retries: u32 = args.keyword("RETRIES", 0);
        let warns = args.keyword("RETRY_WARNINGS", true);
        let local: Option<bool> = args.optional_keyword("LOCALHOST");
        let listen: Option<Word> = args.optional_keyword("ADDRESS");
        let token: Option<FileName> = args.optional_keyword("TOKEN_FILE");
        let address = match kind.to_ascii_uppercase().as_str() {
            "TCP" => {
                let host = match (listen, local) {
                    (Some(_), Some(_)) => {
                        args.error("ADDRESS", "ADDRESS and LOCALHOST exclude each other");
                        return Err(Failed);
                    }
                    (Some(Word(text)), None) => match text.parse() {
                        Ok(address) => address,
                        Err(_) => {
                            args.error("ADDRESS", format!("‘{text}’ is not an IP address"));
                            return Err(Failed);
                        }
                    },
                    (None, Some(false)) => Ipv4Addr::UNSPECIFIED.into(),
                    (None, _) => Ipv4Addr::LOCALHOST.into(),
                };
                let Word(port) = args.mandatory("PORT");
                let (text, or_next) = match port.strip_suffix('+') {
                    Some(text) => (text, true),
                    None => (&*port, false),
                };
                let named = args.scope().number_named(NumberKind::Port(TCP), text);
                let named = named.and_then(|port| u16::try_from(port).ok());
                match text.parse().ok().or(named.filter(|_| !or_next)) {
                    Some(port) => Address::Tcp { host, port, or_next },
                    None => {
                        args.error("PORT", "PORT requires TCP port");
                        return Err(Failed);
                    }
                }
            }
            "UNIX" => {
                const LONGEST: usize = 107;
                let name: String = args.mandatory("FILENAME");
                if name.len() > LONGEST {
                    args.error("FILENAME", "filename too long");
                }
                Address::Unix(name.into())
            }
            "SOCKET" => {
                args.error("TYPE", "an open descriptor cannot be served; use TCP or UNIX");
                return Err(Failed);
            }
            _ => {
                args.error("TYPE", format!("unknown socket type ‘{kind}’"));
                return Err(Failed);
            }
        };
        if !address.is_local() && token.is_none() {
            args.error("TOKEN_FILE", "TOKEN_FILE is mandatory where other machines can connect");
        }
        args.complete()?;
        if let Address::Unix(path) = &address {
            args.needs([Need::UnixSocket(path.clone())]);
        }
        args.needs(token.as_ref().and_then(Need::read));
        let announces = verbose.then(|| format!("{} :: ControlSocket", setup.name()));
        let tries = AtomicI64::new(retries.into());
        let timer = setup.timer();
        Ok(Self {
            address,
            read_only,
            announces,
            token: token.map(|FileName(name)| name.into()),
            proxy: proxy.map(|ElementRef(id)| id),
            tries,
            warns,
            timer,
            open: Lock::default(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.open().served.set(init.shared_router(), self.proxy);
        if init.predecessor::<Self>().is_some_and(|old| old.address == self.address) {
            // The socket is open already, and is handed over.
            return Ok(());
        }
        match self.bind() {
            Ok(()) => Ok(()),
            Err(message) if self.tries.fetch_sub(1, SeqCst) <= 0 => Err(message.into()),
            Err(message) => {
                // One that is open needs nothing more.
                init.needs([match &self.address {
                    Address::Unix(_) => Need::UnixListeners,
                    Address::Tcp { port, or_next: true, .. } => Need::TcpPorts(*port..=u16::MAX),
                    Address::Tcp { port, .. } => Need::TcpPorts(*port..=*port),
                }]);
                self.try_again(init.router(), init.id(), &message, init.clock().now());
                Ok(())
            }
        }
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        if self.open().server.is_some() {
            return;
        }
        match self.bind() {
            Ok(()) => {}
            Err(message) if self.tries.fetch_sub(1, SeqCst) <= 0 => {
                cx.router().chatter(&message);
                cx.router().request_stop();
            }
            Err(message) => self.try_again(cx.router(), cx.element(), &message, cx.now()),
        }
    }

    fn take_state(&self, old: &Self, init: &Init<'_>) {
        if old.address == self.address {
            let mut open = self.open();
            *open = std::mem::take(&mut *old.open());
            open.served.set(init.shared_router(), self.proxy);
        }
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        let Some(server) = self.open().server.take() else { return Ok(()) };
        // One of its clients may be waiting for this thread: for a hot swap that removes the element.
        let (tell, told) = channel::<()>();
        std::thread::spawn(move || {
            drop(server);
            drop(tell);
        });
        let _ = told.recv_timeout(PATIENCE);
        Ok(())
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.try_read("port", |socket, call| match socket.address() {
            Address::Tcp { port, .. } => Ok(port.to_string()),
            Address::Unix(_) => Err(HandlerError::NoHandler(call.handler().to_owned())),
        });
        handlers.try_read("filename", |socket, call| match socket.address() {
            Address::Unix(path) => Ok(path.display().to_string()),
            Address::Tcp { .. } => Err(HandlerError::NoHandler(call.handler().to_owned())),
        });
    }
}

impl ControlSocket {
    fn open(&self) -> MutexGuard<'_, Open> {
        self.open.lock()
    }

    fn address(&self) -> Address {
        self.open().server.as_ref().map_or_else(|| self.address.clone(), |s| s.address().clone())
    }

    fn bind(&self) -> Result<(), String> {
        let mut open = self.open();
        let token = self.token.as_deref().map(Access::token_in).transpose()?;
        let access = Access { read_only: self.read_only, token };
        let manners = Manners { access, announces: self.announces.clone() };
        let server = Server::start_with(&self.address, open.served.clone(), manners)
            .map_err(|error| format!("bind: {}", os_error_text(&error)))?;
        open.server = Some(server);
        Ok(())
    }

    fn try_again(&self, router: &Router, id: usize, message: &str, now: Timestamp) {
        if self.warns {
            let left = self.tries.load(SeqCst) + 1;
            let tries = if left == 1 { "try" } else { "tries" };
            let name = router.name_of(id);
            router.chatter(&format!("{name}: warning: {message} ({left} {tries} left)"));
        }
        self.timer.schedule_at(now + Timestamp::from_secs(1));
    }
}

impl Served {
    fn set(&self, router: &Arc<Router>, proxy: Option<usize>) {
        *self.0.lock() = (Arc::downgrade(router), proxy);
    }

    fn get(&self) -> Result<(Arc<Router>, Option<usize>), HandlerError> {
        let (router, proxy) = &*self.0.lock();
        let router = router.upgrade().ok_or("the router has ended")?;
        Ok((router, *proxy))
    }
}

impl Target for Served {
    fn read(&self, path: &str, parameter: &[u8]) -> Result<Vec<u8>, HandlerError> {
        match self.get()? {
            (router, Some(proxy)) => router.read_of(proxy, path, parameter),
            (router, None) => Router::read(&router, path, parameter),
        }
    }

    fn write(&self, path: &str, text: &[u8]) -> Result<(), HandlerError> {
        match self.get()? {
            (router, Some(proxy)) => router.write_of(proxy, path, text),
            (router, None) => Router::write(&router, path, text),
        }
    }

    fn access(&self, path: &str) -> Result<(bool, bool), HandlerError> {
        match self.get()? {
            (router, Some(proxy)) => router
                .access_of(Some(proxy), path)
                .ok_or_else(|| HandlerError::NoHandler(path.to_owned())),
            (router, None) => Router::access(&router, path),
        }
    }

    fn low_level(&self, element: &str, number: u8, data: &[u8]) -> Result<Vec<u8>, HandlerError> {
        match self.get()? {
            (_, Some(_)) => Err("Invalid argument".into()),
            (router, None) => router.low_level(element, number, data),
        }
    }

    fn near(&self, path: &str, writes: bool) -> Option<String> {
        match self.get().ok()? {
            (_, Some(_)) => None,
            (router, None) => router.near_path(path, writes),
        }
    }

    fn is_proxy(&self) -> bool {
        self.get().is_ok_and(|(_, proxy)| proxy.is_some())
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn other_machines_need_a_token() {
        let complaint = |config: &str| {
            format!("{:?}", Rig::new(&format!("ControlSocket({config})"), 0, 0).err())
        };
        for open in ["TCP, 0, LOCALHOST false", "TCP, 0, ADDRESS 0.0.0.0"] {
            assert!(complaint(open).contains("TOKEN_FILE"), "{}", complaint(open));
        }
        assert!(complaint("TCP, 0, ADDRESS 127.0.0.2, LOCALHOST true").contains("exclude"));
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().display();
        let config = format!("ControlSocket(TCP, 0, LOCALHOST false, TOKEN_FILE {name})");
        assert!(Rig::new(&config, 0, 0).is_err(), "the file is empty");
        std::fs::write(file.path(), "open sesame\n").unwrap();
        let rig = Rig::new(&config, 0, 0).unwrap();
        assert!(rig.read("port").unwrap().parse::<u16>().unwrap() > 0);
    }

    #[test]
    fn the_address_is_checked() {
        for wrong in ["TCP", "TCP, nowhere", "TCP, 99999", "UNIX", "SOCKET, 3", "CARRIER_PIGEON, 1"]
        {
            assert!(Rig::new(&format!("ControlSocket({wrong})"), 0, 0).is_err(), "{wrong}");
        }
        let rig = Rig::new("ControlSocket(TCP, 0, LOCALHOST true)", 0, 0).unwrap();
        assert!(rig.read("port").unwrap().parse::<u16>().unwrap() > 0);
    }
}
