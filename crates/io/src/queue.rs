//! The interface between elements and devices: one queue, one thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use millrace_core::Batch;
use millrace_core::net::{EtherAddress, Ipv4Prefix};

use crate::meter::Meter;
use crate::method::Method;
use crate::tap::{Tap, TapOptions};

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

/// Counts of a queue itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that the device lost because they were not received in time.
    pub lost: u64,
    /// Packets that were cut into segments because they were larger than the device accepts.
    pub segmented: u64,
}

impl std::ops::Add for QueueCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { lost: self.lost + other.lost, segmented: self.segmented + other.segmented }
    }
}

/// What an element requests of a receive device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RxOptions {
    /// How to reach the device.
    pub method: Method,
    /// Which of the device's queues to use; the backend may provide fewer.
    pub queues: Queues,
    /// The number of packets in a queue's ring; by default the backend chooses.
    pub descriptors: Option<usize>,
    /// The NUMA node for rings and packets; by default the device's own.
    pub numa_node: Option<usize>,
    /// How the device distributes packets over its queues.
    pub spread: Spread,
    /// Whether to receive packets for other hosts.
    pub promiscuous: bool,
    /// The maximum number of bytes kept of a packet.
    pub snap_length: usize,
    /// Free bytes before each packet.
    pub headroom: usize,
    /// Whether to receive packets that this machine sends, too.
    pub outbound: bool,
    /// Whether the machine's own network stack continues to receive the packets.
    pub sniffer: bool,
    /// Whether packets get their time of arrival as timestamp.
    pub timestamp: bool,
    /// A filter in the kernel, as assembled BPF instructions (code, jt, jf, k).
    pub filter: Vec<(u16, u8, u8, u32)>,
}

impl Default for RxOptions {
    fn default() -> Self {
        Self {
            method: Method::default(),
            queues: Queues::default(),
            descriptors: None,
            numa_node: None,
            spread: Spread::default(),
            promiscuous: false,
            snap_length: 65_535,
            headroom: 128,
            outbound: false,
            sniffer: true,
            timestamp: true,
            filter: Vec::new(),
        }
    }
}

/// What an element requests of a transmit device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxOptions {
    /// How to reach the device.
    pub method: Method,
    /// Which of the device's queues to use; the backend may provide fewer.
    pub queues: Queues,
    /// The number of packets in a queue's ring; by default the backend chooses.
    pub descriptors: Option<usize>,
    /// The NUMA node for rings; by default the device's own.
    pub numa_node: Option<usize>,
}

/// A range of a device's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// The number of the first one.
    pub first: usize,
    /// Their number; at least 1.
    pub count: usize,
}

impl Default for Queues {
    fn default() -> Self {
        Self { first: 0, count: 1 }
    }
}

/// How a device distributes received packets over its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// By flow, as the device does by default.
    #[default]
    Flow,
    /// By flow, with both directions of a connection on the same queue.
    Symmetric,
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
}

/// The queues of an opened device, and the changes made to open it.
pub struct Opened<Q: ?Sized> {
    /// The queues.
    pub queues: Vec<Box<Q>>,
    /// The capabilities of the device.
    pub capabilities: Capabilities,
    /// Each change to the machine's settings, as a sentence to print. Dropping the queues reverts them.
    pub changes: Vec<String>,
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
        Err(DeviceError::Unsupported {
            device: options.name.clone().unwrap_or_default(),
            what: "there is no network stack to be at the other end".to_owned(),
        })
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
    /// The system refused an operation.
    #[error("{device}: {step}: {source}{}", advice(source))]
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
