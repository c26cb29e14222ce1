//! What a snapshot consists of. Names and units are stable: packets, bytes, cycles, seconds. Fields may be added; one that
//! changes its meaning raises [`Snapshot::VERSION`].

use serde::{Deserialize, Serialize};

use super::counts::Counts;

/// A router at one moment.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Snapshot {
    /// The version of this model.
    pub(crate) version: u32,
    /// The name and version of the program.
    pub(crate) program: String,
    /// The process.
    pub(crate) pid: u32,
    /// How many configurations ran before this one.
    pub(crate) generation: u64,
    /// `running`, `ending`, `draining` or `halted`.
    pub(crate) phase: String,
    /// Seconds since the start of the run, by the machine's clock.
    pub(crate) seconds: f64,
    /// The same by the router's clock, if that is virtual.
    pub(crate) virtual_seconds: Option<f64>,
    /// The number of threads.
    pub(crate) threads: usize,
    /// The threads.
    pub(crate) workers: Vec<Worker>,
    /// The elements, in the order of the configuration.
    pub(crate) elements: Vec<Element>,
    /// The connections between elements.
    pub(crate) connections: Vec<Connection>,
    /// The devices, one entry a direction.
    pub(crate) devices: Vec<Device>,
    /// Packets whose data was copied since the start, by cause.
    pub(crate) copies: Counts,
    /// Cycles that all threads spent outside of elements: asking for work, sleeping.
    pub(crate) idle_cycles: u64,
    /// The sums over all elements.
    pub(crate) totals: Totals,
}

/// A thread.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Worker {
    /// Its number.
    pub(crate) thread: usize,
    /// The cores that it may run on; empty for any.
    pub(crate) cores: Vec<usize>,
    /// Cycles in elements, with packets or other work.
    pub(crate) busy_cycles: u64,
    /// Cycles in elements that looked for packets in vain.
    pub(crate) polling_cycles: u64,
    /// Cycles outside of elements: asking for work, sleeping.
    pub(crate) idle_cycles: u64,
    /// How often it slept.
    pub(crate) sleeps: u64,
    /// How long it slept in all.
    pub(crate) slept_seconds: f64,
    /// From the arrival of a packet that ended a sleep to the thread's work.
    pub(crate) arrivals: Delays,
    /// From another thread's call to the end of the sleep.
    pub(crate) calls: Delays,
    /// From the intended end of a sleep to its actual end.
    pub(crate) alarms: Delays,
}

/// Delays of one kind.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Delays {
    /// Their number.
    pub(crate) count: u64,
    /// The mean one.
    pub(crate) mean_seconds: f64,
    /// The longest one.
    pub(crate) longest_seconds: f64,
}

/// An element and its counts.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Element {
    /// Its index, as in [`Connection`].
    pub(crate) id: usize,
    /// Its name.
    pub(crate) name: String,
    /// Its class.
    pub(crate) class: String,
    /// `file:line` of its declaration.
    pub(crate) landmark: String,
    /// Whether it handles no packets.
    pub(crate) information: bool,
    /// The kinds of its inputs.
    pub(crate) inputs: Vec<PortKind>,
    /// The kinds of its outputs.
    pub(crate) outputs: Vec<PortKind>,
    /// Packets that came: from its inputs or from a device, or made by itself.
    #[serde(rename = "in")]
    pub(crate) entered: u64,
    /// Packets that left: by its outputs, to a device or to a file.
    #[serde(rename = "out")]
    pub(crate) left: u64,
    /// Packets from its inputs.
    pub(crate) received: u64,
    /// Packets that it made, or that a device received.
    pub(crate) created: u64,
    /// Packets to its outputs.
    pub(crate) sent: u64,
    /// Packets to a device or to a file.
    pub(crate) consumed: u64,
    /// Bytes, if the element counts them.
    pub(crate) bytes: Option<u64>,
    /// Batches in which packets came to its inputs.
    pub(crate) batches: u64,
    /// The mean number of packets of a batch.
    pub(crate) mean_batch: Option<f64>,
    /// Cycles with packets.
    pub(crate) cycles: u64,
    /// The mean number of cycles a packet; none if no measured round ran the element.
    pub(crate) cycles_per_packet: Option<f64>,
    /// Cycles of looking for packets in vain.
    pub(crate) polling_cycles: u64,
    /// Packets that it holds now.
    pub(crate) held: u64,
    /// How full it is, if it stores packets.
    pub(crate) queue: Option<QueueFill>,
    /// Packets that it dropped.
    pub(crate) dropped: u64,
    /// The same by reason.
    pub(crate) drops: Counts,
    /// Whether every packet is accounted for.
    pub(crate) balanced: bool,
}

/// The kind of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum PortKind {
    /// Packets are pushed.
    Push,
    /// Packets are pulled.
    Pull,
    /// Not decided: in a router that is not connected there.
    Agnostic,
}

/// How full a queue is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct QueueFill {
    /// Packets in it.
    pub(crate) length: u64,
    /// The most packets.
    pub(crate) capacity: u64,
}

/// A connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Connection {
    /// The index of the element upstream.
    pub(crate) from: usize,
    /// Its output.
    pub(crate) from_port: usize,
    /// The index of the element downstream.
    pub(crate) to: usize,
    /// Its input.
    pub(crate) to_port: usize,
    /// Packets that passed it, if the elements' counts tell.
    pub(crate) packets: Option<u64>,
}

/// The traffic of one direction of a device, all queues together.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Device {
    /// The device.
    pub(crate) device: String,
    /// `in` or `out`.
    pub(crate) direction: String,
    /// The backend's name.
    pub(crate) backend: String,
    /// True if packets are not copied between the device and the packet memory.
    pub(crate) zero_copy: bool,
    /// How many queues there are.
    pub(crate) queues: usize,
    /// Packets.
    pub(crate) packets: u64,
    /// Their bytes, including Ethernet headers.
    pub(crate) bytes: u64,
    /// The batches in which they were received or sent.
    pub(crate) batches: u64,
    /// Packets that the device lost because no thread received them in time, as last read.
    pub(crate) lost: u64,
    /// Packets larger than the device accepts, which were cut into segments, as last read.
    pub(crate) segmented: u64,
}

/// The sums over all elements.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub(crate) struct Totals {
    /// Packets made by elements or received by devices.
    #[serde(rename = "in")]
    pub(crate) entered: u64,
    /// Packets sent by devices or written to files.
    #[serde(rename = "out")]
    pub(crate) left: u64,
    /// Packets dropped.
    pub(crate) dropped: u64,
    /// Packets in the router now.
    pub(crate) held: u64,
    /// Whether every packet is accounted for, in each element.
    pub(crate) balanced: bool,
}

impl Snapshot {
    /// The version of this model.
    pub(crate) const VERSION: u32 = 1;
}

impl Element {
    /// Computes what follows from other fields.
    pub(crate) fn complete(mut self) -> Self {
        let mean = |sum: u64, n: u64| (n > 0).then(|| sum as f64 / n as f64);
        self.entered = self.received + self.created;
        self.left = self.sent + self.consumed;
        self.dropped = self.drops.total();
        self.mean_batch = mean(self.received, self.batches);
        let packets = if self.cycles > 0 { self.entered.max(self.left) } else { 0 };
        self.cycles_per_packet = mean(self.cycles, packets);
        self
    }
}
