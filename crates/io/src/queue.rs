//! The interface between elements and devices: one queue, one thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::{Batch, Need, refusal_advice};

use crate::meter::{Meter, QueueCounts};
use crate::method::Method;
use crate::options::{RxOptions, TapOptions, TxOptions};

/// A receive queue of a device. It belongs to one thread. State that changes for each burst is best kept on
/// cache lines that no other queue uses (`#[repr(align(128))]`).
pub trait RxQueue: Send {
    /// Adds packets that have arrived to `batch`, as many as it has room for, but at most `max`. Returns
    /// their number, 0 when there are none.
    ///
    /// # Errors
    /// The device failed. Packets that arrived before are in the batch; the caller may try the queue again.
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize>;

    /// A file descriptor, owned by the caller, that is readable when packets wait, for an idle thread to
    /// sleep on.
    fn readiness(&self) -> Option<OwnedFd> {
        None
    }

    /// True when no more packets will ever arrive (the end of a file).
    fn is_finished(&self) -> bool {
        false
    }

    /// The device's counts.
    fn counts(&self) -> QueueCounts {
        self.meter().map_or_else(QueueCounts::default, |meter| meter.counts())
    }

    /// The counters for everything that the queue receives and that the device counts, readable without the
    /// queue. For queues without a meter, count the packets yourself and call [`counts`](Self::counts).
    fn meter(&self) -> Option<Arc<Meter>> {
        None
    }
}

/// A transmit queue of a device. It belongs to one thread.
pub trait TxQueue: Send {
    /// Sends packets from the front of `batch`; packets for which the device has no room stay. Returns how
    /// many were sent.
    ///
    /// # Errors
    /// The device failed, or rejects the first packet that is left in the batch.
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize>;

    /// Sends buffered packets.
    ///
    /// # Errors
    /// The device failed.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// The device's counts.
    fn counts(&self) -> QueueCounts {
        self.meter().map_or_else(QueueCounts::default, |meter| meter.counts())
    }

    /// The counters for everything that the queue transmits, like [`RxQueue::meter`].
    fn meter(&self) -> Option<Arc<Meter>> {
        None
    }
}

/// What is known about a device without opening it: enough to plan threads for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// The number of receive queues; `None` if it is known only after opening the device.
    pub rx_queues: Option<usize>,
    /// The number of transmit queues.
    pub tx_queues: Option<usize>,
    /// The NUMA node that it is attached to.
    pub numa_node: Option<usize>,
}

/// The capabilities of a device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The backend's name, as the plan prints it: `AF_PACKET`, `lab`.
    pub backend: &'static str,
    /// Packets are not copied between the device and Millrace.
    pub zero_copy: bool,
    /// The NUMA node that the device is attached to.
    pub numa_node: Option<usize>,
    /// The maximum length of packets that it accepts, in bytes with the Ethernet header.
    pub max_length: Option<usize>,
    /// Received packets already have their annotations: the MAC header and, if requested, the time.
    pub annotated: bool,
    /// A hot swap hands the open queues over. Opening the device again while they are open is impossible, or both openings
    /// would receive each packet. Without this, two openings share the packets.
    pub handed_over: bool,
}

/// The queues of an opened device, and the changes made to open it.
pub struct Opened<Q: ?Sized> {
    /// The queues.
    pub queues: Vec<Box<Q>>,
    /// The capabilities of the device.
    pub capabilities: Capabilities,
    /// Each change to the machine's settings, as a sentence to print. Dropping the queues reverts them.
    pub changes: Vec<String>,
    /// What the queues need while they are open, beside the open descriptors: to open the device again, to revert changes.
    pub needs: Vec<Need>,
}

impl<Q: ?Sized> Opened<Q> {
    /// Queues of a device without special capabilities that nothing was changed for.
    pub fn new(backend: &'static str, queues: Vec<Box<Q>>) -> Self {
        Self::with(queues, Capabilities { backend, ..Capabilities::default() })
    }

    /// Queues of a device that nothing was changed for.
    pub fn with(queues: Vec<Box<Q>>, capabilities: Capabilities) -> Self {
        Self { queues, capabilities, changes: Vec::new(), needs: Vec::new() }
    }
}

/// An interface to the machine's own network stack that is ready, with the requested number of queues in each direction.
pub struct Tap {
    /// Its name.
    pub name: String,
    /// For packets from the machine.
    pub rx: Opened<dyn RxQueue>,
    /// For packets to the machine.
    pub tx: Opened<dyn TxQueue>,
}

/// A kind of device, or a set of virtual ones: gives a meaning to the device names in a configuration.
pub trait Backend: Send + Sync {
    /// Opens a device to receive from.
    ///
    /// # Errors
    /// There is no such device, or it cannot be opened; the message contains advice.
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError>;

    /// Opens a device to transmit to.
    ///
    /// # Errors
    /// There is no such device, or it cannot be opened; the message contains advice.
    fn open_tx(
        &self,
        device: &str,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError>;

    /// Creates an interface with the machine's own network stack at the other end.
    ///
    /// # Errors
    /// It cannot be created; the message contains advice.
    fn open_tap(&self, options: &TapOptions) -> Result<Tap, DeviceError> {
        let device = options.name.as_deref().unwrap_or_default();
        Err(DeviceError::unsupported(device, "there is no network stack at the other end"))
    }

    /// Called after all devices of a router have been opened and before packets flow, for backends that must
    /// know all queues of a device to set it up. Returns the changes made to each device, as sentences. If it
    /// is not called, a queue's first use does the same.
    ///
    /// # Errors
    /// A device cannot be set up; the message contains advice.
    fn start(&self) -> Result<Vec<(String, String)>, DeviceError> {
        Ok(Vec::new())
    }

    /// What is known about a device without opening or changing it.
    fn facts(&self, _device: &str, _method: &Method) -> DeviceFacts {
        DeviceFacts::default()
    }

    /// The Ethernet address of a device.
    fn ether(&self, _device: &str) -> Option<EtherAddress> {
        None
    }

    /// The first IPv4 address of a device and its network.
    fn ipv4(&self, _device: &str) -> Option<Ipv4Prefix> {
        None
    }
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// There is no device with this name.
    #[error("no device ‘{0}’")]
    Unknown(String),
    /// The system refused an operation.
    #[error("{device}: cannot {step}: {source}{}", advice(step, source))]
    Refused {
        /// The device.
        device: String,
        /// The operation.
        step: &'static str,
        /// The system's error.
        source: io::Error,
    },
    /// The backend does not support what was requested.
    #[error("{device}: {what}")]
    Unsupported {
        /// The device.
        device: String,
        /// What is not supported.
        what: String,
    },
}

impl DeviceError {
    pub(crate) fn refused(device: &str, step: &'static str, source: io::Error) -> Self {
        Self::Refused { device: device.to_owned(), step, source }
    }

    pub(crate) fn unsupported(device: &str, what: impl Into<String>) -> Self {
        Self::Unsupported { device: device.to_owned(), what: what.into() }
    }
}

fn advice(step: &str, error: &io::Error) -> String {
    match error.kind() {
        io::ErrorKind::PermissionDenied => privileges(error, capabilities(step)),
        io::ErrorKind::ResourceBusy => {
            " (another program uses it; for AF_XDP, ‘ss --xdp -p’ shows which)".to_owned()
        }
        _ => String::new(),
    }
}

/// The capabilities that a step needs, as setcap(8) names them.
fn capabilities(step: &str) -> &'static str {
    match step {
        "open a packet socket" | "make a receive ring" => "cap_net_raw",
        "make a TAP interface" => "cap_net_admin",
        _ => "cap_net_raw,cap_net_admin,cap_bpf,cap_ipc_lock",
    }
}

/// How to get the capabilities that are missing. A process in the sandbox has given its own up.
pub(crate) fn privileges(error: &io::Error, names: &str) -> String {
    let advice = refusal_advice(error);
    if !advice.is_empty() {
        return advice;
    }
    let program = std::env::current_exe().unwrap_or_else(|_| "millrace".into());
    format!(
        " (run as root, or give the program what it needs once and for all: sudo setcap {names}+ep {}; --lab needs no \
         privileges)",
        program.display()
    )
}

/// Why an open device does not accept or deliver packets, as a message for its user.
pub fn trouble(error: &io::Error) -> String {
    let words = match error.raw_os_error() {
        Some(libc::ENETDOWN) => "the interface is down: packets flow when it is up",
        Some(libc::ENODEV | libc::ENXIO) => "the interface is gone: packets flow when it is back",
        Some(libc::EMSGSIZE) => "a packet is longer than the interface's MTU",
        _ => return error.to_string(),
    };
    words.to_owned()
}

/// The service through which elements reach devices: the backend that the program chose for the device names
/// in the configuration.
pub struct Devices(pub Box<dyn Backend>);
