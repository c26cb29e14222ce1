//! The network in memory: devices for tests, for benchmarks, and for the program's lab.
//!
//! A device is at one end of a [`Link`]. [`Network::connect`] makes two devices that are the [`End`]s of one wire:
//! packets transmitted on one are received on the other. [`Network::attach`] puts a device at any other link: whoever
//! implements it decides what the device receives, and when.
//!
//! ```
//! use millrace_core::Packet;
//! use millrace_io::memory::{Interface, Network};
//! use millrace_io::{Backend, RxOptions, RxQueue};
//!
//! let network = Network::default();
//! let host = network.connect(Interface::new("eth0"), Interface::new("host"));
//! let mut eth0 = network.open_rx("eth0", &RxOptions::default())?.queues.remove(0);
//! host.send(Packet::from_bytes(b"hello").unwrap()).unwrap();
//! let mut batch = millrace_core::Batch::new();
//! assert_eq!(eth0.receive(&mut batch, 32).unwrap(), 1);
//! # Ok::<(), millrace_io::DeviceError>(())
//! ```

use std::collections::{HashMap, VecDeque};
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::{Batch, Lock, Packet, PacketType, Timestamp};
use rustix::event::{EventfdFlags, eventfd};

use crate::bpf;
use crate::meter::Meter;
use crate::options::{RxOptions, TapOptions, TxOptions};
use crate::queue::{Backend, DeviceError, Opened, RxQueue, Tap, TxQueue};

/// Virtual devices. Clones refer to the same devices.
#[derive(Clone)]
pub struct Network {
    name: &'static str,
    /// The other end of every TAP interface; `None` makes a device for it.
    machine: Option<Arc<dyn Link>>,
    devices: Arc<Lock<HashMap<String, Device>>>,
}

impl Default for Network {
    /// A network without devices.
    fn default() -> Self {
        Self { name: "memory", machine: None, devices: Arc::default() }
    }
}

/// What a device is attached to.
///
/// Packets arrive when the device asks for them, on the thread that asks. So a link can be a wire, on which they wait, or a
/// simulation that makes them at that moment.
pub trait Link: Send + Sync {
    /// The next packet for the device; a link that makes packets leaves `headroom` bytes in front of the data, and counts in
    /// `meter` those that there is no memory for.
    fn receive(&self, headroom: usize, meter: &Meter) -> Option<Packet>;

    /// Takes a packet that the device transmits.
    ///
    /// # Errors
    /// Returns the packet when there is no room for it.
    fn send(&self, packet: Packet) -> Result<(), Packet>;

    /// A descriptor that is readable while packets wait for the device; `None` if it must be polled.
    fn readiness(&self) -> Option<OwnedFd> {
        None
    }

    /// Whether no packet will ever arrive.
    fn is_finished(&self) -> bool {
        false
    }
}

/// A virtual device: its name, its addresses, and its wire's capacity.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Interface {
    /// The name in configurations.
    pub name: String,
    /// Its Ethernet address. If it is set, received packets get a packet type by their destination.
    pub ether: Option<EtherAddress>,
    /// Its IPv4 address and network.
    pub ipv4: Option<Ipv4Prefix>,
    /// The maximum number of packets that wait for it.
    pub capacity: usize,
}

impl Interface {
    /// A device without addresses and with a capacity of 4,096 packets.
    pub fn new(name: impl Into<String>) -> Self {
        Self { name: name.into(), ether: None, ipv4: None, capacity: 4096 }
    }
}

#[derive(Clone)]
struct Device {
    ether: Option<EtherAddress>,
    ipv4: Option<Ipv4Prefix>,
    link: Arc<dyn Link>,
}

impl Network {
    /// A network that plans and reports call `name`, with `machine` at the other end of every TAP interface.
    pub fn new(name: &'static str, machine: Arc<dyn Link>) -> Self {
        Self { name, machine: Some(machine), ..Self::default() }
    }

    /// Connects two new devices, which replace devices with the same names. Returns the end of the second
    /// one, for a program that plays the host at the other end.
    pub fn connect(&self, first: Interface, second: Interface) -> End {
        let towards = |interface: &Interface| Arc::new(Wire::new(interface.capacity));
        let (to_first, to_second) = (towards(&first), towards(&second));
        let near = End { arriving: to_first.clone(), leaving: to_second.clone() };
        let far = End { arriving: to_second, leaving: to_first };
        self.attach(first, Arc::new(near));
        self.attach(second, Arc::new(far.clone()));
        far
    }

    /// Puts a new device, which replaces one with the same name, at a link.
    pub fn attach(&self, interface: Interface, link: Arc<dyn Link>) {
        let Interface { name, ether, ipv4, .. } = interface;
        self.devices.lock().insert(name, Device { ether, ipv4, link });
    }

    fn device(&self, name: &str) -> Result<Device, DeviceError> {
        let device = self.devices.lock().get(name).cloned();
        device.ok_or_else(|| DeviceError::Unknown(name.to_owned()))
    }
}

impl Backend for Network {
    /// OUTBOUND adds nothing: only the router itself transmits through such a device.
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        let receiver = Receiver::new(self.device(device)?, options.clone());
        Ok(Opened::new(self.name, vec![Box::new(receiver)]))
    }

    fn open_tx(
        &self,
        device: &str,
        _options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        Ok(Opened::new(self.name, vec![Box::new(Transmitter::new(self.device(device)?))]))
    }

    /// An interface to the machine that the network was made with. Without one, the device with this name, or a new one;
    /// the machine is at its other end, `NAME-host`.
    fn open_tap(&self, options: &TapOptions) -> Result<Tap, DeviceError> {
        let name = options.name.clone().unwrap_or_else(|| "tap0".to_owned());
        let device = match &self.machine {
            Some(machine) => Device { ether: None, ipv4: None, link: machine.clone() },
            None => self.device(&name).or_else(|_| {
                let ether = options.ether;
                let host = Interface { ether, ..Interface::new(format!("{name}-host")) };
                self.connect(Interface::new(&name), host);
                self.device(&name)
            })?,
        };
        let receive = RxOptions { headroom: options.headroom, ..RxOptions::default() };
        let (mut rx, mut tx) = (Vec::new(), Vec::new());
        for _ in 0..options.queues.max(1) {
            rx.push(Box::new(Receiver::new(device.clone(), receive.clone())) as Box<dyn RxQueue>);
            tx.push(Box::new(Transmitter::new(device.clone())) as Box<dyn TxQueue>);
        }
        Ok(Tap { name, rx: Opened::new(self.name, rx), tx: Opened::new(self.name, tx) })
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        self.device(device).ok()?.ether
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        self.device(device).ok()?.ipv4
    }
}

/// One end of a wire. Clones are the same end.
#[derive(Clone)]
pub struct End {
    arriving: Arc<Wire>,
    leaving: Arc<Wire>,
}

impl End {
    /// Sends a packet to the other end.
    ///
    /// # Errors
    /// Returns the packet when the other end is full.
    pub fn send(&self, packet: Packet) -> Result<(), Packet> {
        self.leaving.put(packet)
    }

    /// Receives the next packet that the other end has sent.
    pub fn receive(&self) -> Option<Packet> {
        self.arriving.take()
    }

    /// The number of packets that wait at this end.
    pub fn waiting(&self) -> usize {
        self.arriving.packets.lock().len()
    }

    /// The number of packets that wait at the other end.
    pub fn unread(&self) -> usize {
        self.leaving.packets.lock().len()
    }
}

impl Link for End {
    fn receive(&self, _headroom: usize, _meter: &Meter) -> Option<Packet> {
        self.arriving.take()
    }

    fn send(&self, packet: Packet) -> Result<(), Packet> {
        self.leaving.put(packet)
    }

    fn readiness(&self) -> Option<OwnedFd> {
        self.arriving.event.as_ref()?.try_clone().ok()
    }
}

/// Packets in flight in one direction.
struct Wire {
    packets: Lock<VecDeque<Packet>>,
    capacity: usize,
    /// Readable while there are packets.
    event: Option<OwnedFd>,
}

impl Wire {
    fn new(capacity: usize) -> Self {
        let flags = EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC;
        Self { packets: Lock::default(), capacity, event: eventfd(0, flags).ok() }
    }

    fn put(&self, mut packet: Packet) -> Result<(), Packet> {
        let mut packets = self.packets.lock();
        if packets.len() >= self.capacity {
            return Err(packet);
        }
        wipe(&mut packet);
        packets.push_back(packet);
        if packets.len() == 1
            && let Some(event) = &self.event
        {
            // Nothing was in it.
            let _ = rustix::io::write(event, &1u64.to_ne_bytes());
        }
        Ok(())
    }

    fn take(&self) -> Option<Packet> {
        let mut packets = self.packets.lock();
        let packet = packets.pop_front();
        if packets.is_empty()
            && packet.is_some()
            && let Some(event) = &self.event
        {
            let _ = rustix::io::read(event, &mut [0u8; 8]);
        }
        packet
    }
}

/// A wire carries only bytes, so removes everything else from the packet.
fn wipe(packet: &mut Packet) {
    packet.clear_annotations();
    packet.clear_mac_header();
    packet.clear_network_header();
    packet.clear_transport_header();
    packet.set_timestamp(Timestamp::ZERO);
    packet.set_packet_type(PacketType::Host);
    packet.set_device(None);
}

struct Receiver {
    link: Arc<dyn Link>,
    ether: Option<EtherAddress>,
    options: RxOptions,
    meter: Arc<Meter>,
}

impl Receiver {
    fn new(Device { link, ether, .. }: Device, options: RxOptions) -> Self {
        Self { link, ether, options, meter: Arc::default() }
    }
}

impl RxQueue for Receiver {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let mut n = 0;
        while n < max.min(batch.room())
            && let Some(mut packet) = self.link.receive(self.options.headroom, &self.meter)
        {
            if !bpf::wants(&self.options.filter, packet.data()) {
                continue;
            }
            let extra = packet.len().saturating_sub(self.options.snap_length);
            packet.truncate(self.options.snap_length);
            packet.set_extra_length(u32::try_from(extra).unwrap_or(u32::MAX));
            packet.set_packet_type(PacketType::of_frame(packet.data(), self.ether));
            n += 1;
            // There is room.
            let _ = batch.push(packet);
        }
        self.meter.count_all(batch.get(batch.len() - n..).unwrap_or_default());
        Ok(n)
    }

    fn readiness(&self) -> Option<OwnedFd> {
        self.link.readiness()
    }

    fn is_finished(&self) -> bool {
        self.link.is_finished()
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(Arc::clone(&self.meter))
    }
}

struct Transmitter {
    link: Arc<dyn Link>,
    meter: Arc<Meter>,
}

impl Transmitter {
    fn new(device: Device) -> Self {
        Self { link: device.link, meter: Arc::default() }
    }
}

impl TxQueue for Transmitter {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let before = batch.len();
        let (mut full, mut bytes) = (false, 0);
        batch.map_filter(|packet| {
            if full {
                return Some(packet);
            }
            let len = packet.len();
            let refused = self.link.send(packet).err();
            full = refused.is_some();
            bytes += if full { 0 } else { len };
            refused
        });
        self.meter.count(before - batch.len(), bytes);
        Ok(before - batch.len())
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(Arc::clone(&self.meter))
    }
}

#[cfg(test)]
mod tests {
    use rustix::event::{PollFd, PollFlags, poll};

    use super::*;

    fn packets(batch: &Batch) -> Vec<Vec<u8>> {
        batch.iter().map(|packet| packet.data().to_vec()).collect()
    }

    fn batch(all: &[&[u8]]) -> Batch {
        let mut batch = Batch::new();
        for bytes in all {
            batch.push(Packet::from_bytes(bytes).unwrap()).unwrap();
        }
        batch
    }

    #[test]
    fn what_one_end_transmits_the_other_receives() {
        let network = Network::default();
        let far = network.connect(
            Interface { capacity: 9, ..Interface::new("a") },
            Interface { capacity: 2, ..Interface::new("b") },
        );
        let mut tx = network.open_tx("a", &TxOptions::default()).unwrap().queues.remove(0);
        let mut rx = network.open_rx("b", &RxOptions::default()).unwrap().queues.remove(0);
        let mut out = batch(&[b"1", b"2", b"3"]);
        out[0].set_paint(7);
        assert_eq!(tx.transmit(&mut out).unwrap(), 2);
        assert_eq!(packets(&out), [b"3"]);
        assert_eq!(far.waiting(), 2);
        let mut got = Batch::new();
        assert_eq!(rx.receive(&mut got, 1).unwrap(), 1);
        assert_eq!(rx.receive(&mut got, 9).unwrap(), 1);
        assert_eq!(packets(&got), [b"1", b"2"]);
        assert_eq!(got[0].paint(), 0);
        assert_eq!(rx.receive(&mut got, 9).unwrap(), 0);
        far.send(Packet::from_bytes(b"back").unwrap()).unwrap();
        let mut near = network.open_rx("a", &RxOptions::default()).unwrap().queues.remove(0);
        got.clear();
        near.receive(&mut got, 9).unwrap();
        assert_eq!(packets(&got), [b"back"]);
        assert!(matches!(
            network.open_tx("c", &TxOptions::default()),
            Err(DeviceError::Unknown(name)) if name == "c"
        ));
    }

    #[test]
    fn packets_are_typed_and_cut() {
        let network = Network::default();
        let ether = Some(EtherAddress([2, 0, 0, 0, 0, 1]));
        let far = network.connect(Interface { ether, ..Interface::new("a") }, Interface::new("b"));
        assert_eq!(network.ether("a"), ether);
        let filter = vec![(0x30, 0, 0, 0), (0x15, 0, 1, 8), (6, 0, 0, 0), (6, 0, 0, 1)];
        let options = RxOptions { snap_length: 6, filter, ..RxOptions::default() };
        far.send(Packet::from_bytes(&[8; 9]).unwrap()).unwrap();
        let mut rx = network.open_rx("a", &options).unwrap().queues.remove(0);
        for bytes in [&[2, 0, 0, 0, 0, 1, 9, 9][..], &[2, 0, 0, 0, 0, 2], &[0xff; 6], &[1; 6], &[3]]
        {
            far.send(Packet::from_bytes(bytes).unwrap()).unwrap();
        }
        let mut got = Batch::new();
        rx.receive(&mut got, 9).unwrap();
        let types: Vec<_> = got.iter().map(Packet::packet_type).collect();
        use PacketType::{Broadcast, Host, Multicast, OtherHost};
        assert_eq!(types, [Host, OtherHost, Broadcast, Multicast, Host]);
        assert_eq!((got[0].len(), got[0].extra_length()), (6, 2));
    }

    #[test]
    fn a_descriptor_tells_of_packets() {
        let network = Network::default();
        let far = network.connect(Interface::new("a"), Interface::new("b"));
        let mut near = network.open_rx("a", &RxOptions::default()).unwrap().queues.remove(0);
        let fd = near.readiness().unwrap();
        let readable = || {
            let none = rustix::event::Timespec { tv_sec: 0, tv_nsec: 0 };
            poll(&mut [PollFd::new(&fd, PollFlags::IN)], Some(&none)).unwrap() == 1
        };
        assert!(!readable());
        for _ in 0..2 {
            far.send(Packet::from_bytes(b"x").unwrap()).unwrap();
        }
        assert!(readable());
        let mut got = Batch::new();
        near.receive(&mut got, 1).unwrap();
        assert!(readable());
        near.receive(&mut got, 1).unwrap();
        assert!(!readable());
    }

    /// A link that makes packets when it is asked, and takes none.
    struct Source;

    impl Link for Source {
        fn receive(&self, headroom: usize, meter: &Meter) -> Option<Packet> {
            meter.lost(1);
            let mut packet = Packet::with_room(headroom, 0, 1)?;
            packet.push_back(b"x");
            Some(packet)
        }

        fn send(&self, packet: Packet) -> Result<(), Packet> {
            Err(packet)
        }

        fn is_finished(&self) -> bool {
            true
        }
    }

    #[test]
    fn any_link_is_a_device_or_the_machine() {
        let network = Network::new("sources", Arc::new(Source));
        network.attach(Interface::new("a"), Arc::new(Source));
        let options = RxOptions { headroom: 300, ..RxOptions::default() };
        let opened = network.open_rx("a", &options).unwrap();
        assert_eq!(opened.capabilities.backend, "sources");
        let tap = TapOptions { headroom: 300, queues: 3, ..TapOptions::default() };
        let tap = network.open_tap(&tap).unwrap();
        assert_eq!((tap.rx.queues.len(), tap.tx.queues.len()), (3, 3));
        for mut rx in opened.queues.into_iter().chain(tap.rx.queues) {
            let mut got = Batch::new();
            assert_eq!(rx.receive(&mut got, 7).unwrap(), 7);
            assert!(rx.is_finished() && got[0].headroom() >= 300);
            assert_eq!(rx.counts().lost, 7);
        }
        for mut tx in network.open_tx("a", &TxOptions::default()).unwrap().queues {
            let mut refused = batch(&[b"1", b"2"]);
            assert_eq!(tx.transmit(&mut refused).unwrap(), 0);
            assert_eq!(packets(&refused), [b"1", b"2"]);
        }
        assert!(matches!(
            network.open_rx("tap0", &options),
            Err(DeviceError::Unknown(name)) if name == "tap0"
        ));
    }
}
