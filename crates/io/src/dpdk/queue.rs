//! Queues of a port: one DPDK call for each burst.

use std::io;
use std::os::fd::{BorrowedFd, OwnedFd};
use std::ptr::NonNull;
use std::sync::Arc;
use std::sync::atomic::Ordering;

use millrace_core::memory::{CopyCause, Limits, copies};
use millrace_core::{Batch, Packet};
use rustix::event::epoll;
use rustix::time::{
    Itimerspec, TimerfdClockId, TimerfdFlags, TimerfdTimerFlags, Timespec, timerfd_create,
    timerfd_settime,
};

use super::abi::Table;
use super::port::{Open, Port, Sharers};
use super::thread::make_known;
use crate::meter::Meter;
use crate::method::DpdkOptions;
use crate::options::RxOptions;
use crate::queue::{RxQueue, TxQueue};

/// `ol_flags` bit of a packet whose VLAN tag the card removed (`RTE_MBUF_F_RX_VLAN_STRIPPED`).
const VLAN_STRIPPED: u64 = 1 << 6;

/// No packet has more bytes.
const LONGEST: usize = 65_535;

/// A receive queue.
#[repr(align(128))]
pub(super) struct Rx {
    port: Arc<Port>,
    table: &'static Table,
    number: u16,
    open: Option<Open>,
    snap_length: usize,
    marks: Marks,
    sleep: Option<Sleep>,
    meter: Arc<Meter>,
}

/// Additional annotations that packets get.
#[derive(Clone, Copy)]
struct Marks {
    any: bool,
    hash: bool,
    queue: bool,
    vlan: bool,
}

/// How an idle thread waits for packets.
pub(super) struct Sleep {
    /// What it sleeps on. The card's own descriptor is added when the port is open.
    epoll: OwnedFd,
    /// The card's descriptor, while it is open.
    card: Option<i32>,
    /// Used instead if the driver has no interrupts: polls for packets from time to time.
    tick: Option<OwnedFd>,
    armed: bool,
}

/// How long a thread sleeps if its card cannot wake it.
const TICK: Timespec = Timespec { tv_sec: 0, tv_nsec: 200_000 };

impl Rx {
    pub(super) fn new(
        port: Arc<Port>,
        number: u16,
        options: &RxOptions,
        own: &DpdkOptions,
        sleep: Option<Sleep>,
    ) -> Self {
        let marks = Marks {
            any: own.rss_aggregate
                || own.paint_queue
                || own.vlan_strip
                || options.snap_length < LONGEST,
            hash: own.rss_aggregate,
            queue: own.paint_queue,
            vlan: own.vlan_strip,
        };
        Self {
            table: port.table,
            port,
            number,
            open: None,
            snap_length: options.snap_length,
            marks,
            sleep,
            meter: Arc::default(),
        }
    }

    #[cold]
    fn open(&mut self) -> io::Result<()> {
        let open = self.port.open_late()?;
        if let Some(sleep) = &mut self.sleep {
            // SAFETY: the environment runs and the port is open.
            let card = unsafe { (self.table.interrupt)(self.port.number(), self.number) };
            sleep.watch(card)?;
        }
        self.open = Some(open);
        // The card counts for all of its queues: one of them tells it.
        if self.port.is_first(self.number) {
            let port = Arc::downgrade(&self.port);
            let lost =
                move || port.upgrade()?.stats().ok().map(|stats| stats.missed + stats.no_mbuf);
            self.meter.opened(Box::new(lost));
        }
        Ok(())
    }

    /// Gives each scattered packet among the last `count` a buffer for all of its bytes.
    #[cold]
    fn gather(&mut self, batch: &mut Batch, count: usize) {
        let start = batch.len() - count;
        for packet in batch.iter_mut().skip(start).filter(|packet| packet.segments() != 1) {
            let len = packet.len();
            let Some(mut whole) = Packet::for_receive(len) else { continue };
            let to = whole.buffer_mut().as_mut_ptr();
            // SAFETY: the packet is an mbuf, and the buffer was made for so many bytes.
            let read = unsafe { (self.table.read)(packet.as_mbuf(), to.cast(), len as u32) };
            if read == 0 && whole.set_len(len) {
                copies::count(CopyCause::Receive);
                whole.set_mac_header(0);
                *packet = whole;
            }
        }
        // Those for which there was no buffer.
        let before = batch.len();
        batch.retain_mut(|packet| packet.segments() == 1);
        self.meter.lost((before - batch.len()) as u64);
    }

    #[cold]
    fn mark(&self, batch: &mut Batch, count: usize) {
        let start = batch.len() - count;
        for packet in batch.iter_mut().skip(start) {
            if let Some(hash) = packet.device_hash().filter(|_| self.marks.hash) {
                packet.set_aggregate(hash);
            }
            if self.marks.vlan
                && let Some(tci) = packet.mbuf_vlan(VLAN_STRIPPED)
            {
                packet.set_vlan_tci(tci);
            }
            if self.marks.queue {
                packet.set_paint(self.number as u8);
            }
            packet.truncate(self.snap_length);
        }
    }
}

impl RxQueue for Rx {
    #[inline]
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        if self.open.is_none() {
            self.open()?;
        }
        make_known(self.table);
        let (port, number) = (self.port.number(), self.number);
        let receive = self.table.receive;
        // SAFETY: the port is open and has the queue, which this thread alone receives from; there is room for
        // so many (a batch holds fewer than 16 bits can say). What comes are mbufs of our pools, and those with
        // several segments are taken out below.
        let burst = unsafe {
            batch.receive_mbufs(max, |to, room| receive(port, number, to, room as u16).into())
        };
        let mut count = burst.packets;
        if burst.scattered > 0 {
            let before = batch.len();
            self.gather(batch, count);
            count -= before - batch.len();
        }
        self.meter.count(count, burst.bytes);
        if self.marks.any {
            self.mark(batch, count);
        }
        if let Some(sleep) = &mut self.sleep {
            sleep.after(count, self.table, port, number, self.open);
        }
        Ok(count)
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(self.meter.clone())
    }

    fn readiness(&self) -> Option<OwnedFd> {
        self.sleep.as_ref()?.epoll.try_clone().ok()
    }
}

impl Drop for Rx {
    fn drop(&mut self) {
        self.meter.closes();
        self.port.leave_rx(self.number);
    }
}

impl Sleep {
    pub(super) fn new() -> io::Result<Self> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Self { epoll, card: None, tick: None, armed: false })
    }

    fn watch(&mut self, card: i32) -> io::Result<()> {
        if card < 0 {
            let flags = TimerfdFlags::CLOEXEC | TimerfdFlags::NONBLOCK;
            let tick = timerfd_create(TimerfdClockId::Monotonic, flags)?;
            let every = Itimerspec { it_interval: TICK, it_value: TICK };
            timerfd_settime(&tick, TimerfdTimerFlags::empty(), &every)?;
            epoll::add(&self.epoll, &tick, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
            self.tick = Some(tick);
            return Ok(());
        }
        // SAFETY: DPDK keeps the descriptor open as long as the port is.
        let borrowed = unsafe { BorrowedFd::borrow_raw(card) };
        epoll::add(&self.epoll, borrowed, epoll::EventData::new_u64(0), epoll::EventFlags::IN)?;
        self.card = Some(card);
        Ok(())
    }

    /// Called after a poll for packets: if there were none, the card must signal the next ones.
    fn after(&mut self, came: usize, table: &Table, port: u16, queue: u16, open: Option<Open>) {
        if let Some(tick) = &self.tick {
            if came == 0 {
                // Until the next one. It may not have come yet.
                let _ = rustix::io::read(tick, &mut [0; 8]);
            }
            return;
        }
        let arm = came == 0;
        if arm == self.armed {
            return;
        }
        self.armed = arm;
        // SAFETY: the port is open. Drivers whose descriptor tells by itself refuse, which is well.
        unsafe { (table.set_interrupt)(port, queue, arm.into()) };
        if let Some(card) = self.card.filter(|_| !arm && open.is_some_and(|open| open.is_card)) {
            // SAFETY: as in `watch`. The descriptor of a card counts interrupts until it is read; it does not
            // block, for there was one, and reading nothing is no harm.
            let card = unsafe { BorrowedFd::borrow_raw(card) };
            let _ = rustix::io::read(card, &mut [0u8; 8]);
        }
    }
}

/// A transmit queue.
#[repr(align(128))]
pub(super) struct Tx {
    port: Arc<Port>,
    table: &'static Table,
    number: u16,
    sharers: Arc<Sharers>,
    open: Option<Open>,
    meter: Arc<Meter>,
}

impl Tx {
    pub(super) fn new(port: Arc<Port>, number: u16, sharers: Arc<Sharers>) -> Self {
        sharers.count.fetch_add(1, Ordering::SeqCst);
        Self { table: port.table, port, number, sharers, open: None, meter: Arc::default() }
    }

    #[cold]
    fn open(&mut self) -> io::Result<Open> {
        let open = self.port.open_late()?;
        // The port may have fewer queues than were thought.
        let number = self.number % open.tx_queues.max(1);
        if number != self.number
            && let Some(sharers) = self.port.sharers(number)
        {
            self.number = number;
            self.sharers = sharers;
        }
        self.open = Some(open);
        Ok(open)
    }
}

impl TxQueue for Tx {
    #[inline]
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let open = match self.open {
            Some(open) => open,
            None => self.open()?,
        };
        make_known(self.table);
        let shared = self.sharers.count.load(Ordering::Relaxed) > 1;
        let _turn = shared.then(|| self.sharers.turn.lock());
        let table = self.table;
        let (port, number, send) = (self.port.number(), self.number, table.transmit);
        let pool = open.pool.cast_const().cast();
        let limits = Limits { longest: open.longest, pool: open.own_pool_only.then_some(pool) };
        let ready = |packet: &mut Packet| {
            if packet.len() > open.longest {
                return false;
            }
            let own = match open.own_pool_only {
                true => packet.is_mbuf_of(pool),
                false => packet.is_sole_mbuf(),
            };
            own || make_mbuf(packet, table, &open)
        };
        // SAFETY: the port is open and has the queue, which nobody else uses meanwhile; the driver frees what
        // it takes. `ready` passes mbufs that nobody shares.
        let burst = unsafe {
            batch.transmit_mbufs(&limits, ready, |mbufs, count| {
                send(port, number, mbufs, count as u16).into()
            })
        };
        self.meter.count(burst.packets, burst.bytes);
        // Further back, one that is too long is none of the device's reasons to take no packet now.
        match batch.first().map(Packet::len).filter(|first| *first > open.longest) {
            Some(first) if burst.packets == 0 => Err(io::Error::new(
                io::ErrorKind::InvalidInput,
                format!(
                    "a packet of {first} bytes is longer than the {} of its port",
                    open.longest
                ),
            )),
            _ => Ok(burst.packets),
        }
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(self.meter.clone())
    }
}

/// Replaces the packet with an mbuf that has the packet's bytes. Returns false when there is no mbuf left:
/// the device must free some first.
#[cold]
fn make_mbuf(packet: &mut Packet, table: &Table, open: &Open) -> bool {
    let attaches =
        open.reads_ours && !open.own_pool_only && !(open.hands_over && packet.is_shared());
    if !attaches {
        // SAFETY: the pool is the open port's, and the bytes are so many.
        let mbuf =
            unsafe { (table.copy)(open.pool, packet.data().as_ptr().cast(), packet.len() as u32) };
        let Some(mbuf) = NonNull::new(mbuf) else { return false };
        copies::count(CopyCause::Transmit);
        // SAFETY: a fresh mbuf of our pool.
        unsafe { packet.move_to_mbuf(mbuf) };
        return true;
    }
    let Some(window) = packet.window() else { return false };
    // SAFETY: the pool is the open port's; the window lies in memory that stays until the descriptor is given
    // back, for the packet is given up below.
    let mbuf = unsafe {
        (table.attach)(
            open.shells,
            window.buffer.cast(),
            window.offset + window.len,
            window.offset,
            window.len,
            window.descriptor.as_ptr().cast(),
        )
    };
    let Some(mbuf) = NonNull::new(mbuf) else { return false };
    // SAFETY: a fresh mbuf that looks at the packet's window; whoever else looks at the bytes only reads them,
    // and so do drivers.
    unsafe { packet.become_mbuf(mbuf) };
    true
}

impl Drop for Tx {
    fn drop(&mut self) {
        self.port.leave_tx();
    }
}
