//! ToDPDKDevice - transmits packets through a DPDK port
//!
//! # Synopsis
//! `ToDPDKDevice(PORT [, QUEUE, keywords N_QUEUES, MAXQUEUES, BLOCKING, IQUEUE, BURST, TIMEOUT,
//! NDESC, MTU, MAC, PAUSE, FAST_FREE, ALLOC, ALLOW_NONEXISTENT, IPCO, TCO, UCO, VERBOSE])`
//!
//! # Description
//! Transmits packets, which must have Ethernet headers, through a DPDK port (see FromDPDKDevice). Each
//! thread that reaches the element has a transmit queue of its own; if the device has fewer queues,
//! threads share them by lock.
//!
//! Packets that DPDK received are transmitted without copying. So are other packets if the card can
//! read them where they are; otherwise they are copied, and counted.
//!
//! Batches go to the driver as they arrive; packets do not wait for more packets.
//!
//! # Arguments
//! - PORT: the port: its number, its PCI address or the name of its virtual device. Positional,
//!   mandatory.
//! - QUEUE: the first transmit queue, which other elements may use, too. Positional. By default, or if
//!   -1, the first queue that no other element uses.
//! - N_QUEUES, MAXQUEUES: maximum number of queues. By default, or if -1, one for each thread that
//!   reaches the element.
//! - BLOCKING: with a push input, whether to wait for room in the ring. Default false: packets are
//!   dropped.
//! - IQUEUE: number of packets that must fit before any is dropped: the ring has at least this many
//!   entries, if the driver allows it. A power of 2.
//! - NDESC: entries of the ring. Default: the driver's choice.
//! - BURST: with a pull input, maximum number of packets pulled at a time, 1 to 256. Default 128, the
//!   number that FromDPDKDevice receives at a time; with a smaller value, queues between the two
//!   overflow. Pushed packets are transmitted in the batches in which they arrive.
//! - TIMEOUT: accepted without effect: packets do not wait for a full burst.
//! - MTU, MAC, PAUSE, FAST_FREE: as in FromDPDKDevice.
//! - ALLOC: must be true: packets of all kinds are transmitted.
//! - ALLOW_NONEXISTENT: whether a missing port only causes a warning, and packets are dropped. Default
//!   false.
//! - IPCO, TCO, UCO: accepted without effect: elements such as CheckIPHeader and ResetIPChecksum check and
//!   compute checksums.
//! - VERBOSE: accepted without effect: the port's setup is always reported.
//!
//! # Ports
//! One agnostic input. Two optional push outputs: transmitted packets leave by output 0, packets that
//! the port rejected by output 1.
//!
//! # Handlers
//! - `count` (read): packets transmitted. `reset_counts` (write): resets it to 0.
//! - `dropped` (read): packets dropped for lack of room.
//! - `hw_count`, `hw_bytes`, `hw_errors` (read): what the port transmitted (packets and bytes), and
//!   what it failed to transmit.
//! - `device`, `driver`, `vendor`, `mac`, `mtu`, `nb_rx_queues`, `nb_tx_queues`, `carrier`, `speed`,
//!   `duplex`, `autoneg`, `xstats`, `add_mac`, `remove_mac`: as in FromDPDKDevice.
//! - `queues`, `lost`, `pulls`, `q`, `signal`, `debug`, `scheduled`, `home_thread`: as in ToDevice.
//!
//! # Drops
//! - transmit full: without BLOCKING, the ring had no room; on virtual time, which stands still meanwhile, it had
//!   none for a quarter of a second, and from then on.
//! - device error: the packet is longer than the port accepts, and output 1 is not connected.
//! - stopped: the program stopped while the packet waited for room, or the port does not exist.
//!
//! # Example
//! ```click
//! FromDPDKDevice(0) -> EtherMirror -> ToDPDKDevice(0, BLOCKING true, NDESC 2048);
//! ```
//!
//! # See also
//! FromDPDKDevice, DPDKInfo, ToDevice

use millrace_core::args::Kind;
use millrace_core::{Batch, Class, Failed, Handlers, Reason, Setup, register};
use millrace_io::{Method, Queues, TxOptions};

use super::interface::dpdk::{self, UsesPort};
use super::interface::transmit::{DeviceOutput, OutputClass, Transmission, Wanted};

/// The default of BURST. If a source emits more per turn than this element transmits per turn, the
/// queue between them fills up.
const BURST: u32 = 128;

/// The class; its manual is at the top of the file.
pub struct ToDpdkDevice {
    port: String,
}

register!(DeviceOutput<ToDpdkDevice>, "to_dpdk_device.rs");

impl OutputClass for ToDpdkDevice {
    const CLASS: Class = Class::new("ToDPDKDevice", "1/0-2", "a/h");

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Transmission), Failed> {
        let args = &mut setup.args;
        let port = dpdk::port(args);
        let queue: Option<i32> = args.in_range("QUEUE", Kind::Positional, -1..=4095);
        let count: Option<i32> = args.in_range("N_QUEUES", Kind::Keyword, -1..=4096);
        let most: Option<i32> = args.in_range("MAXQUEUES", Kind::Keyword, -1..=4096);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let blocking = args.keyword("BLOCKING", false);
        let waiting: Option<u32> = args.in_range("IQUEUE", Kind::Keyword, 1..=32_768);
        if waiting.is_some_and(|waiting| !waiting.is_power_of_two()) {
            args.error("IQUEUE", "IQUEUE must be a power of 2");
        }
        let ring = dpdk::ring(args);
        args.ignored::<i32>("TIMEOUT", Kind::Keyword, "packets do not wait for a full burst");
        args.ignored::<u32>("VERBOSE", Kind::Keyword, "the port's setup is always reported");
        dpdk::checksum_offloads(args);
        if !args.keyword("ALLOC", true) {
            args.error("ALLOC", "ALLOC: packets of all kinds are transmitted; it cannot be false");
        }
        let allow_nonexistent = args.keyword("ALLOW_NONEXISTENT", false);
        let options = dpdk::options(args);
        args.complete()?;
        let positive = |n: i32| usize::try_from(n).ok().filter(|n| *n > 0);
        let named = queue.and_then(|queue| usize::try_from(queue).ok());
        let wanted = Wanted {
            options: TxOptions {
                method: Method::Dpdk(options),
                queues: Queues { first: named.unwrap_or(0), ..Queues::default() },
                named: named.is_some(),
                descriptors: ring.max(waiting.map(|waiting| waiting as usize)),
                ..TxOptions::default()
            },
            max_queues: [count, most].into_iter().flatten().filter_map(positive).min(),
            burst: burst.unwrap_or(BURST) as usize,
            blocking,
            pad: false,
            debug: false,
            optional: allow_nonexistent,
        };
        let transmission = Transmission::configure(setup, port.clone(), wanted);
        Ok((Self { port }, transmission))
    }

    fn handlers(handlers: &mut Handlers<DeviceOutput<Self>>) {
        dpdk::handlers(handlers);
        dpdk::counter(handlers, "hw_count", |stats| stats.transmitted);
        dpdk::counter(handlers, "hw_bytes", |stats| stats.transmitted_bytes);
        dpdk::counter(handlers, "hw_errors", |stats| stats.transmit_errors);
        handlers.read("dropped", |_, call| {
            let drops = call.router().stats_of(call.element()).drops;
            let full = drops.iter().filter(|(reason, _)| *reason == Reason::TransmitFull);
            full.map(|(_, packets)| packets).sum::<u64>()
        });
    }
}

impl UsesPort for DeviceOutput<ToDpdkDevice> {
    fn port_name(&self) -> &str {
        &self.class.port
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_io::memory::Interface;

    use crate::devices::interface::test_rig::rig_towards;

    #[test]
    fn transmits_or_drops() {
        let host = Interface { capacity: 2, ..Interface::new("host") };
        let element = "ToDPDKDevice(03:00.0, -1, IPCO true, TCO 1, IQUEUE 1024, BURST 32, TIMEOUT 0, N_QUEUES -1)";
        let (mut rig, far) = rig_towards(host, "03:00.0", element, 1, 0);
        rig.push(0, &["a", "b", "c"]);
        assert_eq!(far.unread(), 0);
        assert_eq!(std::iter::from_fn(|| far.receive()).count(), 2);
        let read = |handler| rig.read(handler).unwrap();
        assert_eq!((read("count"), read("dropped")), ("2".into(), "1".into()));
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in [
            "ToDPDKDevice",
            "ToDPDKDevice(0, IQUEUE 1000)",
            "ToDPDKDevice(0, ALLOC false)",
            "ToDPDKDevice(0, BURST 0)",
            "ToDPDKDevice(0, IPCO maybe)",
            "ToDPDKDevice(0, MTU 20)",
        ] {
            assert!(Rig::new(bad, 1, 0).is_err(), "{bad}");
        }
    }
}
