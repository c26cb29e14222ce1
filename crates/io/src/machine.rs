//! The machine's own devices, with the method that each element requests.

use millrace_core::net::{EtherAddress, Ipv4Prefix};

use crate::af_packet::AfPacket;
use crate::af_xdp::AfXdp;
use crate::dpdk::Dpdk;
use crate::method::Method;
use crate::options::{RxOptions, TapOptions, TxOptions};
use crate::queue::{Backend, DeviceError, DeviceFacts, Opened, RxQueue, Tap, TxQueue};
use crate::tap;

/// The machine's own devices. All values of this type, including clones, refer to the same devices.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine;

impl Machine {
    /// Opens a device with the backend for its method. For the best method, it tries AF_XDP first, and
    /// reports the choice.
    fn open<Q: ?Sized>(
        self,
        device: &str,
        method: &Method,
        open: impl Fn(&dyn Backend, &Method) -> Result<Opened<Q>, DeviceError>,
    ) -> Result<Opened<Q>, DeviceError> {
        let xdp = match method {
            Method::Ring | Method::Socket => return open(&AfPacket, method),
            Method::Xdp(_) => return open(&AfXdp, method),
            Method::Dpdk(_) => return open(&Dpdk, method),
            Method::Best(xdp) => Method::Xdp(xdp.clone()),
        };
        let (outcome, chosen) = match open(&AfXdp, &xdp) {
            Err(DeviceError::Unknown(name)) => return Err(DeviceError::Unknown(name)),
            Err(error) => {
                let why = error.to_string();
                let why = why.strip_prefix(device).and_then(|why| why.strip_prefix(": "));
                let why = why.map_or_else(|| error.to_string(), str::to_owned);
                let chosen =
                    format!("packet rings are used, because AF_XDP is not possible: {why}");
                (open(&AfPacket, &Method::Ring), chosen)
            }
            opened => (opened, "AF_XDP is used".to_owned()),
        };
        let mut opened = outcome?;
        opened.changes.insert(0, chosen);
        Ok(opened)
    }
}

impl Backend for Machine {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        self.open(device, &options.method, |backend, method| {
            backend.open_rx(device, &RxOptions { method: method.clone(), ..options.clone() })
        })
    }

    fn open_tx(
        &self,
        device: &str,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        self.open(device, &options.method, |backend, method| {
            backend.open_tx(device, &TxOptions { method: method.clone(), ..options.clone() })
        })
    }

    fn open_tap(&self, options: &TapOptions) -> Result<Tap, DeviceError> {
        tap::open(options)
    }

    fn start(&self) -> Result<Vec<(String, String)>, DeviceError> {
        Dpdk.start()
    }

    fn facts(&self, device: &str, method: &Method) -> DeviceFacts {
        match method {
            Method::Ring | Method::Socket => AfPacket.facts(device, method),
            Method::Xdp(_) => AfXdp.facts(device, method),
            // Packet sockets have as many queues as one likes, so also as many as these.
            Method::Best(xdp) => AfXdp.facts(device, &Method::Xdp(xdp.clone())),
            Method::Dpdk(_) => Dpdk.facts(device, method),
        }
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        AfPacket.ether(device)
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        AfPacket.ipv4(device)
    }
}
