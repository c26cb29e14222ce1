//! FromDPDKDevice - receives packets from a port of DPDK
//!
//! # Synopsis
//! `FromDPDKDevice(PORT [, QUEUE, PROMISC, keywords N_QUEUES, BURST, MAXTHREADS, THREADOFFSET,
//! MAXQUEUES, NUMA, NDESC, MTU, MAC, PAUSE, RSS_AGGREGATE, RSS_SYMMETRIC, MAX_RSS, PAINT_QUEUE,
//! TIMESTAMP, RX_INTR, VLAN_FILTER, VLAN_STRIP, VLAN_EXTEND, FAST_FREE, ACTIVE,
//! ALLOW_NONEXISTENT, ...])`
//!
//! # Description
//! Sends the packets that a port of DPDK receives. DPDK drives the card from within this process:
//! the kernel does not see the packets, and nothing is copied or converted on their way. It takes
//! the plugin `libmillrace_dpdk.so` (`cargo build --release -p millrace-dpdk`), and the card must be
//! bound to a driver that leaves it to DPDK (`dpdk-devbind.py --bind=vfio-pci 03:00.0`). Options of
//! DPDK's own stand on the command line: `millrace run --dpdk -a 03:00.0 -- FILE`.
//!
//! The card spreads flows over the receive queues by a hash (RSS); each thread has a queue of its
//! own. The packet type annotation says that packets are for this host, the MAC header annotation
//! is set.
//!
//! All elements that use a port must agree about what concerns the port as a whole (MTU, MAC, PAUSE,
//! MAX_RSS, NDESC).
//!
//! # Arguments
//! - PORT: the port: its number, its PCI address (`0000:03:00.0` or `03:00.0`) or the name of its
//!   virtual device (`net_pcap0`). Positional, mandatory.
//! - QUEUE: the first receive queue; then it is the only one unless N_QUEUES says otherwise.
//!   Positional, default 0. -1 is the default too.
//! - PROMISC: whether the port receives packets for other hosts too. Positional, default true.
//! - N_QUEUES: how many queues; by default, or if -1, as many as threads. Fewer when the device has not
//!   so many.
//! - MAXQUEUES: the most queues.
//! - MAXTHREADS, THREADOFFSET, NUMA: how many threads, the first of them, and whether they must be near
//!   the card, as in FromDevice. MAXTHREADS -1 is no bound.
//! - BURST: most packets received each time, 1 to 256. Default 128, whose descriptors and headers fill two
//!   thirds of a first-level cache of 48 KiB; FastClick's is 32. Nobody waits for a burst to be full.
//! - NDESC: entries of the receive ring; the driver's choice unless given.
//! - MTU: the longest packet behind the Ethernet header, in bytes. The mbufs are made as large.
//! - MAC: the port's Ethernet address.
//! - PAUSE: which pause frames the card heeds (rx), sends (tx), both (full) or none; unset, the
//!   default, leaves that.
//! - RSS_AGGREGATE: whether the hash over the flow goes to the aggregate annotation. Default false.
//! - RSS_SYMMETRIC: whether both directions of a connection go to the same queue. Default false.
//! - MAX_RSS: to how many of the queues flows are spread; all unless given.
//! - PAINT_QUEUE: whether the paint annotation gets the number of the queue. Default false.
//! - TIMESTAMP: whether packets get the time when they were taken from the card. Default false.
//! - RX_INTR: 0 or more lets an idle thread sleep until the card has packets, where the driver
//!   can. Default -1.
//! - VLAN_FILTER, VLAN_STRIP, VLAN_EXTEND: what the card does with VLAN tags; what it strips is in the
//!   VLAN annotation. Refused where the driver cannot. Default false.
//! - FAST_FREE: whether a card that can free transmitted packets in one go may; it then copies, and
//!   counts, packets that it did not receive, and shared ones. Default true.
//! - ACTIVE: whether it receives. Default true.
//! - ALLOW_NONEXISTENT: whether nothing but a remark follows when there is no such port. Default false.
//! - MODE: rss or none; the other modes of FastClick are refused. VERBOSE, CLEAR, MINQUEUES: as FastClick
//!   has them; what is set up is always said, and annotations are always clear. LRO, IPCO, TCO, UCO,
//!   FLOW_ISOLATE: must be false. MINQUEUES: must be 1.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! - `count` (read): packets received. `reset_counts` (write): sets it to 0.
//! - `hw_count`, `hw_bytes`, `hw_dropped`, `hw_errors`, `nombufs` (read): what the port received, lost
//!   because nobody took it in time, found damaged, and had no mbuf for.
//! - `xstats` (read): the driver's own counters; with a name, that one.
//! - `queue_count` (read): packets that wait in each receive ring; with a number, in that one.
//! - `nb_rx_queues`, `nb_tx_queues` (read): queues of the port that are used.
//! - `device`, `driver`, `vendor`, `mac`, `mtu` (read): about the port.
//! - `carrier`, `speed`, `duplex`, `autoneg` (read): about its link, in Mb/s.
//! - `add_mac`, `remove_mac` (write): receive packets for another Ethernet address, or no more.
//! - `burst` (read): as BURST.
//! - `active` (read, write): whether it receives.
//! - `queues`, `scheduled`, `home_thread`, `kernel_drops`, `segmented`: as in FromDevice.
//!
//! # Drops
//! None of its own. `hw_dropped` counts what the port lost.
//!
//! # Example
//! ```click
//! FromDPDKDevice(0, N_QUEUES 2) -> EtherMirror -> ToDPDKDevice(0);
//! ```
//!
//! # See also
//! ToDPDKDevice, DPDKInfo, FromDevice

use millrace_core::args::{Kind, Word};
use millrace_core::element::Receiving;
use millrace_core::{
    Args, Batch, Class, Context, Element, Failed, Handlers, Init, Refused, Router, Setup, register,
};
use millrace_io::{DpdkOptions, Method, RxOptions, Spread};

use super::dpdk::{self, UsesPort};
use super::receive::{self, Receives, Reception, Wanted};
use super::threading;

/// What is received each time, unless the configuration says otherwise.
const BURST: u32 = 128;

/// The element; its manual is at the top of the file.
pub struct FromDpdkDevice {
    port: String,
    burst: usize,
    reception: Reception,
}

register!(FromDpdkDevice, "from_dpdk_device.rs");

impl Element for FromDpdkDevice {
    const CLASS: Class = Class::new("FromDPDKDevice", "0/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let port = dpdk::port(args);
        let queue: Option<i32> = args.in_range("QUEUE", Kind::Positional, -1..=4095);
        let promiscuous = args.positional("PROMISC", true);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let burst = burst.unwrap_or(BURST) as usize;
        let active = args.keyword("ACTIVE", true);
        let allow_nonexistent = args.keyword("ALLOW_NONEXISTENT", false);
        let timestamp = args.keyword("TIMESTAMP", false);
        let symmetric = args.keyword("RSS_SYMMETRIC", false);
        let descriptors = dpdk::ring(args);
        let receiving = queues_and_threads(args, queue);
        let options = options(args);
        refuse_others(args);
        args.complete()?;
        let options = RxOptions {
            method: Method::Dpdk(options),
            descriptors,
            promiscuous,
            timestamp,
            spread: if symmetric { Spread::Symmetric } else { Spread::Flow },
            ..RxOptions::default()
        };
        let wanted = Wanted { options, burst, active, optional: allow_nonexistent, receiving };
        let reception = Reception::configure(setup, port.clone(), wanted);
        Ok(Self { port, burst, reception })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.reception.initialize(init)
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.reception.run(cx, |cx, batch| cx.push_batch(0, batch))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        receive::handlers(handlers);
        dpdk::handlers(handlers);
        dpdk::counter(handlers, "hw_count", |stats| stats.received);
        dpdk::counter(handlers, "hw_bytes", |stats| stats.received_bytes);
        dpdk::counter(handlers, "hw_dropped", |stats| stats.missed);
        dpdk::counter(handlers, "hw_errors", |stats| stats.receive_errors);
        dpdk::counter(handlers, "nombufs", |stats| stats.no_mbuf);
        dpdk::queue_count(handlers);
        handlers.read("burst", |e, _| e.burst);
    }

    fn cleanup(&self, router: &Router) -> Result<(), Refused> {
        receive::cleanup(self, router)
    }
}

impl Receives for FromDpdkDevice {
    fn reception(&self) -> &Reception {
        &self.reception
    }
}

impl UsesPort for FromDpdkDevice {
    fn port_name(&self) -> &str {
        &self.port
    }
}

/// FastClick's arguments, where -1 is as good as nothing.
fn queues_and_threads(args: &mut Args<'_>, queue: Option<i32>) -> Receiving {
    let first = queue.and_then(|queue| usize::try_from(queue).ok());
    let receiving = Receiving {
        first_queue: first.unwrap_or(0),
        queues: first.map(|_| 1),
        ..Receiving::default()
    };
    let most: Option<u32> = args.in_range("MAXQUEUES", Kind::Keyword, 1..=4096);
    let least: Option<u32> = args.in_range("MINQUEUES", Kind::Keyword, 0..=4096);
    if least.is_some_and(|least| least > 1) {
        args.error("MINQUEUES", "MINQUEUES: say how many queues there are to be with N_QUEUES");
    }
    let receiving = threading::configure(args, receiving);
    let bound = [receiving.max_threads, most.map(|most| most as usize)].into_iter().flatten().min();
    Receiving { max_threads: bound, ..receiving }
}

fn options(args: &mut Args<'_>) -> DpdkOptions {
    let interrupts = args.in_range("RX_INTR", Kind::Keyword, -1..=4095i32);
    DpdkOptions {
        vlan_filter: args.keyword("VLAN_FILTER", false),
        vlan_strip: args.keyword("VLAN_STRIP", false),
        vlan_extend: args.keyword("VLAN_EXTEND", false),
        rss_aggregate: args.keyword("RSS_AGGREGATE", false),
        paint_queue: args.keyword("PAINT_QUEUE", false),
        rss_queues: args.in_range("MAX_RSS", Kind::Keyword, 1..=4096),
        interrupts: interrupts.is_some_and(|wanted| wanted >= 0),
        ..dpdk::options(args)
    }
}

/// Arguments of FastClick's that have one value here, or none.
fn refuse_others(args: &mut Args<'_>) {
    let mode: Option<Word> = args.optional_keyword("MODE");
    if let Some(mode) = mode.filter(|mode| !["rss", "none", ""].contains(&mode.as_str())) {
        args.error("MODE", format!("MODE ‘{}’ is not supported, only rss and none", mode.as_str()));
    }
    for (keyword, why) in [
        ("LRO", "packets that the card has merged are longer than others take"),
        ("IPCO", "checksums are computed by SetIPChecksum and its kin"),
        ("TCO", "checksums are computed by SetTCPChecksum and its kin"),
        ("UCO", "checksums are computed by SetUDPChecksum and its kin"),
        ("FLOW_ISOLATE", "there are no rules for flows in cards"),
    ] {
        dpdk::refuse(args, keyword, why);
    }
    let _: u32 = args.keyword("VERBOSE", 1);
    let _: bool = args.keyword("CLEAR", false);
}

#[cfg(test)]
mod tests {
    use millrace_core::Packet;
    use millrace_core::services::Services;
    use millrace_core::testing::Rig;
    use millrace_core::{Registry, Timestamp};
    use millrace_io::Devices;
    use millrace_io::memory::{Interface, Network};

    #[test]
    fn receives_from_whatever_device_the_program_puts_there() {
        let network = Network::default();
        let far = network.connect(Interface::new("0"), Interface::new("host"));
        let mut services = Services::default();
        services.insert(Devices(Box::new(network)));
        let element = "FromDPDKDevice(0, QUEUE 0, BURST 1, MAXTHREADS -1, VERBOSE 3, MODE rss)";
        let mut rig = Rig::with(Registry::linked(), element, 0, 1, services).unwrap();
        far.send(Packet::from_bytes(b"packet").unwrap()).unwrap();
        assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 1);
        assert_eq!(
            (rig.read("count").unwrap(), rig.read("burst").unwrap()),
            ("1".into(), "1".into())
        );
        assert!(rig.read("carrier").is_err(), "it is no port of DPDK");
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        for bad in [
            "FromDPDKDevice",
            "FromDPDKDevice(0, BURST 257)",
            "FromDPDKDevice(0, N_QUEUES 0)",
            "FromDPDKDevice(0, MODE flow)",
            "FromDPDKDevice(0, LRO true)",
            "FromDPDKDevice(0, TCO true)",
            "FromDPDKDevice(0, FLOW_RULES_FILE rules)",
            "FromDPDKDevice(0, PAUSE often)",
            "FromDPDKDevice(0, MINQUEUES 2)",
            "FromDPDKDevice(0, NDESC 65536)",
        ] {
            assert!(Rig::new(bad, 0, 1).is_err(), "{bad}");
        }
    }
}
