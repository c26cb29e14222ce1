//! Linux packet sockets (packet(7)): the backend that works with every interface.
//!
//! # Packets that the kernel has not finished
//! A sender on the same machine (a container, a virtual machine, the far end of a veth pair) and a
//! card with receive offload hand over TCP segments of up to 64 KiB, whose checksums may be missing
//! and which no interface would take back. What our interface's own settings are does not matter: the
//! peer's count. So each packet is received with the header of virtio-net (`PACKET_VNET_HDR`), which
//! tells of both; segments are cut to the size that their sender meant, and checksums are filled in.
//! Nothing of the machine's set-up is changed for it. On transmit, segments are merged again
//! (`offload/merge.rs`), so that a host on the same machine gets what it is used to.
//!
//! One TCP connection between two hosts in network namespaces, all offloads on, got 2.8 to 4.2 Gb/s
//! through `FromDevice -> Queue -> ToDevice` on one thread of a busy two-core machine, and 10 to 12
//! Gb/s through the kernel's bridge in its place.

mod interface;
mod receive;
mod socket;
mod transmit;

use std::io;

use millrace_core::net::{EtherAddress, Ipv4Prefix};

pub use interface::Interfaces;
use interface::{Interface, LinkLayer};
use receive::Receiver;
use socket::PacketSocket;
use transmit::Transmitter;

use crate::queue::{
    Backend, Capabilities, DeviceError, Opened, RxOptions, RxQueue, TxOptions, TxQueue,
};

/// Receives from and transmits to the machine's network interfaces through packet sockets.
///
/// Each device has one queue in each direction. Needs `CAP_NET_RAW`.
///
/// # Resource usage
/// A receive queue asks the kernel for a buffer of 32 MiB (as root; else it gets what
/// `net.core.rmem_max` allows) and has one of 2 MiB of its own, which only segments larger than a
/// packet buffer touch.
#[derive(Clone, Copy, Debug, Default)]
pub struct AfPacket;

/// `ETH_P_ALL` of `linux/if_ether.h`.
const EVERY_PROTOCOL: u16 = 0x0003;

impl Backend for AfPacket {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        if !options.sniffer {
            let what = "SNIFFER false needs a filter in the kernel that packet sockets do not set; \
                        take the interface's addresses away (ip addr flush) so that the kernel \
                        leaves its packets alone";
            return Err(unsupported(device, what));
        }
        let interface = usable(device)?;
        let step = |step: &'static str| move |source| refused(device, step, source);
        // Nothing arrives before the socket is bound to a protocol.
        let socket = PacketSocket::open().map_err(step("open a packet socket"))?;
        socket.prepare_to_receive(options.timestamp).map_err(step("set the packet socket up"))?;
        socket.attach_filter(&options.filter).map_err(step("set the filter"))?;
        if !options.outbound {
            socket.ignore_outgoing();
        }
        let mut changes = Vec::new();
        if options.promiscuous {
            socket.be_promiscuous(interface.index).map_err(step("set promiscuous mode"))?;
            changes.push("promiscuous mode is on until the end".to_owned());
        }
        socket.bind(interface.index, EVERY_PROTOCOL).map_err(step("bind the packet socket"))?;
        let queue: Box<dyn RxQueue> = Box::new(Receiver::new(socket, options));
        Ok(Opened { queues: vec![queue], capabilities: interface.capabilities(), changes })
    }

    fn open_tx(
        &self,
        device: &str,
        _options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        let interface = usable(device)?;
        let step = |step: &'static str| move |source| refused(device, step, source);
        let socket = PacketSocket::open().map_err(step("open a packet socket"))?;
        socket.prepare_to_transmit().map_err(step("set the packet socket up"))?;
        // Bound to no protocol it receives nothing.
        socket.bind(interface.index, 0).map_err(step("bind the packet socket"))?;
        let capabilities = interface.capabilities();
        let longest = capabilities.max_length.unwrap_or(0);
        let queue: Box<dyn TxQueue> = Box::new(Transmitter::new(socket, longest));
        Ok(Opened { queues: vec![queue], capabilities, changes: Vec::new() })
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        Interface::find(device).ok()?.ether()
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        Interface::find(device).ok()?.ipv4()
    }
}

impl Interface {
    fn capabilities(&self) -> Capabilities {
        const ETHERNET_HEADER: usize = 14;
        Capabilities {
            backend: "AF_PACKET",
            zero_copy: false,
            numa_node: self.numa_node(),
            max_length: self.mtu().map(|mtu| mtu + ETHERNET_HEADER),
            annotated: false,
        }
    }
}

/// The interface of this name, if its packets have Ethernet headers.
fn usable(device: &str) -> Result<Interface, DeviceError> {
    let interface = Interface::find(device).map_err(|source| match source.raw_os_error() {
        Some(libc::ENODEV | libc::ENXIO) => DeviceError::Unknown(device.to_owned()),
        _ => refused(device, "look the interface up", source),
    })?;
    match interface.link_layer().map_err(|source| refused(device, "ask for its type", source))? {
        LinkLayer::Ethernet => Ok(interface),
        LinkLayer::Other(kind) => {
            let what = format!("its packets have no Ethernet header (ARPHRD type {kind})");
            Err(unsupported(device, what))
        }
    }
}

fn refused(device: &str, step: &'static str, source: io::Error) -> DeviceError {
    DeviceError::Refused { device: device.to_owned(), step, source }
}

fn unsupported(device: &str, what: impl Into<String>) -> DeviceError {
    DeviceError::Unsupported { device: device.to_owned(), what: what.into() }
}
