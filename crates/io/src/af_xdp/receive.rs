//! Receiving.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::net::EtherAddress;
use millrace_core::{Batch, Identity, Packet, PacketType};

use super::frames::HEADROOM;
use super::port::Attachment;
use super::ring::Place;
use super::socket::{RETRY, Rx, Socket};
use super::sys;
use super::watch::Watch;
use crate::meter::Meter;
use crate::offload::{self, Finished, Finisher};
use crate::queue::RxQueue;

/// A receive queue: one queue of the device, or several if the device has more than were requested.
#[repr(align(128))]
pub(super) struct Receiver {
    state: State,
    /// Opens the queues again after the interface was gone.
    reopen: Box<dyn Fn() -> io::Result<Vec<Line>> + Send>,
    watch: Watch,
    /// How often an idle thread must check.
    ticks: Option<Duration>,
    /// Whether a line lacks memory to receive into.
    starving: bool,
    /// The line to begin with.
    first: usize,
    /// Calls in a row without packets.
    idle: u32,
    busy_poll: bool,
    finish: Finish,
    /// Packets that are received and not yet passed on.
    ready: VecDeque<Packet>,
    /// The identity for access to the receiving side of the sockets.
    identity: Identity,
    meter: Arc<Meter>,
}

enum State {
    Open(Vec<Line>),
    /// The interface is gone. Contains the error to report, or when to check again.
    Gone(Instant),
}

/// The receiving end of one queue of the device.
pub(super) struct Line {
    attachment: Arc<Attachment>,
    socket: Arc<Socket>,
    /// Keeps the interface in promiscuous mode.
    #[expect(dead_code, reason = "held for its drop")]
    promiscuous: Option<OwnedFd>,
}

/// How to finish each packet.
#[derive(Clone, Copy, Debug)]
pub(super) struct Finish {
    pub(super) finisher: Finisher,
    /// The interface's address, for the packet type.
    pub(super) ether: Option<EtherAddress>,
    /// Packets may lack checksums, or be longer than the MTU.
    pub(super) may_be_unfinished: bool,
}

/// Calls in a row without packets after which to check whether the interface still exists.
const IDLE: u32 = 32;
/// How often to check for an interface that is gone.
const LOOK: Duration = Duration::from_millis(100);

impl Line {
    /// Takes packets of the socket's queue from the kernel.
    pub(super) fn new(
        attachment: Arc<Attachment>,
        socket: Arc<Socket>,
        promiscuous: Option<OwnedFd>,
    ) -> io::Result<Self> {
        socket.refill(&mut socket.rx.visit());
        let mut receivers = socket.receivers.lock();
        attachment.direct(socket.queue, Some(&socket))?;
        *receivers += 1;
        drop(receivers);
        Ok(Self { attachment, socket, promiscuous })
    }

    pub(super) fn socket(&self) -> &Socket {
        &self.socket
    }
}

/// Makes a meter ask the kernel for the losses of these lines.
fn watch_losses(meter: &Meter, lines: &[Line]) {
    let sockets: Vec<_> = lines.iter().map(|line| Arc::downgrade(&line.socket)).collect();
    let lost = |socket: Arc<Socket>| {
        let statistics = socket.statistics();
        statistics.rx_dropped + statistics.rx_full
    };
    meter.opened(Box::new(move || {
        Some(sockets.iter().filter_map(|socket| socket.upgrade()).map(lost).sum())
    }));
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut receivers = self.socket.receivers.lock();
        *receivers = receivers.saturating_sub(1);
        if *receivers == 0 {
            // Where that fails the interface is gone, and the program with it.
            let _ = self.attachment.direct(self.socket.queue, None);
        }
    }
}

impl Receiver {
    pub(super) fn new(
        lines: Vec<Line>,
        reopen: Box<dyn Fn() -> io::Result<Vec<Line>> + Send>,
        finish: Finish,
        busy_poll: bool,
    ) -> io::Result<Self> {
        let watch = Watch::new()?;
        lines.iter().try_for_each(|line| watch.all.follow(line.socket.fd()))?;
        let meter = Arc::<Meter>::default();
        watch_losses(&meter, &lines);
        Ok(Self {
            state: State::Open(lines),
            reopen,
            watch,
            ticks: None,
            starving: false,
            first: 0,
            idle: 0,
            busy_poll,
            finish,
            ready: VecDeque::new(),
            identity: Identity::new(),
            meter,
        })
    }

    fn hand_on(&mut self, batch: &mut Batch, room: usize) -> usize {
        let n = room.min(self.ready.len());
        for packet in self.ready.drain(..n) {
            // There is room for n.
            let _ = batch.push(packet);
        }
        n
    }

    /// Receives from the lines in turn.
    fn collect(&mut self, batch: &mut Batch, room: usize) -> usize {
        let State::Open(lines) = &self.state else { return 0 };
        let mut n = 0;
        let mut lost = 0;
        let mut starving = false;
        for at in 0..lines.len() {
            let Some(line) = lines.get((self.first + at) % lines.len()) else { break };
            if self.busy_poll {
                // What the device refuses shows when it is transmitted to or asked for.
                let _ = sys::kick_receive(line.socket.fd());
            }
            let mut rx = line.socket.rx.lock_as(&self.identity);
            n += take(&mut rx, batch, room - n, &mut lost);
            line.socket.refill(&mut rx);
            starving |= rx.is_starving();
            if n == room {
                break;
            }
        }
        self.meter.lost(lost);
        self.starving = starving;
        if lines.len() > 1 {
            self.first = (self.first + 1) % lines.len();
        }
        n
    }

    /// What to do when nothing arrived.
    #[cold]
    fn rest(&mut self) -> io::Result<usize> {
        match &self.state {
            State::Open(lines) => {
                lines.iter().for_each(|line| line.socket.go_on_transmitting());
                let unsent = lines.iter().any(|line| line.socket.has_unsent());
                self.tick((self.starving || unsent).then_some(RETRY));
                self.idle += 1;
                if self.idle >= IDLE {
                    self.idle = 0;
                    if self.watch.take_changes() {
                        return self.look();
                    }
                }
            }
            State::Gone(next) => {
                let is_time = Instant::now() >= *next;
                if self.watch.take_changes() || is_time {
                    self.look_for_it();
                }
                self.tick(matches!(self.state, State::Gone(_)).then_some(LOOK));
            }
        }
        Ok(0)
    }

    /// Makes an idle thread check regularly, even if nothing has arrived.
    fn tick(&mut self, every: Option<Duration>) {
        if self.ticks != every {
            self.ticks = every;
            self.watch.all.tick(every);
        } else if every.is_some() {
            self.watch.all.clear();
        }
    }

    /// Checks whether the interface still exists.
    fn look(&mut self) -> io::Result<usize> {
        let State::Open(lines) = &self.state else { return Ok(0) };
        let Some(port) = lines.first().map(|line| &line.socket.port) else { return Ok(0) };
        if lines.iter().all(|line| line.socket.is_bound()) {
            port.refresh();
            return Ok(0);
        }
        port.abandon();
        self.meter.closes();
        // Meanwhile the other queues notice, too: their program is in the way of a new one.
        self.state = State::Gone(Instant::now() + LOOK);
        Err(io::Error::from_raw_os_error(libc::ENODEV))
    }

    fn look_for_it(&mut self) {
        self.state = match (self.reopen)() {
            Ok(lines) => {
                for line in &lines {
                    // Without, packets are found when the thread is awake for another reason.
                    let _ = self.watch.all.follow(line.socket.fd());
                }
                watch_losses(&self.meter, &lines);
                State::Open(lines)
            }
            Err(_) => State::Gone(Instant::now() + LOOK),
        };
    }

    /// Finishes the packets from `start` on.
    fn finish(&mut self, batch: &mut Batch, start: usize) {
        let limit = match &self.state {
            State::Open(lines) => {
                lines.first().map_or(usize::MAX, |line| line.socket.port.max_length())
            }
            State::Gone(_) => usize::MAX,
        };
        let finish = self.finish;
        let mut oversized = false;
        // Whoever wrote them was another processor, or the device.
        batch.prefetch_data();
        for packet in batch.get_mut(start..).unwrap_or_default() {
            packet.set_packet_type(finish.type_of(packet.data()));
            if finish.may_be_unfinished {
                if packet.len() > limit.saturating_add(TAGS) {
                    oversized = true;
                    continue;
                }
                offload::complete_partial(packet);
            }
            finish.limit(packet);
        }
        if oversized {
            self.cut(batch, start, limit);
        }
    }

    /// Cuts segments that are longer than the MTU into packets, for which there may be no room yet.
    #[cold]
    fn cut(&mut self, batch: &mut Batch, start: usize, limit: usize) {
        let all: Vec<Packet> = batch.drain_run(start..usize::MAX).collect();
        let mut cut = VecDeque::with_capacity(2 * all.len());
        for mut packet in all {
            let is_long = packet.len() > limit.saturating_add(TAGS);
            let offload = if is_long { offload::cut_within(&packet, limit) } else { None };
            let Some(offload) = offload else {
                self.finish.limit(&mut packet);
                cut.push_back(packet);
                continue;
            };
            let take = |packet| cut.push_back(packet);
            match self.finish.finisher.finish(offload, packet, &[], take) {
                Finished::Lost => self.meter.lost(1),
                Finished::Whole => {}
                Finished::Cut { lost } => {
                    self.meter.segmented();
                    self.meter.lost(lost);
                }
            }
        }
        cut.append(&mut self.ready);
        self.ready = cut;
    }
}

/// The maximum length of VLAN tags, in bytes, in addition to the MTU.
const TAGS: usize = 8;

impl RxQueue for Receiver {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let room = max.min(batch.room());
        let start = batch.len();
        if self.ready.is_empty() {
            self.collect(batch, room);
            if batch.len() > start {
                self.finish(batch, start);
            }
        }
        let missing = room.saturating_sub(batch.len() - start);
        if !self.ready.is_empty() {
            self.hand_on(batch, missing);
        }
        let n = batch.len() - start;
        if n == 0 {
            return self.rest();
        }
        self.idle = 0;
        self.meter.count_all(batch.get(start..).unwrap_or_default());
        Ok(n)
    }

    fn readiness(&self) -> Option<OwnedFd> {
        // With busy polling the device waits to be asked.
        if self.busy_poll { None } else { self.watch.all.duplicate().ok() }
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(Arc::clone(&self.meter))
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.meter.closes();
    }
}

/// Takes up to `room` packets from a receive ring.
#[inline]
fn take(rx: &mut Rx, batch: &mut Batch, room: usize, lost: &mut u64) -> usize {
    let most = u32::try_from(room).unwrap_or(u32::MAX);
    let available = rx.received.available(most).min(most);
    let mut n = 0;
    for _ in 0..available {
        let Some(place) = rx.received.peek(0) else { break };
        let packet = if place.is_continued() {
            let Some(descriptors) = length_of(rx) else { break };
            join(rx, descriptors)
        } else {
            rx.received.skip(1);
            restore(rx, place)
        };
        match packet {
            Some(packet) => {
                n += 1;
                // There is room.
                let _ = batch.push(packet);
            }
            None => *lost += 1,
        }
    }
    rx.received.release();
    n
}

/// The packet that the kernel has received at a place.
#[inline]
fn restore(rx: &mut Rx, place: Place) -> Option<Packet> {
    let (mut packet, within) = rx.lent.take_back(place.address)?;
    let len = place.len as usize;
    let fits =
        if within == HEADROOM { packet.set_len(len) } else { packet.set_window(within, len) };
    fits.then_some(packet)
}

/// The number of descriptors of the next packet; `None` while the kernel has not written all of them.
fn length_of(rx: &mut Rx) -> Option<u32> {
    let available = rx.received.available(u32::MAX);
    let end = (0..available).find(|at| rx.received.peek(*at).is_some_and(|p| !p.is_continued()));
    // A ring full of one packet would never go on.
    end.map(|end| end + 1).or((available == rx.received.size()).then_some(available))
}

/// Copies a packet that occupies several slots into one.
#[cold]
fn join(rx: &mut Rx, descriptors: u32) -> Option<Packet> {
    let places = |rx: &Rx| (0..descriptors).filter_map(|at| rx.received.peek(at)).collect();
    let places: Vec<Place> = places(rx);
    rx.received.skip(descriptors);
    let len = places.iter().map(|place| place.len as usize).sum();
    let mut whole = Packet::stale(HEADROOM, len, 0);
    let mut at = 0;
    for place in places {
        let part = restore(rx, place);
        let into =
            whole.as_mut().and_then(|whole| whole.data_mut().get_mut(at..at + place.len as usize));
        match (part, into) {
            (Some(part), Some(into)) => into.copy_from_slice(part.data()),
            _ => whole = None,
        }
        at += place.len as usize;
    }
    copies::count(CopyCause::Receive);
    whole
}

impl Finish {
    #[inline]
    fn type_of(&self, frame: &[u8]) -> PacketType {
        let Some(destination) = frame.first_chunk().map(|bytes| EtherAddress(*bytes)) else {
            return PacketType::Host;
        };
        if !destination.is_group() {
            let is_own = self.ether.is_none_or(|own| own == destination);
            return if is_own { PacketType::Host } else { PacketType::OtherHost };
        }
        if destination.is_broadcast() { PacketType::Broadcast } else { PacketType::Multicast }
    }

    #[inline]
    fn limit(&self, packet: &mut Packet) {
        let beyond = packet.len().saturating_sub(self.finisher.snap_length);
        if beyond > 0 {
            packet.truncate(self.finisher.snap_length);
            packet.set_extra_length(u32::try_from(beyond).unwrap_or(u32::MAX));
        }
    }
}
