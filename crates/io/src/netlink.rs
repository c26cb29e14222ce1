//! Requests to the kernel about interfaces, addresses and traffic control (netlink(7), rtnetlink(7)).

use std::io;
use std::net::IpAddr;
use std::os::fd::{AsFd, OwnedFd};

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// A netlink socket, in the network namespace of the thread that opened it.
#[derive(Debug)]
pub(crate) struct Netlink(OwnedFd);

/// Flags of requests that create something (`NLM_F_REPLACE`, `NLM_F_EXCL`, `NLM_F_CREATE`).
pub(crate) const REPLACE: u16 = 0x100;
pub(crate) const ONLY_NEW: u16 = 0x200;
pub(crate) const CREATE: u16 = 0x400;

impl Netlink {
    pub(crate) fn open() -> io::Result<Self> {
        let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::RAW);
        // NETLINK_ROUTE is protocol 0.
        Ok(Self(rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, None)?))
    }

    /// Sends a request and waits for the answer.
    pub(crate) fn ask(&self, request: Message) -> io::Result<()> {
        let answer = self.exchange(request)?;
        // Behind the header: the number of the error, negative.
        let error = answer.get(16..).and_then(<[u8]>::first_chunk);
        match error.map_or(0, |error| i32::from_ne_bytes(*error)) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        }
    }

    /// Whether there is any object of the kind that a request from [`Message::list`] lists.
    pub(crate) fn finds_any(request: Message) -> io::Result<bool> {
        /// `NLMSG_ERROR` and `NLMSG_DONE`.
        const NOTHING: [u16; 2] = [2, 3];
        // What is behind the beginning of the list goes with the socket.
        let answer = Self::open()?.exchange(request)?;
        let kind = answer.get(4..).and_then(<[u8]>::first_chunk);
        Ok(kind.is_some_and(|kind| !NOTHING.contains(&u16::from_ne_bytes(*kind))))
    }

    fn exchange(&self, Message(mut request): Message) -> io::Result<[u8; 4096]> {
        let length = request.len() as u32;
        if let Some(field) = request.first_chunk_mut() {
            *field = length.to_ne_bytes();
        }
        rustix::net::send(self.0.as_fd(), &request, SendFlags::empty())?;
        let mut answer = [0u8; 4096];
        rustix::io::retry_on_intr(|| {
            rustix::net::recv(self.0.as_fd(), &mut answer[..], RecvFlags::empty())
        })?;
        Ok(answer)
    }

    /// Adds an address to the interface with this index, and the network that it reaches, or removes it.
    pub(crate) fn set_address(
        &self,
        index: u32,
        address: IpAddr,
        prefix: u8,
        add: bool,
    ) -> io::Result<()> {
        const NEW_ADDRESS: u16 = 20;
        const DELETE_ADDRESS: u16 = 21;
        // `IFA_ADDRESS` and `IFA_LOCAL`, the same where there is no one peer.
        const ADDRESS: u16 = 1;
        const LOCAL: u16 = 2;
        const BROADCAST: u16 = 4;
        let (family, octets) = match address {
            IpAddr::V4(ip) => (libc::AF_INET, ip.octets().to_vec()),
            IpAddr::V6(ip) => (libc::AF_INET6, ip.octets().to_vec()),
        };
        let (what, flags) =
            if add { (NEW_ADDRESS, CREATE | ONLY_NEW) } else { (DELETE_ADDRESS, 0) };
        // `struct ifaddrmsg`.
        let [a, b, c, d] = index.to_ne_bytes();
        let request = Message::new(what, flags, &[family as u8, prefix, 0, 0, a, b, c, d]);
        let request = request.attribute(LOCAL, &octets).attribute(ADDRESS, &octets);
        self.ask(match address {
            IpAddr::V4(ip) if prefix < 31 => {
                let all = ip.to_bits() | u32::MAX >> prefix;
                request.attribute(BROADCAST, &all.to_be_bytes())
            }
            _ => request,
        })
    }
}

/// A request under construction.
#[derive(Default)]
pub(crate) struct Message(Vec<u8>);

impl Message {
    /// The header (`struct nlmsghdr`) of a request that expects an answer, and the data after it.
    pub(crate) fn new(what: u16, flags: u16, body: &[u8]) -> Self {
        const REQUEST_AND_ANSWER: u16 = 0x1 | 0x4;
        // The length, which is filled in last.
        let mut bytes = vec![0; 4];
        bytes.extend(what.to_ne_bytes());
        bytes.extend((flags | REQUEST_AND_ANSWER).to_ne_bytes());
        // Its number and who asks, which the kernel does not need.
        bytes.extend([0; 8]);
        bytes.extend(body);
        Self(bytes)
    }

    /// The same for a request that lists all objects (`NLM_F_DUMP`).
    pub(crate) fn list(what: u16, body: &[u8]) -> Self {
        Self::new(what, 0x300, body)
    }

    /// Adds an attribute: `struct rtattr`, padded to four bytes.
    pub(crate) fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (4 + value.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }

    /// The bytes, for attributes that contain attributes.
    pub(crate) fn bytes(&self) -> &[u8] {
        &self.0
    }
}
