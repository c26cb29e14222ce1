//! DPDK's packet memory: what DPDKInfo chooses for all ports.

use millrace_core::Lock;

use super::environment::table;

/// Bytes in front of a received packet's data (`RTE_PKTMBUF_HEADROOM`).
pub(super) const HEADROOM: usize = 128;

/// Bytes around a packet: Ethernet header, two VLAN tags, check sequence.
pub(super) const FRAME: u32 = 14 + 8 + 4;

/// The pools of mbufs, one for each NUMA node that has ports, and the thresholds of all rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// How many mbufs a pool has; 65,536, or as many as there is memory for, unless given.
    pub mbufs: Option<u32>,
    /// Bytes of an mbuf's buffer, 128 of headroom among them; 2,176, or what the MTU needs, unless
    /// given.
    pub room: Option<u16>,
    /// How many mbufs a thread keeps at hand, at most 512, which it is unless given.
    pub cache: Option<u32>,
    /// Thresholds of receive and transmit rings.
    pub thresholds: Thresholds,
}

/// When a card fetches and writes back entries of its rings; the driver's own unless given. Prefetch,
/// host and write-back threshold of receive, then of transmit rings.
pub type Thresholds = [Option<u8>; 6];

static MEMORY: Lock<Memory> =
    Lock::new(Memory { mbufs: None, room: None, cache: None, thresholds: [None; 6] });

/// Chooses the memory of ports that are opened from now on; a pool that exists stays as it is.
pub fn set_memory(memory: Memory) {
    *MEMORY.lock() = memory;
}

pub(super) fn memory() -> Memory {
    *MEMORY.lock()
}

/// Name, size and free mbufs of each pool.
pub fn pools() -> Vec<(String, u32, u32)> {
    let Some(table) = table() else { return Vec::new() };
    let mut text = vec![0u8; 8192];
    // SAFETY: the plugin writes at most so many bytes.
    let length = unsafe { (table.pools)(text.as_mut_ptr().cast(), text.len()) };
    text.truncate(length);
    let text = String::from_utf8_lossy(&text);
    let pool = |line: &str| {
        let mut words = line.split_whitespace();
        Some((words.next()?.to_owned(), words.next()?.parse().ok()?, words.next()?.parse().ok()?))
    };
    text.lines().filter_map(pool).collect()
}
