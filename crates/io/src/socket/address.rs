//! The addresses that sockets are bound to and connect to.

use std::fmt;
use std::io;
use std::net::SocketAddrV4;
use std::path::{Path, PathBuf};

use rustix::net::{AddressFamily, SocketAddrAny, SocketAddrUnix};

/// The address of a socket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An IPv4 address and a port.
    Inet(SocketAddrV4),
    /// The address of a Unix socket.
    Unix(UnixAddress),
}

/// A file, or a name in Linux's abstract namespace, which begins with a zero byte (unix(7)).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnixAddress {
    address: SocketAddrUnix,
    /// `None` for abstract names.
    path: Option<PathBuf>,
}

impl UnixAddress {
    /// An address by its name.
    ///
    /// # Errors
    /// The name is longer than the system accepts, or contains a zero byte.
    pub fn new(name: &str) -> io::Result<Self> {
        Ok(match name.strip_prefix('\0') {
            Some(name) => {
                Self { address: SocketAddrUnix::new_abstract_name(name.as_bytes())?, path: None }
            }
            None => Self { address: SocketAddrUnix::new(name)?, path: Some(name.into()) },
        })
    }

    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        self.path.as_deref()
    }
}

impl Address {
    pub(super) fn family(&self) -> AddressFamily {
        match self {
            Self::Inet(_) => AddressFamily::INET,
            Self::Unix(_) => AddressFamily::UNIX,
        }
    }

    pub(super) fn any(&self) -> SocketAddrAny {
        match self {
            Self::Inet(address) => (*address).into(),
            Self::Unix(unix) => unix.address.clone().into(),
        }
    }

    /// The address of a peer; `None` for an unnamed Unix socket.
    pub(super) fn of(any: SocketAddrAny) -> Option<Self> {
        match any.address_family() {
            AddressFamily::INET => SocketAddrV4::try_from(any).ok().map(Self::Inet),
            AddressFamily::UNIX => {
                let address = SocketAddrUnix::try_from(any).ok()?;
                let path = address.path().map(|path| path.to_string_lossy().into_owned().into());
                (!address.is_unnamed()).then_some(Self::Unix(UnixAddress { address, path }))
            }
            _ => None,
        }
    }

    /// The file that binding to the address creates.
    pub(super) fn file(&self) -> Option<&Path> {
        match self {
            Self::Inet(_) => None,
            Self::Unix(unix) => unix.path(),
        }
    }
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Inet(address) => address.fmt(f),
            Self::Unix(UnixAddress { path: Some(path), .. }) => path.display().fmt(f),
            Self::Unix(UnixAddress { address, .. }) => {
                let name = address.abstract_name().unwrap_or_default();
                write!(f, "@{}", String::from_utf8_lossy(name))
            }
        }
    }
}
