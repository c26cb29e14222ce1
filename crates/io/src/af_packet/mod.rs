//! Linux packet sockets (packet(7)): the backend that works with every interface.
//!
//! # Packets that the kernel has not finished
//! A sender on the same machine (a container, a virtual machine, the other end of a veth pair) and a card
//! with receive offload deliver TCP segments of up to 64 KiB, whose checksums may be missing, and which no
//! interface would accept again. The settings of our own interface do not matter: those of the peer do. So
//! each packet is received with the header of virtio-net (`PACKET_VNET_HDR`), which describes both; segments
//! are cut to the size that their sender specified, and checksums are filled in. No setting of the machine
//! changes for this. On transmit, segments are merged again (`offload/merge.rs`), so that a host on the same
//! machine gets the segments that it expects.
//!
//! # Rings and messages
//! By default frames are in rings that are shared with the kernel ([`Method::Ring`]): `rx_ring.rs` and
//! `tx_ring.rs` explain how, and what that gains. [`Method::Socket`] uses no rings: then each burst is a
//! system call, packets do not wait until a block of the ring is full or 1 ms old, and a frame costs many
//! times as much. While few packets arrive at a queue with a ring, they also arrive as messages
//! (`express.rs`), so that a lone packet does not wait.
//!
//! # The kernel's own stack
//! Packet sockets receive copies; the kernel's stack gets the packets too. If it should not (`sniffer` is
//! false), a program after the sockets drops them (`withhold.rs`).
//!
//! # Interfaces that come and go
//! Queues belong to a name. When the interface goes down or disappears, its queues report it once; they
//! continue when an interface of this name is up, the same or another one.

mod express;
mod frame;
mod interface;
mod mapping;
mod messages;
mod opening;
mod receive;
mod rx_ring;
mod socket;
mod traffic_control;
mod transmit;
mod tx_ring;
mod withhold;

use std::io;
use std::sync::Arc;

use millrace_core::Need;
use millrace_core::net::{EtherAddress, Ipv4Prefix};

pub use interface::Interfaces;
use interface::{ETHERNET_HEADER, Interface};
use opening::Opening;
use receive::Receiver;
pub use rx_ring::ring_bytes as rx_ring_bytes;
use transmit::Transmitter;

use crate::method::Method;
use crate::options::{Queues, RxOptions, TxOptions};
use crate::queue::{Backend, Capabilities, DeviceError, DeviceFacts, Opened, RxQueue, TxQueue};

/// Receives from and transmits to the machine's network interfaces through packet sockets.
///
/// A device has as many queues in each direction as requested, up to 256: the kernel distributes received
/// packets over them by flow. Needs `CAP_NET_RAW`.
///
/// # Resource usage
/// With rings, a receive queue has 16 MiB of memory that is shared with the kernel, and a transmit queue 2
/// MiB (with an MTU of 1,500 bytes). Without rings, a receive queue requests a buffer of 32 MiB from the
/// kernel (as root; otherwise it gets what `net.core.rmem_max` allows) and has one of 2 MiB of its own, which
/// only segments larger than a packet buffer touch; an express socket has the same.
#[derive(Clone, Copy, Debug, Default)]
pub struct AfPacket;

/// The maximum number of sockets that share packets (`PACKET_FANOUT_MAX`).
const MOST_QUEUES: usize = 256;
impl Backend for AfPacket {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        let count = usable_queues(device, options.queues)?;
        let options = RxOptions { queues: Queues { first: 0, count }, ..options.clone() };
        let interface = Interface::usable(device)?;
        let opening = Arc::new(Opening::new(device, &options));
        let mut inlets: Vec<Option<_>> = Vec::new();
        for _ in 0..count {
            // Sockets cannot share the packets of an interface that is down.
            let can_open = count == 1 || interface.is_up();
            inlets.push(if can_open { Some(opening.prepare()?) } else { None });
        }
        for inlet in inlets.iter().flatten() {
            opening.start(inlet)?;
        }
        let queue = |inlet| -> io::Result<Box<dyn RxQueue>> {
            Ok(Box::new(Receiver::new(opening.clone(), inlet, &options)?))
        };
        let queues: io::Result<Vec<_>> = inlets.into_iter().map(queue).collect();
        let queues = queues
            .map_err(|error| DeviceError::refused(device, "make an epoll instance", error))?;
        let mut changes = Vec::new();
        if options.promiscuous {
            changes.push("promiscuous mode is on while the router runs".to_owned());
        }
        changes.extend(opening.withheld_by().map(|means| {
            format!("the kernel gets none of its packets while the router runs ({means})")
        }));
        // To open the interface again, and the express sockets.
        let mut needs = vec![Need::RawSockets];
        if !options.sniffer {
            needs.extend([Need::NetworkSettings, Need::KernelPrograms]);
        }
        Ok(Opened { queues, capabilities: interface.capabilities(true), changes, needs })
    }

    fn open_tx(
        &self,
        device: &str,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        let count = usable_queues(device, options.queues)?;
        let queue = |_| -> Result<Box<dyn TxQueue>, DeviceError> {
            Ok(Box::new(Transmitter::open(device, options)?))
        };
        let queues: Result<Vec<_>, _> = (0..count).map(queue).collect();
        let capabilities = Interface::usable(device)?.capabilities(false);
        Ok(Opened { needs: vec![Need::RawSockets], ..Opened::with(queues?, capabilities) })
    }

    /// Any number of queues is possible.
    fn facts(&self, device: &str, _method: &Method) -> DeviceFacts {
        let interface = Interface::find(device).ok();
        let numa_node = interface.and_then(|interface| interface.numa_node());
        DeviceFacts { numa_node, ..DeviceFacts::default() }
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        Interface::find(device).ok()?.ether()
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        Interface::find(device).ok()?.ipv4()
    }
}

impl Interface {
    fn capabilities(&self, annotated: bool) -> Capabilities {
        Capabilities {
            backend: "AF_PACKET",
            zero_copy: false,
            numa_node: self.numa_node(),
            max_length: self.mtu().map(|mtu| mtu + ETHERNET_HEADER),
            annotated,
            handed_over: true,
        }
    }
}

/// Whether an interface exists and is down.
pub(crate) fn is_down(device: &str) -> bool {
    Interface::find(device).is_ok_and(|interface| !interface.is_up())
}

/// The number of queues to open.
fn usable_queues(device: &str, queues: Queues) -> Result<usize, DeviceError> {
    if queues.first > 0 {
        let what = "packet sockets cannot select a queue of an interface: remove QUEUE, or set \
                    METHOD XDP";
        return Err(DeviceError::unsupported(device, what));
    }
    Ok(queues.count.clamp(1, MOST_QUEUES))
}
