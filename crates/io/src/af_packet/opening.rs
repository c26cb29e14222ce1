//! Opens an interface to receive from it, again whenever it comes back.

use std::io;
use std::sync::Arc;

use libc::c_int;
use millrace_core::Lock;

use super::express::{self, Copies, Express};
use super::interface::Interface;
use super::messages::Inbox;
use super::rx_ring::RxRing;
use super::socket::PacketSocket;
use super::withhold::Withheld;
use crate::bpf::{self, Instruction};
use crate::method::Method;
use crate::options::RxOptions;
use crate::queue::DeviceError;

/// How to open the receive queues of a device, repeatedly.
pub(super) struct Opening {
    device: String,
    options: RxOptions,
    /// The sockets share the packets among them.
    group: Option<Group>,
    /// What keeps the packets from the kernel's own stack, and on which interface, if requested.
    withheld: Lock<Option<(c_int, Withheld)>>,
}

/// An open receive queue.
pub(super) struct Inlet {
    pub(super) socket: Arc<PacketSocket>,
    pub(super) frames: Frames,
    /// Next to a ring, if possible.
    pub(super) express: Option<Express>,
    filter: Vec<Instruction>,
}

/// The source of a socket's frames.
pub(super) enum Frames {
    Ring(RxRing),
    Messages(Inbox),
}

impl Inlet {
    /// The source of messages, and which of them have copies elsewhere.
    pub(super) fn messages(&mut self) -> Option<(&PacketSocket, &mut Inbox, Option<Copies<'_>>)> {
        match (&mut self.frames, &mut self.express) {
            (Frames::Messages(inbox), _) => Some((&self.socket, inbox, None)),
            (Frames::Ring(_), Some(express)) => {
                express.messages().map(|(socket, inbox, copies)| (socket, inbox, Some(copies)))
            }
            (Frames::Ring(_), None) => None,
        }
    }

    /// A ring, and the express socket next to it.
    pub(super) fn express(&mut self) -> Option<(&mut RxRing, &mut Express)> {
        match (&mut self.frames, &mut self.express) {
            (Frames::Ring(ring), Some(express)) => Some((ring, express)),
            _ => None,
        }
    }
}

/// `ETH_P_ALL` of `linux/if_ether.h`.
const EVERY_PROTOCOL: u16 = 0x0003;
/// Bytes that a frame may be longer than the MTU: the Ethernet header and a VLAN tag.
const LINK_HEADERS: usize = 14 + 4;

impl Opening {
    pub(super) fn new(device: &str, options: &RxOptions) -> Self {
        let group = (options.queues.count > 1).then(|| Group::new(options.outbound));
        let withheld = Lock::new(None);
        Self { device: device.to_owned(), options: options.clone(), group, withheld }
    }

    /// Opens a queue that receives nothing yet.
    pub(super) fn prepare(&self) -> Result<Inlet, DeviceError> {
        let interface = Interface::usable(&self.device)?;
        let step =
            |step: &'static str| move |source| DeviceError::refused(&self.device, step, source);
        let options = &self.options;
        // Nothing arrives before the socket is bound to a protocol.
        let socket = PacketSocket::open().map_err(step("open a packet socket"))?;
        socket.show_offloads().map_err(step("set the packet socket up"))?;
        let frames = if options.method == Method::Socket {
            socket.receive_messages(options.timestamp).map_err(step("set the packet socket up"))?;
            Frames::Messages(Inbox::new())
        } else {
            let ring = RxRing::new(&socket, options.descriptors);
            Frames::Ring(ring.map_err(step("make a receive ring"))?)
        };
        if !options.outbound {
            socket.ignore_outgoing();
        }
        let filter = self.filter(&interface, &options.method);
        let first = if self.group.is_some() { bpf::NOTHING } else { &filter };
        socket.set_filter(first).map_err(step("set the filter"))?;
        if options.promiscuous {
            socket.be_promiscuous(interface.index).map_err(step("set promiscuous mode"))?;
        }
        socket.bind(interface.index, EVERY_PROTOCOL).map_err(step("bind the packet socket"))?;
        if !options.sniffer {
            self.withhold(interface.index).map_err(step("withhold the packets from the kernel"))?;
        }
        if let Some(group) = &self.group {
            group.join(&socket, interface.index).map_err(step("share packets among queues"))?;
        }
        let express = self.may_have_express().then(Express::new);
        Ok(Inlet { socket: Arc::new(socket), frames, express, filter })
    }

    /// Whether frames may also arrive through an express socket next to the ring.
    fn may_have_express(&self) -> bool {
        let options = &self.options;
        // Queues that share packets would have to share those of their express sockets in the same way.
        options.method != Method::Socket
            && self.group.is_none()
            // The copies of a frame are told by its first bytes and its length, which each way has to have.
            && options.snap_length >= express::PREFIX
            && !bpf::computes_lengths(&options.filter)
    }

    /// Opens a plain socket that receives the same packets as a queue's.
    pub(super) fn open_express(&self) -> io::Result<PacketSocket> {
        let interface = Interface::find(&self.device)?;
        let options = &self.options;
        let socket = PacketSocket::open()?;
        socket.show_offloads()?;
        socket.receive_messages(options.timestamp)?;
        if !options.outbound {
            socket.ignore_outgoing();
        }
        socket.set_filter(&self.filter(&interface, &Method::Socket))?;
        socket.bind(interface.index, EVERY_PROTOCOL)?;
        Ok(socket)
    }

    /// Opens a queue.
    pub(super) fn open(&self) -> Result<Inlet, DeviceError> {
        let inlet = self.prepare()?;
        self.start(&inlet)?;
        Ok(inlet)
    }

    /// Begins to receive. Queues that share packets begin when all of them are open: before that, each would
    /// get all packets.
    pub(super) fn start(&self, inlet: &Inlet) -> Result<(), DeviceError> {
        if self.group.is_none() {
            return Ok(());
        }
        let step = "set the filter";
        inlet
            .socket
            .set_filter(&inlet.filter)
            .map_err(|error| DeviceError::refused(&self.device, step, error))
    }

    /// Keeps the packets of the interface from the kernel, unless that is already done.
    fn withhold(&self, interface: c_int) -> io::Result<()> {
        let mut withheld = self.withheld.lock();
        if withheld.as_ref().is_none_or(|(from, _)| *from != interface) {
            *withheld = Some((interface, Withheld::from(interface)?));
        }
        Ok(())
    }

    /// What keeps the packets from the kernel, if anything does.
    pub(super) fn withheld_by(&self) -> Option<&'static str> {
        let withheld = self.withheld.lock();
        withheld.as_ref().map(|(_, withheld)| withheld.means())
    }

    /// Whether the interface exists and is up.
    pub(super) fn is_up(&self) -> bool {
        Interface::find(&self.device).is_ok_and(|interface| interface.is_up())
    }

    /// The filter for the kernel. Messages are truncated here instead, where their whole length is known.
    fn filter(&self, interface: &Interface, method: &Method) -> Vec<Instruction> {
        let snap = match method {
            Method::Socket => u32::MAX,
            _ => match u32::try_from(self.options.snap_length) {
                // No frame of any interface is longer.
                Ok(snap) if snap < 65_535 => snap,
                _ => u32::MAX,
            },
        };
        let longest = interface.mtu().unwrap_or(0).saturating_add(LINK_HEADERS);
        bpf::for_kernel(&self.options.filter, snap, u32::try_from(longest).unwrap_or(u32::MAX))
    }
}

/// The sockets of a device that share its packets (PACKET_FANOUT).
///
/// The kernel chooses by a hash of both ends of the flow, the same in both directions, so that a flow keeps
/// its socket and its order. Fragments of a datagram stay together because they are hashed by their
/// addresses. Two flags are deliberately not used: one makes packets roll over from full sockets to others,
/// which would reorder flows; the other makes the kernel reassemble fragments, which would change what a
/// router forwards.
struct Group {
    outbound: bool,
    /// The interface and the number of the group on it, once a socket has made it.
    made: Lock<Option<(c_int, u16)>>,
}

impl Group {
    fn new(outbound: bool) -> Self {
        Self { outbound, made: Lock::new(None) }
    }

    fn join(&self, socket: &PacketSocket, interface: c_int) -> io::Result<()> {
        let mut kind = libc::PACKET_FANOUT_HASH;
        if !self.outbound {
            kind |= libc::PACKET_FANOUT_FLAG_IGNORE_OUTGOING;
        }
        let mut made = self.made.lock();
        if let Some((on, group)) = *made
            && on == interface
            && socket.join_fanout(kind << 16 | u32::from(group)).is_ok()
        {
            return Ok(());
        }
        let new = libc::PACKET_FANOUT_FLAG_UNIQUEID;
        socket.join_fanout((kind | new) << 16)?;
        *made = Some((interface, socket.fanout()?));
        Ok(())
    }
}
