//! ToDPDKDevice - transmits packets by a port of DPDK
//!
//! # Synopsis
//! `ToDPDKDevice(PORT [, QUEUE, keywords N_QUEUES, MAXQUEUES, BLOCKING, IQUEUE, BURST, TIMEOUT,
//! NDESC, MTU, MAC, PAUSE, FAST_FREE, ALLOC, ALLOW_NONEXISTENT, VERBOSE])`
//!
//! # Description
//! Transmits packets, which must have their Ethernet headers, by a port of DPDK (see
//! FromDPDKDevice). Each thread that reaches the element has a transmit queue of its own, as far as
//! the device has so many; others share one by lock.
//!
//! Packets that DPDK received are handed over as they are. Others are handed over where they lie, too,
//! when the card can read them; else they are copied, and counted.
//!
//! Batches are handed to the driver as they come, and packets do not wait for more to come.
//!
//! # Arguments
//! - PORT: the port: its number, its PCI address or the name of its virtual device. Positional,
//!   mandatory.
//! - QUEUE: the first transmit queue. Positional; by default, or if -1, the first one that no other
//!   element has.
//! - N_QUEUES, MAXQUEUES: the most queues; by default, or if -1, as many as threads that reach the
//!   element.
//! - BLOCKING: with a push input, whether to wait for room in the ring. Default false: packets are
//!   dropped.
//! - IQUEUE: for how many packets there is to be room before any is dropped: the ring has at least as
//!   many entries, if the driver allows. A power of 2.
//! - NDESC: entries of the ring; the driver's choice unless given.
//! - BURST: with a pull input, most packets pulled each time, 1 to 256. Default 128, as many as
//!   FromDPDKDevice receives at a time: else queues between the two overflow. Pushed packets go in
//!   the batches in which they come.
//! - TIMEOUT: how long packets may wait for a full BURST, in milliseconds. They do not wait.
//! - MTU, MAC, PAUSE, FAST_FREE: as in FromDPDKDevice.
//! - ALLOC: must be true: packets of all kinds are transmitted.
//! - ALLOW_NONEXISTENT: whether packets are dropped, after a remark, when there is no such port. Default
//!   false.
//! - VERBOSE: as FastClick has it; what is set up is always said.
//!
//! # Ports
//! One agnostic input. Two push outputs that may be left out: packets that were transmitted leave
//! by output 0, those that the port refused by output 1.
//!
//! # Handlers
//! - `count` (read): packets transmitted. `reset_counts` (write): sets it to 0.
//! - `dropped` (read): packets dropped for want of room.
//! - `hw_count`, `hw_bytes`, `hw_errors` (read): what the port transmitted, and what it could not.
//! - `device`, `driver`, `vendor`, `mac`, `mtu`, `nb_rx_queues`, `nb_tx_queues`, `carrier`, `speed`,
//!   `duplex`, `autoneg`, `xstats`, `add_mac`, `remove_mac`: as in FromDPDKDevice.
//! - `queues`, `lost`, `pulls`, `q`, `signal`, `debug`, `scheduled`, `home_thread`: as in ToDevice.
//!
//! # Drops
//! - transmit full: without BLOCKING, the ring had no room.
//! - device error: the packet is longer than the port takes, and there is no output 1.
//! - stopped: the program stopped while the packet waited for room, or there is no such port.
//!
//! # Example
//! ```click
//! FromDPDKDevice(0) -> EtherMirror -> ToDPDKDevice(0, BLOCKING true, NDESC 2048);
//! ```
//!
//! # See also
//! FromDPDKDevice, DPDKInfo, ToDevice

use millrace_core::args::Kind;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Reason, Refused, Setup, register,
};
use millrace_io::{Method, Queues, TxOptions};

use super::dpdk::{self, UsesPort};
use super::transmit::{self, Transmission, Transmits, Wanted};

/// The default of BURST. A source that brings more in its turn than this takes away in its own fills the
/// queue between them.
const BURST: u32 = 128;

/// The element; its manual is at the top of the file.
pub struct ToDpdkDevice {
    port: String,
    transmission: Transmission,
}

register!(ToDpdkDevice, "to_dpdk_device.rs");

impl Element for ToDpdkDevice {
    const CLASS: Class = Class::new("ToDPDKDevice", "1/0-2", "a/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
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
        let _: i32 = args.keyword("TIMEOUT", 0);
        let _: u32 = args.keyword("VERBOSE", 1);
        if !args.keyword("ALLOC", true) {
            args.error("ALLOC", "ALLOC: packets of all kinds are transmitted; it cannot be false");
        }
        let allow_nonexistent = args.keyword("ALLOW_NONEXISTENT", false);
        let options = dpdk::options(args);
        args.complete()?;
        let positive = |n: i32| usize::try_from(n).ok().filter(|n| *n > 0);
        let first = queue.and_then(|queue| usize::try_from(queue).ok()).unwrap_or(0);
        let wanted = Wanted {
            options: TxOptions {
                method: Method::Dpdk(options),
                queues: Queues { first, ..Queues::default() },
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
        Ok(Self { port, transmission })
    }

    transmit::methods!();

    fn handlers(handlers: &mut Handlers<Self>) {
        transmit::handlers(handlers);
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

impl Transmits for ToDpdkDevice {
    fn transmission(&self) -> &Transmission {
        &self.transmission
    }
}

impl UsesPort for ToDpdkDevice {
    fn port_name(&self) -> &str {
        &self.port
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Registry;
    use millrace_core::services::Services;
    use millrace_core::testing::Rig;
    use millrace_io::Devices;
    use millrace_io::memory::{Interface, Network};

    #[test]
    fn transmits_or_drops() {
        let network = Network::default();
        let host = Interface { capacity: 2, ..Interface::new("host") };
        let far = network.connect(Interface::new("03:00.0"), host);
        let mut services = Services::default();
        services.insert(Devices(Box::new(network)));
        let element = "ToDPDKDevice(03:00.0, -1, IQUEUE 1024, BURST 32, TIMEOUT 0, N_QUEUES -1)";
        let mut rig = Rig::with(Registry::linked(), element, 1, 0, services).unwrap();
        rig.push(0, &["a", "b", "c"]);
        assert_eq!(far.unread(), 0);
        assert_eq!(std::iter::from_fn(|| far.receive()).count(), 2);
        let read = |handler| rig.read(handler).unwrap();
        assert_eq!((read("count"), read("dropped")), ("2".into(), "1".into()));
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        for bad in [
            "ToDPDKDevice",
            "ToDPDKDevice(0, IQUEUE 1000)",
            "ToDPDKDevice(0, ALLOC false)",
            "ToDPDKDevice(0, BURST 0)",
            "ToDPDKDevice(0, MTU 20)",
        ] {
            assert!(Rig::new(bad, 1, 0).is_err(), "{bad}");
        }
    }
}
