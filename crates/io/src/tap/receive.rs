//! Receiving.

use std::collections::VecDeque;
use std::io::{self, IoSliceMut};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::{Batch, Packet, PacketType};

use super::port::Port;
use crate::meter::Meter;
use crate::offload::{Finished, Finisher, HEADER, Link, Offload};
use crate::queue::RxQueue;
use crate::watch::Watch;

/// A receive queue of an interface.
#[repr(align(128))]
pub(super) struct Receiver {
    port: Arc<Port>,
    link: Link,
    finisher: Finisher,
    /// A packet to receive into.
    spare: Option<Packet>,
    /// Bytes that do not fit into a packet: most of a large segment.
    overflow: Vec<u8>,
    /// Packets that are received and not yet passed on.
    ready: VecDeque<Packet>,
    meter: Arc<Meter>,
    watch: Watch,
    /// The interface has been deleted: no more packets will arrive.
    is_gone: bool,
}

/// Bytes received directly into a packet: any frame of the usual MTU.
const BUFFER: usize = 2048;
/// The maximum length of a packet from the kernel: 64 KiB and an Ethernet header with VLAN tags.
const LONGEST: usize = 65_536 + 64;

impl Receiver {
    pub(super) fn new(port: Arc<Port>, link: Link, headroom: usize) -> io::Result<Self> {
        let watch = Watch::new()?;
        watch.follow(&port.file)?;
        Ok(Self {
            port,
            link,
            finisher: Finisher { headroom, snap_length: LONGEST },
            spare: None,
            overflow: vec![0; LONGEST],
            ready: VecDeque::new(),
            meter: Arc::default(),
            watch,
            is_gone: false,
        })
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

    /// Receives one packet, or a segment that stands for several. Returns false when there is none.
    fn read(&mut self) -> io::Result<bool> {
        let headroom = self.finisher.headroom;
        // The kernel keeps the packets for as long as it can when we have no memory.
        let spare = self.spare.take().or_else(|| Packet::stale(headroom, 0, BUFFER));
        let Some(mut packet) = spare else { return Ok(false) };
        let mut header = [0; HEADER];
        let buffer = packet.buffer_mut();
        let capacity = buffer.len();
        let mut parts = [&mut header[..], buffer, &mut self.overflow].map(IoSliceMut::new);
        let length = match rustix::io::readv(&self.port.file, &mut parts) {
            Ok(length) => length.saturating_sub(HEADER),
            Err(error) => {
                self.spare = Some(packet);
                let error = io::Error::from(error);
                return match error.raw_os_error() {
                    _ if is_pause(&error) => Ok(false),
                    Some(libc::EBADFD) => {
                        self.is_gone = true;
                        self.watch.forget(&self.port.file);
                        Err(io::Error::other("the interface was deleted"))
                    }
                    _ => Err(error),
                };
            }
        };
        copies::count(CopyCause::Receive);
        let Self { finisher, overflow, ready, meter, .. } = self;
        let rest = overflow.get(..length.saturating_sub(capacity)).unwrap_or_default();
        let fits = packet.set_len(length.min(capacity));
        debug_assert!(fits);
        if self.link == Link::Ethernet {
            packet.set_packet_type(PacketType::of_frame(packet.data(), None));
        }
        let offload = Offload::parse_over(self.link, &header);
        match finisher.finish(offload, packet, rest, |packet| ready.push_back(packet)) {
            Finished::Whole => {}
            Finished::Cut { lost } => {
                meter.segmented();
                meter.lost(lost);
            }
            Finished::Lost => meter.lost(1),
        }
        Ok(true)
    }
}

impl RxQueue for Receiver {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let room = max.min(batch.room());
        let before = batch.len();
        let mut n = self.hand_on(batch, room);
        let mut outcome = Ok(true);
        while n < room && !self.is_gone {
            outcome = self.read();
            if !matches!(outcome, Ok(true)) {
                break;
            }
            n += self.hand_on(batch, room - n);
        }
        self.meter.count_all(batch.get(before..).unwrap_or_default());
        outcome.map(|_| n)
    }

    fn readiness(&self) -> Option<OwnedFd> {
        self.watch.duplicate().ok()
    }

    fn is_finished(&self) -> bool {
        self.is_gone && self.ready.is_empty()
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(Arc::clone(&self.meter))
    }
}

fn is_pause(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::Interrupted)
}
