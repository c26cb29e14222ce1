//! FromDPDKRing - receives packets from a ring of DPDK, which another process fills
//!
//! # Synopsis
//! `FromDPDKRing([MEM_POOL, FROM_PROC, TO_PROC, keywords BURST, NDESC, NUMA_ZONE, ACTIVE])`
//!
//! # Description
//! Emits the packets that a ToDPDKRing puts into a ring. Both may be in one process, or in two that share DPDK's memory.
//! Then one process starts first, with the DPDK option `--proc-type primary`, and the other one with `--proc-type
//! secondary`; both on huge pages and with the same `--file-prefix`, but on different cores (`-l`). Ports belong to the
//! primary process. Whichever of the two elements starts first makes the ring.
//!
//! FROM_PROC here is TO_PROC of the ToDPDKRing, and the other way round; the two names together identify the ring.
//!
//! If both are on one thread, a full ring makes a ToDPDKRing with BLOCKING wait forever: give it another thread, a longer
//! ring, or BLOCKING false.
//!
//! Packets are not copied. They come from the primary's pool, in which a secondary process must not leave any: one that
//! is killed keeps those that it held.
//!
//! # Arguments
//! - MEM_POOL: accepted without effect: packets wait where they are. Positional.
//! - FROM_PROC: a name for this process. Positional, mandatory.
//! - TO_PROC: the name of the process that sends. Positional, mandatory.
//! - BURST: maximum number of packets received at a time, 1 to 256. Keyword, default 32.
//! - NDESC: how many packets the ring holds, if it does not exist yet. Keyword, default 1024.
//! - NUMA_ZONE: the NUMA node of the ring, if it does not exist yet. Keyword, default: any.
//! - ACTIVE: whether it receives. Keyword, default true.
//!
//! # Ports
//! One push output.
//!
//! # Handlers
//! - `count`, `pkt_count` (read): packets received. `reset_counts` (write): resets it to 0.
//! - `active` (read, write): whether it receives.
//! - `queues`, `scheduled`, `home_thread`: as in FromDevice.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 100) -> ToDPDKRing(1, FROM_PROC main, TO_PROC nf);
//! FromDPDKRing(1, FROM_PROC nf, TO_PROC main) -> Discard;
//! ```
//!
//! # See also
//! ToDPDKRing, FromDPDKDevice, DPDKInfo

use millrace_core::args::{Kind, Word};
use millrace_core::element::Receiving;
use millrace_core::{Args, Batch, Class, Failed, Handlers, Setup, register};
use millrace_io::{DpdkOptions, Method, RxOptions, dpdk};

use super::interface::receive::{DeviceInput, InputClass, Reception, Wanted};

/// The maximum number of packets in a ring.
const MOST: u32 = 1 << 20;

/// The class; its manual is at the top of the file.
pub struct FromDpdkRing;

register!(DeviceInput<FromDpdkRing>, "from_dpdk_ring.rs");

impl InputClass for FromDpdkRing {
    const CLASS: Class = Class::new("FromDPDKRing", "0/1", "h/h");

    fn configure(setup: &mut Setup<'_>) -> Result<(Self, Reception), Failed> {
        let args = &mut setup.args;
        let Ends { own, other } = Ends::configure(args);
        let ring = name(args, &other, &own);
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        let options = RxOptions {
            method: Method::Dpdk(DpdkOptions::default()),
            descriptors: entries(args),
            numa_node: node(args),
            promiscuous: false,
            ..RxOptions::default()
        };
        let active = args.keyword("ACTIVE", true);
        args.complete()?;
        let receiving = Receiving { queues: Some(1), ..Receiving::default() };
        let burst = burst.unwrap_or(32) as usize;
        let wanted = Wanted { options, burst, active, optional: false, receiving };
        Ok((Self, Reception::configure(setup, ring, wanted)))
    }

    fn handlers(handlers: &mut Handlers<DeviceInput<Self>>) {
        handlers.read("pkt_count", |element, _| element.reception.received());
    }
}

/// The names of the two processes.
pub(super) struct Ends {
    pub(super) own: Word,
    pub(super) other: Word,
}

impl Ends {
    /// Reads MEM_POOL, FROM_PROC and TO_PROC.
    pub(super) fn configure(args: &mut Args<'_>) -> Self {
        args.ignored::<Word>("MEM_POOL", Kind::Positional, "packets wait where they are");
        Self { own: args.mandatory("FROM_PROC"), other: args.mandatory("TO_PROC") }
    }
}

/// The device that is the ring from one process to another.
pub(super) fn name(args: &mut Args<'_>, from: &Word, to: &Word) -> String {
    match dpdk::ring_device(&format!("{}-{}", from.as_str(), to.as_str())) {
        Ok(device) => device,
        Err(why) => {
            args.error("FROM_PROC", why);
            String::new()
        }
    }
}

/// Reads NDESC.
pub(super) fn entries(args: &mut Args<'_>) -> Option<usize> {
    args.in_range("NDESC", Kind::Keyword, 1..=MOST).map(|entries| entries as usize)
}

/// Reads NUMA_ZONE; -1 is any.
pub(super) fn node(args: &mut Args<'_>) -> Option<usize> {
    let node: Option<i32> = args.in_range("NUMA_ZONE", Kind::Keyword, -1..=1023);
    node.and_then(|node| usize::try_from(node).ok())
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Timestamp};

    use crate::devices::interface::test_rig::rig;

    #[test]
    fn receives_from_the_ring_that_both_names_identify() {
        let element = "FromDPDKRing(MEM_POOL 1, FROM_PROC nf, TO_PROC main, BURST 8)";
        let (mut rig, far) = rig("ring:main-nf", element, 0, 1);
        far.send(Packet::from_bytes(b"packet").unwrap()).unwrap();
        assert_eq!(rig.pass(Timestamp::ZERO)[0].len(), 1);
        assert_eq!(rig.read("pkt_count").unwrap(), "1");
    }

    #[test]
    fn rejects_invalid_arguments() {
        for bad in [
            "FromDPDKRing",
            "FromDPDKRing(1, FROM_PROC a)",
            "FromDPDKRing(1, a, b, BURST 0)",
            "FromDPDKRing(1, a, b, NDESC 0)",
            "FromDPDKRing(1, a, a_name_that_no_ring_could_have)",
        ] {
            assert!(Rig::new(bad, 0, 1).is_err(), "{bad}");
        }
    }
}
