//! The addresses that ARP has resolved, and the packets that wait for an address.
//!
//! Forwarding threads read without locking: the table is divided into shards, each replaced as a
//! whole when an entry is added or removed, and the fields that change in an entry are atomic. Any
//! code that changes the table, or adds waiting packets, holds the table's one lock from the lookup
//! to the change. This ensures that no reply is lost between the removal of an entry and the
//! packets that wait for it.

#[cfg(test)]
mod tests;

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::Ordering::{AcqRel, Acquire, Relaxed};
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicU8, AtomicU32, AtomicU64, AtomicUsize};

use arc_swap::ArcSwap;
use millrace_core::args::{Args, Seconds};
use millrace_core::net::EtherAddress;
use millrace_core::{Capability, Context, Footprint, Lock, Packet, Reason, Timer, Timestamp};

/// IP addresses and their Ethernet addresses, and the packets that wait for an address.
///
/// An element that has one offers it for ARPQueriers to share. It schedules nothing by itself: the element calls
/// [`start`](Self::start) when it is initialised and [`clean`](Self::clean) when the table's timer expires, and
/// [`take_state`](Self::take_state) when it replaces another.
pub struct ArpCache {
    shards: Box<[ArcSwap<Shard>]>,
    /// How long an entry is valid, in milliseconds; forever if 0.
    timeout: i64,
    limits: Limits,
    /// Counts changes: results found before a change may be wrong.
    version: AtomicU32,
    /// Packets dropped while they waited, or instead of waiting.
    drops: AtomicU64,
    /// Dropped packets that no element has accounted for yet.
    unaccounted: AtomicUsize,
    /// Whether several elements may use the table: a packet can then wait for one element and leave
    /// by another.
    is_common: AtomicBool,
    /// The element's timer, which cleans the table.
    timer: Option<Timer>,
    /// When the first cleanup is due, in milliseconds since the epoch.
    first_cleaning: AtomicI64,
    ages: Lock<Ages>,
}

/// The limits of the table; 0 for no limit.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Limits {
    entries: usize,
    /// Packets that wait.
    packets: usize,
    /// Packets that wait for one address.
    packets_each: usize,
    /// The fraction of `packets` that is freed to make room, as its reciprocal.
    slim_factor: usize,
}

type Shard = HashMap<Ipv4Addr, Arc<Entry>, foldhash::fast::RandomState>;

const SHARDS: usize = 64;

/// The state of one IP address. Times are in milliseconds since the epoch.
#[derive(Debug, Default)]
pub(super) struct Entry {
    /// The Ethernet address in the low 48 bits, and a bit for whether it is known.
    ether: AtomicU64,
    live_at: AtomicI64,
    polled_at: AtomicI64,
    /// Queries since the last reply, saturating at 255.
    polls: AtomicU8,
}

const KNOWN: u64 = 1 << 48;

/// The entries in the order of their last refresh, and the packets that wait for them.
#[derive(Default)]
struct Ages {
    order: BTreeMap<Age, Ipv4Addr>,
    of: HashMap<Ipv4Addr, (Age, VecDeque<Packet>)>,
    /// Packets that wait.
    packets: usize,
    /// Orders entries with the same time.
    last: i64,
}

/// When an entry was last refreshed, and its order among those with the same time.
type Age = (i64, i64);

/// The outcome for a packet whose address was not known.
pub(super) enum Appended {
    /// The address is known by now, so the packet does not wait.
    Known(Packet, EtherAddress),
    /// Too many packets wait for the address.
    Refused(Packet),
    /// The packet waits. If true, the caller must send a query.
    Waits(bool),
}

impl Capability for ArpCache {
    const NAME: &'static str = "an ARP table";

    fn missing(element: &str) -> String {
        format!("‘{element}’ has no ARP table")
    }
}

impl ArpCache {
    /// Reads CAPACITY, ENTRY_CAPACITY, ENTRY_PACKET_CAPACITY, CAPACITY_SLIM_FACTOR and TIMEOUT.
    /// `timer` belongs to the element that owns the table. When it expires, the element calls
    /// [`clean`](Self::clean).
    pub fn configure(args: &mut Args<'_>, timer: Timer) -> Self {
        let packets: u32 = args.keyword("CAPACITY", 2048);
        let entries: u32 = args.keyword("ENTRY_CAPACITY", 65_536);
        let packets_each: u32 = args.keyword("ENTRY_PACKET_CAPACITY", 0);
        let slim_factor: u32 = args.keyword("CAPACITY_SLIM_FACTOR", 2);
        let timeout: Seconds = args.keyword("TIMEOUT", Seconds::new(300));
        if slim_factor == 0 {
            args.error("CAPACITY_SLIM_FACTOR", "CAPACITY_SLIM_FACTOR cannot be zero");
        }
        let limits = Limits {
            entries: entries as usize,
            packets: packets as usize,
            packets_each: packets_each as usize,
            slim_factor: slim_factor.max(1) as usize,
        };
        Self {
            timer: Some(timer),
            ..Self::new(i64::try_from(timeout.as_millis()).unwrap_or(0), limits)
        }
    }

    /// Whether both have the same arguments.
    pub(super) fn is_configured_like(&self, other: &Self) -> bool {
        self.timeout == other.timeout && self.limits == other.limits
    }

    fn new(timeout: i64, limits: Limits) -> Self {
        /// Longer timeouts mean forever: Click counts milliseconds in 32 bits.
        const LONGEST: i64 = u32::MAX as i64 / 1000 * 1000;
        Self {
            shards: (0..SHARDS).map(|_| ArcSwap::default()).collect(),
            timeout: if timeout >= LONGEST { 0 } else { timeout },
            limits,
            version: 0.into(),
            drops: 0.into(),
            unaccounted: 0.into(),
            is_common: false.into(),
            timer: None,
            first_cleaning: 0.into(),
            ages: Lock::default(),
        }
    }

    /// What the table takes when it is full.
    pub fn footprint(&self) -> Footprint {
        /// An entry, its place in the order of ages, and its queue.
        const ENTRY: usize = size_of::<Entry>()
            + size_of::<(Age, Ipv4Addr)>() * 2
            + size_of::<(Ipv4Addr, (Age, VecDeque<Packet>))>() * 3;
        let entries = match self.limits.entries {
            0 => Footprint::unlimited("address"),
            most => Footprint::hash_table(most, size_of::<(Ipv4Addr, Arc<Entry>)>())
                .and(Footprint::tables(most.saturating_mul(ENTRY))),
        };
        entries.and(Footprint::packets(match self.limits.packets {
            0 => usize::MAX,
            most => most,
        }))
    }

    /// The entry for an address, whether or not its Ethernet address is known.
    pub(super) fn find(&self, ip: Ipv4Addr) -> Option<Arc<Entry>> {
        self.shard(ip).load().get(&ip).cloned()
    }

    /// The Ethernet address of an IP address, if it is known.
    pub fn lookup(&self, ip: Ipv4Addr, now: Timestamp) -> Option<EtherAddress> {
        self.ether(&*self.find(ip)?, now)
    }

    /// Records the Ethernet address that belongs to an IP address.
    pub fn insert(&self, ip: Ipv4Addr, ether: EtherAddress, now: Timestamp) {
        let mut ages = self.ages.lock();
        self.learn(&mut ages, ip, ether, now);
    }

    /// Like [`insert`](Self::insert), and returns the packets that waited for the address.
    pub(super) fn insert_and_take(
        &self,
        ip: Ipv4Addr,
        ether: EtherAddress,
        now: Timestamp,
    ) -> VecDeque<Packet> {
        let mut ages = self.ages.lock();
        self.learn(&mut ages, ip, ether, now);
        let waited = ages.of.get_mut(&ip).map(|(_, packets)| std::mem::take(packets));
        let waited = waited.unwrap_or_default();
        ages.packets -= waited.len();
        waited
    }

    fn learn(&self, ages: &mut Ages, ip: Ipv4Addr, ether: EtherAddress, now: Timestamp) {
        let entry = self.ensure(ages, ip, now);
        if entry.learn(ether, now) {
            self.note_change();
        }
        let age = ages.newest(now.as_millis());
        ages.move_to(ip, age);
    }

    /// Makes a packet wait for an address.
    pub(super) fn append(&self, ip: Ipv4Addr, packet: Packet, now: Timestamp) -> Appended {
        let mut ages = self.ages.lock();
        let entry = self.ensure(&mut ages, ip, now);
        if let Some(ether) = self.ether(&entry, now) {
            return Appended::Known(packet, ether);
        }
        if self.timeout > 0 {
            // Keep an entry that is in use.
            let least = now.as_millis() - self.timeout;
            if entry.live_at.load(Relaxed) < least {
                entry.live_at.store(least, Relaxed);
                let age = ages.first_of(least);
                ages.move_to(ip, age);
            }
        }
        let waiting = ages.of.get(&ip).map_or(0, |(_, packets)| packets.len());
        if self.limits.packets_each > 0 && waiting >= self.limits.packets_each {
            self.drops.fetch_add(1, Relaxed);
            return Appended::Refused(packet);
        }
        ages.packets += 1;
        if self.limits.packets > 0 && ages.packets > self.limits.packets {
            self.slim(&mut ages, now, 0);
        }
        if let Some((_, packets)) = ages.of.get_mut(&ip) {
            packets.push_back(packet);
        }
        drop(ages);
        Appended::Waits(entry.poll(now))
    }

    /// Returns the entry for an address. Creates one if there is none, and may remove the oldest
    /// entry for it.
    fn ensure(&self, ages: &mut Ages, ip: Ipv4Addr, now: Timestamp) -> Arc<Entry> {
        if let Some(entry) = self.find(ip) {
            return entry;
        }
        if self.limits.entries > 0 && ages.of.len() >= self.limits.entries {
            self.slim(ages, now, 1);
        }
        let new = Arc::new(Entry { live_at: now.as_millis().into(), ..Entry::default() });
        self.shard(ip).rcu(|shard| {
            let mut shard = shard.as_ref().clone();
            shard.insert(ip, new.clone());
            shard
        });
        let age = ages.newest(now.as_millis());
        ages.order.insert(age, ip);
        ages.of.insert(ip, (age, VecDeque::new()));
        new
    }

    /// Removes expired entries, and the oldest entries if there are too many with `coming` new
    /// ones. Then drops packets if too many wait, those of the oldest entries first.
    fn slim(&self, ages: &mut Ages, now: Timestamp, coming: usize) {
        let most = self.limits.entries;
        while let Some((_, &oldest)) = ages.order.first_key_value() {
            let goes = |entry: Arc<Entry>| entry.is_expired(now.as_millis(), self.timeout);
            let too_many = most > 0 && ages.of.len() + coming > most;
            if !too_many && !self.find(oldest).is_none_or(goes) {
                break;
            }
            self.remove(ages, oldest);
        }
        let most = self.limits.packets;
        if most == 0 || ages.packets <= most {
            return;
        }
        // Leave room for the packet that is being added.
        let left = (most - most / self.limits.slim_factor).max(1);
        let mut over = ages.packets - left;
        for ip in ages.order.values() {
            let Some((_, packets)) = ages.of.get_mut(ip) else { continue };
            let dropped = over.min(packets.len());
            packets.drain(..dropped);
            over -= dropped;
            ages.packets -= dropped;
            self.note_drops(dropped);
        }
    }

    fn remove(&self, ages: &mut Ages, ip: Ipv4Addr) {
        if let Some((age, packets)) = ages.of.remove(&ip) {
            ages.order.remove(&age);
            ages.packets -= packets.len();
            self.note_drops(packets.len());
        }
        if let Some(entry) = self.find(ip) {
            // Threads that hold the entry must not use it any more.
            entry.ether.store(0, Relaxed);
        }
        self.shard(ip).rcu(|shard| {
            let mut shard = shard.as_ref().clone();
            shard.remove(&ip);
            shard
        });
        self.note_change();
    }

    /// Removes all entries, and drops the waiting packets.
    pub fn clear(&self, now: Timestamp) {
        let mut ages = self.ages.lock();
        for shard in &self.shards {
            for entry in shard.swap(Arc::default()).values() {
                entry.ether.store(0, Relaxed);
            }
        }
        self.note_drops(ages.packets);
        *ages = Ages { last: ages.last, ..Ages::default() };
        drop(ages);
        self.note_change();
        self.see_to_drops(now);
    }

    /// Moves the entries and waiting packets of another table to this one.
    pub fn take_state(&self, old: &Self, now: Timestamp) {
        for (shard, before) in self.shards.iter().zip(&old.shards) {
            shard.store(before.swap(Arc::default()));
        }
        *self.ages.lock() = std::mem::take(&mut *old.ages.lock());
        self.drops.fetch_add(old.drops.load(Relaxed), Relaxed);
        self.note_change();
        self.see_to_cleaning(now);
    }

    /// Called when the router starts, the reference time for cleanups.
    pub fn start(&self, now: Timestamp) {
        let first = now.as_millis() + self.timeout / 1000 * 1000;
        self.first_cleaning.store(first, Relaxed);
    }

    /// Removes expired entries when the timer expires.
    pub fn clean(&self, cx: &mut Context) {
        let now = cx.now();
        self.slim(&mut self.ages.lock(), now, 0);
        self.account(cx);
        self.see_to_cleaning(now);
    }

    /// Schedules the timer for the next cleanup, if there is anything to clean. As in Click, the
    /// interval between cleanups is TIMEOUT plus one second, and expired entries are visible until
    /// then.
    pub(super) fn see_to_cleaning(&self, now: Timestamp) {
        let Some(timer) = self.timer.as_ref().filter(|timer| timer.expiry().is_none()) else {
            return;
        };
        if self.timeout == 0 || self.len() == 0 {
            return;
        }
        let first = self.first_cleaning.load(Relaxed);
        let pause = self.timeout / 1000 * 1000 + 1000;
        let past = (now.as_millis() - first).div_euclid(pause);
        timer.schedule_at(Timestamp::from_millis(first + (past + 1).max(0) * pause));
    }

    /// Schedules the timer to account for packets that a handler dropped.
    fn see_to_drops(&self, now: Timestamp) {
        if let Some(timer) = self.timer.as_ref().filter(|_| self.unaccounted.load(Relaxed) > 0) {
            timer.schedule_at(now);
        }
    }

    fn note_drops(&self, packets: usize) {
        self.drops.fetch_add(packets as u64, Relaxed);
        self.unaccounted.fetch_add(packets, Relaxed);
    }

    /// Adds the packets that the table dropped to the drops of the running element.
    pub(super) fn account(&self, cx: &mut Context) {
        if self.unaccounted.load(Relaxed) > 0 {
            let dropped = self.unaccounted.swap(0, Relaxed);
            self.count_leaving(cx, dropped);
            cx.dropped(dropped, Reason::Unresolved);
        }
    }

    /// Shares the table with other elements.
    pub fn share(self: &Arc<Self>) -> Arc<Self> {
        self.is_common.store(true, Relaxed);
        Arc::clone(self)
    }

    /// Packets that wait for the only element that uses the table; 0 if the table is shared.
    pub(super) fn held(&self) -> usize {
        if self.is_common.load(Relaxed) { 0 } else { self.waiting() }
    }

    /// Called when a packet of the running element starts to wait. In a shared table, the packet
    /// then belongs to the table.
    pub(super) fn count_waiting(&self, cx: &mut Context) {
        if self.is_common.load(Relaxed) {
            cx.consumed(1);
        }
    }

    /// Called when packets stop waiting: they now belong to the running element.
    pub(super) fn count_leaving(&self, cx: &mut Context, packets: usize) {
        if self.is_common.load(Relaxed) {
            cx.created(packets);
        }
    }

    /// The number of changes so far. A lookup result stays valid while this number is unchanged,
    /// until [`good_until`](Self::good_until). A reply that confirms a known address is not a
    /// change, so a host that sends many of them does not force threads to repeat their lookups.
    #[inline(always)]
    pub(super) fn version(&self) -> u32 {
        self.version.load(Acquire)
    }

    pub(super) fn note_change(&self) {
        self.version.fetch_add(1, AcqRel);
    }

    /// When an entry expires or its address must be queried again: first after `poll_after`, then
    /// as often as [`poll`](Entry::poll) allows.
    pub(super) fn good_until(
        &self,
        entry: &Entry,
        now: Timestamp,
        poll_after: Timestamp,
    ) -> Timestamp {
        let after = |time: i64| match time {
            0 => i64::MAX,
            time => entry.live_at.load(Relaxed).saturating_add(time),
        };
        let poll_at = match entry.is_stale(now, poll_after) {
            true => entry.next_poll(),
            false => after(poll_after.as_millis()),
        };
        let millis = after(self.timeout).min(poll_at);
        Timestamp::from_nanos(millis.saturating_mul(1_000_000))
    }

    /// The number of entries.
    pub(super) fn len(&self) -> usize {
        self.ages.lock().of.len()
    }

    /// The number of waiting packets.
    pub fn waiting(&self) -> usize {
        self.ages.lock().packets
    }

    /// Packets dropped while they waited, or instead of waiting.
    pub fn drops(&self) -> u64 {
        self.drops.load(Relaxed)
    }

    /// The Ethernet address of an entry, if known and not expired.
    #[inline]
    pub(super) fn ether(&self, entry: &Entry, now: Timestamp) -> Option<EtherAddress> {
        let ether = entry.ether.load(Relaxed);
        let good = ether & KNOWN != 0 && !entry.is_expired(now.as_millis(), self.timeout);
        good.then(|| unpack(ether))
    }

    /// The table as text, one line per entry, oldest first: IP address, whether it is known,
    /// Ethernet address, age.
    pub(super) fn to_text(&self, now: Timestamp) -> String {
        let ages = self.ages.lock();
        let line = |ip: &Ipv4Addr| {
            let entry = self.find(*ip)?;
            let known = u8::from(self.ether(&entry, now).is_some());
            let age = Timestamp::from_millis(now.as_millis() - entry.live_at.load(Relaxed));
            let ether = unpack(match entry.ether.load(Relaxed) {
                0 => NOBODY,
                ether => ether,
            });
            Some(format!("{ip} {known} {ether} {age}\n"))
        };
        ages.order.values().filter_map(line).collect()
    }

    fn shard(&self, ip: Ipv4Addr) -> &ArcSwap<Shard> {
        // Neighbouring addresses differ in their low bits.
        &self.shards[u32::from(ip) as usize % SHARDS]
    }
}

impl Ages {
    /// The age of an entry that is refreshed now.
    fn newest(&mut self, now: i64) -> Age {
        self.last += 1;
        (now, self.last)
    }

    /// An age before all others of the same time.
    fn first_of(&mut self, time: i64) -> Age {
        self.last += 1;
        (time, -self.last)
    }

    fn move_to(&mut self, ip: Ipv4Addr, age: Age) {
        if let Some((old, _)) = self.of.get_mut(&ip) {
            self.order.remove(old);
            *old = age;
            self.order.insert(age, ip);
        }
    }
}

impl Entry {
    /// Whether the last reply is so old that the address must be queried again.
    pub(super) fn is_stale(&self, now: Timestamp, after: Timestamp) -> bool {
        !after.is_zero() && now.as_millis() >= self.live_at.load(Relaxed) + after.as_millis()
    }

    /// Claims the right to send a query now: at most ten a second, and one every two seconds after
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

    /// When the next query may be sent, if one has been sent.
    fn next_poll(&self) -> i64 {
        self.polled_at.load(Relaxed) + pause_after(self.polls.load(Relaxed))
    }

    /// Stores the address and returns whether it changed. The broadcast address belongs to no host:
    /// it marks the entry as unknown.
    fn learn(&self, ether: EtherAddress, now: Timestamp) -> bool {
        self.live_at.store(now.as_millis(), Relaxed);
        self.polls.store(0, Relaxed);
        let new = if ether.is_broadcast() { NOBODY } else { pack(ether) };
        self.ether.swap(new, Relaxed) != new
    }

    fn is_expired(&self, now: i64, timeout: i64) -> bool {
        timeout > 0 && self.live_at.load(Relaxed) + timeout < now
    }
}

/// Milliseconds between queries after this many without a reply.
fn pause_after(polls: u8) -> i64 {
    if polls >= 10 { 2000 } else { 100 }
}

/// The address stored in entries whose address is unknown.
const NOBODY: u64 = KNOWN - 1;

fn pack(ether: EtherAddress) -> u64 {
    let [a, b, c, d, e, f] = ether.octets();
    KNOWN | u64::from_be_bytes([0, 0, a, b, c, d, e, f])
}

fn unpack(ether: u64) -> EtherAddress {
    let [_, _, a, b, c, d, e, f] = ether.to_be_bytes();
    EtherAddress([a, b, c, d, e, f])
}
