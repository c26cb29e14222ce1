//! DPDKInfo - configures the packet memory (mbuf pools) of DPDK
//!
//! # Synopsis
//! `DPDKInfo([NB_MBUF, keywords NB_SOCKET_MBUF, MBUF_SIZE, MBUF_CACHE_SIZE, RX_PTHRESH, RX_HTHRESH, RX_WTHRESH,
//! TX_PTHRESH, TX_HTHRESH, TX_WTHRESH])`
//!
//! # Description
//! Sets the parameters of DPDK that FromDPDKDevice and ToDPDKDevice do not set for their ports: the
//! mbuf pools, which hold received packets (one pool for each NUMA node that has ports), and the
//! thresholds of the rings.
//!
//! A configuration can have at most one DPDKInfo.
//!
//! # Arguments
//! - NB_MBUF: number of mbufs in a pool. Positional. Default 65536, or as many as fit in memory.
//! - NB_SOCKET_MBUF: the same, under the name that FastClick gives to the number for each NUMA node, which is what
//!   NB_MBUF means here. Use one of the two.
//! - MBUF_SIZE: bytes of an mbuf's buffer, 128 of them in front of the packet. Default 2176, or what
//!   the largest MTU needs.
//! - MBUF_CACHE_SIZE: maximum number of mbufs in a thread's cache, at most 512. Default 512.
//! - RX_PTHRESH, RX_HTHRESH, RX_WTHRESH, TX_PTHRESH, TX_HTHRESH, TX_WTHRESH: prefetch, host and
//!   write-back thresholds of receive and transmit rings, 0 to 255, on cards that have them. Default:
//!   the driver's.
//! - DEF_RING_NDESC, DEF_BURST_SIZE, RING_FLAGS, RING_SIZE, RING_POOL_CACHE_SIZE, RING_PRIV_DATA_SIZE,
//!   MEMPOOL_PREFIX: not supported. In FastClick they configure rings shared between several programs.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `pools` (read): the names of the pools, one per line.
//! - `pool_count` (read): for each pool its name, its number of mbufs and its number of free mbufs, one
//!   pool per line.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! DPDKInfo(NB_MBUF 131072, MBUF_CACHE_SIZE 512);
//! FromDPDKDevice(0) -> EtherMirror -> ToDPDKDevice(0);
//! ```
//!
//! # See also
//! FromDPDKDevice, ToDPDKDevice

use millrace_core::args::Kind;
use millrace_core::{Class, Element, Failed, Handlers, Init, Refused, Router, Setup, register};
use millrace_io::dpdk::{self, Memory};

/// The element; its manual is at the top of the file.
pub struct DpdkInfo {
    memory: Memory,
}

register!(DpdkInfo, "dpdk_info.rs");

/// FastClick's arguments for rings shared between programs.
const OF_RINGS: &[&str] = &[
    "DEF_RING_NDESC",
    "DEF_BURST_SIZE",
    "RING_FLAGS",
    "RING_SIZE",
    "RING_POOL_CACHE_SIZE",
    "RING_PRIV_DATA_SIZE",
    "MEMPOOL_PREFIX",
];

impl Element for DpdkInfo {
    const CLASS: Class =
        Class::new("DPDKInfo", "0/0", "a/a").phase(Class::PHASE_INFO).information();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let mbufs = args.in_range("NB_MBUF", Kind::Positional, 1024..=1u32 << 26);
        let of_node = args.in_range("NB_SOCKET_MBUF", Kind::Keyword, 1024..=1u32 << 26);
        if mbufs.is_some() && of_node.is_some() {
            args.error("NB_SOCKET_MBUF", "NB_MBUF and NB_SOCKET_MBUF are the same: give one");
        }
        let mbufs = mbufs.or(of_node);
        let room = args.in_range("MBUF_SIZE", Kind::Keyword, 512..=u16::MAX - 64);
        let cache = args.in_range("MBUF_CACHE_SIZE", Kind::Keyword, 0..=512u32);
        let names =
            ["RX_PTHRESH", "RX_HTHRESH", "RX_WTHRESH", "TX_PTHRESH", "TX_HTHRESH", "TX_WTHRESH"];
        let thresholds = names.map(|name| args.in_range(name, Kind::Keyword, 0..=u8::MAX));
        for name in OF_RINGS {
            if args.optional_keyword::<String>(name).is_some() {
                args.error(*name, format!("{name}: there are no rings between programs here"));
            }
        }
        args.complete()?;
        Ok(Self { memory: Memory { mbufs, room, cache, thresholds } })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let router = init.router();
        let same = router.elements().filter(|element| element.class.name == Self::CLASS.name);
        if same.count() > 1 {
            return Err(Refused("there can be only one DPDKInfo".to_owned()));
        }
        dpdk::set_memory(self.memory);
        Ok(())
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("pools", |_, _| {
            dpdk::pools().iter().map(|(name, ..)| format!("{name}\n")).collect::<String>()
        });
        handlers.read("pool_count", |_, _| {
            let line = |(name, size, free): &(String, u32, u32)| format!("{name} {size} {free}\n");
            dpdk::pools().iter().map(line).collect::<String>()
        });
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        dpdk::set_memory(Memory::default());
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn configures_memory_and_rejects_unsupported_arguments() {
        let rig = Rig::new("DPDKInfo(4096, MBUF_SIZE 4096, RX_PTHRESH 8)", 0, 0).unwrap();
        assert_eq!(rig.read("pools").unwrap(), "", "there is no DPDK in this process");
        assert!(Rig::new("DPDKInfo(NB_SOCKET_MBUF 4096)", 0, 0).is_ok());
        assert!(Rig::new("DPDKInfo(4096, NB_SOCKET_MBUF 4096)", 0, 0).is_err());
        for bad in ["DPDKInfo(0)", "DPDKInfo(MBUF_CACHE_SIZE 513)", "DPDKInfo(RING_SIZE 64)"] {
            assert!(Rig::new(bad, 0, 0).is_err(), "{bad}");
        }
    }
}
