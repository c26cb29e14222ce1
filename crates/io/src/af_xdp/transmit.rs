//! Transmitting.

#![allow(unsafe_code, reason = "what is in the transmit ring is read by the kernel")]

use std::io;
use std::sync::Arc;
use std::time::Duration;

use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::{Batch, Identity, Packet};

use super::frames::CHUNK;
use super::port::Attachment;
use super::ring::{Place, address};
use super::socket::{Socket, Tx};
use crate::meter::Meter;
use crate::offload::tag_len;
use crate::queue::TxQueue;
use crate::reopening::Reopening;

/// A transmit queue of an interface.
#[repr(align(128))]
pub(super) struct Transmitter {
    /// `None` while the interface is gone.
    line: Option<Line>,
    reopening: Reopening<Line>,
    /// The last call failed: the next one checks whether the device works again before it accepts packets.
    failing: bool,
    /// Calls since the MTU was last requested.
    calls: u32,
    /// The identity for access to the transmitting side of the socket.
    identity: Identity,
    meter: Arc<Meter>,
}

/// A socket, and the program that its driver needs, if any.
type Line = (Arc<Socket>, Option<Arc<Attachment>>);

/// How long to retry a device without room. A later call transmits what is left.
const PATIENCE: Duration = Duration::from_micros(200);
/// Calls after which the MTU is requested again.
const REFRESH: u32 = 1024;
/// The maximum number of slots of a packet: the kernel makes one fragment of each.
const MOST_SLOTS: usize = 17;

impl Transmitter {
    pub(super) fn new(line: Line, reopening: Reopening<Line>) -> Self {
        let meter = Arc::<Meter>::default();
        watch_losses(&meter, &line.0);
        Self {
            line: Some(line),
            reopening,
            failing: false,
            calls: 0,
            identity: Identity::new(),
            meter,
        }
    }

    /// Takes the socket out, if the interface exists.
    fn take_line(&mut self) -> io::Result<Line> {
        if let Some(line) = self.line.take() {
            return Ok(line);
        }
        if self.reopening.is_due()
            && let Some(line) = self.reopening.open()
        {
            self.failing = false;
            watch_losses(&self.meter, &line.0);
            return Ok(line);
        }
        Err(io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Whether an error of the device means that it is gone.
    #[cold]
    fn is_gone(&mut self, error: &io::Error, socket: &Socket) -> bool {
        self.failing = true;
        let gone = matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV));
        let gone = gone && (socket.is_loose(error) || !socket.port.is_there());
        if gone {
            socket.port.abandon();
            self.meter.closes();
        }
        gone
    }

    /// Transmits through a socket.
    fn transmit_by(&mut self, socket: &Socket, batch: &mut Batch) -> Result<usize, Failure> {
        let mut tx = socket.tx.lock(&self.identity);
        if self.failing {
            socket.kick(&mut tx, Duration::ZERO).map_err(Failure::of_device)?;
            self.failing = false;
        }
        self.calls += 1;
        if self.calls >= REFRESH {
            self.calls = 0;
            socket.port.refresh();
        }
        tx.reap();
        if !socket.has_caught_up(&mut tx).map_err(Failure::of_device)? {
            return Ok(0);
        }
        let room = tx.ring.room(batch.len() as u32) as usize;
        let (count, bytes) = match fitting(batch, socket, room) {
            // The device is at work on what is in the ring, or waits to be called for it.
            Ok((0, _)) => {
                let kicked = socket.kick(&mut tx, Duration::ZERO);
                return kicked.map(|()| 0).map_err(Failure::of_packet);
            }
            Ok(fitting) => fitting,
            Err(error) => {
                // The MTU may have grown.
                socket.port.refresh();
                match fitting(batch, socket, room) {
                    Ok(fitting) if fitting.0 > 0 => fitting,
                    _ => return Err(Failure::of_packet(error)),
                }
            }
        };
        for packet in batch.drain_front(count) {
            if !put(&mut tx, packet) {
                self.meter.lost(1);
            }
        }
        tx.ring.publish();
        self.meter.count(count, bytes);
        match socket.kick(&mut tx, PATIENCE) {
            Ok(()) => Ok(count),
            Err(error) => Err(Failure { taken: Some(count), ..Failure::of_device(error) }),
        }
    }
}

/// What went wrong in transmitting packets.
struct Failure {
    error: io::Error,
    /// The next call checks whether the device works again.
    of_device: bool,
    /// The number of packets that were accepted nevertheless.
    taken: Option<usize>,
}

impl Failure {
    fn of_device(error: io::Error) -> Self {
        Self { error, of_device: true, taken: None }
    }

    fn of_packet(error: io::Error) -> Self {
        Self { error, of_device: false, taken: None }
    }
}

/// Makes a meter ask the kernel for the losses of this socket.
fn watch_losses(meter: &Meter, socket: &Arc<Socket>) {
    let socket = Arc::downgrade(socket);
    meter.opened(Box::new(move || Some(socket.upgrade()?.untransmitted())));
}

impl TxQueue for Transmitter {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        if batch.is_empty() {
            return Ok(0);
        }
        let line = self.take_line()?;
        let result = self.transmit_by(&line.0, batch);
        let gone = match &result {
            Err(Failure { error, of_device: true, .. }) => self.is_gone(error, &line.0),
            _ => false,
        };
        if !gone {
            self.line = Some(line);
        }
        result.or_else(|failure| failure.taken.ok_or(failure.error))
    }

    fn flush(&mut self) -> io::Result<()> {
        match &self.line {
            Some((socket, _)) => socket.kick(&mut socket.tx.lock(&self.identity), PATIENCE),
            None => Ok(()),
        }
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(Arc::clone(&self.meter))
    }
}

impl Drop for Transmitter {
    fn drop(&mut self) {
        self.meter.closes();
    }
}

/// How many packets from the front the ring has room for and the device accepts, and their bytes.
///
/// # Errors
/// The device does not accept the first packet.
fn fitting(batch: &Batch, socket: &Socket, room: usize) -> io::Result<(usize, usize)> {
    let limit = socket.port.max_length();
    let most = if socket.mode.fragments { MOST_SLOTS } else { 1 };
    let (mut slots, mut bytes) = (0, 0);
    for (count, packet) in batch.iter().enumerate() {
        let len = packet.len();
        let needed = len.div_ceil(CHUNK);
        // What a packet says of itself is read only where it matters.
        let too_long = len > limit && len > limit + tag_len(packet.data());
        if too_long || !(1..=most).contains(&needed) {
            return match count {
                0 => Err(io::Error::from_raw_os_error(libc::EMSGSIZE)),
                _ => Ok((count, bytes)),
            };
        }
        slots += needed;
        if slots > room {
            return Ok((count, bytes));
        }
        bytes += len;
    }
    Ok((batch.len(), bytes))
}

/// Puts a packet into the ring, which has room. Returns false when there is no memory for a copy.
#[inline]
fn put(tx: &mut Tx, packet: Packet) -> bool {
    let len = packet.len() as u32;
    if packet.len() > CHUNK {
        return put_copy(tx, &packet);
    }
    match tx.lent.lend_to_read(packet) {
        Ok((start, within)) => {
            let place = Place { address: address(start, within), len, options: 0 };
            // SAFETY: there is room, and what is there was just lent to be read.
            unsafe { tx.ring.write(place) };
            true
        }
        Err(packet) => put_copy(tx, &packet),
    }
}

/// Puts a copy of a packet into the ring, in as many slots as needed.
#[cold]
fn put_copy(tx: &mut Tx, packet: &Packet) -> bool {
    let mut places: Vec<Place> = Vec::with_capacity(MOST_SLOTS);
    for part in packet.data().chunks(CHUNK) {
        let lent = copy_of(tx.lent.frames().region().node, part)
            .and_then(|copy| tx.lent.lend_to_read(copy).ok());
        let Some((start, within)) = lent else {
            for place in places {
                drop(tx.lent.take_back(place.address));
            }
            return false;
        };
        let address = address(start, within);
        places.push(Place { address, len: part.len() as u32, options: Place::CONTINUED });
    }
    if let Some(last) = places.last_mut() {
        last.options = 0;
    }
    for place in places {
        // SAFETY: there is room for as many as the packet has parts, and they were just lent.
        unsafe { tx.ring.write(place) };
    }
    copies::count(CopyCause::Transmit);
    true
}

fn copy_of(node: usize, bytes: &[u8]) -> Option<Packet> {
    let mut copy = Packet::stale_of_node(node, 0, bytes.len())?;
    copy.data_mut().copy_from_slice(bytes);
    Some(copy)
}
