//! Devices in memory, in pairs: packets transmitted on one end are received on the other.
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

/// Virtual devices in pairs. Clones refer to the same devices.
#[derive(Clone, Default)]
pub struct Network {
    devices: Arc<Lock<HashMap<String, Device>>>,
}

/// A virtual device: its name, its addresses, and its capacity.
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
    interface: Interface,
    end: End,
}

impl Network {
    /// Connects two new devices, which replace devices with the same names. Returns the end of the second
    /// one, for a program that plays the host at the other end.
    pub fn connect(&self, first: Interface, second: Interface) -> End {
        let towards = |interface: &Interface| Arc::new(Wire::new(interface.capacity));
        let (to_first, to_second) = (towards(&first), towards(&second));
        let near = End { arriving: to_first.clone(), leaving: to_second.clone() };
        let far = End { arriving: to_second, leaving: to_first };
        let mut devices = self.devices.lock();
        devices.insert(first.name.clone(), Device { interface: first, end: near });
        devices.insert(second.name.clone(), Device { interface: second, end: far.clone() });
        far
    }

    /// The end of a device.
    pub fn end(&self, device: &str) -> Option<End> {
        self.devices.lock().get(device).map(|device| device.end.clone())
    }

    fn device(&self, name: &str) -> Result<Device, DeviceError> {
        let device = self.devices.lock().get(name).cloned();
        device.ok_or_else(|| DeviceError::Unknown(name.to_owned()))
    }
}

impl Backend for Network {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        let unsupported = |what: &str| DeviceError::Unsupported {
            device: device.to_owned(),
            what: format!("a device in memory {what}"),
        };
        if options.outbound {
            return Err(unsupported("does not show what is sent to it (OUTBOUND)"));
        }
        let Device { interface, end } = self.device(device)?;
        let meter = Arc::default();
        let queue = Receiver { end, ether: interface.ether, options: options.clone(), meter };
        Ok(opened(Box::new(queue)))
    }

    fn open_tx(
        &self,
        device: &str,
        _options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        Ok(opened(Box::new(Transmitter { end: self.device(device)?.end, meter: Arc::default() })))
    }

    /// The device with this name, or a new one; the host is at its other end, `NAME-host`.
    fn open_tap(&self, options: &TapOptions) -> Result<Tap, DeviceError> {
        let name = options.name.clone().unwrap_or_else(|| "tap0".to_owned());
        if self.device(&name).is_err() {
            let ether = options.ether;
            let host = Interface { ether, ..Interface::new(format!("{name}-host")) };
            self.connect(Interface::new(&name), host);
        }
        let receive = RxOptions { headroom: options.headroom, ..RxOptions::default() };
        let mut rx = self.open_rx(&name, &receive)?;
        let mut tx = self.open_tx(&name, &TxOptions::default())?;
        for _ in 1..options.queues {
            rx.queues.extend(self.open_rx(&name, &receive)?.queues);
            tx.queues.extend(self.open_tx(&name, &TxOptions::default())?.queues);
        }
        Ok(Tap { name, rx, tx })
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        self.device(device).ok()?.interface.ether
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        self.device(device).ok()?.interface.ipv4
    }
}

fn opened<Q: ?Sized>(queue: Box<Q>) -> Opened<Q> {
    let mut opened = Opened::new("memory", vec![queue]);
    opened.capabilities.zero_copy = true;
    opened
}

/// One end of a pair. Clones are the same end.
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

    /// A descriptor that is readable while packets wait here; `None` when the machine has no more
    /// descriptors.
    pub fn readiness(&self) -> Option<OwnedFd> {
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
    end: End,
    ether: Option<EtherAddress>,
    options: RxOptions,
    meter: Arc<Meter>,
}

impl RxQueue for Receiver {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let mut n = 0;
        while n < max.min(batch.room())
            && let Some(mut packet) = self.end.receive()
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
        self.end.readiness()
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(Arc::clone(&self.meter))
    }
}

struct Transmitter {
    end: End,
    meter: Arc<Meter>,
}

impl TxQueue for Transmitter {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let before = batch.len();
        let wire = &self.end.leaving;
        let (mut full, mut bytes) = (false, 0);
        batch.map_filter(|packet| {
            if full {
                return Some(packet);
            }
            let len = packet.len();
            let refused = wire.put(packet).err();
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
        assert_eq!(network.end("a").unwrap().receive().unwrap().data(), b"back");
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
        let near = network.end("a").unwrap();
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
        near.receive().unwrap();
        assert!(readable());
        near.receive().unwrap();
        assert!(!readable());
    }
}
