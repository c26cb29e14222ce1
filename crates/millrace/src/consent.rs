//! No router takes an interface that the machine itself depends on without its user's consent: whoever tries an example
//! on the only uplink would cut himself off.

use std::sync::Arc;

use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_io::tap::{Tap, TapOptions};
use millrace_io::{
    Backend, DeviceError, DeviceFacts, Method, Opened, RxOptions, RxQueue, TxOptions, TxQueue, uses,
};
use millrace_lang::Graph;

/// The word of `require(...)` with which a configuration gives consent.
const WORD: &str = "take_interface";

/// Whether a configuration says that it is meant to take the interfaces that it names.
pub(crate) fn given_by(graph: &Graph) -> bool {
    graph.requirements.iter().any(|requirement| requirement.text.trim() == WORD)
}

/// A backend that opens interfaces in use only for listening.
pub(crate) struct Guarded(pub(crate) Arc<dyn Backend>);

impl Guarded {
    fn check(device: &str) -> Result<(), DeviceError> {
        let uses = uses(device);
        if uses.is_empty() {
            return Ok(());
        }
        let what = format!(
            "this machine needs the interface ({}); if the router shall have it all the same, say so with \
             --take-interface, or with ‘require({WORD})’ in the configuration",
            uses.join("; ")
        );
        Err(DeviceError::Unsupported { device: device.to_owned(), what })
    }
}

impl Backend for Guarded {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        let only_listens =
            matches!(options.method, Method::Ring | Method::Socket) && options.sniffer;
        if !only_listens {
            Self::check(device)?;
        }
        self.0.open_rx(device, options)
    }

    fn open_tx(
        &self,
        device: &str,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        Self::check(device)?;
        self.0.open_tx(device, options)
    }

    fn open_tap(&self, options: &TapOptions) -> Result<Tap, DeviceError> {
        self.0.open_tap(options)
    }

    fn start(&self) -> Result<Vec<(String, String)>, DeviceError> {
        self.0.start()
    }

    fn facts(&self, device: &str, method: &Method) -> DeviceFacts {
        self.0.facts(device, method)
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        self.0.ether(device)
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        self.0.ipv4(device)
    }
}
