//! What elements of this library offer one another, and elements of any other crate can offer them.
//!
//! A class offers a capability in [`Element::capabilities`](millrace_core::Element::capabilities), and can then stand
//! where the manual of another class asks for one:
//!
//! | capability | offered by | used by |
//! |---|---|---|
//! | [`Storage`] | queues, LinkUnqueue | RED, AdaptiveRED, PI, Unqueue2 |
//! | [`ArpCache`] | ARPTable, ARPQuerier | ARPQuerier's TABLE |
//! | [`RouteLookup`] | routing elements | Socket's ALLOW and DENY |
//! | [`FlowTable`] | rewriters | ICMPRewriter |
//! | [`Mapper`] | RoundRobinIPMapper, SourceIPHashMapper | rewriters |
//! | [`AggregateNotifier`] | AggregateIPFlows | AggregateFirst, AggregateLast, ToIPFlowDumps |
//! | [`PacketTimes`] | RecordTimestamp | TimestampDiff |
//! | [`VirtualAddress`] | FlowIPLoadBalancer | FlowIPLoadBalancerReverse |
//! | [`HostInterface`] | FromHost | ToHost |
//! | [`Gates`] | Suppressor | EtherSpanTree |
//! | [`StationTable`] | EtherSwitch, ListenEtherSwitch | EtherSpanTree |
//! | [`ConnectionStates`] | ConnectionTracker | IPFilter, IPClassifier, to warn where it is missing |
//! | [`IndirectionTable`] | SoftwareRSS, FromDPDKDevice | DeviceBalancer |
//! | [`BucketCounts`] | AggregateCounterVector | DeviceBalancer |
//! | [`Failures`] | Script, DriverManager | `millrace run`, for its summary and exit status |
//! | [`HandOver`] | Pipeliner | Pipeliner, to find threads that would wait for each other |
//!
//! All methods may be called from any thread, and from the time when the element is configured. None may wait for
//! another thread's packets. Two elements that keep each other's capabilities are never freed.

use std::net::Ipv4Addr;
use std::sync::Arc;

use millrace_core::net::EtherAddress;
use millrace_core::{Capability, Lock, Random, Task, Timestamp};
use millrace_io::tap::TapKind;
use millrace_io::{Opened, TxQueue};

pub use crate::ethernet::arp_cache::ArpCache;
pub use crate::flows::key::FlowId;
pub use crate::ip::lookup::{Hop, RouteLookup};

/// An element that stores packets. Others read its length for each packet, so both methods are cheap, and need no lock
/// that the element holds while it passes packets on.
pub trait Storage: Send + Sync {
    /// How many packets it stores.
    fn size(&self) -> usize;

    /// The maximum number of packets. It may change.
    fn capacity(&self) -> usize;
}

impl Capability for dyn Storage {
    const NAME: &'static str = "a queue length";

    fn missing(element: &str) -> String {
        format!("‘{element}’ is not a Storage element")
    }
}

/// An element that goes on when something fails that nobody waits for, and prints a message.
pub trait Failures: Send + Sync {
    /// What is to be said of it at the end, after the element's name; `None` if nothing has failed.
    fn failures(&self) -> Option<String>;
}

impl Capability for dyn Failures {
    const NAME: &'static str = "an account of failures";
}

/// A table of receive-side scaling: the hash of a flow selects a bucket, and the table says which queue or thread gets
/// the packets of that bucket.
pub trait IndirectionTable: Send + Sync {
    /// The target of each bucket, the number of buckets being a power of two; empty if there is no table.
    fn table(&self) -> Vec<u16>;

    /// The thread that each target's packets are processed on.
    fn threads(&self) -> Vec<usize>;

    /// Replaces the target of each bucket.
    ///
    /// # Errors
    /// The device refuses, with its reason.
    fn assign(&self, table: &[u16]) -> Result<(), String>;

    /// Starts to count the packets of each bucket. Returns false if it cannot.
    fn count_buckets(&self) -> bool;

    /// Packets of each bucket so far; empty if they are not counted.
    fn counts(&self) -> Vec<u64>;
}

impl Capability for dyn IndirectionTable {
    const NAME: &'static str = "a table from hashes to threads";

    fn missing(element: &str) -> String {
        format!(
            "‘{element}’ has no table from hashes to threads: put a SoftwareRSS behind it, and name that"
        )
    }
}

/// Packets of each aggregate. The number of aggregates is a power of two.
pub trait BucketCounts: Send + Sync {
    /// Packets so far.
    fn counts(&self) -> Vec<u64>;
}

impl Capability for dyn BucketCounts {
    const NAME: &'static str = "a count for each aggregate";

    fn missing(element: &str) -> String {
        format!("‘{element}’ is no AggregateCounterVector")
    }
}

/// The flows that an element rewrites.
pub trait FlowTable: Send + Sync {
    /// How many outputs the element has.
    fn outputs(&self) -> usize;

    /// How a packet of `flow` would be rewritten, if the table has a mapping for it. `reply` prefers the mapping's reply
    /// direction. Protocol 0 stands for any. Makes no mapping, and does not count as use of one.
    fn mapping(&self, protocol: u8, flow: FlowId, reply: bool) -> Option<Mapping>;
}

/// How packets of a flow are rewritten.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mapping {
    /// The flow, as far as the mapping covers it: addresses or ports that it does not look at are 0.
    pub from: FlowId,
    /// What the flow becomes.
    pub to: FlowId,
    /// The output that its packets leave by.
    pub output: u16,
    /// Whether these are replies to the flow that made the mapping.
    pub is_reply: bool,
    /// The value of the reply annotation.
    pub annotation: u8,
}

impl Capability for dyn FlowTable {
    const NAME: &'static str = "rewritten flows";

    fn missing(element: &str) -> String {
        format!("{element} not an IP rewriter")
    }
}

/// Chooses how a rewriter rewrites new flows. Rewriters look for it when they are configured, so its class has an
/// earlier [phase](millrace_core::Class::phase) than they do, which is the default one.
pub trait Mapper: Send + Sync {
    /// The flow that `flow` becomes, and its outputs; `None` if its packets are dropped.
    fn rewrite(&self, flow: FlowId, request: &mut Request<'_>) -> Option<(FlowId, Outputs)>;

    /// The outputs that it may choose.
    fn outputs(&self) -> Vec<Outputs>;
}

/// The output of a flow, and the output of its replies.
pub type Outputs = [u16; 2];

/// What a [`Mapper`] chooses by, beside the flow.
pub struct Request<'r> {
    /// Whether a flow of replies already belongs to another mapping.
    pub taken: &'r dyn Fn(FlowId) -> bool,
    /// The router's random numbers.
    pub random: &'r Random,
}

impl Capability for dyn Mapper {
    const NAME: &'static str = "a choice of mappings";

    fn missing(_: &str) -> String {
        "element is not an IPMapper".to_owned()
    }
}

/// Reports aggregates that have ended, so that others can forget them.
pub trait AggregateNotifier: Send + Sync {
    /// A list that gets the aggregates that end from now on.
    fn listen(&self, task: Task) -> Arc<Ended>;
}

/// The aggregates that have ended since the listener last looked.
#[derive(Debug)]
pub struct Ended {
    aggregates: Lock<Vec<u32>>,
    task: Task,
}

impl Ended {
    /// An empty list for a listener whose `task` is scheduled when there is something in it.
    pub fn new(task: Task) -> Self {
        Self { aggregates: Lock::default(), task }
    }

    /// Adds aggregates that have ended.
    pub fn note(&self, aggregates: impl IntoIterator<Item = u32>) {
        self.aggregates.lock().extend(aggregates);
        self.task.schedule();
    }

    /// Those that have ended since the last call, in that order.
    pub fn take(&self) -> Vec<u32> {
        std::mem::take(&mut self.aggregates.lock())
    }
}

impl Capability for dyn AggregateNotifier {
    const NAME: &'static str = "notice of aggregates that end";

    fn missing(element: &str) -> String {
        format!("{element} is not an AggregateNotifier")
    }
}

/// A record of when numbered packets passed.
pub trait PacketTimes: Send + Sync {
    /// When the packet with this number passed, if that is recorded. Removes the record.
    fn take(&self, number: u64) -> Option<Timestamp>;
}

impl Capability for dyn PacketTimes {
    const NAME: &'static str = "a record of packet times";

    fn missing(_: &str) -> String {
        "RECORDER must be a valid RecordTimestamp element".to_owned()
    }
}

/// An address that stands for several servers.
pub trait VirtualAddress: Send + Sync {
    /// The address. It does not change.
    fn virtual_address(&self) -> Ipv4Addr;
}

impl Capability for dyn VirtualAddress {
    const NAME: &'static str = "a virtual address";

    fn missing(element: &str) -> String {
        format!("{element} is not a FlowIPLoadBalancer")
    }
}

/// An interface of this machine that the element has made.
pub trait HostInterface: Send + Sync {
    /// The interface's name.
    fn interface(&self) -> &str;

    /// Whether it carries frames or IP packets.
    fn kind(&self) -> TapKind;

    /// Queues to the machine, which all callers share. None before the element is initialised.
    fn queues(&self) -> Option<Opened<dyn TxQueue>>;
}

impl Capability for dyn HostInterface {
    const NAME: &'static str = "an interface of the host";
}

/// Gates, one per port, that stop packets while they are shut.
pub trait Gates: Send + Sync {
    /// Opens or shuts the gate of a port. Without effect if there is no such port.
    fn set_open(&self, port: usize, open: bool);
}

impl Capability for dyn Gates {
    const NAME: &'static str = "gates";

    fn missing(element: &str) -> String {
        format!("‘{element}’ is not a Suppressor")
    }
}

/// An element that writes the state of its connection into each packet's CONNECTION annotation. There is nothing to ask
/// it: rules that have words for states want one upstream.
pub trait ConnectionStates: Send + Sync {}

impl Capability for dyn ConnectionStates {
    const NAME: &'static str = "states of connections";
}

/// The stations that an Ethernet switch has heard.
pub trait StationTable: Send + Sync {
    /// The port of a station that has been heard.
    fn port_of(&self, station: EtherAddress) -> Option<usize>;
}

impl Capability for dyn StationTable {
    const NAME: &'static str = "a table of stations";

    fn missing(element: &str) -> String {
        format!("‘{element}’ is not an EtherSwitch")
    }
}

/// An element that hands packets over to the thread of its task.
pub trait HandOver: Send + Sync {
    /// Whether threads that push packets wait while it is full.
    fn waits(&self) -> bool;
}

impl Capability for dyn HandOver {
    const NAME: &'static str = "a hand-over to another thread";
}
