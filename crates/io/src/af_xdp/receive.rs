//! Receiving.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::Duration;

use millrace_core::net::EtherAddress;
use millrace_core::{Batch, Identity, Packet, PacketType};

use super::line::{Line, watch_losses};
use super::socket::RETRY;
use super::sys;
use super::take::take;
use super::watch::Watch;
use crate::meter::Meter;
use crate::offload::{self, Finished, Finisher};
use crate::queue::RxQueue;
use crate::reopening::{LOOK, Reopening};

/// A receive queue: one queue of the device, or several if the device has more than were requested.
#[repr(align(128))]
pub(super) struct Receiver {
    /// None while the interface is gone.
    lines: Option<Vec<Line>>,
    reopening: Reopening<Vec<Line>>,
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

impl Receiver {
    pub(super) fn new(
        lines: Vec<Line>,
        reopening: Reopening<Vec<Line>>,
        finish: Finish,
        busy_poll: bool,
    ) -> io::Result<Self> {
        let watch = Watch::new()?;
        lines.iter().try_for_each(|line| watch.all.follow(line.socket.fd()))?;
        let meter = Arc::<Meter>::default();
        watch_losses(&meter, &lines);
        Ok(Self {
            lines: Some(lines),
            reopening,
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
        let Some(lines) = &self.lines else { return 0 };
        let mut n = 0;
        let mut lost = 0;
        let mut starving = false;
        for at in 0..lines.len() {
            let Some(line) = lines.get((self.first + at) % lines.len()) else { break };
            if self.busy_poll {
                // What the device refuses shows when it is transmitted to or asked for.
                let _ = sys::kick_receive(line.socket.fd());
            }
            let mut rx = line.socket.rx.lock(&self.identity);
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
        match &self.lines {
            Some(lines) => {
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
            None => {
                if self.watch.take_changes() {
                    self.reopening.wait();
                    self.open_again();
                } else if self.reopening.is_due() {
                    self.open_again();
                }
                self.tick(self.lines.is_none().then_some(LOOK));
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
        let Some(lines) = &self.lines else { return Ok(0) };
        let Some(port) = lines.first().map(|line| &line.socket.port) else { return Ok(0) };
        if lines.iter().all(|line| line.socket.is_bound()) {
            port.refresh();
            return Ok(0);
        }
        port.abandon();
        self.meter.closes();
        // Meanwhile the other queues notice, too: their program is in the way of a new one.
        self.lines = None;
        self.reopening.wait();
        Err(io::Error::from_raw_os_error(libc::ENODEV))
    }

    fn open_again(&mut self) {
        let Some(lines) = self.reopening.open() else { return };
        for line in &lines {
            // Without, packets are found when the thread is awake for another reason.
            let _ = self.watch.all.follow(line.socket.fd());
        }
        watch_losses(&self.meter, &lines);
        self.lines = Some(lines);
    }

    /// Finishes the packets from `start` on.
    fn finish(&mut self, batch: &mut Batch, start: usize) {
        let line = self.lines.as_ref().and_then(|lines| lines.first());
        let limit = line.map_or(usize::MAX, |line| line.socket.port.max_length());
        let finish = self.finish;
        let mut oversized = false;
        // Whoever wrote them was another processor, or the device.
        batch.prefetch_data();
        for packet in batch.get_mut(start..).unwrap_or_default() {
            packet.set_packet_type(PacketType::of_frame(packet.data(), finish.ether));
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

impl Finish {
    #[inline]
    fn limit(&self, packet: &mut Packet) {
        let beyond = packet.len().saturating_sub(self.finisher.snap_length);
        if beyond > 0 {
            packet.truncate(self.finisher.snap_length);
            packet.set_extra_length(u32::try_from(beyond).unwrap_or(u32::MAX));
        }
    }
}
