//! The simulated device's memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use fastrand::Rng;

use crate::device::DeviceError;
use crate::host::block::Block;

/// Bytes of red zone on each side of an allocation.
const RED: usize = 256;

/// The amount of memory that the device has left.
pub(super) struct Arena(AtomicU64);

impl Arena {
    pub(super) fn new(bytes: u64) -> Arc<Self> {
        Arc::new(Self(AtomicU64::new(bytes)))
    }
}

/// An allocation between red zones. Kernels use its address. The host reads and writes it only through copies.
pub(super) struct Memory {
    arena: Arc<Arena>,
    block: Block,
    bytes: usize,
}

impl Memory {
    /// An allocation filled with poison.
    pub(super) fn new(
        arena: &Arc<Arena>,
        bytes: usize,
        rng: &mut Rng,
    ) -> Result<Self, DeviceError> {
        let taken = arena.0.try_update(Ordering::Relaxed, Ordering::Relaxed, |left| {
            left.checked_sub(bytes as u64)
        });
        if let Err(left) = taken {
            return Err(DeviceError::OutOfMemory(format!("{bytes} bytes wanted, {left} free")));
        }
        let block = Block::new(RED + bytes + RED);
        let mut memory = Self { arena: arena.clone(), block, bytes };
        memory.mend();
        memory.poison(rng);
        Ok(memory)
    }

    pub(super) fn address(&self) -> u64 {
        (self.block.bytes().as_ptr().expose_provenance() + RED) as u64
    }

    pub(super) fn bytes_mut(&mut self) -> &mut [u8] {
        let end = RED + self.bytes;
        self.block.bytes_mut().get_mut(RED..end).unwrap_or_default()
    }

    /// Fills it with poison, a different one each time.
    pub(super) fn poison(&mut self, rng: &mut Rng) {
        let mut pattern = rng.u64(..) | 0x8000_0000_0000_0001;
        for bytes in self.bytes_mut().chunks_mut(8) {
            pattern = pattern.rotate_left(7);
            for (to, from) in bytes.iter_mut().zip(pattern.to_ne_bytes()) {
                *to = from;
            }
        }
    }

    /// True if the red zones are unchanged.
    pub(super) fn is_intact(&self) -> bool {
        let (before, behind) = self.red_zones();
        before.iter().chain(behind).enumerate().all(|(index, byte)| *byte == red(index))
    }

    /// Restores the red zones.
    pub(super) fn mend(&mut self) {
        let end = RED + self.bytes;
        let block = self.block.bytes_mut();
        let (head, behind) = block.split_at_mut(end.min(block.len()));
        for (index, byte) in head.iter_mut().take(RED).chain(behind).enumerate() {
            *byte = red(index);
        }
    }

    fn red_zones(&self) -> (&[u8], &[u8]) {
        let block = self.block.bytes();
        let before = block.get(..RED).unwrap_or_default();
        (before, block.get(RED + self.bytes..).unwrap_or_default())
    }
}

impl Drop for Memory {
    fn drop(&mut self) {
        // A thread that still reads it finds poison instead of the old contents.
        self.bytes_mut().fill(0xdd);
        self.arena.0.fetch_add(self.bytes as u64, Ordering::Relaxed);
    }
}

fn red(index: usize) -> u8 {
    0xc3 ^ index as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_write_next_to_an_allocation_is_detected() {
        let arena = Arena::new(1000);
        let mut memory = Memory::new(&arena, 100, &mut Rng::with_seed(1)).unwrap();
        assert!(memory.is_intact());
        memory.bytes_mut().fill(7);
        assert!(memory.is_intact());
        for place in [RED - 1, RED + 100, 0] {
            memory.block.bytes_mut()[place] ^= 1;
            assert!(!memory.is_intact(), "{place}");
            memory.mend();
            assert!(memory.is_intact());
        }
        assert!(memory.bytes_mut().iter().all(|byte| *byte == 7));
    }

    #[test]
    fn memory_ends_and_comes_back() {
        let arena = Arena::new(1000);
        let mut rng = Rng::with_seed(1);
        let first = Memory::new(&arena, 600, &mut rng).unwrap();
        assert!(matches!(Memory::new(&arena, 600, &mut rng), Err(DeviceError::OutOfMemory(_))));
        drop(first);
        assert!(Memory::new(&arena, 1000, &mut rng).is_ok());
    }
}
