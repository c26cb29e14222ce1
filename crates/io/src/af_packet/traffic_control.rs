//! A program at the ingress hook of an interface, by a filter of traffic control: for kernels that have
//! no TCX (rtnetlink(7), tc-bpf(8); `linux/rtnetlink.h`, `linux/pkt_cls.h`).

use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};

use libc::c_int;
use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType};

/// A filter that runs a program for all that an interface receives, as long as this lives. It stays
/// when this process is killed: the next one that makes one takes its place, and takes it away in
/// the end. `tc filter delete dev NAME ingress pref 19794` does by hand.
#[derive(Debug)]
pub(super) struct Filter {
    socket: OwnedFd,
    interface: c_int,
    /// Whether the place for filters was made with it.
    owns_place: bool,
}

/// Where filters for what arrives are (`TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`).
const INGRESS: u32 = 0xffff_fff2;
/// The parent (`TC_H_CLSACT`) and handle of the queueing discipline that is nothing but this place.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
/// Our filter: its place in the order, and its number there. For all protocols (`ETH_P_ALL`).
const PREFERENCE: u32 = 19_794;
const HANDLE: u32 = 1;

const NEW_QDISC: u16 = 36;
const DELETE_QDISC: u16 = 37;
const NEW_FILTER: u16 = 44;
const DELETE_FILTER: u16 = 45;

const REPLACE: u16 = 0x100;
const ONLY_NEW: u16 = 0x200;
const CREATE: u16 = 0x400;

impl Filter {
    /// Has the kernel run a program, which says what becomes of each packet.
    pub(super) fn new(interface: c_int, program: &OwnedFd) -> io::Result<Self> {
        // NETLINK_ROUTE is protocol 0.
        let (flags, kind) = (SocketFlags::CLOEXEC, SocketType::RAW);
        let socket = rustix::net::socket_with(AddressFamily::NETLINK, kind, flags, None)?;
        let mut filter = Self { socket, interface, owns_place: false };
        let place = filter.request(NEW_QDISC, CREATE | ONLY_NEW, CLSACT_HANDLE, CLSACT, 0);
        filter.owns_place = match filter.ask(place.attribute(1, b"clsact\0")) {
            Ok(()) => true,
            Err(error) if error.raw_os_error() == Some(libc::EEXIST) => false,
            Err(error) => return Err(error),
        };
        let descriptor = program.as_raw_fd().to_ne_bytes();
        let acts_itself = 1u32.to_ne_bytes();
        let options = Message::default();
        let options = options.attribute(6, &descriptor).attribute(7, b"millrace\0");
        let options = options.attribute(8, &acts_itself);
        let request = filter.request(NEW_FILTER, CREATE | REPLACE, HANDLE, INGRESS, which());
        filter.ask(request.attribute(1, b"bpf\0").attribute(2, &options.0))?;
        Ok(filter)
    }

    /// The beginning of a request: `struct nlmsghdr` and `struct tcmsg`.
    fn request(&self, what: u16, flags: u16, handle: u32, parent: u32, info: u32) -> Message {
        const REQUEST_AND_ANSWER: u16 = 0x1 | 0x4;
        let mut bytes = vec![0; 4];
        bytes.extend(what.to_ne_bytes());
        bytes.extend((flags | REQUEST_AND_ANSWER).to_ne_bytes());
        // Its number and who asks, which the kernel does not need, and the address family.
        bytes.extend([0; 12]);
        bytes.extend(self.interface.to_ne_bytes());
        for word in [handle, parent, info] {
            bytes.extend(word.to_ne_bytes());
        }
        Message(bytes)
    }

    /// Sends a request and waits for the answer.
    fn ask(&self, Message(mut request): Message) -> io::Result<()> {
        let length = request.len() as u32;
        if let Some(field) = request.first_chunk_mut() {
            *field = length.to_ne_bytes();
        }
        rustix::net::send(self.socket.as_fd(), &request, SendFlags::empty())?;
        let mut answer = [0u8; 4096];
        rustix::net::recv(self.socket.as_fd(), &mut answer[..], RecvFlags::empty())?;
        // Behind the header: the number of the error, negative.
        let error = answer.get(16..).and_then(<[u8]>::first_chunk);
        match error.map_or(0, |error| i32::from_ne_bytes(*error)) {
            0 => Ok(()),
            error => Err(io::Error::from_raw_os_error(error.saturating_neg())),
        }
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // The interface may be gone, and all of this with it.
        let _ = self.ask(self.request(DELETE_FILTER, 0, HANDLE, INGRESS, which()));
        if self.owns_place {
            let _ = self.ask(self.request(DELETE_QDISC, 0, CLSACT_HANDLE, CLSACT, 0));
        }
    }
}

/// The preference and the protocol of the filter.
fn which() -> u32 {
    PREFERENCE << 16 | u32::from(3u16.to_be())
}

/// A request in the making.
#[derive(Default)]
struct Message(Vec<u8>);

impl Message {
    /// Adds an attribute: `struct rtattr`, padded to four bytes.
    fn attribute(mut self, kind: u16, value: &[u8]) -> Self {
        let length = (4 + value.len()) as u16;
        self.0.extend(length.to_ne_bytes());
        self.0.extend(kind.to_ne_bytes());
        self.0.extend(value);
        self.0.resize(self.0.len().next_multiple_of(4), 0);
        self
    }
}
