//! A program at the ingress hook of an interface, run by a traffic control filter: for kernels without TCX
//! (rtnetlink(7), tc-bpf(8); `linux/rtnetlink.h`, `linux/pkt_cls.h`).

use std::io;
use std::os::fd::{AsRawFd, OwnedFd};

use libc::c_int;

use crate::netlink::{CREATE, Message, Netlink, ONLY_NEW, REPLACE};

/// A filter that runs a program for everything that an interface receives, until this is dropped. It stays
/// when this process is killed: the next process that makes one replaces it, and removes it at the end. By
/// hand, use `tc filter delete dev NAME ingress pref 19794`.
#[derive(Debug)]
pub(super) struct Filter {
    kernel: Netlink,
    interface: c_int,
    /// Whether this created the hook.
    owns_place: bool,
}

/// The parent for ingress filters (`TC_H_MAKE(TC_H_CLSACT, TC_H_MIN_INGRESS)`).
const INGRESS: u32 = 0xffff_fff2;
/// The parent for egress filters (`TC_H_MIN_EGRESS`).
const EGRESS: u32 = 0xffff_fff3;
/// The parent (`TC_H_CLSACT`) and handle of the queueing discipline that provides only these hooks.
const CLSACT: u32 = 0xffff_fff1;
const CLSACT_HANDLE: u32 = 0xffff_0000;
/// Our filter: its preference, and its number there. For all protocols (`ETH_P_ALL`).
const PREFERENCE: u32 = 19_794;
const HANDLE: u32 = 1;

const NEW_QDISC: u16 = 36;
const DELETE_QDISC: u16 = 37;
const NEW_FILTER: u16 = 44;
const DELETE_FILTER: u16 = 45;
const LIST_FILTERS: u16 = 46;

impl Filter {
    /// Makes the kernel run a program, which decides what happens to each packet.
    pub(super) fn new(interface: c_int, program: &OwnedFd) -> io::Result<Self> {
        let mut filter = Self { kernel: Netlink::open()?, interface, owns_place: false };
        let place = filter.request(NEW_QDISC, CREATE | ONLY_NEW, CLSACT_HANDLE, CLSACT, 0);
        filter.owns_place = match filter.kernel.ask(place.attribute(1, b"clsact\0")) {
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
        filter.kernel.ask(request.attribute(1, b"bpf\0").attribute(2, options.bytes()))?;
        Ok(filter)
    }

    /// The start of a request, with a `struct tcmsg`.
    fn request(&self, what: u16, flags: u16, handle: u32, parent: u32, info: u32) -> Message {
        Message::new(what, flags, &self.place(handle, parent, info))
    }

    fn place(&self, handle: u32, parent: u32, info: u32) -> Vec<u8> {
        let words = [0, self.interface.cast_unsigned(), handle, parent, info];
        words.map(u32::to_ne_bytes).concat()
    }

    /// Whether other programs have filters at the hook, in either direction, as far as the kernel reports.
    fn is_shared(&self) -> bool {
        [INGRESS, EGRESS].iter().any(|parent| {
            let list = Message::list(LIST_FILTERS, &self.place(0, *parent, 0));
            Netlink::finds_any(list).unwrap_or(true)
        })
    }
}

impl Drop for Filter {
    fn drop(&mut self) {
        // The interface may be gone, and all of this with it.
        let _ = self.kernel.ask(self.request(DELETE_FILTER, 0, HANDLE, INGRESS, which()));
        if self.owns_place && !self.is_shared() {
            let _ = self.kernel.ask(self.request(DELETE_QDISC, 0, CLSACT_HANDLE, CLSACT, 0));
        }
    }
}

/// The preference and the protocol of the filter.
fn which() -> u32 {
    PREFERENCE << 16 | u32::from(3u16.to_be())
}
