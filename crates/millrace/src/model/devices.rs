//! Records what passes through the devices: a backend around the one that the program chose. It records which devices
//! were opened, what that changed on the machine, and how many packets and bytes passed.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::{Arc, MutexGuard};

use millrace_core::net::{EtherAddress, Ipv4Prefix};
use millrace_core::{Batch, Count, Lock};
use millrace_io::tap::{Tap, TapOptions};
use millrace_io::{
    Backend, Capabilities, DeviceError, DeviceFacts, Meter, Method, Opened, QueueCounts, RxOptions,
    RxQueue, TxOptions, TxQueue,
};

use super::snapshot::Device;

/// The records of all opened devices.
#[derive(Clone, Default)]
pub(crate) struct Ledger(Arc<Lock<Vec<Opening>>>);

/// One opening of a device, in one direction.
struct Opening {
    device: String,
    direction: &'static str,
    capabilities: Capabilities,
    changes: Vec<String>,
    queues: Vec<Account>,
}

/// The traffic of one queue.
#[derive(Clone, Debug)]
enum Account {
    /// The queue counts its traffic itself.
    Own(Arc<Meter>),
    /// The traffic is counted around the queue.
    Watched(Arc<Traffic>),
}

/// What is counted around a queue.
#[derive(Debug, Default)]
struct Traffic {
    meter: Meter,
    lost: Count,
    segmented: Count,
}

impl Account {
    fn meter(&self) -> &Meter {
        match self {
            Self::Own(meter) => meter,
            Self::Watched(traffic) => &traffic.meter,
        }
    }

    fn counts(&self) -> QueueCounts {
        match self {
            Self::Own(meter) => meter.counts(),
            Self::Watched(traffic) => {
                QueueCounts { lost: traffic.lost.get(), segmented: traffic.segmented.get() }
            }
        }
    }
}

impl Ledger {
    fn openings(&self) -> MutexGuard<'_, Vec<Opening>> {
        self.0.lock()
    }

    fn add(&self, opening: Opening) {
        self.openings().push(opening);
    }

    /// One line for each opened device, then one line for each change to the machine.
    pub(crate) fn announcement(&self) -> Vec<String> {
        let mut lines = Vec::new();
        for opening in self.openings().iter() {
            let way = if opening.direction == "in" { "receives" } else { "transmits" };
            let n = opening.queues.len();
            let queues = if n == 1 { "1 queue".to_owned() } else { format!("{n} queues") };
            let capabilities = &opening.capabilities;
            let copies = if capabilities.zero_copy { ", zero copy" } else { "" };
            let node = match capabilities.numa_node {
                Some(node) => format!(", NUMA node {node}"),
                None => String::new(),
            };
            lines.push(format!(
                "{}: {way} by {} on {queues}{copies}{node}",
                opening.device, capabilities.backend
            ));
            let changes = opening.changes.iter();
            lines.extend(changes.map(|change| format!("{}: {change}", opening.device)));
        }
        lines
    }

    /// The traffic of each device so far.
    pub(crate) fn devices(&self) -> Vec<Device> {
        let sum = |queues: &[Account], count: fn(&Meter) -> u64| {
            queues.iter().map(|queue| count(queue.meter())).sum()
        };
        let counts = |queues: &[Account]| {
            queues.iter().map(Account::counts).fold(QueueCounts::default(), |sum, one| sum + one)
        };
        let device = |opening: &Opening| Device {
            device: opening.device.clone(),
            direction: opening.direction.to_owned(),
            backend: opening.capabilities.backend.to_owned(),
            zero_copy: opening.capabilities.zero_copy,
            queues: opening.queues.len(),
            packets: sum(&opening.queues, Meter::packets),
            bytes: sum(&opening.queues, Meter::bytes),
            batches: sum(&opening.queues, Meter::batches),
            lost: counts(&opening.queues).lost,
            segmented: counts(&opening.queues).segmented,
        };
        self.openings().iter().map(device).collect()
    }
}

/// A backend that records its openings and traffic in a [`Ledger`].
pub(crate) struct Observed {
    backend: Arc<dyn Backend>,
    ledger: Ledger,
}

impl Observed {
    /// Wraps a backend.
    pub(crate) fn new(backend: Arc<dyn Backend>, ledger: Ledger) -> Self {
        Self { backend, ledger }
    }
}

impl Observed {
    fn watch_rx(&self, device: &str, opened: Opened<dyn RxQueue>) -> Opened<dyn RxQueue> {
        self.watch((device, "in"), opened, |queue| queue.meter(), |watched| Box::new(watched))
    }

    fn watch_tx(&self, device: &str, opened: Opened<dyn TxQueue>) -> Opened<dyn TxQueue> {
        self.watch((device, "out"), opened, |queue| queue.meter(), |watched| Box::new(watched))
    }

    fn watch<Q: ?Sized>(
        &self,
        (device, direction): (&str, &'static str),
        opened: Opened<Q>,
        meter: fn(&Q) -> Option<Arc<Meter>>,
        boxed: fn(Watched<Q>) -> Box<Q>,
    ) -> Opened<Q> {
        let mut accounts = Vec::new();
        let queues = opened.queues.into_iter().map(|queue| {
            if let Some(meter) = meter(&queue) {
                accounts.push(Account::Own(meter));
                return queue;
            }
            let watched = Watched { queue, traffic: Arc::<Traffic>::default() };
            accounts.push(Account::Watched(watched.traffic.clone()));
            boxed(watched)
        });
        let queues = queues.collect();
        self.ledger.add(Opening {
            device: device.to_owned(),
            direction,
            capabilities: opened.capabilities.clone(),
            changes: opened.changes.clone(),
            queues: accounts,
        });
        Opened { queues, ..opened }
    }
}

impl Backend for Observed {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        Ok(self.watch_rx(device, self.backend.open_rx(device, options)?))
    }

    fn open_tx(
        &self,
        device: &str,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        Ok(self.watch_tx(device, self.backend.open_tx(device, options)?))
    }

    fn open_tap(&self, options: &TapOptions) -> Result<Tap, DeviceError> {
        let Tap { name, rx, tx } = self.backend.open_tap(options)?;
        let (rx, tx) = (self.watch_rx(&name, rx), self.watch_tx(&name, tx));
        Ok(Tap { name, rx, tx })
    }

    fn start(&self) -> Result<Vec<(String, String)>, DeviceError> {
        self.backend.start()
    }

    fn facts(&self, device: &str, method: &Method) -> DeviceFacts {
        self.backend.facts(device, method)
    }

    fn ether(&self, device: &str) -> Option<EtherAddress> {
        self.backend.ether(device)
    }

    fn ipv4(&self, device: &str) -> Option<Ipv4Prefix> {
        self.backend.ipv4(device)
    }
}

/// A queue without a meter, whose traffic is counted here. It belongs to one thread, and so do its counters.
#[repr(align(128))]
struct Watched<Q: ?Sized> {
    queue: Box<Q>,
    traffic: Arc<Traffic>,
}

impl<Q: ?Sized> Watched<Q> {
    /// Stores the device's own counts, because its queue may be closed when they are read.
    fn note(&self, counts: QueueCounts) -> QueueCounts {
        self.traffic.lost.set(counts.lost);
        self.traffic.segmented.set(counts.segmented);
        counts
    }
}

impl RxQueue for Watched<dyn RxQueue> {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let before = batch.len();
        let received = self.queue.receive(batch, max);
        self.traffic.meter.count_all(batch.get(before..).unwrap_or_default());
        received
    }

    fn readiness(&self) -> Option<OwnedFd> {
        self.queue.readiness()
    }

    fn is_finished(&self) -> bool {
        self.queue.is_finished()
    }

    fn counts(&self) -> QueueCounts {
        self.note(self.queue.counts())
    }
}

impl TxQueue for Watched<dyn TxQueue> {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let bytes = |batch: &Batch| batch.iter().map(|packet| packet.len()).sum::<usize>();
        let (packets, before) = (batch.len(), bytes(batch));
        let taken = self.queue.transmit(batch);
        self.traffic.meter.count(packets - batch.len(), before - bytes(batch));
        taken
    }

    fn flush(&mut self) -> io::Result<()> {
        self.queue.flush()
    }

    fn counts(&self) -> QueueCounts {
        self.note(self.queue.counts())
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;

    use super::*;

    /// A device that delivers two packets per call and accepts one.
    struct Small;

    impl Backend for Small {
        fn open_rx(&self, _: &str, _: &RxOptions) -> Result<Opened<dyn RxQueue>, DeviceError> {
            let changes = vec!["promiscuous mode is on".to_owned()];
            Ok(Opened { changes, ..Opened::new("small", vec![Box::new(Small)]) })
        }

        fn open_tx(&self, _: &str, _: &TxOptions) -> Result<Opened<dyn TxQueue>, DeviceError> {
            Ok(Opened::new("small", vec![Box::new(Small)]))
        }
    }

    impl RxQueue for Small {
        fn receive(&mut self, batch: &mut Batch, _max: usize) -> io::Result<usize> {
            for bytes in [&b"abc"[..], b"de"] {
                batch.push(Packet::from_bytes(bytes).unwrap()).unwrap();
            }
            Ok(2)
        }

        fn counts(&self) -> QueueCounts {
            QueueCounts { lost: 7, segmented: 0 }
        }
    }

    impl TxQueue for Small {
        fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
            let mut first = true;
            batch.map_filter(|packet| (!std::mem::take(&mut first)).then_some(packet));
            Ok(1)
        }
    }

    #[test]
    fn what_goes_through_is_counted_and_what_changed_is_said() {
        let ledger = Ledger::default();
        let observed = Observed::new(Arc::new(Small), ledger.clone());
        let mut rx = observed.open_rx("eth0", &RxOptions::default()).unwrap().queues;
        let mut tx = observed.open_tx("eth1", &TxOptions::default()).unwrap().queues;
        let mut batch = Batch::new();
        rx[0].receive(&mut batch, 8).unwrap();
        rx[0].receive(&mut batch, 8).unwrap();
        tx[0].transmit(&mut batch).unwrap();
        assert_eq!(rx[0].counts().lost, 7);
        drop((rx, tx));

        let devices = ledger.devices();
        assert_eq!((devices[0].packets, devices[0].bytes, devices[0].batches), (4, 10, 2));
        assert_eq!(devices[0].lost, 7);
        assert_eq!((devices[1].packets, devices[1].bytes, devices[1].batches), (1, 3, 1));
        let lines = [
            "eth0: receives by small on 1 queue",
            "eth0: promiscuous mode is on",
            "eth1: transmits by small on 1 queue",
        ];
        assert_eq!(ledger.announcement(), lines);
    }
}
