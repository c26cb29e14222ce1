//! Transmitting.

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::{Batch, Packet};

use super::frame::TAG;
use super::interface::{ETHERNET_HEADER, Interface};
use super::messages::Outbox;
use super::socket::PacketSocket;
use super::tx_ring::TxRing;
use crate::meter::Meter;
use crate::method::Method;
use crate::offload::merge::{self, Message};
use crate::offload::tag_len;
use crate::options::TxOptions;
use crate::queue::{DeviceError, TxQueue};

/// A transmit queue of an interface, which continues when the interface disappears and comes back.
#[repr(align(128))]
pub(super) struct Transmitter {
    device: String,
    options: TxOptions,
    outlet: Outlet,
    /// Whether segments are merged; false after the kernel has refused it.
    merges: bool,
    /// When the interface was last checked.
    looked: Instant,
    messages: Vec<Message>,
    outbox: Outbox,
    meter: Arc<Meter>,
}

/// The sockets for an interface.
struct Outlet {
    /// For messages.
    socket: PacketSocket,
    /// For single packets: a socket with a ring sends no messages.
    ring: Option<(PacketSocket, TxRing)>,
    /// The maximum packet length that the interface accepts, in bytes with the Ethernet header.
    longest: usize,
}

/// How often to check the interface: whether it still exists, and its MTU.
const LOOK: Duration = Duration::from_secs(1);

impl Transmitter {
    pub(super) fn open(device: &str, options: &TxOptions) -> Result<Self, DeviceError> {
        Ok(Self {
            device: device.to_owned(),
            options: options.clone(),
            outlet: Outlet::open(device, options)?,
            merges: true,
            looked: Instant::now(),
            messages: Vec::new(),
            outbox: Outbox::default(),
            meter: Arc::default(),
        })
    }

    /// Opens the interface again if it is another one or accepts longer packets than the ring does; otherwise
    /// records its MTU. Returns whether anything has changed.
    fn look(&mut self) -> bool {
        self.looked = Instant::now();
        let longest = Interface::find(&self.device).ok().and_then(|interface| interface.mtu());
        // While there is none, what the kernel says is good enough.
        let Some(longest) = longest.map(|mtu| mtu + ETHERNET_HEADER) else { return false };
        let fits = match &self.outlet.ring {
            Some((_, ring)) => longest + TAG <= ring.longest(),
            None => true,
        };
        if fits && self.outlet.socket.interface().is_some() {
            return std::mem::replace(&mut self.outlet.longest, longest) != longest;
        }
        match Outlet::open(&self.device, &self.options) {
            Ok(outlet) => {
                self.outlet = outlet;
                true
            }
            Err(_) => false,
        }
    }

    /// Sends as many of the packets as possible.
    fn send(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let Outlet { ring, longest, socket } = &mut self.outlet;
        let mergeable = if self.merges { *longest } else { 0 };
        match ring {
            Some((socket, ring)) if !merge::may_merge(batch, mergeable) => {
                self.messages.clear();
                put_in_ring(socket, ring, *longest, batch)
            }
            _ => {
                merge::messages(batch, mergeable, &mut self.messages);
                let sent = socket.send(&self.messages, batch, &mut self.outbox)?;
                let last = sent.checked_sub(1).and_then(|last| self.messages.get(last));
                Ok(last.map_or(0, |message| message.packets.end))
            }
        }
    }

    /// Sends packets, and tries once more after handling an error.
    fn send_well(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let error = match self.send(batch) {
            Err(error) => error,
            sent => return sent,
        };
        match error.raw_os_error() {
            // The interface's queue or the socket's buffer is full: what was not sent waits.
            Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR) => return Ok(0),
            // The MTU may have grown, or there is another interface of this name.
            Some(libc::EMSGSIZE | libc::ENXIO | libc::ENODEV | libc::ENETDOWN) if self.look() => {
                return self.send(batch);
            }
            _ => {}
        }
        // What the kernel refuses merged it may take as it is.
        let merged = self.messages.first().is_some_and(|first| first.packets.len() > 1);
        if self.merges && merged && merge::is_refusal(&error) {
            self.merges = false;
            return self.send(batch);
        }
        Err(error)
    }
}

impl TxQueue for Transmitter {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        if batch.is_empty() {
            return Ok(0);
        }
        if self.looked.elapsed() > LOOK {
            self.look();
        }
        let sent = self.send_well(batch)?;
        copies::count_many(CopyCause::Transmit, sent as u64);
        self.meter.count_all(batch.get(..sent).unwrap_or_default());
        batch.drain_front(sent).free_rest();
        Ok(sent)
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(Arc::clone(&self.meter))
    }
}

impl Outlet {
    fn open(device: &str, options: &TxOptions) -> Result<Self, DeviceError> {
        let interface = Interface::usable(device)?;
        let step = |step: &'static str| move |source| DeviceError::refused(device, step, source);
        let longest = interface.mtu().unwrap_or(0) + ETHERNET_HEADER;
        let open = || -> io::Result<PacketSocket> {
            let socket = PacketSocket::open()?;
            socket.show_offloads()?;
            socket.enlarge_send_buffer();
            Ok(socket)
        };
        // Bound to no protocol it receives nothing.
        let bind = |socket: &PacketSocket| {
            socket.bind(interface.index, 0).map_err(step("bind the packet socket"))
        };
        let socket = open().map_err(step("open a packet socket"))?;
        bind(&socket)?;
        let ring = if options.method == Method::Socket {
            None
        } else {
            let socket = open().map_err(step("open a packet socket"))?;
            let ring = TxRing::new(&socket, longest + TAG, options.descriptors);
            let ring = ring.map_err(step("make a transmit ring"))?;
            bind(&socket)?;
            Some((socket, ring))
        };
        Ok(Self { socket, ring, longest })
    }
}

/// Sends packets through the ring, with one system call. Returns how many were accepted.
fn put_in_ring(
    socket: &PacketSocket,
    ring: &mut TxRing,
    longest: usize,
    packets: &[Packet],
) -> io::Result<usize> {
    let mut bytes = 0;
    let mut count = 0;
    for packet in packets.iter().take(ring.len()) {
        // Where there is a virtio-net header, the kernel leaves this to us.
        if packet.len() > longest && packet.len() > longest + tag_len(packet.data()) {
            if count == 0 {
                return Err(io::Error::from_raw_os_error(libc::EMSGSIZE));
            }
            break;
        }
        if !ring.put(packet.data()) {
            break;
        }
        bytes += packet.len();
        count += 1;
    }
    if count == 0 {
        // All frames are on their way.
        return Ok(0);
    }
    match socket.send_ring() {
        Ok(sent) if sent == bytes => Ok(count),
        outcome => match ring.take_back(count) {
            0 => outcome.map(|_| 0),
            taken => Ok(taken),
        },
    }
}
