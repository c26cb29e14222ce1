//! The addresses that ARP has found out, and the packets that wait for one.
//!
//! Threads that forward read without waiting: the table is in shards that are replaced whole when
//! an entry comes or goes, and what changes in an entry is atomic.

use std::collections::{HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicI64, AtomicU8, AtomicU32, AtomicU64};

use arc_swap::ArcSwap;
use millrace_core::net::EtherAddress;
use millrace_core::{Packet, Timestamp};

/// IP addresses and the Ethernet addresses that belong to them.
pub(super) struct ArpCache {
    shards: Box<[ArcSwap<Shard>]>,
    /// How long an entry is good for, in milliseconds; for ever when 0.
    timeout: i64,
    /// The most entries; any number when 0.
    capacity: usize,
    /// Counts changes: what was known before one may be wrong.
    version: AtomicU32,
}

type Shard = HashMap<Ipv4Addr, Arc<Entry>, foldhash::fast::FixedState>;

const SHARDS: usize = 64;

/// What is known of one IP address. Times are in milliseconds since the epoch.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// The Ethernet address in the low 48 bits, and whether it is known.
    ether: AtomicU64,
    live_at: AtomicI64,
    polled_at: AtomicI64,
    /// Queries since the last reply, as far as 255.
    polls: AtomicU8,
}

const KNOWN: u64 = 1 << 48;

impl ArpCache {
    pub(super) fn new(timeout: Timestamp, capacity: usize) -> Self {
        let shards = (0..SHARDS).map(|_| ArcSwap::default()).collect();
        Self { shards, timeout: timeout.as_millis(), capacity, version: 0.into() }
    }

    /// The entry for an address, whether anything is known or not.
    pub(super) fn find(&self, ip: Ipv4Addr) -> Option<Arc<Entry>> {
        self.shard(ip).load().get(&ip).cloned()
    }

    /// The entry for an address; a new one if there is none and room for it.
    pub(super) fn ensure(&self, ip: Ipv4Addr, now: Timestamp) -> Option<Arc<Entry>> {
        if let Some(entry) = self.find(ip) {
            return Some(entry);
        }
        if self.capacity > 0 && self.len() >= self.capacity {
            return None;
        }
        let new = Arc::new(Entry { live_at: now.as_millis().into(), ..Entry::default() });
        self.shard(ip).rcu(|shard| {
            let mut shard = shard.as_ref().clone();
            shard.entry(ip).or_insert_with(|| new.clone());
            shard
        });
        self.find(ip)
    }

    /// Records the Ethernet address that belongs to an IP address. False when there is no room.
    pub(super) fn insert(&self, ip: Ipv4Addr, ether: EtherAddress, now: Timestamp) -> bool {
        match self.ensure(ip, now) {
            Some(entry) => {
                if entry.learn(ether, now) {
                    self.note_change();
                }
                true
            }
            None => false,
        }
    }

    /// The number of changes so far. What was found in the table stays true while it stays the same, and until
    /// [`good_until`](Self::good_until). A reply that says what is known already is no change: who sends many of
    /// them does not make threads look everything up anew.
    #[inline(always)]
    pub(super) fn version(&self) -> u32 {
        self.version.load(Acquire)
    }

    fn note_change(&self) {
        self.version.fetch_add(1, AcqRel);
    }

    /// When an entry expires or is to be asked for, first after `poll_after`, then as often as
    /// [`poll`](Entry::poll) lets anyone; in milliseconds since the epoch.
    pub(super) fn good_until(&self, entry: &Entry, now: Timestamp, poll_after: Timestamp) -> i64 {
        let after = |time: i64| match time {
            0 => i64::MAX,
            time => entry.live_at.load(Relaxed).saturating_add(time),
        };
        let poll_at = match entry.is_stale(now, poll_after) {
            true => entry.next_poll(),
            false => after(poll_after.as_millis()),
        };
        after(self.timeout).min(poll_at)
    }

    /// Removes an entry.
    pub(super) fn remove(&self, ip: Ipv4Addr) {
        self.keep(self.shard(ip), |other, _| other != ip);
    }

    /// Removes every entry.
    pub(super) fn clear(&self) {
        self.shards.iter().for_each(|shard| self.keep(shard, |_, _| false));
    }

    /// Removes the entries that are too old.
    pub(super) fn expire(&self, now: Timestamp) {
        for shard in &self.shards {
            self.keep(shard, |_, entry| !entry.is_expired(now.as_millis(), self.timeout));
        }
    }

    /// How many entries there are.
    pub(super) fn len(&self) -> usize {
        self.shards.iter().map(|shard| shard.load().len()).sum()
    }

    /// The Ethernet address of an entry that is known and not too old.
    #[inline]
    pub(super) fn ether(&self, entry: &Entry, now: Timestamp) -> Option<EtherAddress> {
        let ether = entry.ether.load(Relaxed);
        let good = ether & KNOWN != 0 && !entry.is_expired(now.as_millis(), self.timeout);
        good.then(|| unpack(ether))
    }

    /// The table in text, a line an entry: address, whether it is known, Ethernet address, age.
    pub(super) fn to_text(&self, now: Timestamp) -> String {
        let mut entries: Vec<_> = self
            .shards
            .iter()
            .flat_map(|shard| {
                let shard = shard.load();
                shard.iter().map(|(ip, entry)| (*ip, entry.clone())).collect::<Vec<_>>()
            })
            .collect();
        entries.sort_by_key(|(ip, _)| *ip);
        let line = |(ip, entry): &(Ipv4Addr, Arc<Entry>)| {
            let known = self.ether(entry, now);
            let age = Timestamp::from_millis(now.as_millis() - entry.live_at.load(Relaxed));
            let ether = known.unwrap_or(EtherAddress([0xff; 6]));
            format!("{ip} {} {ether} {age}\n", u8::from(known.is_some()))
        };
        entries.iter().map(line).collect()
    }

    fn shard(&self, ip: Ipv4Addr) -> &ArcSwap<Shard> {
        // Neighbours differ in their low bits.
        &self.shards[u32::from(ip) as usize % SHARDS]
    }

    fn keep(&self, shard: &ArcSwap<Shard>, keep: impl Fn(Ipv4Addr, &Entry) -> bool) {
        let goes = |ip: &Ipv4Addr, entry: &Arc<Entry>| !keep(*ip, entry);
        if !shard.load().iter().any(|(ip, entry)| goes(ip, entry)) {
            return;
        }
        for (_, entry) in shard.load().iter().filter(|(ip, entry)| goes(ip, entry)) {
            // Threads that have it in hand shall not use it any more.
            entry.ether.store(0, Relaxed);
        }
        shard.rcu(|shard| {
            let kept = shard.iter().filter(|(ip, entry)| !goes(ip, entry));
            kept.map(|(ip, entry)| (*ip, entry.clone())).collect::<Shard>()
        });
        self.note_change();
    }
}

impl Entry {
    /// Whether the address was heard from so long ago that it should be asked for again.
    pub(super) fn is_stale(&self, now: Timestamp, after: Timestamp) -> bool {
        !after.is_zero() && now.as_millis() >= self.live_at.load(Relaxed) + after.as_millis()
    }

    /// Takes the right to send a query now: ten a second at most, and one in two seconds after
    /// ten without a reply.
    pub(super) fn poll(&self, now: Timestamp) -> bool {
        let last = self.polled_at.load(Relaxed);
        let polls = self.polls.load(Relaxed);
        let due = polls == 0 || now.as_millis() >= last + pause_after(polls);
        let mine =
            due && self.polled_at.compare_exchange(last, now.as_millis(), Relaxed, Relaxed).is_ok();
        if mine {
            self.polls.store(polls.saturating_add(1), Relaxed);
        }
        mine
    }

    /// When the next query may be sent, if there has been one.
    fn next_poll(&self) -> i64 {
        self.polled_at.load(Relaxed) + pause_after(self.polls.load(Relaxed))
    }

    /// True when the entry was taken out of the table or never completed.
    pub(super) fn is_unknown(&self) -> bool {
        self.ether.load(Relaxed) & KNOWN == 0
    }

    /// Returns whether the address is another one than before.
    fn learn(&self, ether: EtherAddress, now: Timestamp) -> bool {
        self.live_at.store(now.as_millis(), Relaxed);
        self.polls.store(0, Relaxed);
        let new = pack(ether);
        self.ether.swap(new, Relaxed) != new
    }

    fn is_expired(&self, now: i64, timeout: i64) -> bool {
        timeout > 0 && self.live_at.load(Relaxed) + timeout < now
    }
}

/// Milliseconds between queries when so many had no reply.
fn pause_after(polls: u8) -> i64 {
    if polls >= 10 { 2000 } else { 100 }
}

fn pack(ether: EtherAddress) -> u64 {
    let [a, b, c, d, e, f] = ether.octets();
    KNOWN | u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

fn unpack(ether: u64) -> EtherAddress {
    let [_, _, a, b, c, d, e, f] = ether.to_be_bytes();
    EtherAddress([a, b, c, d, e, f])
}

/// Packets that wait for an address, in the order of their coming.
#[derive(Debug)]
pub(super) struct Waiting {
    packets: HashMap<Ipv4Addr, VecDeque<Packet>>,
    /// Addresses that packets wait for, the oldest first.
    order: VecDeque<Ipv4Addr>,
    len: usize,
    /// The most packets; any number when 0.
    capacity: usize,
    /// The most packets for one address; any number when 0.
    capacity_each: usize,
}

impl Waiting {
    pub(super) fn new(capacity: usize, capacity_each: usize) -> Self {
        Self { packets: HashMap::new(), order: VecDeque::new(), len: 0, capacity, capacity_each }
    }

    /// How many packets wait.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Adds a packet; returns how many were dropped to make room. Beyond the capacity the half
    /// that has waited longest goes.
    pub(super) fn add(&mut self, ip: Ipv4Addr, packet: Packet) -> usize {
        let mut dropped = 0;
        if self.capacity > 0 && self.len >= self.capacity {
            while self.len > self.capacity / 2
                && let Some(&oldest) = self.order.front()
            {
                dropped += self.take(oldest).len();
            }
        }
        let queue = self.packets.entry(ip).or_insert_with(|| {
            self.order.push_back(ip);
            VecDeque::new()
        });
        if self.capacity_each > 0 && queue.len() >= self.capacity_each {
            queue.pop_front();
            self.len -= 1;
            dropped += 1;
        }
        queue.push_back(packet);
        self.len += 1;
        dropped
    }

    /// Takes the packets that wait for an address.
    pub(super) fn take(&mut self, ip: Ipv4Addr) -> VecDeque<Packet> {
        let packets = self.packets.remove(&ip).unwrap_or_default();
        if !packets.is_empty() {
            self.order.retain(|other| *other != ip);
        }
        self.len -= packets.len();
        packets
    }

    /// The addresses that packets wait for.
    pub(super) fn addresses(&self) -> Vec<Ipv4Addr> {
        self.order.iter().copied().collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const IP: Ipv4Addr = Ipv4Addr::new(10, 0, 0, 1);

    fn at(seconds: i64) -> Timestamp {
        Timestamp::from_secs(seconds)
    }

    #[test]
    fn entries_expire_and_are_learnt_again() {
        let cache = ArpCache::new(at(300), 0);
        let entry = cache.ensure(IP, at(0)).unwrap();
        assert_eq!(cache.ether(&entry, at(0)), None);
        assert!(cache.insert(IP, EtherAddress([1; 6]), at(1)));
        assert_eq!(cache.ether(&entry, at(301)), Some(EtherAddress([1; 6])));
        assert_eq!(cache.ether(&entry, at(302)), None);
        cache.expire(at(302));
        assert_eq!(cache.len(), 0);
        assert!(entry.is_unknown());
    }

    #[test]
    fn what_was_found_is_good_until_something_changes() {
        let cache = ArpCache::new(at(300), 0);
        let mut known = cache.version();
        let mut changed =
            |cache: &ArpCache| std::mem::replace(&mut known, cache.version()) != known;
        let say = |ether| assert!(cache.insert(IP, EtherAddress([ether; 6]), at(0)));
        say(1);
        assert!(changed(&cache));
        say(1);
        assert!(!changed(&cache), "the same again");
        say(2);
        assert!(changed(&cache));
        cache.remove(IP);
        assert!(changed(&cache));
        say(2);
        assert!(changed(&cache), "it had been taken out");
        cache.clear();
        assert!(changed(&cache));
    }

    #[test]
    fn an_entry_is_good_until_it_is_to_be_asked_for_again() {
        let cache = ArpCache::new(at(300), 0);
        assert!(cache.insert(IP, EtherAddress([1; 6]), at(0)));
        let entry = cache.find(IP).unwrap();
        let good_until = |now| cache.good_until(&entry, at(now), at(60));
        assert_eq!(good_until(1), 60_000);
        assert!(entry.poll(at(60)));
        assert_eq!(good_until(60), 60_100);
        assert!((0..20).map(|nth| at(61 + nth)).filter(|&now| entry.poll(now)).count() > 10);
        assert_eq!(good_until(80), 81_000);
        assert!(entry.poll(at(299)));
        assert_eq!(good_until(299), 300_000);
    }

    #[test]
    fn queries_are_limited() {
        let entry = Entry::default();
        let sent: Vec<i64> =
            (0..10_000).filter(|&ms| entry.poll(Timestamp::from_millis(ms))).collect();
        assert_eq!(sent[..3], [0, 100, 200]);
        assert_eq!(sent[9..], [900, 2900, 4900, 6900, 8900]);
    }

    #[test]
    fn the_capacity_bounds_entries_and_packets() {
        let cache = ArpCache::new(at(0), 1);
        assert!(cache.insert(IP, EtherAddress([1; 6]), at(0)));
        assert!(!cache.insert(Ipv4Addr::new(10, 0, 0, 2), EtherAddress([2; 6]), at(0)));
        let mut waiting = Waiting::new(4, 3);
        let packet = || Packet::from_bytes(b"x").unwrap();
        let dropped: usize = (0..4).map(|_| waiting.add(IP, packet())).sum();
        assert_eq!((dropped, waiting.len()), (1, 3));
        let other = Ipv4Addr::new(10, 0, 0, 2);
        let dropped: usize = (0..2).map(|_| waiting.add(other, packet())).sum();
        assert_eq!((dropped, waiting.len()), (3, 2));
        assert_eq!(waiting.take(other).len(), 2);
        assert_eq!((waiting.len(), waiting.addresses().len()), (0, 0));
    }
}
