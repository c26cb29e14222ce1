//! Rule sets, traces, payloads and patterns, made from a seed: the same seed gives the same bytes.
//!
//! | module | makes |
//! |---|---|
//! | [`rules`] | rule sets like those of real firewalls and routers, by the statistics of ClassBench |
//! | [`trace`] | headers that satisfy rules, with locality, and headers that satisfy none |
//! | [`frame`] | Ethernet frames with such headers, VLAN tags, IP options and right checksums |
//! | [`tunnel`] | IP packets in tunnels and tagged frames |
//! | [`flows`] | numbered frames, and the ledger that finds lost, doubled and reordered ones |
//! | [`payload`] | benign text, planted patterns, hostile near misses, random bytes |
//! | [`patterns`] | pattern sets, made up or read from the phrases of a web application firewall |
//! | [`pcap`] | captures to write them to |
//!
//! `cargo xtask generate` writes all of them to files.

pub mod flows;
pub mod frame;
pub mod patterns;
pub mod payload;
pub mod pcap;
pub mod rules;
pub mod trace;
pub mod tunnel;

/// A random number generator. Different values of `purpose` give different numbers for the same `seed`.
fn random(seed: u64, purpose: &str) -> fastrand::Rng {
    // FNV-1a of the purpose: any fixed hash would do.
    let spread = purpose.bytes().fold(0xcbf2_9ce4_8422_2325, |hash: u64, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3)
    });
    fastrand::Rng::with_seed(seed ^ spread)
}

/// Chooses an item by weights, which must not all be zero.
fn weighted<T: Copy>(random: &mut fastrand::Rng, items: &[(T, u32)]) -> Option<T> {
    let total: u32 = items.iter().map(|(_, weight)| weight).sum();
    let mut at = random.u32(..total.max(1));
    for &(item, weight) in items {
        if at < weight {
            return Some(item);
        }
        at -= weight;
    }
    None
}
