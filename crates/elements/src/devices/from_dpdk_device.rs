//! FromDPDKDevice - receives packets from a DPDK port
//!
//! # Synopsis
//! `FromDPDKDevice(PORT [, QUEUE, PROMISC, keywords N_QUEUES, BURST, MAXTHREADS, THREADOFFSET,
//! MAXQUEUES, NUMA, NDESC, MTU, MAC, PAUSE, RSS_AGGREGATE, RSS_SYMMETRIC, MAX_RSS, PAINT_QUEUE,
//! TIMESTAMP, RX_INTR, MODE, FLOW_RULES_FILE, FLOW_ISOLATE, VLAN_FILTER, VLAN_STRIP, VLAN_EXTEND, FAST_FREE, ACTIVE,
//! ALLOW_NONEXISTENT, ...])`
//!
//! # Description
//! Emits the packets that a DPDK port receives. DPDK drives the card from within this process: the
//! kernel does not see the packets, and nothing is copied or converted on the way. It requires the
//! plugin `libmillrace_dpdk.so` (`cargo build --release -p millrace-dpdk`), and the card must be bound
//! to a driver that leaves it to DPDK (`dpdk-devbind.py --bind=vfio-pci 03:00.0`). Pass DPDK's own
//! options on the command line: `millrace run --dpdk -a 03:00.0 -- FILE`.
//!
//! The card spreads flows over the receive queues by a hash (RSS), and each thread has a queue of its
//! own. The packet type annotation is set to host. The MAC header annotation is set.
//!
//! All elements that use a port must agree on the settings of the port as a whole (MTU, MAC, PAUSE,
//! MAX_RSS, NDESC).
//!
//! # Arguments
//! - PORT: the port: its number, its PCI address (`0000:03:00.0` or `03:00.0`) or the name of its
//!   virtual device (`net_pcap0`). Positional, mandatory.
//! - QUEUE: the first receive queue. If given, it is the only one unless N_QUEUES is given. Positional,
//!   default 0. -1 means the default.
//! - PROMISC: whether the port also receives packets for other hosts. Positional, default true.
//! - N_QUEUES: number of queues. By default, or if -1, one for each thread. Fewer if the device does
//!   not have that many.
//! - MAXQUEUES: maximum number of threads that receive, like MAXTHREADS; without N_QUEUES this also
//!   limits the queues.
//! - MAXTHREADS, THREADOFFSET, NUMA: maximum number of threads, the first thread, and whether the
//!   threads must be on the card's NUMA node, as in FromDevice. MAXTHREADS -1 means no limit.
//! - BURST: maximum number of packets received at a time, 1 to 256. Default 128, whose descriptors and
//!   headers fill two thirds of a first-level cache of 48 KiB; FastClick's default is 32. The element
//!   never waits for a full burst.
//! - NDESC: entries of the receive ring. Default: the driver's choice.
//! - MTU: the longest packet after the Ethernet header, in bytes. The mbufs are sized to fit.
//! - MAC: the port's Ethernet address.
//! - PAUSE: which pause frames the card obeys (rx), sends (tx), both (full) or none. Unset, the
//!   default, leaves the card's setting unchanged.
//! - RSS_AGGREGATE: whether the flow hash goes to the aggregate annotation. Default false.
//! - RSS_SYMMETRIC: whether both directions of a connection go to the same queue. Default false.
//! - MAX_RSS: number of queues that flows are spread over. Default: all.
//! - PAINT_QUEUE: whether the paint annotation gets the number of the queue. Default false.
//! - TIMESTAMP: whether packets are timestamped when they are read from the card. Default false.
//! - RX_INTR: 0 or more lets an idle thread sleep until the card has packets, if the driver supports
//!   it. Default -1.
//! - VLAN_FILTER, VLAN_STRIP, VLAN_EXTEND: what the card does with VLAN tags. Stripped tags are in the
//!   VLAN annotation. Rejected if the driver does not support them. Default false.
//! - FAST_FREE: whether a card that can free transmitted packets in bulk may do so. It then copies (and
//!   counts) shared packets and packets that it did not receive. Default true.
//! - ACTIVE: whether it receives. Default true.
//! - ALLOW_NONEXISTENT: whether a missing port only causes a warning. Default false.
//! - MODE: rss, none, or flow, in which the card selects queues by rules; FastClick's other modes are rejected. Default
//!   rss.
//! - FLOW_RULES_FILE (or FLOW_DIR_RULES_FILE): with MODE flow, a file of rules in the language of DPDK's testpmd, one per
//!   line, such as `ingress pattern eth / ipv4 src is 10.0.0.1 / udp dst is 53 / end actions queue index 2 / end`. Headers
//!   are eth, vlan, ipv4, ipv6, udp, tcp, sctp and icmp; fields are compared by `is`, `spec`, `mask` and `prefix`; actions
//!   are queue, drop, count and passthru. Packets without a rule are spread by hash. A driver that has no rules for flows
//!   (rte_flow), or not this one, is reported, and the router does not start.
//! - FLOW_ISOLATE: with MODE flow, whether the card receives only packets for which there is a rule. Default false.
//! - LRO: must be false.
//! - IPCO, TCO, UCO: accepted without effect: elements such as CheckIPHeader and ResetIPChecksum check and
//!   compute checksums.
//! - MINQUEUES: must not exceed 1.
//! - VERBOSE: accepted without effect: the port's setup is always reported.
//! - CLEAR: accepted without effect: annotations are always clear.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! - `count` (read): packets received. `reset_counts` (write): resets it to 0.
//! - `hw_count`, `hw_bytes`, `hw_dropped`, `hw_errors`, `nombufs` (read): what the port received
//!   (packets and bytes), lost because no thread read it in time, found damaged, and had no mbuf for.
//! - `xstats` (read): the driver's own counters; with a name as parameter, only that counter.
//! - `queue_count` (read): packets waiting in each receive ring; with a number as parameter, only in
//!   that ring.
//! - `nb_rx_queues`, `nb_tx_queues` (read): queues of the port in use.
//! - `device`, `driver`, `vendor`, `mac`, `mtu` (read): properties of the port.
//! - `carrier`, `speed`, `duplex`, `autoneg` (read): properties of its link; the speed is in Mb/s.
//! - `add_mac`, `remove_mac` (write): starts or stops receiving packets for another Ethernet address.
//! - `burst` (read): the value of BURST.
//! - `active` (read, write): whether it receives.
//! - `queues`, `scheduled`, `home_thread`, `kernel_drops`, `segmented`: as in FromDevice.
//!
//! # Drops
//! None of its own. `hw_dropped` counts packets that the port lost.
//!
//! # Example
//! ```click
//! FromDPDKDevice(0, N_QUEUES 2) -> EtherMirror -> ToDPDKDevice(0);
//! ```
//!
//! # See also
//! ToDPDKDevice, DPDKInfo, FromDevice

use std::sync::Arc;

use millrace_core::args::{FileName, Kind, Word};
use millrace_core::element::Receiving;
use millrace_core::{Args, Batch, Class, Failed, Handlers, Offers, Setup, register};
use millrace_io::flow_rule::FlowRule;
use millrace_io::{DpdkOptions, Method, RxOptions, Spread};

use super::interface::dpdk::{self, UsesPort};
use super::interface::receive::{DeviceInput, InputClass, Reception, Wanted};
use super::interface::threading;
use crate::capability::IndirectionTable;
use crate::rule_file::{self, Origin};

/// Packets received at a time, unless the configuration says otherwise.
const BURST: u32 = 128;

/// The class; its manual is at the top of the file.
pub struct FromDpdkDevice {
    port: String,
    burst: usize,
}

register!(DeviceInput<FromDpdkDevice>, "from_dpdk_device.rs");

impl InputClass for FromDpdkDevice {
    const CLASS: Class = Class::new("FromDPDKDevice", "0/1", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Reception), Failed> {
        let args = &mut setup.args;
        let port = dpdk::port(args);
        let queue: Option<i32> = args.in_range("QUEUE", Kind::Positional, -1..=4095);
        let promiscuous = args.positional("PROMISC", true);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let burst = burst.unwrap_or(BURST) as usize;
        if burst == 1 {
            args.advise("BURST", "packets go on one at a time");
        }
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
        Ok((Self { port, burst }, reception))
    }

    fn capabilities(element: &Arc<DeviceInput<Self>>, offers: &mut Offers<'_>) {
        offers.provide::<dyn IndirectionTable>(element.clone());
    }

    fn handlers(handlers: &mut Handlers<DeviceInput<Self>>) {
        dpdk::handlers(handlers);
        dpdk::counter(handlers, "hw_count", |stats| stats.received);
        dpdk::counter(handlers, "hw_bytes", |stats| stats.received_bytes);
        dpdk::counter(handlers, "hw_dropped", |stats| stats.missed);
        dpdk::counter(handlers, "hw_errors", |stats| stats.receive_errors);
        dpdk::counter(handlers, "nombufs", |stats| stats.no_mbuf);
        dpdk::queue_count(handlers);
        handlers.read("burst", |e, _| e.class.burst);
    }
}

impl UsesPort for DeviceInput<FromDpdkDevice> {
    fn port_name(&self) -> &str {
        &self.class.port
    }
}

/// The card's own table.
impl IndirectionTable for DeviceInput<FromDpdkDevice> {
    fn table(&self) -> Vec<u16> {
        millrace_io::dpdk::port(&self.class.port).map_or(Vec::new(), |port| port.reta())
    }

    fn threads(&self) -> Vec<usize> {
        self.reception.threads_of_queues()
    }

    fn assign(&self, table: &[u16]) -> Result<(), String> {
        let port = millrace_io::dpdk::port(&self.class.port).ok_or("there is no such port")?;
        port.set_reta(table).map_err(|error| error.to_string())
    }

    fn count_buckets(&self) -> bool {
        false
    }

    fn counts(&self) -> Vec<u64> {
        Vec::new()
    }
}

/// Reads FastClick's arguments, in which -1 means the default.
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
        ..flow_options(args)
    }
}

/// Reads MODE and the rules for flows, with the options of the port as a whole.
fn flow_options(args: &mut Args<'_>) -> DpdkOptions {
    let mode: Option<Word> = args.optional_keyword("MODE");
    let mode = mode.as_ref().map_or("rss", Word::as_str);
    if !["rss", "none", "", "flow", "flow_dir"].contains(&mode) {
        args.error("MODE", format!("MODE ‘{mode}’ is not supported, only rss, none and flow"));
    }
    let names = ["FLOW_RULES_FILE", "FLOW_DIR_RULES_FILE"];
    let files: Vec<(&str, FileName)> =
        names.into_iter().filter_map(|name| Some((name, args.optional_keyword(name)?))).collect();
    let flow_isolate = args.keyword("FLOW_ISOLATE", false);
    if !["flow", "flow_dir"].contains(&mode) && (!files.is_empty() || flow_isolate) {
        args.error("MODE", "rules for flows need MODE flow");
    }
    let mut flow_rules = Vec::new();
    for (name, file) in files {
        match rules_of(&file) {
            Ok(rules) => flow_rules.extend(rules),
            Err(why) => args.error(name, why),
        }
    }
    DpdkOptions { flow_rules, flow_isolate, ..dpdk::options(args) }
}

/// The rules of a file, each with its place.
fn rules_of(file: &FileName) -> Result<Vec<(String, FlowRule)>, String> {
    let bytes = rule_file::read(file.as_path()).map_err(|fault| fault.to_string())?;
    let origin = Origin::new(Some(file.as_path()), &bytes);
    let text = String::from_utf8_lossy(origin.text);
    let mut rules = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        match FlowRule::parse(line) {
            Ok(rule) => rules.extend(rule.map(|rule| (format!("{}:{number}", file.0), rule))),
            Err(error) => {
                return Err(origin.fault_at_byte(number, error.at + 1, error.reason).to_string());
            }
        }
    }
    Ok(rules)
}

/// Reads FastClick's arguments that allow only one value here, or have no effect.
fn refuse_others(args: &mut Args<'_>) {
    dpdk::refuse(args, "LRO", "packets that the card has merged are longer than others take");
    dpdk::checksum_offloads(args);
    args.ignored::<u32>("VERBOSE", Kind::Keyword, "the port's setup is always reported");
    args.ignored::<bool>("CLEAR", Kind::Keyword, "annotations are always clear");
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Timestamp};

    use crate::devices::interface::test_rig::rig;

    #[test]
    fn receives_from_a_substituted_device() {
        let element = "FromDPDKDevice(0, QUEUE 0, BURST 1, MAXTHREADS -1, VERBOSE 3, MODE rss)";
        let (mut rig, far) = rig("0", element, 0, 1);
        far.send(Packet::from_bytes(b"packet").unwrap()).unwrap();
        assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 1);
        assert_eq!(
            (rig.read("count").unwrap(), rig.read("burst").unwrap()),
            ("1".into(), "1".into())
        );
        assert!(rig.read("carrier").is_err(), "it is no port of DPDK");
    }

    #[test]
    fn rules_for_flows_are_read_from_a_file() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let name = file.path().display().to_string();
        let text = format!("FromDPDKDevice(0, MODE flow, FLOW_RULES_FILE {name})");
        let rule = "ingress pattern eth / udp dst is 53 / end actions queue index 0 / end";
        std::fs::write(&file, format!("# DNS\n{rule}\n")).unwrap();
        assert!(rig("0", &text, 0, 1).0.read("count").is_ok());
        std::fs::write(&file, format!("{rule}\ningress pattern ehh")).unwrap();
        let why = format!("{:?}", Rig::new(&text, 0, 1).map(|_| ()).unwrap_err());
        assert!(why.contains(&format!("{name}:2:17: ‘ehh’ is not known")), "{why}");
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in [
            "FromDPDKDevice",
            "FromDPDKDevice(0, BURST 257)",
            "FromDPDKDevice(0, N_QUEUES 0)",
            "FromDPDKDevice(0, MODE vmdq)",
            "FromDPDKDevice(0, FLOW_ISOLATE true)",
            "FromDPDKDevice(0, MODE flow, FLOW_RULES_FILE /no/such/file)",
            "FromDPDKDevice(0, LRO true)",
            "FromDPDKDevice(0, TCO maybe)",
            "FromDPDKDevice(0, FLOW_RULES_FILE rules)",
            "FromDPDKDevice(0, PAUSE often)",
            "FromDPDKDevice(0, MINQUEUES 2)",
            "FromDPDKDevice(0, NDESC 65536)",
        ] {
            assert!(Rig::new(bad, 0, 1).is_err(), "{bad}");
        }
    }
}
