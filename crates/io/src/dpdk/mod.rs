//! DPDK: cards that this process drives itself, without the kernel.
//!
//! The program does not link DPDK. `plugin` finds and loads `libmillrace_dpdk.so`, which is built where DPDK
//! is installed and exports one table of functions (`abi`). `environment` starts DPDK once in the process,
//! `port` opens ports, `queue` moves packets with one call per burst, and `ring` moves them between processes.
//!
//! # Packets
//! A received mbuf *is* a [`Packet`](millrace_core::Packet): our descriptor has its layout, and our third
//! line is the mbuf's private area. So nothing is converted. On receive the third line is reset (a store of
//! 64 bytes); on transmit the length is copied to where drivers read it.
//!
//! - An mbuf that is not shared is passed to the driver, which frees it to its pool.
//! - Any other packet (made by the program, received with another method, or shared) is passed on in an mbuf
//!   that points to its bytes, and is dropped when the driver frees that. So drivers never touch our
//!   reference counts.
//! - Bytes are copied, and that is counted, if a card cannot read our memory (no IOMMU), if the port frees
//!   only mbufs of its own pool (`FAST_FREE`), and if transmitted packets come out of another port unchanged
//!   (`net_ring`) while they are shared.
//!
//! # Opening
//! A port is configured once, with all of its queues. So opening a device only records the request, and
//! [`Backend::start`] opens the ports when all requests are known. The first use of a port before that opens
//! it.

#![allow(unsafe_code, reason = "the functions of DPDK are C")]

mod abi;
mod environment;
mod memory;
mod plugin;
mod port;
mod queue;
mod ring;
mod thread;

use millrace_core::net::{EtherAddress, Ipv4Prefix};

pub use abi::{Link, PortStats};
pub use environment::{choose_options, finish, notes, start};
pub use memory::{Memory, Thresholds, pools, set_memory};
pub use port::{Port, port};
pub use ring::ring_device;

use crate::method::Method;
use crate::options::{RxOptions, TxOptions};
use crate::queue::{Backend, DeviceError, DeviceFacts, Opened, RxQueue, TxQueue};

/// DPDK's ports. All values refer to the same ones: there is one DPDK in a process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Dpdk;

impl Backend for Dpdk {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        start().map_err(|what| DeviceError::unsupported(device, what))?;
        if let Some(name) = ring::ring_name(device) {
            let opened = ring::open_rx(name, options);
            return opened.map_err(|what| DeviceError::unsupported(device, what));
        }
        let port = Port::of(device)?;
        port.wish_rx(options).map_err(|what| DeviceError::unsupported(device, what))
    }

    fn open_tx(
        &self,
        device: &str,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        start().map_err(|what| DeviceError::unsupported(device, what))?;
        if let Some(name) = ring::ring_name(device) {
            let opened = ring::open_tx(name, options);
            return opened.map_err(|what| DeviceError::unsupported(device, what));
        }
        let port = Port::of(device)?;
        port.wish_tx(options).map_err(|what| DeviceError::unsupported(device, what))
    }

    fn start(&self) -> Result<Vec<(String, String)>, DeviceError> {
        let mut changes = Vec::new();
        for port in port::wished() {
            let name = port.name().to_owned();
            let said = port.open().map_err(|what| DeviceError::unsupported(&name, what))?;
            changes.extend(said.into_iter().map(|change| (name.clone(), change)));
        }
        Ok(changes)
    }

    fn facts(&self, device: &str, _method: &Method) -> DeviceFacts {
        if ring::ring_name(device).is_some() {
            return DeviceFacts { rx_queues: Some(1), ..DeviceFacts::default() };
        }
        let Some(port) = port(device) else { return DeviceFacts::default() };
        DeviceFacts {
            rx_queues: Some(port.max_rx_queues()),
            tx_queues: Some(port.max_tx_queues()),
            numa_node: port.numa_node(),
        }
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        port(device).map(|port| port.ether())
    }

    fn ipv4(&self, _device: &str) -> Option<Ipv4Prefix> {
        None
    }
}
