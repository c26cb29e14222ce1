//! The machine's own devices, by whichever means each element asks for.

use millrace_core::net::{EtherAddress, Ipv4Prefix};

use crate::af_packet::AfPacket;
use crate::af_xdp::AfXdp;
use crate::method::Method;
use crate::queue::{
    Backend, DeviceError, DeviceFacts, Opened, RxOptions, RxQueue, TxOptions, TxQueue,
};
use crate::tap::{self, Tap, TapOptions};

/// The machine's own devices. Clones and other values name the same ones.
#[derive(Clone, Copy, Debug, Default)]
pub struct Machine;

impl Machine {
    /// The backend for a method.
    fn by(self, device: &str, method: &Method) -> Result<&'static dyn Backend, DeviceError> {
        match method {
            Method::Ring | Method::Socket | Method::Best => Ok(&AfPacket),
            Method::Xdp(_) => Ok(&AfXdp),
            Method::Dpdk(_) => Err(unsupported(device, "DPDK")),
        }
    }
}

impl Backend for Machine {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        self.by(device, &options.method)?.open_rx(device, options)
    }

    fn open_tx(
        &self,
        device: &str,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        self.by(device, &options.method)?.open_tx(device, options)
    }

    fn open_tap(&self, options: &TapOptions) -> Result<Tap, DeviceError> {
        tap::open(options)
    }

    fn facts(&self, device: &str, method: &Method) -> DeviceFacts {
        self.by(device, method).map(|by| by.facts(device, method)).unwrap_or_default()
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        AfPacket.ether(device)
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        AfPacket.ipv4(device)
    }
}

fn unsupported(device: &str, means: &str) -> DeviceError {
    DeviceError::Unsupported {
        device: device.to_owned(),
        what: format!("{means} is not available on this machine"),
    }
}
