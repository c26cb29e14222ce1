//! Transmitting.

#![allow(unsafe_code, reason = "what is in the transmit ring is read by the kernel")]

use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::{Batch, Packet};

use super::frames::CHUNK;
use super::port::Attachment;
use super::ring::{Place, address};
use super::socket::{Socket, Tx};
use crate::queue::{QueueCounts, TxQueue};

/// A transmit queue of an interface.
#[repr(align(128))]
pub(super) struct Transmitter {
    /// None while the interface is gone.
    line: Option<Line>,
    /// Opens the queue again after the interface was gone.
    reopen: Box<dyn Fn() -> io::Result<Line> + Send>,
    /// When to look for the interface again.
    next_look: Instant,
    /// The last call failed: the next one finds out whether the device works again before it takes
    /// packets.
    failing: bool,
    /// Calls since the MTU was asked for.
    calls: u32,
    /// What sockets that are closed had counted, and packets for which there was no memory.
    lost: u64,
}

/// A socket, and the program that its driver wants where there is one.
type Line = (Arc<Socket>, Option<Arc<Attachment>>);

/// How often an interface that is gone is looked for.
const LOOK: Duration = Duration::from_millis(100);
/// How long a device without room is tried again. What is then left is transmitted by a later call.
const PATIENCE: Duration = Duration::from_micros(200);
/// Calls after which the MTU is asked for again.
const REFRESH: u32 = 1024;
/// Most slots that a packet may take: the kernel makes one fragment of each.
const MOST_SLOTS: usize = 17;

impl Transmitter {
    pub(super) fn new(line: Line, reopen: Box<dyn Fn() -> io::Result<Line> + Send>) -> Self {
        Self {
            line: Some(line),
            reopen,
            next_look: Instant::now(),
            failing: false,
            calls: 0,
            lost: 0,
        }
    }

    /// The socket, if the interface is there.
    fn socket(&mut self) -> io::Result<Arc<Socket>> {
        if let Some((socket, _)) = &self.line {
            return Ok(Arc::clone(socket));
        }
        let now = Instant::now();
        if now >= self.next_look {
            self.next_look = now + LOOK;
            if let Ok(line) = (self.reopen)() {
                self.failing = false;
                let socket = Arc::clone(&line.0);
                self.line = Some(line);
                return Ok(socket);
            }
        }
        Err(io::Error::from_raw_os_error(libc::ENODEV))
    }

    /// Takes note of an error of the device.
    #[cold]
    fn fail(&mut self, error: &io::Error, socket: &Socket) {
        self.failing = true;
        let gone = matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV));
        if gone && (socket.is_loose(error) || !socket.port.is_there()) {
            socket.port.abandon();
            self.lost += lost(socket);
            self.line = None;
        }
    }

    fn is_working(&mut self, socket: &Socket) -> io::Result<()> {
        if self.failing {
            let result = socket.kick(&mut socket.tx(), Duration::ZERO);
            if let Err(error) = result {
                self.fail(&error, socket);
                return Err(error);
            }
            self.failing = false;
        }
        Ok(())
    }
}

impl TxQueue for Transmitter {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        if batch.is_empty() {
            return Ok(0);
        }
        let socket = self.socket()?;
        self.is_working(&socket)?;
        self.calls += 1;
        if self.calls >= REFRESH {
            self.calls = 0;
            socket.port.refresh();
        }
        let mut tx = socket.tx();
        tx.reap();
        match socket.has_caught_up(&mut tx) {
            Ok(true) => {}
            Ok(false) => return Ok(0),
            Err(error) => {
                self.fail(&error, &socket);
                return Err(error);
            }
        }
        let room = tx.ring.room(batch.len() as u32) as usize;
        let count = match fitting(batch, &socket, room) {
            // The device is at work on what is in the ring, or waits to be called for it.
            Ok(0) => return socket.kick(&mut tx, Duration::ZERO).map(|()| 0),
            Ok(count) => count,
            Err(error) => {
                // The MTU may have grown.
                socket.port.refresh();
                match fitting(batch, &socket, room) {
                    Ok(count) if count > 0 => count,
                    _ => return Err(error),
                }
            }
        };
        for packet in batch.drain_front(count) {
            if !put(&mut tx, packet) {
                self.lost += 1;
            }
        }
        tx.ring.publish();
        let result = socket.kick(&mut tx, PATIENCE);
        drop(tx);
        if let Err(error) = result {
            self.fail(&error, &socket);
        }
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        match &self.line {
            Some((socket, _)) => socket.kick(&mut socket.tx(), PATIENCE),
            None => Ok(()),
        }
    }

    fn counts(&self) -> QueueCounts {
        let lost = self.lost + self.line.as_ref().map_or(0, |(socket, _)| lost(socket));
        QueueCounts { lost, ..QueueCounts::default() }
    }
}

fn lost(socket: &Socket) -> u64 {
    let dropped = socket.tx().dropped;
    socket.statistics().tx_invalid + dropped
}

/// How many packets from the front the ring has room for, and the device takes.
///
/// # Errors
/// The device does not take the first packet.
fn fitting(batch: &Batch, socket: &Socket, room: usize) -> io::Result<usize> {
    let limit = socket.port.max_length();
    let mut slots = 0;
    for (count, packet) in batch.iter().enumerate() {
        let needed = packet.len().div_ceil(CHUNK);
        let most = if socket.mode.fragments { MOST_SLOTS } else { 1 };
        if !(1..=most).contains(&needed) || packet.len() > limit + tag_of(packet) {
            return match count {
                0 => Err(io::Error::from_raw_os_error(libc::EMSGSIZE)),
                _ => Ok(count),
            };
        }
        slots += needed;
        if slots > room {
            return Ok(count);
        }
    }
    Ok(batch.len())
}

/// Bytes that a packet may be longer for its VLAN tag.
#[inline]
fn tag_of(packet: &Packet) -> usize {
    const ETHER_TYPE: std::ops::Range<usize> = 12..14;
    match packet.data().get(ETHER_TYPE) {
        Some([0x81, 0x00] | [0x88, 0xa8]) => 4,
        _ => 0,
    }
}

/// Puts a packet into the ring, in which there is room. False when there is no memory for a copy.
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

/// Puts a copy of a packet into the ring, in as many slots as it takes.
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
