//! DPDK's packet memory: the settings of DPDKInfo for all ports.

use millrace_core::Lock;

use super::environment::table;

/// Bytes of headroom of a received packet (`RTE_PKTMBUF_HEADROOM`).
pub(super) const HEADROOM: usize = 128;

/// Bytes around a packet: Ethernet header, two VLAN tags, check sequence.
pub(super) const FRAME: u32 = 14 + 8 + 4;

/// The pools of mbufs, one for each NUMA node that has ports, and the thresholds of all rings.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Memory {
    /// The number of mbufs of a pool; by default 65,536, or as many as there is memory for.
    pub mbufs: Option<u32>,
    /// Bytes of an mbuf's buffer, including 128 of headroom; by default 2,176, or what the MTU needs.
    pub room: Option<u16>,
    /// How many mbufs a thread caches, at most 512, which is also the default.
    pub cache: Option<u32>,
    /// Thresholds of receive and transmit rings.
    pub thresholds: Thresholds,
}

/// When a card fetches and writes back entries of its rings; by default the driver's own values. Prefetch,
/// host and write-back threshold of receive, then of transmit rings.
pub type Thresholds = [Option<u8>; 6];

static MEMORY: Lock<Memory> =
    Lock::new(Memory { mbufs: None, room: None, cache: None, thresholds: [None; 6] });

/// Sets the memory for ports that are opened from now on; an existing pool does not change.
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
