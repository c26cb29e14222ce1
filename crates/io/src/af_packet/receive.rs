//! Receiving.

use std::collections::VecDeque;
use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::{Batch, Packet};

use super::frame::Intake;
use super::messages::MESSAGES;
use super::opening::{Frames, Inlet, Opening};
use crate::meter::Meter;
use crate::offload::Finished;
use crate::queue::{RxOptions, RxQueue};
use crate::watch::Watch;

/// A receive queue of an interface, which goes on when the interface goes and comes back.
#[repr(align(128))]
pub(super) struct Receiver {
    opening: Arc<Opening>,
    /// None while the interface is gone.
    inlet: Option<Inlet>,
    watch: Watch,
    /// While the interface is gone or down: when to look for it again.
    look: Option<Instant>,
    /// What is to be said of the interface.
    news: Option<io::Error>,
    /// How often in a row nothing has come.
    idle: u32,
    intake: Intake,
    /// Packets to receive into.
    spares: Vec<Packet>,
    /// Packets that are received and not yet handed on.
    ready: VecDeque<Packet>,
    meter: Arc<Meter>,
}

/// How often an interface that is gone or down is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// With a ring no system call tells that the interface is down. It is asked for after so many tries
/// in a row that brought nothing.
const PATIENCE: u32 = 64;

impl Receiver {
    /// A queue whose interface may be down: then `inlet` is None.
    pub(super) fn new(
        opening: Arc<Opening>,
        inlet: Option<Inlet>,
        options: &RxOptions,
    ) -> io::Result<Self> {
        let mut receiver = Self {
            opening,
            inlet: None,
            watch: Watch::new()?,
            look: None,
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
        // The kernel forgets the drops that it has told.
        let mut told = 0;
        self.meter.opened(Box::new(move || {
            // Where it does not tell, what is known is all there is.
            let more = socket.upgrade().and_then(|socket| socket.take_drops().ok());
            told += u64::from(more.unwrap_or(0));
            Some(told)
        }));
        self.inlet = Some(inlet);
        Ok(())
    }

    /// Hands on what is ready, as much as there is room for.
    fn hand_on(&mut self, batch: &mut Batch, room: usize) -> usize {
        let n = room.min(self.ready.len());
        for packet in self.ready.drain(..n) {
            // There is room for n.
            let _ = batch.push(packet);
        }
        n
    }

    /// Receives packets into a batch that has room for so many. Returns how many.
    fn collect(&mut self, batch: &mut Batch, room: usize) -> io::Result<usize> {
        match self.inlet.as_mut().map(|inlet| &mut inlet.frames) {
            Some(Frames::Ring(_)) => Ok(self.collect_frames(batch, room)),
            Some(Frames::Messages(_)) => self.collect_messages(batch, room),
            None => Ok(0),
        }
    }

    /// Receives from a ring.
    fn collect_frames(&mut self, batch: &mut Batch, room: usize) -> usize {
        let Self { inlet, intake, spares, ready, meter, .. } = self;
        let Some(Frames::Ring(ring)) = inlet.as_mut().map(|inlet| &mut inlet.frames) else {
            return 0;
        };
        let mut received = 0;
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
        copies::count_many(CopyCause::Receive, received as u64);
        n
    }

    /// Receives messages until there are no more or there is no room.
    fn collect_messages(&mut self, batch: &mut Batch, room: usize) -> io::Result<usize> {
        let mut n = 0;
        while n < room {
            let wanted = (room - n).min(MESSAGES);
            let received = self.collect_some_messages(wanted)?;
            n += self.hand_on(batch, room - n);
            if received < wanted {
                break;
            }
        }
        Ok(n)
    }

    /// Receives up to so many messages. Returns how many came.
    fn collect_some_messages(&mut self, wanted: usize) -> io::Result<usize> {
        let Self { inlet, spares, intake, ready, meter, .. } = self;
        let Some(Inlet { socket, frames: Frames::Messages(inbox), .. }) = inlet else {
            return Ok(0);
        };
        while spares.len() < wanted {
            // The kernel keeps the packets for as long as it can when we have no memory.
            let Some(packet) = intake.spare() else { break };
            spares.push(packet);
        }
        let available = wanted.min(spares.len());
        let into = spares.get_mut(..available).unwrap_or_default();
        if into.is_empty() {
            return Ok(0);
        }
        let received = match socket.receive(inbox, into) {
            Ok(received) => received,
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Ok(0),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => return Ok(0),
            // A packet with an offload that the kernel has no words for: it has dropped it.
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                meter.lost(1);
                return Ok(0);
            }
            Err(error) => return Err(error),
        };
        copies::count_many(CopyCause::Receive, received as u64);
        for ((arrival, overflow), packet) in inbox.arrivals().zip(spares.drain(..received)) {
            let outcome =
                intake.unfold(arrival, overflow, packet, |packet| ready.push_back(packet));
            note(meter, outcome);
        }
        Ok(received)
    }

    /// Begins to look for the interface.
    fn look_for_it(&mut self) {
        self.look = Some(Instant::now() + LOOK);
        self.watch.tick(Some(LOOK));
    }

    /// Looks whether the interface is back, if it is time to.
    #[cold]
    fn mend(&mut self, look: Instant) {
        let now = Instant::now();
        if now < look {
            return;
        }
        self.watch.clear();
        self.look = Some(now + LOOK);
        if !self.opening.is_up() {
            return;
        }
        // The kernel brings a socket back by itself with the interface that it is bound to, but not
        // with another one of the same name.
        if self.inlet.as_ref().is_none_or(|inlet| inlet.socket.interface().is_none()) {
            self.meter.closes();
            self.inlet = None;
            // What fails now may succeed later.
            let Ok(inlet) = self.opening.open() else { return };
            if self.use_inlet(inlet).is_err() {
                return;
            }
        }
        self.look = None;
        self.watch.tick(None);
    }

    /// Asks for news of the interface, where that is due.
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
        if let Some(look) = self.look {
            self.mend(look);
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
