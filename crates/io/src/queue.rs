//! The seam between elements and devices: one queue, one thread.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use millrace_core::Batch;
use millrace_core::net::{EtherAddress, Ipv4Prefix};

use crate::meter::Meter;
use crate::method::Method;
use crate::tap::{Tap, TapOptions};

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

/// What a queue counted by itself.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct QueueCounts {
    /// Packets that the device lost because nobody took them in time.
    pub lost: u64,
    /// Packets larger than the device takes, that were cut into segments.
    pub segmented: u64,
}

impl std::ops::Add for QueueCounts {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self { lost: self.lost + other.lost, segmented: self.segmented + other.segmented }
    }
}

/// What an element wants of a receive device.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RxOptions {
    /// By which means the device is reached.
    pub method: Method,
    /// Which of the device's queues are wanted; the backend may give fewer.
    pub queues: Queues,
    /// How many packets a queue's ring holds; the backend's own choice unless given.
    pub descriptors: Option<usize>,
    /// The NUMA node for rings and packets; the device's own unless given.
    pub numa_node: Option<usize>,
    /// How the device shares packets among its queues.
    pub spread: Spread,
    /// Whether to receive packets for other hosts.
    pub promiscuous: bool,
    /// The most bytes of a packet that are kept.
    pub snap_length: usize,
    /// Free bytes before each packet.
    pub headroom: usize,
    /// Whether packets that this machine sends are received too.
    pub outbound: bool,
    /// Whether the machine's own network stack keeps receiving the packets too.
    pub sniffer: bool,
    /// Whether packets get the time of their arrival.
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

/// What an element wants of a transmit device.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TxOptions {
    /// By which means the device is reached.
    pub method: Method,
    /// Which of the device's queues are wanted; the backend may give fewer.
    pub queues: Queues,
    /// How many packets a queue's ring holds; the backend's own choice unless given.
    pub descriptors: Option<usize>,
    /// The NUMA node for rings; the device's own unless given.
    pub numa_node: Option<usize>,
}

/// A run of a device's queues.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queues {
    /// The number of the first one.
    pub first: usize,
    /// How many; at least 1.
    pub count: usize,
}

impl Default for Queues {
    fn default() -> Self {
        Self { first: 0, count: 1 }
    }
}

/// How a device shares what it receives among its queues.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Spread {
    /// By flow, as the device does of its own accord.
    #[default]
    Flow,
    /// By flow, and both directions of a connection to the same queue.
    Symmetric,
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
        Err(DeviceError::Unsupported {
            device: options.name.clone().unwrap_or_default(),
            what: "there is no network stack to be at the other end".to_owned(),
        })
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
