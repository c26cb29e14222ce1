//! A ring of received frames that is shared with the kernel: TPACKET_V3
//! (Documentation/networking/packet_mmap.rst).
//!
//! The ring is divided into blocks, which the kernel fills one after the other with frames of any length,
//! close together. It hands a block over when the next frame does not fit or, so that no frame waits long for
//! others, [`RETIRE`] after it began to fill it. We give the block back when we have read all of it. So the
//! two sides synchronise once per block, not once per frame. That makes it fast: on a two-core machine a
//! frame of 60 bytes took us 27 ns, and 950 to 1,300 ns with `recvmmsg`. A frame that arrives alone waits for
//! its block; `express.rs` is for those.

#![allow(unsafe_code, reason = "memory that is shared with the kernel")]

use std::io;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::time::Duration;

use millrace_core::Timestamp;

use super::frame::{Arrival, vlan_of};
use super::mapping::Mapping;
use super::socket::PacketSocket;

/// How long the kernel collects frames in a block before it hands it over: the shortest time that it accepts.
/// Kernels before 6.18 round it up to their tick, and may need two.
pub(super) const RETIRE: Duration = Duration::from_millis(1);

/// Bytes of a block. It must hold a frame of 64 KiB, and should fit in a core's L2 cache.
const BLOCK: usize = 256 << 10;
/// The default number of blocks of a ring: 16 MiB.
const BLOCKS: usize = 64;
/// The minimum: one being filled, one being read, and some for when we are late.
const FEWEST_BLOCKS: usize = 4;
/// The maximum: 1 GiB.
const MOST_BLOCKS: usize = 4096;
/// Bytes in the ring for a frame of the usual MTU, used to convert a number of frames.
const FRAME: usize = 2048;

/// Frames and their bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Load {
    pub(super) frames: u64,
    pub(super) bytes: u64,
}

/// Offsets in a block's header (`struct tpacket_block_desc`).
mod block {
    pub(super) const STATUS: usize = 8;
    pub(super) const FRAMES: usize = 12;
    pub(super) const FIRST: usize = 16;
    pub(super) const BYTES: usize = 20;
    pub(super) const LENGTH: usize = 48;
}

/// Offsets in a frame's header (`struct tpacket3_hdr`, followed by a `struct sockaddr_ll`).
mod header {
    pub(super) const NEXT: usize = 0;
    pub(super) const SECONDS: usize = 4;
    pub(super) const NANOS: usize = 8;
    pub(super) const CAPTURED: usize = 12;
    pub(super) const LENGTH: usize = 16;
    pub(super) const STATUS: usize = 20;
    pub(super) const MAC: usize = 24;
    pub(super) const TAG_CONTROL: usize = 32;
    pub(super) const TAG_PROTOCOL: usize = 36;
    pub(super) const PACKET_TYPE: usize = 48 + 10;
    pub(super) const ALL: usize = 48 + 20;
}

/// The ring of a socket.
#[derive(Debug)]
pub(super) struct RxRing {
    mapping: Mapping,
    blocks: usize,
    /// The block that is being read, or will be read next.
    current: usize,
    /// Frames of it that are still to be read; `None` while it belongs to the kernel.
    left: Option<u32>,
    /// Where the next of them starts, from the start of the block.
    at: usize,
    /// The contents of the blocks that have been begun.
    taken: Load,
}

/// Bytes of the ring that a queue gets with room for about this many frames, by default as many as suit most uses.
pub fn ring_bytes(frames: Option<usize>) -> usize {
    blocks(frames) * BLOCK
}

fn blocks(frames: Option<usize>) -> usize {
    let blocks = frames.map_or(BLOCKS, |frames| frames.saturating_mul(FRAME).div_ceil(BLOCK));
    blocks.clamp(FEWEST_BLOCKS, MOST_BLOCKS)
}

impl RxRing {
    /// Gives a socket a ring with room for about this many frames of the usual MTU. Its packets have the
    /// header of virtio-net in front.
    pub(super) fn new(socket: &PacketSocket, frames: Option<usize>) -> io::Result<Self> {
        let blocks = blocks(frames);
        let request = libc::tpacket_req3 {
            tp_block_size: BLOCK as u32,
            tp_block_nr: blocks as u32,
            tp_frame_size: FRAME as u32,
            tp_frame_nr: (BLOCK / FRAME * blocks) as u32,
            tp_retire_blk_tov: RETIRE.as_millis() as u32,
            tp_sizeof_priv: 0,
            tp_feature_req_word: 0,
        };
        socket.make_ring(libc::PACKET_RX_RING, &request)?;
        let mapping = Mapping::new(socket, blocks * BLOCK)?;
        Ok(Self { mapping, blocks, current: 0, left: None, at: 0, taken: Load::default() })
    }

    /// The next frame, if one has been handed over.
    #[inline]
    pub(super) fn next(&mut self) -> Option<(Arrival, &[u8])> {
        self.release();
        let start = self.current * BLOCK;
        let left = match self.left {
            Some(left) => left,
            None => self.take_over(start)?,
        };
        // SAFETY: the block is ours until `give_back`, for which this borrow has to end.
        let block = unsafe { self.mapping.bytes(start..start + BLOCK) }?;
        let Some((arrival, next, bytes)) = read(block, self.at) else {
            // Nothing that the kernel writes: the rest of the block cannot be found.
            self.left = Some(0);
            return None;
        };
        self.left = Some(left - 1);
        self.at += next;
        Some((arrival, bytes))
    }

    /// The contents of the blocks that have been begun.
    pub(super) fn taken(&self) -> Load {
        self.taken
    }

    /// How many frames have been read.
    pub(super) fn passed(&self) -> u64 {
        self.taken.frames - u64::from(self.left.unwrap_or(0))
    }

    /// Gives the block back if it has been read completely.
    #[inline]
    pub(super) fn release(&mut self) {
        if self.left == Some(0) {
            self.give_back();
        }
    }

    /// Begins to read a block. `None` when it belongs to the kernel.
    fn take_over(&mut self, start: usize) -> Option<u32> {
        let status = self.mapping.word(start + block::STATUS)?.load(Acquire);
        if status & libc::TP_STATUS_USER == 0 {
            return None;
        }
        // SAFETY: the status says that the block is ours; the slice is gone before it is given back.
        let header = unsafe { self.mapping.bytes(start..start + block::LENGTH) }?;
        let frames = word(header, block::FRAMES);
        self.at = word(header, block::FIRST) as usize;
        self.left = Some(frames);
        self.taken.frames += u64::from(frames);
        self.taken.bytes += u64::from(word(header, block::BYTES));
        if frames == 0 {
            self.give_back();
            return None;
        }
        Some(frames)
    }

    fn give_back(&mut self) {
        if let Some(status) = self.mapping.word(self.current * BLOCK + block::STATUS) {
            status.store(libc::TP_STATUS_KERNEL, Release);
        }
        self.left = None;
        self.current = if self.current + 1 < self.blocks { self.current + 1 } else { 0 };
    }
}

/// Reads the frame at `at`: the information in its header, the distance to the next one, and its bytes.
#[inline]
fn read(block: &[u8], at: usize) -> Option<(Arrival, usize, &[u8])> {
    let head: &[u8; header::ALL] = block.get(at..)?.first_chunk()?;
    let captured = word(head, header::CAPTURED) as usize;
    let mac = at + usize::from(half(head, header::MAC));
    let bytes = block.get(mac..mac + captured)?;
    let tag = [header::TAG_PROTOCOL, header::TAG_CONTROL].map(|field| half(head, field));
    let arrival = Arrival {
        length: captured,
        missing: (word(head, header::LENGTH) as usize).saturating_sub(captured),
        header: *block.get(..mac)?.last_chunk()?,
        packet_type: *head.get(header::PACKET_TYPE)?,
        vlan: vlan_of(word(head, header::STATUS), tag),
        timestamp: Some(Timestamp::new(
            word(head, header::SECONDS).into(),
            word(head, header::NANOS),
        )),
    };
    Some((arrival, word(head, header::NEXT) as usize, bytes))
}

#[inline]
fn word(bytes: &[u8], at: usize) -> u32 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u32::from_ne_bytes(*bytes))
}

#[inline]
fn half(bytes: &[u8], at: usize) -> u16 {
    let bytes = bytes.get(at..).and_then(<[u8]>::first_chunk);
    bytes.map_or(0, |bytes| u16::from_ne_bytes(*bytes))
}

const _: () = {
    use std::mem::{offset_of, size_of};
    assert!(offset_of!(libc::tpacket_block_desc, hdr) == block::STATUS);
    assert!(size_of::<libc::tpacket_block_desc>() == block::LENGTH);
    assert!(offset_of!(libc::tpacket_hdr_v1, blk_len) + block::STATUS == block::BYTES);
    assert!(size_of::<libc::tpacket3_hdr>() == 48);
    assert!(offset_of!(libc::tpacket3_hdr, tp_status) == header::STATUS);
    assert!(offset_of!(libc::tpacket3_hdr, tp_mac) == header::MAC);
    assert!(offset_of!(libc::tpacket3_hdr, hv1) + 4 == header::TAG_CONTROL);
    assert!(offset_of!(libc::sockaddr_ll, sll_pkttype) + 48 == header::PACKET_TYPE);
};
