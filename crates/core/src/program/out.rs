//! Where packets leave a program.

use super::tile::{Mask, Tile, places};
use crate::engine::Context;
use crate::memory::Batch;

/// The batch that goes to one input outside of the program.
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
    /// They are there, and each is taken once.
    #[inline]
    pub(super) unsafe fn take(&mut self, tile: &mut Tile, mask: Mask, cx: &mut Context) {
        if self.batch.room() < Tile::CAPACITY {
            self.hand_over(cx);
        }
        // SAFETY: the caller's promise; where no packet is missing in the mask of those that are ready, all are.
        unsafe {
            match mask & !tile.ready {
                0 => self.batch.fill(places(mask).map(|place| tile.take_ready(place))),
                _ => self.batch.fill(places(mask).map(|place| tile.take(place))),
            }
        }
    }

    /// Lets the packets wait at the input that they go to.
    #[inline]
    pub(super) fn hand_over(&mut self, cx: &mut Context) {
        if !self.batch.is_empty() {
            cx.waiting().add_batch(self.frame, &mut self.batch);
        }
    }
}
