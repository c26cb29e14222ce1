//! Ports: the requests for them, opening and closing them, and their information.

mod find;
mod flows;
mod tell;
mod wishes;

use std::collections::BTreeMap;
use std::ffi::{CStr, c_int, c_void};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use millrace_core::memory::Arena;
use millrace_core::{Lock, Need};

use super::abi::{Config, Info, Pool, Table, offload};
use super::environment::{messages, table};
use super::memory::{FRAME, HEADROOM, memory};
use super::queue::{Rx, Sleep, Tx};
use crate::method::Pause;
use crate::options::{RxOptions, Spread, TxOptions};
use crate::queue::{Capabilities, DeviceError, Opened, RxQueue, TxQueue};
use find::{no_port, number_of, text};
pub(super) use wishes::largest_room;
use wishes::{Wanted, agree, merge_options, options_from, options_of, ring};

/// The requested ports, by number. Ports do not disappear while DPDK runs.
static PORTS: Lock<BTreeMap<u16, Arc<Port>>> = Lock::new(BTreeMap::new());

/// The default number of mbufs of a pool, and the minimum that is useful.
pub(super) const MBUFS: u32 = 65_536;
const FEWEST_MBUFS: u32 = 4096;

/// Mbufs that a thread caches: two bursts of the maximum length, so that none goes through the pool's ring.
pub(super) const CACHE: u32 = 512;

/// How long to wait for a card's link when it is opened: autonegotiation needs some time.
const LINK_PATIENCE: Duration = Duration::from_secs(2);

/// A port of DPDK.
pub struct Port {
    number: u16,
    pub(super) table: &'static Table,
    info: Info,
    name: String,
    driver: String,
    state: Lock<State>,
}

#[derive(Default)]
struct State {
    wanted: Wanted,
    /// Receive queues that are in use.
    receiving: Vec<bool>,
    /// The users of each transmit queue.
    transmitting: Vec<Arc<Sharers>>,
    /// The number of queues in use.
    users: usize,
    open: Option<Open>,
    flows: Flows,
}

/// The installed rules of an open port.
#[derive(Default)]
struct Flows(Vec<*mut c_void>);

// SAFETY: they are DPDK's handles, which any thread may pass to it.
unsafe impl Send for Flows {}

/// The users of a transmit queue, which take turns.
#[derive(Default)]
pub(super) struct Sharers {
    pub(super) count: AtomicUsize,
    pub(super) turn: Lock<()>,
}

/// What an open port's queues need to know.
#[derive(Clone, Copy)]
pub(super) struct Open {
    pub(super) pool: Pool,
    pub(super) shells: Pool,
    pub(super) tx_queues: u16,
    /// The driver frees only unshared mbufs of `pool`.
    pub(super) own_pool_only: bool,
    /// The driver can read packets in our own memory.
    pub(super) reads_ours: bool,
    /// Transmitted mbufs are received again by another port, unchanged.
    pub(super) hands_over: bool,
    /// The maximum frame length, in bytes without the check sequence.
    pub(super) longest: usize,
    /// The card needs its interrupt to be turned on.
    pub(super) is_card: bool,
}

// SAFETY: pools are memory of DPDK's that threads share under its own rules.
unsafe impl Send for Open {}

/// The port of a device, by number, PCI address or name; `None` when DPDK does not run or has no such port.
pub fn port(device: &str) -> Option<Arc<Port>> {
    table()?;
    Port::of(device).ok()
}

/// The ports with requested queues that are not open yet.
pub(super) fn wished() -> Vec<Arc<Port>> {
    let ports = PORTS.lock();
    let waiting = ports.values().filter(|port| {
        let state = port.state.lock();
        state.users > 0 && state.open.is_none()
    });
    waiting.cloned().collect()
}

impl Port {
    /// The port of a device.
    pub(super) fn of(device: &str) -> Result<Arc<Port>, DeviceError> {
        let table = table().ok_or_else(|| DeviceError::Unknown(device.to_owned()))?;
        let number = number_of(table, device).ok_or_else(|| no_port(table, device))?;
        let mut ports = PORTS.lock();
        if let Some(port) = ports.get(&number) {
            return Ok(port.clone());
        }
        // SAFETY: plain numbers and characters, for which zero is a value.
        let mut info: Info = unsafe { std::mem::zeroed() };
        // SAFETY: the environment runs, and the structure is the one the plugin fills.
        if unsafe { (table.info)(number, &raw mut info) } < 0 {
            return Err(no_port(table, device));
        }
        let port = Arc::new(Port {
            number,
            table,
            name: text(&info.name),
            driver: text(&info.driver),
            info,
            state: Lock::default(),
        });
        ports.insert(number, port.clone());
        Ok(port)
    }

    /// Its number.
    pub fn number(&self) -> u16 {
        self.number
    }

    /// Its device: `net_null0`, `0000:03:00.0`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Its driver: `net_null`, `net_ixgbe`.
    pub fn driver(&self) -> &str {
        &self.driver
    }

    /// The card's vendor: its name if it is well known, otherwise its PCI number; `virtual` for a device that
    /// is not a card.
    pub fn vendor(&self) -> String {
        let path = format!("/sys/bus/pci/devices/{}/vendor", self.name);
        let Ok(number) = std::fs::read_to_string(path) else { return "virtual".to_owned() };
        match number.trim() {
            "0x8086" => "Intel",
            "0x15b3" => "Mellanox",
            "0x14e4" => "Broadcom",
            "0x1d0f" => "Amazon",
            "0x1af4" => "Red Hat",
            "0x1425" => "Chelsio",
            other => other,
        }
        .to_owned()
    }

    /// The NUMA node that the card is attached to.
    pub fn numa_node(&self) -> Option<usize> {
        usize::try_from(self.info.node).ok()
    }

    /// The maximum number of receive queues of the device.
    pub fn max_rx_queues(&self) -> usize {
        self.info.max_rx_queues.into()
    }

    /// The maximum number of transmit queues of the device.
    pub fn max_tx_queues(&self) -> usize {
        self.info.max_tx_queues.into()
    }

    /// Receive and transmit queues that elements use.
    pub fn queues(&self) -> (usize, usize) {
        let state = self.state.lock();
        (state.receiving.len(), state.transmitting.len())
    }

    /// Records a request to receive from these queues.
    pub(super) fn wish_rx(
        self: &Arc<Self>,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, String> {
        self.refuse_rx(options)?;
        let mut state = self.state.lock();
        if state.open.is_some() {
            return Err("the port is in use already".to_owned());
        }
        let (first, wanted) = (options.queues.first, options.queues.count);
        let count = wanted.min(self.max_rx_queues().saturating_sub(first));
        if count == 0 {
            let has = self.max_rx_queues();
            return Err(format!("there is no receive queue {first}: the port has {has}"));
        }
        let mut changes = Vec::new();
        if count < wanted {
            let has = self.max_rx_queues();
            changes.push(format!("it has {has} receive queues, not {}", first + wanted));
        }
        if let Some(taken) = (first..first + count).find(|&q| state.receiving.get(q) == Some(&true))
        {
            return Err(format!("another element receives from queue {taken} already"));
        }
        let own = options_of(options, &mut state.wanted, &self.info)?;
        state.wanted.promiscuous |= options.promiscuous;
        state.wanted.symmetric |= options.spread == Spread::Symmetric;
        agree(&mut state.wanted.rx_ring, ring(options.descriptors)?, "NDESC")?;
        // What may fail comes first: queues that are dropped take the lock.
        let sleeps: io::Result<Vec<_>> =
            (0..count).map(|_| own.interrupts.then(Sleep::new).transpose()).collect();
        let sleeps = sleeps.map_err(|error| format!("make an epoll instance: {error}"))?;
        let end = state.receiving.len().max(first + count);
        state.receiving.resize(end, false);
        state.users += count;
        let mut queues: Vec<Box<dyn RxQueue>> = Vec::new();
        for (number, sleep) in (first..).zip(sleeps) {
            if let Some(taken) = state.receiving.get_mut(number) {
                *taken = true;
            }
            queues.push(Box::new(Rx::new(self.clone(), number as u16, options, &own, sleep)));
        }
        Ok(Opened {
            queues,
            capabilities: self.capabilities(!options.timestamp),
            changes,
            needs: vec![drivers()],
        })
    }

    fn capabilities(&self, annotated: bool) -> Capabilities {
        Capabilities {
            backend: "DPDK",
            zero_copy: true,
            numa_node: self.numa_node(),
            annotated,
            ..Capabilities::default()
        }
    }

    /// Rejects options that a DPDK port does not support.
    fn refuse_rx(&self, options: &RxOptions) -> Result<(), String> {
        if options.headroom > HEADROOM {
            return Err(format!("packets of DPDK have {HEADROOM} bytes of headroom"));
        }
        if !options.filter.is_empty() {
            return Err("a DPDK port has no filter in the kernel (BPF_FILTER)".to_owned());
        }
        if options.outbound {
            return Err("a DPDK port does not receive packets that the kernel sends \
                        (OUTBOUND)"
                .to_owned());
        }
        let other =
            options.numa_node.filter(|node| self.numa_node().is_some_and(|own| own != *node));
        other.map_or(Ok(()), |node| Err(format!("the card is not attached to NUMA node {node}")))
    }

    /// Records a request to transmit on this many queues. Unless they are named, it does not matter which ones.
    /// Queues that several use are shared.
    pub(super) fn wish_tx(
        self: &Arc<Self>,
        options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, String> {
        let mut state = self.state.lock();
        if state.open.is_some() {
            return Err("the port is in use already".to_owned());
        }
        let has = self.max_tx_queues();
        let mut first = options.queues.first;
        let wanted = options.queues.count;
        if has == 0 || first >= has {
            return Err(format!("there is no transmit queue {first}: the port has {has}"));
        }
        let mut changes = Vec::new();
        let mut count = wanted.min(has - first);
        if count < wanted {
            changes.push(format!("it has {has} transmit queues, not {}", first + wanted));
        }
        // Nobody cares for the numbers unless told: the first element has the first ones, and so on.
        if first == 0 && !options.named && state.transmitting.len() < has {
            first = state.transmitting.len();
            count = count.min(has - first);
        }
        merge_options(&options_from(options), &mut state.wanted, &self.info)?;
        agree(&mut state.wanted.tx_ring, ring(options.descriptors)?, "NDESC")?;
        let end = state.transmitting.len().max(first + count);
        state.transmitting.resize_with(end, Arc::default);
        state.users += count;
        let mut queues: Vec<Box<dyn TxQueue>> = Vec::new();
        for number in first..first + count {
            if let Some(sharers) = state.transmitting.get(number) {
                let tx = Tx::new(self.clone(), number as u16, sharers.clone());
                queues.push(Box::new(tx));
            }
        }
        Ok(Opened {
            queues,
            capabilities: self.capabilities(false),
            changes,
            needs: vec![drivers()],
        })
    }

    /// Opens the port unless it is open; returns what was done, as sentences.
    pub(super) fn open(&self) -> Result<Vec<String>, String> {
        let mut state = self.state.lock();
        if state.open.is_some() {
            return Ok(Vec::new());
        }
        let _ = messages(self.table);
        let mut config = self.config(&state);
        let mut notes = Vec::new();
        self.open_queues(&mut config, &mut notes)?;
        match self.add_flows(&state.wanted.flow_rules) {
            Ok(flows) => state.flows = flows,
            Err(why) => {
                // SAFETY: the environment runs, and nobody uses a queue of the port.
                unsafe { (self.table.close)(self.number) };
                return Err(why);
            }
        }
        if !state.wanted.flow_rules.is_empty() {
            let count = state.wanted.flow_rules.len();
            notes.push(format!("{count} flow rules installed"));
        }
        let open = self.opened(&state, &config, &mut notes);
        // Several numbers may now mean one queue.
        for (number, sharers) in state.transmitting.iter().enumerate() {
            let base = number % usize::from(open.tx_queues.max(1));
            if let Some(first) = state.transmitting.get(base).filter(|_| base != number) {
                first.count.fetch_add(sharers.count.load(Ordering::SeqCst), Ordering::SeqCst);
            }
        }
        state.open = Some(open);
        drop(state);
        notes.extend(self.link_note());
        Ok(notes)
    }

    /// Opens the port on the first use of its queues.
    pub(super) fn open_late(&self) -> io::Result<Open> {
        self.open().map_err(io::Error::other)?;
        self.state.lock().open.ok_or_else(|| io::Error::other("the port is closed"))
    }

    /// The users of transmit queue `number`, which take turns.
    pub(super) fn sharers(&self, number: u16) -> Option<Arc<Sharers>> {
        self.state.lock().transmitting.get(usize::from(number)).cloned()
    }

    fn config(&self, state: &State) -> Config {
        let (wanted, memory) = (&state.wanted, memory());
        // SAFETY: plain numbers and pointers, for which zero is a value.
        let mut config: Config = unsafe { std::mem::zeroed() };
        config.rx_queues = state.receiving.len() as u16;
        config.tx_queues = state.transmitting.len() as u16;
        config.rx_ring = wanted.rx_ring.unwrap_or(0);
        config.tx_ring = wanted.tx_ring.unwrap_or(0);
        config.mtu = wanted.mtu.unwrap_or(0);
        config.room = memory.room.unwrap_or_else(largest_room);
        config.mbufs = memory.mbufs.unwrap_or(MBUFS);
        config.cache = memory.cache.unwrap_or(CACHE);
        config.offloads = wanted.offloads;
        if !wanted.any_packet {
            config.offloads |= self.info.offloads & offload::FAST_FREE;
        }
        config.symmetric = wanted.symmetric.into();
        config.promiscuous = wanted.promiscuous.into();
        config.rx_interrupts = wanted.interrupts.into();
        if let Some(ether) = wanted.ether {
            config.set_mac = 1;
            config.mac = ether.0;
        }
        config.pause = match wanted.pause {
            None => 0,
            Some(Pause::Neither) => 1,
            Some(Pause::Receive) => 2,
            Some(Pause::Transmit) => 3,
            Some(Pause::Both) => 4,
        };
        config.thresholds = memory.thresholds.map(|one| one.map_or(-1, i16::from));
        config.rss_queues = wanted.rss_queues.unwrap_or(0);
        config.isolate = wanted.flow_isolate.into();
        config
    }

    /// Opens it with as many mbufs as there is memory for, unless their number is configured.
    fn open_queues(&self, config: &mut Config, notes: &mut Vec<String>) -> Result<(), String> {
        let wanted = *config;
        let mut mbufs = wanted.mbufs;
        loop {
            *config = Config { mbufs, ..wanted };
            // SAFETY: the environment runs, and the structure is the one the plugin fills.
            let result = unsafe { (self.table.open)(self.number, &raw mut *config) };
            if result >= 0 {
                if mbufs < wanted.mbufs {
                    notes.push(format!(
                        "DPDK’s memory holds {mbufs} mbufs, not {}; the option `-m` increases it",
                        wanted.mbufs
                    ));
                }
                return Ok(());
            }
            let no_memory = result == -libc::ENOMEM && config.pool.is_null();
            if no_memory && memory().mbufs.is_none() && mbufs / 2 >= FEWEST_MBUFS {
                mbufs /= 2;
                continue;
            }
            return Err(self.explain(config, result, no_memory));
        }
    }

    fn explain(&self, config: &Config, error: c_int, no_memory: bool) -> String {
        if no_memory {
            return format!(
                "there is no memory for {} mbufs: give DPDK more memory (`-m MEGABYTES`), or \
                 request fewer mbufs (DPDKInfo(NB_MBUF {}))",
                config.mbufs,
                config.mbufs / 4
            );
        }
        if error == -libc::EMSGSIZE && config.pool.is_null() {
            return format!(
                "its MTU needs mbufs of {} bytes, but those of the pool are smaller: set \
                 DPDKInfo(MBUF_SIZE {})",
                config.room, config.room
            );
        }
        // SAFETY: the plugin names steps by constants.
        let step = unsafe { config.failed.as_ref() }.map_or("opening it", |_| {
            // SAFETY: as above.
            unsafe { CStr::from_ptr(config.failed) }.to_str().unwrap_or_default()
        });
        let reason = io::Error::from_raw_os_error(error.saturating_neg());
        let said = messages(self.table);
        let words = said.lines().rfind(|line| !line.trim().is_empty());
        let words = words.map_or_else(String::new, |line| format!(" (DPDK: {})", line.trim()));
        format!("driver {}, {step}: {reason}{words}", self.driver)
    }

    /// What the queues of the port, which has just been opened, need to know.
    fn opened(&self, state: &State, config: &Config, notes: &mut Vec<String>) -> Open {
        let plural =
            |n: u16, what: &str| format!("{n} {what} queue{}", if n == 1 { "" } else { "s" });
        notes.push(format!(
            "opened by driver {}: {} of {} entries, {} of {}",
            self.driver,
            plural(config.rx_queues, "receive"),
            config.rx_ring,
            plural(config.tx_queues, "transmit"),
            config.tx_ring
        ));
        match (state.wanted.promiscuous, config.promiscuous != 0) {
            (true, true) => notes.push("promiscuous mode is on".to_owned()),
            (true, false) => notes.push("its driver has no promiscuous mode".to_owned()),
            _ => {}
        }
        if config.rx_queues > 1 && config.spread == 0 {
            notes.push(
                "its driver cannot distribute packets by flow: it chooses queues in its \
                        own way"
                    .to_owned(),
            );
        }
        if state.wanted.offloads & offload::RSS_HASH & !config.offloads != 0 {
            notes.push("its driver delivers no hashes with packets".to_owned());
        }
        let is_card = self.info.reads_memory != 0;
        let reads_ours = !is_card || config.tx_queues == 0 || self.map_arena();
        if !reads_ours {
            notes.push(
                "packets from other sources are copied, because it cannot read their memory"
                    .to_owned(),
            );
        }
        let mtu = if config.mtu > 0 { config.mtu } else { self.info.mtu };
        Open {
            pool: config.pool,
            shells: config.shells,
            tx_queues: config.tx_queues,
            own_pool_only: config.offloads & offload::FAST_FREE != 0,
            reads_ours,
            hands_over: self.driver == "net_ring",
            // Other drivers know by themselves what they can take, which may be more.
            longest: if is_card { usize::from(mtu) + FRAME as usize - 4 } else { usize::MAX },
            is_card,
        }
    }

    /// Lets the card read our packet memory.
    fn map_arena(&self) -> bool {
        Arena::regions().iter().all(|region| {
            let base = region.base.as_ptr().cast();
            // SAFETY: the region stays mapped as long as the process runs.
            unsafe { (self.table.map)(self.number, base, region.len, region.page) == 0 }
        })
    }

    fn link_note(&self) -> Option<String> {
        let patience = if self.info.reads_memory != 0 { LINK_PATIENCE } else { Duration::ZERO };
        let start = Instant::now();
        loop {
            match self.link() {
                Ok(link) if link.up == 0 && start.elapsed() < patience => {
                    std::thread::sleep(Duration::from_millis(50));
                }
                Ok(link) if link.up == 0 => {
                    return Some("its link is down: packets flow when it comes up".to_owned());
                }
                _ => return None,
            }
        }
    }

    /// Whether this is the first of the receive queues in use.
    pub(super) fn is_first(&self, number: u16) -> bool {
        let first = self.state.lock().receiving.iter().position(|taken| *taken);
        first == Some(usize::from(number))
    }

    /// Releases a receive queue.
    pub(super) fn leave_rx(&self, number: u16) {
        let mut state = self.state.lock();
        if let Some(taken) = state.receiving.get_mut(usize::from(number)) {
            *taken = false;
        }
        self.leave(&mut state);
    }

    /// Releases a transmit queue.
    pub(super) fn leave_tx(&self) {
        self.leave(&mut self.state.lock());
    }

    /// When the last queue is released, the port is closed, and restored to its earlier state.
    fn leave(&self, state: &mut State) {
        state.users = state.users.saturating_sub(1);
        if state.users > 0 {
            return;
        }
        if state.open.is_some() {
            self.remove_flows(&mut state.flows);
            // SAFETY: the environment runs, and nobody uses a queue of the port.
            unsafe {
                (self.table.close)(self.number);
                if state.wanted.mtu.is_some() {
                    (self.table.set_mtu)(self.number, self.info.mtu);
                }
                if state.wanted.ether.is_some() {
                    (self.table.set_mac)(self.number, self.info.mac.as_ptr());
                }
            }
        }
        *state = State::default();
    }
}

/// What the drivers need.
pub(super) fn drivers() -> Need {
    Need::Unknown("DPDK's drivers open devices and files of their own".to_owned())
}
