//! The arguments of Socket.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::sync::{Arc, OnceLock};

use millrace_core::args::{ElementRef, Kind, TcpPort, UdpPort};
use millrace_core::{Args, Batch, Failed, Init, Need, Refused, Setup};
use millrace_io::socket::{Address, Options, UnixAddress};

use crate::capability::RouteLookup;

/// The transport of a socket.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Transport {
    Tcp,
    Udp,
    Unix,
    UnixDatagram,
}

impl Transport {
    /// Whether it transports a stream of bytes instead of packets.
    pub(crate) fn is_stream(self) -> bool {
        matches!(self, Self::Tcp | Self::Unix)
    }

    fn parse(text: &str) -> Option<Self> {
        Some(match text.to_ascii_uppercase().as_str() {
            "TCP" => Self::Tcp,
            "UDP" => Self::Udp,
            "UNIX" => Self::Unix,
            "UNIX_DGRAM" => Self::UnixDatagram,
            _ => return None,
        })
    }
}

/// The addresses and settings of a socket.
pub(crate) struct Endpoint {
    pub(crate) transport: Transport,
    /// The peer of a client; a server's own address.
    pub(crate) remote: Address,
    /// A client's own address.
    pub(crate) local: Option<Address>,
    pub(crate) is_client: bool,
    pub(crate) common: Common,
    pub(crate) verbose: bool,
    allow: Table,
    deny: Table,
}

impl Endpoint {
    pub(crate) fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let has_output = setup.outputs() > 0;
        let args = &mut setup.args;
        args.ignored::<bool>("PROPER", Kind::Keyword, "PlanetLab is not supported");
        let name: String = args.mandatory("TYPE");
        let Some(transport) = Transport::parse(&name) else {
            args.error("TYPE", "the type must be TCP, UDP, UNIX or UNIX_DGRAM");
            return Err(Failed);
        };
        let (remote, local) = match transport {
            Transport::Tcp | Transport::Udp => inet(args, transport),
            Transport::Unix | Transport::UnixDatagram => unix(args, transport),
        };
        let client = args.optional_keyword("CLIENT");
        let common = Common::read(args);
        let no_delay = args.keyword("NODELAY", true);
        let allow = Table::read(args, "ALLOW");
        let deny = Table::read(args, "DENY");
        let verbose = args.keyword("VERBOSE", false);
        args.complete()?;
        let is_client = client.unwrap_or(!has_output || local.is_some());
        Ok(Self {
            transport,
            remote: remote.ok_or(Failed)?,
            local: local.filter(|_| is_client),
            is_client,
            common: Common { options: Options { no_delay, ..common.options }, ..common },
            verbose,
            allow,
            deny,
        })
    }

    /// Finds the tables that ALLOW and DENY name.
    pub(crate) fn find_tables(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.allow.find(init)?;
        self.deny.find(init)
    }

    /// Whether a server accepts traffic from an address.
    pub(crate) fn allows(&self, from: Ipv4Addr) -> bool {
        self.allow.has_route(from) || !self.deny.has_route(from)
    }
}

/// The addresses to which another element has routes.
struct Table {
    element: Option<ElementRef>,
    routes: OnceLock<Arc<dyn RouteLookup>>,
}

impl Table {
    fn read(args: &mut Args<'_>, keyword: &'static str) -> Self {
        Self { element: args.optional_keyword(keyword), routes: OnceLock::new() }
    }

    fn find(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        if let Some(ElementRef(id)) = self.element {
            // An element is initialised once.
            let _ = self.routes.set(init.require(id)?);
        }
        Ok(())
    }

    fn has_route(&self, to: Ipv4Addr) -> bool {
        self.routes.get().is_some_and(|routes| routes.hop(to).is_some())
    }
}

/// The arguments that all socket elements share.
pub(crate) struct Common {
    pub(crate) options: Options,
    pub(crate) snap_length: usize,
    pub(crate) headroom: usize,
    pub(crate) burst: usize,
    pub(crate) timestamp: bool,
}

impl Common {
    /// Reads SNAPLEN, HEADROOM, BURST, TIMESTAMP, SNDBUF and RCVBUF.
    pub(crate) fn read(args: &mut Args<'_>) -> Self {
        let buffer = |args: &mut Args<'_>, name: &str| {
            let bytes = args.in_range(name, Kind::Keyword, 0..=i32::MAX as u32);
            bytes.map(|bytes| bytes as usize)
        };
        let snap_length = args.in_range("SNAPLEN", Kind::Keyword, 1..=65_535u32);
        let headroom = args.in_range("HEADROOM", Kind::Keyword, 0..=8190u32);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        Self {
            options: Options {
                send_buffer: buffer(args, "SNDBUF"),
                receive_buffer: buffer(args, "RCVBUF"),
                ..Options::default()
            },
            snap_length: snap_length.unwrap_or(2048) as usize,
            headroom: headroom.unwrap_or(128) as usize,
            burst: burst.unwrap_or(32) as usize,
            timestamp: args.keyword("TIMESTAMP", true),
        }
    }
}

/// Reads two addresses with their ports.
fn inet(args: &mut Args<'_>, transport: Transport) -> (Option<Address>, Option<Address>) {
    let port = |args: &mut Args<'_>, name: &str, kind: Kind| match transport {
        Transport::Tcp => args.read(name, kind).map(|TcpPort(port)| port),
        _ => args.read(name, kind).map(|UdpPort(port)| port),
    };
    let ip: Ipv4Addr = args.mandatory("IP");
    let number = port(args, "PORT", Kind::Mandatory);
    let own: Option<Ipv4Addr> = args.optional("LOCALIP");
    let own_port = port(args, "LOCALPORT", Kind::Positional);
    let address = |ip, port| Address::Inet(SocketAddrV4::new(ip, port));
    let is_given = own.is_some() || own_port.is_some();
    let own = address(own.unwrap_or(Ipv4Addr::UNSPECIFIED), own_port.unwrap_or(0));
    (number.map(|port| address(ip, port)), is_given.then_some(own))
}

/// Reads two file names.
fn unix(args: &mut Args<'_>, transport: Transport) -> (Option<Address>, Option<Address>) {
    let name: String = args.mandatory("FILENAME");
    let own: Option<String> = args.optional("LOCALFILENAME");
    let mut address = |place: &str, name: &str| match UnixAddress::new(name) {
        Ok(_) if name.is_empty() => {
            args.error(place, format!("{place} must not be empty"));
            None
        }
        Ok(address) => Some(Address::Unix(address)),
        Err(error) => {
            args.error(place, format!("{place}: {error}"));
            None
        }
    };
    let remote = address("FILENAME", &name);
    let own = own.filter(|own| !own.is_empty());
    let local = own.as_ref().and_then(|own| address("LOCALFILENAME", own));
    // A socket removes its own file at the end; which one that is, CLIENT says.
    let need = |name: String| match name.starts_with('@') {
        // A stream is connected when the router starts; each datagram has an address.
        true => (!transport.is_stream()).then_some(Need::AbstractSockets),
        false => Some(Need::UnixSocket(name.into())),
    };
    args.needs([Some(name), own].into_iter().flatten().filter_map(need));
    (remote, local)
}
