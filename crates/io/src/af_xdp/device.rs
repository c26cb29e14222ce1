//! A network interface: the kernel's information about it, and settings for the duration of a run.

use std::io;
use std::os::fd::OwnedFd;

use millrace_core::net::EtherAddress;
use rustix::net::netdevice;

use super::sys::{self, ethtool_call, interface_call};

/// An interface in the network namespace of the thread that created this, whatever it is called now.
#[derive(Debug)]
pub(super) struct Device {
    /// The kernel's index of the interface; it changes when the interface is created again.
    pub(super) index: u32,
    /// A socket in that namespace, to make requests to the kernel.
    any: OwnedFd,
}

/// Receive and transmit channels: queues with an interrupt of their own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Channels {
    /// The maximum numbers of receive, transmit and combined channels.
    most: [u32; 3],
    /// The current numbers of receive, transmit and combined channels.
    now: [u32; 3],
}

impl Channels {
    pub(super) fn receive(self) -> u32 {
        self.now[0] + self.now[2]
    }

    pub(super) fn transmit(self) -> u32 {
        self.now[1] + self.now[2]
    }

    /// These channels with this many receive queues, if the device supports it.
    fn with_receive(self, queues: u32) -> Option<Self> {
        let Self { most, mut now } = self;
        if most[2] > 0 {
            now[2] = queues.checked_sub(now[0])?;
        } else {
            now[0] = queues;
        }
        (queues > 0 && now.iter().zip(&most).all(|(now, most)| now <= most))
            .then_some(Self { most, now })
    }
}

/// A changed setting of a device, and how to restore it.
#[derive(Debug)]
pub(super) enum Restore {
    Channels(Channels),
    /// Large receive offload: the kernel merges packets before a generic XDP program sees them.
    Gro,
    Lro,
    /// The key of the hash over flows.
    HashKey(Vec<u32>),
}

impl Device {
    /// The interface that has this name now.
    ///
    /// # Errors
    /// There is none (`ENODEV`).
    pub(super) fn new(name: &str) -> io::Result<Self> {
        let any = sys::socket(libc::AF_INET, libc::SOCK_DGRAM, 0)?;
        let index = netdevice::name_to_index(&any, name)?;
        Ok(Self { index, any })
    }

    /// What the interface is called now.
    ///
    /// # Errors
    /// It is gone, or in another network namespace (`ENODEV`).
    pub(super) fn name(&self) -> io::Result<String> {
        Ok(netdevice::index_to_name(&self.any, self.index)?)
    }

    fn ask(&self, request: libc::Ioctl) -> io::Result<[u8; 16]> {
        interface_call(&self.any, &self.name()?, request)
    }

    fn ethtool(&self, words: &mut [u32]) -> io::Result<()> {
        ethtool_call(&self.any, &self.name()?, words)
    }

    /// Whether packets have Ethernet headers.
    pub(super) fn is_ethernet(&self) -> io::Result<bool> {
        let [a, b, ..] = self.ask(libc::SIOCGIFHWADDR)?;
        let kind = u16::from_ne_bytes([a, b]);
        Ok(matches!(kind, libc::ARPHRD_ETHER | libc::ARPHRD_LOOPBACK))
    }

    pub(super) fn ether(&self) -> Option<EtherAddress> {
        let answer = self.ask(libc::SIOCGIFHWADDR).ok()?;
        answer.get(2..)?.first_chunk().map(|bytes| EtherAddress(*bytes))
    }

    /// The maximum packet length, with the Ethernet header.
    pub(super) fn max_length(&self) -> Option<usize> {
        const ETHERNET_HEADER: usize = 14;
        let [a, b, c, d, ..] = self.ask(libc::SIOCGIFMTU).ok()?;
        let mtu = usize::try_from(i32::from_ne_bytes([a, b, c, d])).ok()?;
        Some(mtu + ETHERNET_HEADER)
    }

    /// The NUMA node that it is attached to.
    pub(super) fn numa_node(&self) -> Option<usize> {
        let path = format!("/sys/class/net/{}/device/numa_node", self.name().ok()?);
        // Machines without nodes say -1.
        std::fs::read_to_string(path).ok()?.trim().parse().ok()
    }

    /// The channels; `None` for a device that has only one queue.
    pub(super) fn channels(&self) -> Option<Channels> {
        const GET: u32 = 0x3c;
        let mut words = [GET, 0, 0, 0, 0, 0, 0, 0, 0];
        self.ethtool(&mut words).ok()?;
        let [_, a, b, _, c, d, e, _, f] = words;
        Some(Channels { most: [a, b, c], now: [d, e, f] })
    }

    /// The numbers of receive and transmit queues.
    pub(super) fn queues(&self) -> (usize, usize) {
        let from_channels = self
            .channels()
            .map(|channels| (channels.receive() as usize, channels.transmit() as usize));
        let (receive, transmit) = from_channels.unwrap_or_else(|| {
            let count = |kind: &str| {
                let name = self.name().unwrap_or_default();
                let entries = std::fs::read_dir(format!("/sys/class/net/{name}/queues"));
                let entries = entries.into_iter().flatten().flatten();
                let names = entries.map(|entry| entry.file_name());
                names.filter(|name| name.to_string_lossy().starts_with(kind)).count()
            };
            (count("rx-"), count("tx-"))
        });
        (receive.max(1), transmit.max(1))
    }

    fn set_channels(&self, Channels { most, now }: Channels) -> io::Result<()> {
        const SET: u32 = 0x3d;
        let other = 0;
        let mut words = [SET, most[0], most[1], other, most[2], now[0], now[1], other, now[2]];
        // The count of other channels must be left as it is.
        const GET: u32 = 0x3c;
        let mut current = [GET, 0, 0, 0, 0, 0, 0, 0, 0];
        self.ethtool(&mut current)?;
        (words[3], words[7]) = (current[3], current[7]);
        self.ethtool(&mut words)
    }

    /// Sets the number of receive queues. Returns how to restore it.
    pub(super) fn set_receive_queues(&self, queues: u32) -> io::Result<Restore> {
        let before = self.channels().ok_or(io::ErrorKind::Unsupported)?;
        let wanted = before.with_receive(queues).ok_or_else(|| {
            let most = before.most[0].max(before.most[2]);
            io::Error::other(format!("it has {most} at most"))
        })?;
        self.set_channels(wanted)?;
        Ok(Restore::Channels(before))
    }

    /// The driver, and whether there is a card or a bus behind it.
    pub(super) fn driver(&self) -> (String, bool) {
        const GET: u32 = 0x03;
        // Four bytes of command, then texts of 32 bytes: driver, version, firmware, bus; 196 bytes.
        let mut words = [0; 49];
        words[0] = GET;
        if self.ethtool(&mut words).is_err() {
            return (String::new(), false);
        }
        let text = |from: usize| {
            let words = words.get(from..from + 8).unwrap_or_default();
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_ne_bytes()).collect();
            let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
            String::from_utf8_lossy(bytes.get(..end).unwrap_or_default()).into_owned()
        };
        let bus = text(25);
        (text(1), !bus.is_empty() && bus != "N/A")
    }

    fn value(&self, command: u32) -> io::Result<u32> {
        let mut words = [command, 0];
        self.ethtool(&mut words)?;
        Ok(words[1])
    }

    fn set_value(&self, command: u32, value: u32) -> io::Result<()> {
        self.ethtool(&mut [command, value])
    }

    /// Stops the kernel from merging packets. Returns how to restore each setting that was on.
    pub(super) fn stop_merging(&self) -> Vec<Restore> {
        let mut undo = Vec::new();
        if self.value(GET_GRO).is_ok_and(|on| on != 0) && self.set_value(SET_GRO, 0).is_ok() {
            undo.push(Restore::Gro);
        }
        let flags = self.value(GET_FLAGS).unwrap_or(0);
        if flags & FLAG_LRO != 0 && self.set_value(SET_FLAGS, flags & !FLAG_LRO).is_ok() {
            undo.push(Restore::Lro);
        }
        undo
    }

    /// Makes the device send both directions of a connection to the same queue, with a key that repeats after
    /// 16 bits (Woo and Park, "Scalable TCP session monitoring with symmetric receive-side scaling", 2012).
    /// Returns how to restore the old key.
    pub(super) fn hash_symmetrically(&self) -> io::Result<Restore> {
        let mut sizes = [GET_RSS, 0, 0, 0, 0, 0];
        self.ethtool(&mut sizes)?;
        let [_, _, table, key, ..] = sizes;
        if key == 0 || key > 1024 || table > 1 << 16 {
            return Err(io::ErrorKind::Unsupported.into());
        }
        let key_words = (key as usize).div_ceil(4);
        let mut before = vec![0; 6 + table as usize + key_words];
        before[..4].copy_from_slice(&[GET_RSS, 0, table, key]);
        self.ethtool(&mut before)?;
        let old = before.split_off(6 + table as usize);
        self.set_hash_key(key, &vec![u32::from_ne_bytes([0x6d, 0x5a, 0x6d, 0x5a]); key_words])?;
        Ok(Restore::HashKey([&[key][..], &old].concat()))
    }

    fn set_hash_key(&self, bytes: u32, key: &[u32]) -> io::Result<()> {
        const LEAVE_TABLE: u32 = u32::MAX;
        // The function (0) stays, and so do transformations of its input (0xff).
        let kinds = u32::from_ne_bytes([0, 0xff, 0, 0]);
        let mut words = vec![SET_RSS, 0, LEAVE_TABLE, bytes, kinds, 0];
        words.extend(key);
        self.ethtool(&mut words)
    }

    /// Restores a setting.
    pub(super) fn restore(&self, change: &Restore) -> io::Result<()> {
        match change {
            Restore::Channels(channels) => self.set_channels(*channels),
            Restore::Gro => self.set_value(SET_GRO, 1),
            Restore::Lro => self.set_value(SET_FLAGS, self.value(GET_FLAGS)? | FLAG_LRO),
            Restore::HashKey(words) => match words.split_first() {
                Some((bytes, key)) => self.set_hash_key(*bytes, key),
                None => Ok(()),
            },
        }
    }
}

// Commands of `linux/ethtool.h`.
const GET_GRO: u32 = 0x2b;
const SET_GRO: u32 = 0x2c;
const GET_FLAGS: u32 = 0x25;
const SET_FLAGS: u32 = 0x26;
const FLAG_LRO: u32 = 1 << 15;
const GET_RSS: u32 = 0x46;
const SET_RSS: u32 = 0x47;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn channels_are_counted_by_kind() {
        let combined = Channels { most: [0, 0, 8], now: [0, 0, 4] };
        assert_eq!((combined.receive(), combined.transmit()), (4, 4));
        assert_eq!(combined.with_receive(2).unwrap().now, [0, 0, 2]);
        assert_eq!(combined.with_receive(9), None);
        assert_eq!(combined.with_receive(0), None);
        let apart = Channels { most: [4, 2, 0], now: [2, 2, 0] };
        assert_eq!((apart.receive(), apart.transmit()), (2, 2));
        assert_eq!(apart.with_receive(4).unwrap().now, [4, 2, 0]);
    }

    #[test]
    fn loopback_is_virtual() {
        let device = Device::new("lo").unwrap();
        assert!(device.name().unwrap() == "lo" && device.is_ethernet().unwrap());
        assert_eq!(device.queues(), (1, 1));
        assert!(!device.driver().1);
        assert_eq!(device.ether(), Some(EtherAddress::default()));
    }
}
