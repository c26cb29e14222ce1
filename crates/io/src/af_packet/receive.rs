//! Receiving.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::{Batch, Packet};

use super::express::{Express, INTERVAL, Id, SETTLED, Step, dropped};
use super::frame::Intake;
use super::messages::MESSAGES;
use super::opening::{Frames, Inlet, Opening};
use super::rx_ring::{Load, RxRing};
use crate::meter::Meter;
use crate::offload::Finished;
use crate::options::RxOptions;
use crate::queue::RxQueue;
use crate::reopening::{LOOK, Reopening};
use crate::watch::Watch;

/// A receive queue of an interface, which continues when the interface disappears and comes back.
#[repr(align(128))]
pub(super) struct Receiver {
    opening: Arc<Opening>,
    /// `None` while the interface is gone.
    inlet: Option<Inlet>,
    watch: Watch,
    reopening: Reopening<Inlet>,
    /// The interface is gone or down.
    is_away: bool,
    /// What to report about the interface.
    news: Option<io::Error>,
    /// How many times in a row nothing has arrived.
    idle: u32,
    intake: Intake,
    /// Packets to receive into.
    spares: Vec<Packet>,
    /// Packets that are received and not yet passed on.
    ready: VecDeque<Packet>,
    meter: Arc<Meter>,
}

/// With a ring, no system call reports that the interface is down. So its state is requested after this many
/// attempts in a row without packets.
const PATIENCE: u32 = 64;

impl Receiver {
    /// A queue whose interface may be down: then `inlet` is `None`.
    pub(super) fn new(
        opening: Arc<Opening>,
        inlet: Option<Inlet>,
        options: &RxOptions,
    ) -> io::Result<Self> {
        let again = opening.clone();
        let mut receiver = Self {
            opening,
            inlet: None,
            watch: Watch::new()?,
            reopening: Reopening::new(move || again.open().ok()),
            is_away: false,
            news: None,
            idle: 0,
            intake: Intake::new(options),
            spares: Vec::with_capacity(MESSAGES),
            ready: VecDeque::new(),
            meter: Arc::default(),
        };
        match inlet {
            Some(inlet) => receiver.use_inlet(inlet)?,
            None => {
                receiver.news = Some(io::Error::from_raw_os_error(libc::ENETDOWN));
                receiver.look_for_it();
            }
        }
        Ok(receiver)
    }

    fn use_inlet(&mut self, inlet: Inlet) -> io::Result<()> {
        self.watch.follow(&*inlet.socket)?;
        let socket = Arc::downgrade(&inlet.socket);
        let rescued = inlet.express.as_ref().map(Express::rescued);
        let mut told = 0;
        self.meter.opened(Box::new(move || {
            // Where it does not tell, what is known is all there is.
            if let Some(Ok(counted)) = socket.upgrade().map(|socket| socket.counted()) {
                let rescued = rescued.as_ref().map_or(0, |rescued| rescued.load(Relaxed));
                told = counted.dropped.saturating_sub(rescued);
            }
            Some(told)
        }));
        self.watch.tick(inlet.express.as_ref().map(|_| INTERVAL));
        self.inlet = Some(inlet);
        Ok(())
    }

    /// Passes on the packets that are ready, as many as there is room for.
    fn hand_on(&mut self, batch: &mut Batch, room: usize) -> usize {
        let n = room.min(self.ready.len());
        for packet in self.ready.drain(..n) {
            // There is room for n.
            let _ = batch.push(packet);
        }
        n
    }

    /// Receives packets into a batch with this much room. Returns their number.
    fn collect(&mut self, batch: &mut Batch, room: usize) -> io::Result<usize> {
        match &self.inlet {
            Some(Inlet { frames: Frames::Messages(_), .. }) => {
                self.read_messages(room)?;
                Ok(self.hand_on(batch, room))
            }
            Some(Inlet { express: None, .. }) => Ok(self.collect_frames(batch, room)),
            Some(_) => self.collect_both(batch, room),
            None => Ok(0),
        }
    }

    /// Receives from a ring, and from the express socket next to it if there is one.
    fn collect_both(&mut self, batch: &mut Batch, room: usize) -> io::Result<usize> {
        let step = match self.read_messages(room) {
            Ok((load, is_end)) => match &mut self.inlet {
                Some(Inlet { socket, express: Some(express), .. }) => {
                    express.came(load, is_end, || dropped(socket))
                }
                _ => Step::Nothing,
            },
            // The ring tells what is to be told.
            Err(_) => Step::Close,
        };
        self.take(step);
        let mut n = self.hand_on(batch, room);
        if n >= room {
            return Ok(n);
        }
        let before = self.express().map(|(ring, _)| ring.taken());
        n += self.collect_frames(batch, room - n);
        let Some(inlet) = self.inlet.as_mut().filter(|_| !self.is_away) else { return Ok(n) };
        let Inlet { socket, frames: Frames::Ring(ring), express: Some(express), .. } = inlet else {
            return Ok(n);
        };
        if n == 0 || before != Some(ring.taken()) {
            let step = express.consider(socket, ring);
            self.take(step);
        }
        Ok(n)
    }

    /// Carries out a step for the express socket.
    fn take(&mut self, step: Step) {
        let Self { opening, inlet, watch, is_away, .. } = self;
        let Some((ring, express)) = inlet.as_mut().and_then(Inlet::express) else { return };
        match step {
            Step::Nothing => {}
            Step::Wait => watch.tick(Some(INTERVAL)),
            Step::Open => {
                express.begin(opening.open_express().ok());
                watch.tick(Some(SETTLED));
            }
            Step::Use => {
                watch.tick(None);
                let followed = express.socket().map(|socket| watch.follow(socket));
                if !matches!(followed, Some(Ok(()))) {
                    express.close(ring);
                    express.begin(None);
                }
            }
            Step::Close => {
                express.close(ring);
                if !*is_away {
                    watch.tick(Some(INTERVAL));
                }
            }
        }
    }

    fn express(&mut self) -> Option<(&mut RxRing, &mut Express)> {
        self.inlet.as_mut().and_then(Inlet::express)
    }

    /// Receives from a ring.
    fn collect_frames(&mut self, batch: &mut Batch, room: usize) -> usize {
        let Self { inlet, intake, spares, ready, meter, .. } = self;
        let Some(Inlet { frames: Frames::Ring(ring), express, .. }) = inlet else { return 0 };
        let mut copies = express.as_mut().and_then(Express::copies);
        let mut received = 0;
        let mut seen = 0;
        let mut n = 0;
        // Frames of which nothing is left count, too: others are to have their turn.
        while n < room && received < room {
            // Without memory for a packet the kernel keeps what there is for as long as it can.
            let Some(mut packet) = spares.pop().or_else(|| intake.spare()) else { break };
            let Some((arrival, bytes)) = ring.next() else {
                spares.push(packet);
                break;
            };
            received += 1;
            if let Some(copies) = &mut copies
                && copies.has_seen(Id::of(bytes, arrival.length + arrival.missing))
            {
                seen += 1;
                spares.push(packet);
                continue;
            }
            let buffer = packet.buffer_mut();
            let (first, overflow) = bytes.split_at_checked(buffer.len()).unwrap_or((bytes, &[]));
            if let Some(buffer) = buffer.get_mut(..first.len()) {
                buffer.copy_from_slice(first);
            }
            let outcome = intake.unfold(&arrival, overflow, packet, |packet| {
                if n < room {
                    n += usize::from(batch.push(packet).is_ok());
                } else {
                    ready.push_back(packet);
                }
            });
            note(meter, outcome);
        }
        ring.release();
        copies::count_many(CopyCause::Receive, (received - seen) as u64);
        n
    }

    /// Reads messages until there are no more or enough packets are ready. Returns how many arrived, and
    /// whether there are no more.
    fn read_messages(&mut self, wanted: usize) -> io::Result<(Load, bool)> {
        /// The first call asks for only a few, because most often there are none.
        const FIRST: usize = 4;
        let mut load = Load::default();
        let mut most = if self.express().is_some() { FIRST } else { MESSAGES };
        while let missing @ 1.. = wanted.saturating_sub(self.ready.len().max(load.frames as usize))
        {
            let (more, is_end) = self.read_some_messages(missing.min(most))?;
            most = MESSAGES;
            load.frames += more.frames;
            load.bytes += more.bytes;
            if is_end || more.frames == 0 {
                return Ok((load, is_end));
            }
        }
        Ok((load, false))
    }

    /// Reads up to this many messages, with one call. Returns how many arrived, and whether there are no
    /// more.
    fn read_some_messages(&mut self, wanted: usize) -> io::Result<(Load, bool)> {
        let Self { inlet, spares, intake, ready, meter, .. } = self;
        let Some((socket, inbox, mut copies)) = inlet.as_mut().and_then(Inlet::messages) else {
            return Ok((Load::default(), true));
        };
        while spares.len() < wanted {
            // The kernel keeps the packets for as long as it can when we have no memory.
            let Some(packet) = intake.spare() else { break };
            spares.push(packet);
        }
        let available = wanted.min(spares.len());
        let into = spares.get_mut(..available).unwrap_or_default();
        if into.is_empty() {
            return Ok((Load::default(), false));
        }
        let received = match socket.receive(inbox, into) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                return Ok((Load::default(), true));
            }
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {
                return Ok((Load::default(), false));
            }
            // A packet with an offload that the kernel has no words for: it has dropped it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                // Beside a ring, that counts it.
                meter.lost(u64::from(copies.is_none()));
                return Ok((Load::default(), false));
            }
            Err(error) => return Err(error),
        };
        let mut load = Load { frames: received as u64, bytes: 0 };
        let mut seen = 0;
        for ((arrival, overflow), mut packet) in inbox.arrivals().zip(spares.drain(..received)) {
            load.bytes += arrival.length as u64;
            if let Some(copies) = &mut copies {
                let buffer = packet.buffer_mut();
                let bytes = buffer.get(..arrival.length).unwrap_or(buffer);
                if copies.has_seen(Id::of(bytes, arrival.length)) {
                    seen += 1;
                    continue;
                }
            }
            let outcome =
                intake.unfold(arrival, overflow, packet, |packet| ready.push_back(packet));
            note(meter, outcome);
        }
        copies::count_many(CopyCause::Receive, (received - seen) as u64);
        Ok((load, received < available))
    }

    /// Begins to check for the interface.
    fn look_for_it(&mut self) {
        self.is_away = true;
        self.reopening.wait();
        self.watch.tick(Some(LOOK));
    }

    /// Checks whether the interface is back, if it is time to.
    #[cold]
    fn mend(&mut self) {
        if !self.reopening.is_due() {
            return;
        }
        self.watch.clear();
        if !self.opening.is_up() {
            return;
        }
        // The kernel brings a socket back by itself with the interface that it is bound to, but not
        // with another one of the same name.
        if self.inlet.as_ref().is_none_or(|inlet| inlet.socket.interface().is_none()) {
            self.meter.closes();
            self.inlet = None;
            let Some(inlet) = self.reopening.open() else { return };
            if self.use_inlet(inlet).is_err() {
                return;
            }
        }
        self.is_away = false;
        // Whether there is to be an express socket.
        let next = self.express().map(|_| INTERVAL);
        self.watch.tick(next);
    }

    /// Requests the state of the interface, if that is due.
    fn ask(&mut self) -> io::Result<()> {
        if let Some(news) = self.news.take() {
            return Err(news);
        }
        self.idle = self.idle.wrapping_add(1);
        match &self.inlet {
            Some(inlet) if self.idle.is_multiple_of(PATIENCE) => inlet.socket.take_error(),
            _ => Ok(()),
        }
    }
}

impl RxQueue for Receiver {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let (room, before) = (max.min(batch.room()), batch.len());
        let mut n = self.hand_on(batch, room);
        if self.is_away {
            self.mend();
        }
        let result = if n < room { self.collect(batch, room - n) } else { Ok(0) };
        let outcome = result.and_then(|more| {
            n += more;
            if n == 0 {
                return self.ask();
            }
            self.idle = 0;
            Ok(())
        });
        self.meter.count_all(batch.get(before..).unwrap_or_default());
        match outcome {
            Ok(()) => Ok(n),
            Err(error) => {
                self.look_for_it();
                Err(error)
            }
        }
    }

    fn readiness(&self) -> Option<OwnedFd> {
        self.watch.duplicate().ok()
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

fn note(meter: &Meter, outcome: Finished) {
    match outcome {
        Finished::Whole => {}
        Finished::Cut { lost } => {
            meter.segmented();
            meter.lost(lost);
        }
        Finished::Lost => meter.lost(1),
    }
}

#[cfg(test)]
mod tests;
