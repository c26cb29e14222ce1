//! The seam between elements and devices: one queue, one thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use millrace_core::Batch;
use millrace_core::net::{EtherAddress, Ipv4Prefix};

use crate::meter::{Meter, QueueCounts};
use crate::method::Method;
use crate::options::{RxOptions, TapOptions, TxOptions};

/// A receive queue of a device. It belongs to one thread, so what it changes for each burst is best kept
/// on cache lines that no other queue has a part of (`#[repr(align(128))]`).
pub trait RxQueue: Send {
    /// Adds to `batch` what has arrived, at most as many packets as it has room for and at most
    /// `max`. Returns how many came; 0 when there is nothing.
    ///
    /// # Errors
    /// The device failed. Packets that came before are in the batch; the queue may be tried again.
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize>;

    /// A descriptor of its own that is readable when packets wait, for an idle thread to sleep on.
    fn readiness(&self) -> Option<OwnedFd> {
        None
    }

    /// True when nothing will ever come any more (the end of a file).
    fn is_finished(&self) -> bool {
        false
    }

    /// What the device counted.
    fn counts(&self) -> QueueCounts {
        self.meter().map_or_else(QueueCounts::default, |meter| meter.counts())
    }

    /// Where the queue counts all that it receives and that the device counted, to be read without it. Of other
    /// queues whoever wants to know has to look at the packets and to ask for [`counts`](Self::counts).
    fn meter(&self) -> Option<Arc<Meter>> {
        None
    }
}

/// A transmit queue of a device. It belongs to one thread.
pub trait TxQueue: Send {
    /// Takes packets from the front of `batch` and sends them; what the device has no room for
    /// stays. Returns how many were taken.
    ///
    /// # Errors
    /// The device failed, or refuses the first packet that is left in the batch.
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize>;

    /// Sends what is buffered.
    ///
    /// # Errors
    /// The device failed.
    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }

    /// What the device counted.
    fn counts(&self) -> QueueCounts {
        self.meter().map_or_else(QueueCounts::default, |meter| meter.counts())
    }

    /// Where the queue counts all that it transmits, as [`RxQueue::meter`].
    fn meter(&self) -> Option<Arc<Meter>> {
        None
    }
}

/// What is known of a device without opening it: enough to plan threads for it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeviceFacts {
    /// How many receive queues it has; unknown where only opening it can tell.
    pub rx_queues: Option<usize>,
    /// How many transmit queues it has.
    pub tx_queues: Option<usize>,
    /// The NUMA node that it is attached to.
    pub numa_node: Option<usize>,
}

/// What a device can do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Capabilities {
    /// The backend's name, as the plan prints it: `AF_PACKET`, `lab`, ...
    pub backend: &'static str,
    /// Packets are not copied between the device and us.
    pub zero_copy: bool,
    /// The NUMA node that the device is attached to.
    pub numa_node: Option<usize>,
    /// The longest packet that it takes, in bytes with the Ethernet header.
    pub max_length: Option<usize>,
    /// Received packets come with the annotations that they are to have: the MAC header and, if it
    /// is wanted, the time.
    pub annotated: bool,
}

/// An opened device's queues, and what was done to the device to open it.
pub struct Opened<Q: ?Sized> {
    /// The queues.
    pub queues: Vec<Box<Q>>,
    /// What the device can do.
    pub capabilities: Capabilities,
    /// Each change to the machine's set-up, in a sentence: it is announced. Dropping the queues
    /// undoes it.
    pub changes: Vec<String>,
}

/// An interface to the machine's own network stack that is ready: as many queues in each direction as were asked for.
pub struct Tap {
    /// Its name.
    pub name: String,
    /// What the machine sends.
    pub rx: Opened<dyn RxQueue>,
    /// To the machine.
    pub tx: Opened<dyn TxQueue>,
}

/// A kind of device, or a set of virtual ones: where the names in a configuration lead.
pub trait Backend: Send + Sync {
    /// Opens a device to receive from.
    ///
    /// # Errors
    /// There is no such device, or it cannot be opened; the message says what to do.
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError>;

    /// Opens a device to transmit to.
    ///
    /// # Errors
    /// There is no such device, or it cannot be opened; the message says what to do.
    fn open_tx(
        &self,
        device: &str,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError>;

    /// Makes an interface with the machine's own network stack at the other end.
    ///
    /// # Errors
    /// It cannot be made; the message says what to do.
    fn open_tap(&self, options: &TapOptions) -> Result<Tap, DeviceError> {
        let device = options.name.as_deref().unwrap_or_default();
        Err(DeviceError::unsupported(device, "there is no network stack to be at the other end"))
    }

    /// Called when all devices that a router uses have been opened and before packets move, for
    /// backends that must know all queues of a device to set it up. What was done to each device,
    /// in sentences. Where nobody calls it, a queue's first use does the same.
    ///
    /// # Errors
    /// A device cannot be set up; the message says what to do.
    fn start(&self) -> Result<Vec<(String, String)>, DeviceError> {
        Ok(Vec::new())
    }

    /// What is known of a device without opening or changing it.
    fn facts(&self, _device: &str, _method: &Method) -> DeviceFacts {
        DeviceFacts::default()
    }

    /// The Ethernet address of a device.
    fn ether(&self, device: &str) -> Option<EtherAddress>;

    /// The first IPv4 address of a device and its network.
    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix>;
}

/// Why a device cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum DeviceError {
    /// There is no device with this name.
    #[error("no device ‘{0}’")]
    Unknown(String),
    /// The system refuses a step.
    #[error("{device}: {step}: {source}{}", advice(source))]
    Refused {
        /// The device.
        device: String,
        /// What was tried.
        step: &'static str,
        /// What the system said.
        source: io::Error,
    },
    /// The backend cannot do what is asked.
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

fn advice(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::PermissionDenied => {
            " (run as root or with the capabilities that the element's manual names, or try --lab, which \
             needs no privileges)"
        }
        io::ErrorKind::ResourceBusy => {
            " (another program has it; for AF_XDP, ‘ss --xdp -p’ tells which)"
        }
        _ => "",
    }
}

/// Why an open device does not take or give packets, for its user.
pub fn trouble(error: &io::Error) -> String {
    let words = match error.raw_os_error() {
        Some(libc::ENETDOWN) => "the interface is down: packets flow when it is up",
        Some(libc::ENODEV | libc::ENXIO) => "the interface is gone: packets flow when it is back",
        Some(libc::EMSGSIZE) => "a packet is longer than the interface's MTU",
        _ => return error.to_string(),
    };
    words.to_owned()
}

/// The service through which elements reach devices: the backend that the program chose for the
/// names in the configuration.
pub struct Devices(pub Box<dyn Backend>);
