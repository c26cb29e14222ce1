//! TAP and TUN interfaces: the machine's own network stack at the other end
//! (Documentation/networking/tuntap.rst of Linux).
//!
//! Packets that the machine sends on such an interface are received here, and packets transmitted here are
//! received by the machine on it. A TAP interface carries Ethernet frames, a TUN interface IP packets.
//!
//! # Offloads
//! Each packet has the header of virtio-net (`IFF_VNET_HDR`), so that the machine passes on TCP segments of
//! up to 64 KiB and leaves checksums to us: one system call for 45 packets. They are cut and finished here,
//! and on transmit segments are merged again, as for packet sockets (`offload/`).
//!
//! # Several queues
//! With more than one queue (`IFF_MULTI_QUEUE`) each has its own descriptor. The kernel sends a flow to the
//! queue that last transmitted packets of that flow, and spreads the others by hash. So a thread that
//! receives from a queue and transmits to it keeps its flows.

mod port;
mod receive;
mod set_up;
mod system;
mod transmit;

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use port::Port;
use receive::Receiver;
use set_up::Interface;
use transmit::Transmitter;

use crate::offload::Link;
pub use crate::options::{TapKind, TapOptions};
pub use crate::queue::Tap;
use crate::queue::{Capabilities, DeviceError, Opened, RxQueue, TxQueue};

/// Creates an interface, in the network namespace of the calling thread. It disappears when all of its queues
/// have been dropped, also when the process is killed. An interface that existed before stays, with its
/// earlier settings. Needs root or CAP_NET_ADMIN.
///
/// # Errors
/// The kernel has no TAP interfaces or refuses an operation; the message names it.
pub fn open(options: &TapOptions) -> Result<Tap, DeviceError> {
    let wish = options.name.as_deref().unwrap_or("");
    let several = options.queues > 1;
    let existed = options.name.as_deref().is_some_and(Interface::exists);
    let (first, name) = system::attach(options.kind, wish, several).map_err(|error| {
        let device = if wish.is_empty() { "/dev/net/tun" } else { wish };
        explain(device, existed, several, error)
    })?;
    let mut queues = vec![first];
    while queues.len() < options.queues.max(1) {
        let queue = system::attach(options.kind, &name, true);
        queues.push(queue.map_err(|error| explain(&name, existed, several, error))?.0);
    }
    for queue in &queues {
        system::set_offloads(queue, options.offloads)
            .map_err(|error| DeviceError::refused(&name, "set the offloads", error))?;
    }
    let interface = Interface::set_up(&name, existed, options)
        .map_err(|(step, error)| DeviceError::refused(&name, step, error))?;
    let mtu =
        interface.mtu().map_err(|error| DeviceError::refused(&name, "ask for the MTU", error))?;
    let interface = Arc::new(interface);
    with_queues(&name, queues, interface, mtu, options)
        .map_err(|error| DeviceError::refused(&name, "make an epoll instance", error))
}

fn with_queues(
    name: &str,
    queues: Vec<OwnedFd>,
    interface: Arc<Interface>,
    mtu: usize,
    options: &TapOptions,
) -> io::Result<Tap> {
    let (backend, link) = match options.kind {
        TapKind::Tap => ("TAP", Link::Ethernet),
        TapKind::Tun => ("TUN", Link::Ip),
    };
    let longest = mtu + link.header();
    let max_length = Some(longest);
    let capabilities =
        Capabilities { backend, max_length, handed_over: true, ..Capabilities::default() };
    let changes = interface.changes().to_vec();
    let needs = interface.needs();
    let mut rx: Vec<Box<dyn RxQueue>> = Vec::new();
    let mut tx: Vec<Box<dyn TxQueue>> = Vec::new();
    for queue in queues {
        let port = Arc::new(Port { file: queue, _interface: interface.clone() });
        rx.push(Box::new(Receiver::new(port.clone(), link, options.headroom)?));
        let merged = if options.offloads { longest } else { 0 };
        tx.push(Box::new(Transmitter::new(port, link, merged)));
    }
    Ok(Tap {
        name: name.to_owned(),
        rx: Opened { changes, needs, ..Opened::with(rx, capabilities.clone()) },
        tx: Opened::with(tx, capabilities),
    })
}

/// Explains the errors of the first operation better than the kernel's messages.
fn explain(device: &str, existed: bool, several: bool, source: io::Error) -> DeviceError {
    let what = match source.raw_os_error() {
        Some(libc::ENOENT | libc::ENODEV | libc::ENXIO) => {
            "the kernel has no TAP interfaces here: load its module (modprobe tun), or give \
             /dev/net/tun to the container"
        }
        Some(libc::EBUSY) => "the interface is in use by another program",
        Some(libc::EINVAL) if existed && several => {
            "an interface of this name exists, but it is not a TAP or TUN interface of this kind \
             with several queues (ip tuntap add ... multi_queue)"
        }
        Some(libc::EINVAL) if existed => {
            "an interface of this name exists, but it is not a TAP or TUN interface of this kind \
             with one queue"
        }
        _ => {
            let step = "make a TAP interface";
            return DeviceError::refused(device, step, source);
        }
    };
    DeviceError::unsupported(device, what)
}
