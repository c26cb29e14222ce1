//! ToDPDKRing - sends packets into a ring of DPDK, which another process empties
//!
//! # Synopsis
//! `ToDPDKRing([MEM_POOL, FROM_PROC, TO_PROC, keywords BLOCKING, IQUEUE, BURST, TIMEOUT, NDESC, NUMA_ZONE])`
//!
//! # Description
//! Puts packets into a ring, from which a FromDPDKRing takes them, in this process or in another one that shares DPDK's
//! memory. FromDPDKRing explains how to start two processes, and how the names identify the ring.
//!
//! Packets that DPDK received are not copied. Others are copied into DPDK's memory, because the other process does not
//! see this process's own; the copies are counted.
//!
//! # Arguments
//! - MEM_POOL: accepted without effect: packets wait where they are. Positional.
//! - FROM_PROC: a name for this process. Positional, mandatory.
//! - TO_PROC: the name of the process that receives. Positional, mandatory.
//! - BLOCKING: whether to wait for room in the ring. Otherwise, packets for which there is no room are dropped. Keyword,
//!   default true. Nothing else runs on the thread while it waits.
//! - NDESC: how many packets the ring holds, if it does not exist yet. Keyword, default 1024.
//! - IQUEUE, BURST, TIMEOUT: accepted without effect: packets do not wait for a full burst.
//! - NUMA_ZONE: accepted without effect: FromDPDKRing says where the ring is.
//!
//! # Ports
//! One push input. Two optional push outputs: sent packets leave by output 0, packets that were rejected by output 1.
//!
//! # Handlers
//! - `count` (read): packets sent. `reset_counts` (write): resets it to 0.
//! - `dropped` (read): packets dropped for lack of room.
//!
//! # Drops
//! - transmit full: the ring had no room, and BLOCKING is false.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> ToDPDKRing(1, FROM_PROC main, TO_PROC nf);
//! FromDPDKRing(1, FROM_PROC nf, TO_PROC main) -> Discard;
//! ```
//!
//! # See also
//! FromDPDKRing, ToDPDKDevice, DPDKInfo

use millrace_core::args::Kind;
use millrace_core::{Class, Failed, Handlers, Reason, Setup, register};
use millrace_io::{DpdkOptions, Method, TxOptions};

use super::from_dpdk_ring::{Ends, entries, name};
use super::interface::transmit::{DeviceOutput, OutputClass, Transmission, Wanted};

/// The class; its manual is at the top of the file.
pub struct ToDpdkRing;

register!(DeviceOutput<ToDpdkRing>, "to_dpdk_ring.rs");

impl OutputClass for ToDpdkRing {
    const CLASS: Class = Class::new("ToDPDKRing", "1/0-2", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Transmission), Failed> {
        let args = &mut setup.args;
        let Ends { own, other } = Ends::configure(args);
        let ring = name(args, &own, &other);
        let blocking = args.keyword("BLOCKING", true);
        let descriptors = entries(args);
        for keyword in ["IQUEUE", "BURST", "TIMEOUT"] {
            args.ignored::<i32>(keyword, Kind::Keyword, "packets do not wait for a full burst");
        }
        args.ignored::<i32>("NUMA_ZONE", Kind::Keyword, "FromDPDKRing says where the ring is");
        args.complete()?;
        let wanted = Wanted {
            options: TxOptions {
                method: Method::Dpdk(DpdkOptions::default()),
                descriptors,
                ..TxOptions::default()
            },
            max_queues: None,
            burst: 32,
            blocking,
            pad: false,
            debug: false,
            optional: false,
        };
        Ok((Self, Transmission::configure(setup, ring, wanted)))
    }

    fn handlers(handlers: &mut Handlers<DeviceOutput<Self>>) {
        handlers.read("dropped", |_, call| {
            let drops = call.router().stats_of(call.element()).drops;
            let full = drops.iter().filter(|(reason, _)| *reason == Reason::TransmitFull);
            full.map(|(_, packets)| packets).sum::<u64>()
        });
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_io::memory::Interface;

    use crate::devices::interface::test_rig::rig_towards;

    #[test]
    fn sends_or_drops() {
        let host = Interface { capacity: 2, ..Interface::new("host") };
        let element =
            "ToDPDKRing(MEM_POOL 1, FROM_PROC main, TO_PROC nf, BLOCKING false, IQUEUE 64)";
        let (mut rig, far) = rig_towards(host, "ring:main-nf", element, 1, 0);
        rig.push(0, &["a", "b", "c"]);
        assert_eq!(std::iter::from_fn(|| far.receive()).count(), 2);
        let read = |handler| rig.read(handler).unwrap();
        assert_eq!((read("count"), read("dropped")), ("2".into(), "1".into()));
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in ["ToDPDKRing", "ToDPDKRing(1, a)", "ToDPDKRing(1, a, b, BURST many)"] {
            assert!(Rig::new(bad, 1, 0).is_err(), "{bad}");
        }
    }
}
