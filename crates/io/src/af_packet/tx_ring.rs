//! A ring of frames to send that is shared with the kernel: PACKET_TX_RING with the headers of
//! TPACKET_V3 (Documentation/networking/packet_mmap.rst).
//!
//! We fill frames and mark them, and one system call makes the kernel send all marked frames. Frames that it
//! has not accepted by the end of the call are unmarked again, so no packet that a caller believes to be sent
//! waits in the ring.

#![allow(unsafe_code, reason = "memory that is shared with the kernel")]

use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};

use super::mapping::Mapping;
use super::socket::PacketSocket;
use crate::offload;

/// Bytes in front of a frame's packet: `struct tpacket3_hdr`.
const HEADER: usize = 48;
/// Offsets in it.
const NEXT: usize = 0;
const LENGTH: usize = 16;
const STATUS: usize = 20;
/// Bytes of the smallest block of frames.
const BLOCK: usize = 64 << 10;
/// A block is a number of pages.
const PAGE: usize = 4096;
/// The default number of frames of a ring.
const FRAMES: usize = 1024;
/// The minimum: one batch.
const FEWEST_FRAMES: usize = 256;
/// The maximum size of a ring in bytes; with long frames there are fewer.
const MOST: usize = 64 << 20;
/// Packets up to this many bytes are copied to the buffer that the kernel allocates anyway. Of longer ones
/// only the headers are copied, and the buffer refers to the ring for the rest: on veth pairs, which then
/// copy it elsewhere, that took 1.4 times as long for 60 and for 1,514 bytes.
const COPIED: usize = 3500;
/// Bytes of a longer packet that are copied: enough for all headers.
const HEADERS: usize = 128;

/// The ring of a socket.
#[derive(Debug)]
pub(super) struct TxRing {
    mapping: Mapping,
    /// Bytes of a frame.
    frame: usize,
    /// Bytes of a block.
    block: usize,
    /// Frames of a block: as many as fit.
    per_block: usize,
    frames: usize,
    /// The frame to fill next, which is also the one that the kernel looks at next.
    next: usize,
}

impl TxRing {
    /// Gives a socket a ring of frames for packets of up to `longest` bytes.
    pub(super) fn new(
        socket: &PacketSocket,
        longest: usize,
        frames: Option<usize>,
    ) -> io::Result<Self> {
        let too_long = io::ErrorKind::InvalidInput;
        let frame = (HEADER + offload::HEADER).checked_add(longest).ok_or(too_long)?;
        let frame = frame.checked_next_multiple_of(libc::TPACKET_ALIGNMENT).ok_or(too_long)?;
        let block = frame.max(BLOCK).checked_next_multiple_of(PAGE).ok_or(too_long)?;
        let per_block = block / frame;
        let wanted = frames.unwrap_or(FRAMES).max(FEWEST_FRAMES);
        let blocks = wanted.div_ceil(per_block).min(MOST / block).max(1);
        let request = libc::tpacket_req3 {
            tp_block_size: u32::try_from(block).map_err(|_| too_long)?,
            tp_block_nr: blocks as u32,
            tp_frame_size: frame as u32,
            tp_frame_nr: (blocks * per_block) as u32,
            tp_retire_blk_tov: 0,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.make_ring(libc::PACKET_TX_RING, &request)?;
        let mapping = Mapping::new(socket, blocks * block)?;
        Ok(Self { mapping, frame, block, per_block, frames: blocks * per_block, next: 0 })
    }

    /// The maximum packet length that fits in a frame.
    pub(super) fn longest(&self) -> usize {
        self.frame - HEADER - offload::HEADER
    }

    /// Fills the next frame and marks it. Returns false when the frame is still in flight, or is too short.
    #[inline]
    pub(super) fn put(&mut self, packet: &[u8]) -> bool {
        let at = self.offset(self.next);
        let Some(status) = self.mapping.word(at + STATUS) else { return false };
        if status.load(Acquire) & (libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_SENDING) != 0 {
            return false;
        }
        let copied = if packet.len() <= COPIED { packet.len() } else { HEADERS };
        let length = offload::HEADER + packet.len();
        // SAFETY: the status says that the frame is ours until it is marked below, where the slice is
        // gone.
        let frame = unsafe { self.mapping.bytes_mut(at..at + self.frame) };
        let Some(frame) = frame.filter(|frame| HEADER + length <= frame.len()) else {
            return false;
        };
        let (header, rest) = frame.split_at_mut(HEADER);
        let (virtio, rest) = rest.split_at_mut(offload::HEADER);
        offload::put(header, NEXT, 0u32.to_ne_bytes());
        offload::put(header, LENGTH, (length as u32).to_ne_bytes());
        virtio.fill(0);
        offload::put(virtio, 2, (copied as u16).to_ne_bytes());
        if let Some(bytes) = rest.get_mut(..packet.len()) {
            bytes.copy_from_slice(packet);
        }
        self.mark(at, libc::TP_STATUS_SEND_REQUEST);
        self.next = self.after(self.next);
        true
    }

    /// Takes back those of the last `count` frames that the kernel has not accepted. Returns how many it has.
    #[cold]
    pub(super) fn take_back(&mut self, count: usize) -> usize {
        const WAITING: u32 = libc::TP_STATUS_SEND_REQUEST | libc::TP_STATUS_WRONG_FORMAT;
        let first = (self.next + self.frames - count) % self.frames;
        let waits = |ring: &Self, frame: usize| {
            let status = ring.mapping.word(ring.offset(frame) + STATUS);
            status.is_some_and(|status| status.load(Acquire) & WAITING != 0)
        };
        let all = (0..count).map(|n| (first + n) % self.frames);
        // The kernel takes them in order.
        let taken = all.clone().take_while(|frame| !waits(self, *frame)).count();
        for frame in all.skip(taken) {
            self.mark(self.offset(frame), libc::TP_STATUS_AVAILABLE);
        }
        self.next = (first + taken) % self.frames;
        taken
    }

    /// The number of frames.
    pub(super) fn len(&self) -> usize {
        self.frames
    }

    fn mark(&self, at: usize, mark: u32) {
        if let Some(status) = self.mapping.word(at + STATUS) {
            status.store(mark, Release);
        }
    }

    fn offset(&self, frame: usize) -> usize {
        frame / self.per_block * self.block + frame % self.per_block * self.frame
    }

    fn after(&self, frame: usize) -> usize {
        if frame + 1 < self.frames { frame + 1 } else { 0 }
    }
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(size_of::<libc::tpacket3_hdr>() == HEADER);
    assert!(offset_of!(libc::tpacket3_hdr, tp_len) == LENGTH);
    assert!(offset_of!(libc::tpacket3_hdr, tp_status) == STATUS);
};
