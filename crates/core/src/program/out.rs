//! The exits of a program.

use super::tile::{Mask, Tile, is_run, places};
use crate::engine::Context;
use crate::memory::Batch;

/// The batch for one input outside of the program.
pub(super) struct Out {
    frame: u32,
    batch: Batch,
}

impl Out {
    pub(super) fn to(frame: u32) -> Self {
        Self { frame, batch: Batch::new() }
    }

    /// Takes packets out of a tile.
    ///
    /// # Safety
    /// They are in the tile, and each is taken once.
    #[inline]
    pub(super) unsafe fn take(&mut self, tile: &mut Tile, mask: Mask, cx: &mut Context) {
        if self.batch.room() < Tile::CAPACITY {
            self.hand_over(cx);
        }
        // SAFETY: the caller's promise, and there is room; where no packet is missing in the mask of those that are
        // ready, all are.
        unsafe {
            match mask & !tile.ready {
                0 if is_run(mask) => {
                    let packets = 0..mask.trailing_ones() as usize;
                    self.batch.fill(packets.map(|place| tile.take_ready(place)));
                }
                0 => self.batch.fill(places(mask).map(|place| tile.take_ready(place))),
                _ => self.batch.fill(places(mask).map(|place| tile.take(place))),
            }
        }
    }

    /// Passes the packets to the input that they are for, where they wait.
    #[inline]
    pub(super) fn hand_over(&mut self, cx: &mut Context) {
        if !self.batch.is_empty() {
            cx.waiting().add_batch(self.frame, &mut self.batch);
        }
    }
}
