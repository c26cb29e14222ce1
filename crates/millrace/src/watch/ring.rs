//! A ring of records between a thread that forwards packets and whoever reads.

use millrace_core::Lock;
use rtrb::{Consumer, Producer, RingBuffer};
use zerocopy::{FromZeros, IntoBytes};

/// Records with heads of type `H`, each followed by bytes.
pub(super) struct Ring<H> {
    /// Only one thread writes, so it never waits for this lock.
    into: Lock<Producer<u8>>,
    out: Lock<Consumer<u8>>,
    length: fn(&H) -> usize,
}

impl<H: FromZeros + zerocopy::FromBytes + IntoBytes + zerocopy::Immutable> Ring<H> {
    /// A ring of so many bytes; `length` is how many bytes follow a head.
    pub(super) fn new(size: usize, length: fn(&H) -> usize) -> Self {
        let (into, out) = RingBuffer::new(size);
        Self { into: into.into(), out: out.into(), length }
    }

    /// Puts a record in, unless there is no room.
    pub(super) fn put(&self, head: &H, data: &[u8]) -> bool {
        let Some(mut into) = self.into.try_lock() else { return false };
        let Ok(mut chunk) = into.write_chunk(size_of::<H>() + data.len()) else { return false };
        let (first, second) = chunk.as_mut_slices();
        scatter(&[head.as_bytes(), data], first, second);
        chunk.commit_all();
        true
    }

    /// Takes records out, about so many bytes of them.
    pub(super) fn take(&self, most: usize, mut each: impl FnMut(H, Vec<u8>)) {
        let mut out = self.out.lock();
        let mut bytes = 0;
        while bytes < most {
            let mut head = H::new_zeroed();
            if take_into(&mut out, head.as_mut_bytes()).is_none() {
                return;
            }
            // A record is put in as a whole.
            let mut data = vec![0; (self.length)(&head)];
            if take_into(&mut out, &mut data).is_none() {
                return;
            }
            bytes += size_of::<H>() + data.len();
            each(head, data);
        }
    }
}

fn take_into(out: &mut Consumer<u8>, to: &mut [u8]) -> Option<()> {
    let chunk = out.read_chunk(to.len()).ok()?;
    let (first, second) = chunk.as_slices();
    let (head, tail) = to.split_at_mut(first.len());
    head.copy_from_slice(first);
    tail.copy_from_slice(second);
    chunk.commit_all();
    Some(())
}

/// Writes `parts` one behind the other to two slices one behind the other, which have room for exactly them.
fn scatter<'a>(parts: &[&[u8]], mut first: &'a mut [u8], mut second: &'a mut [u8]) {
    for mut part in parts.iter().copied() {
        while !part.is_empty() {
            if first.is_empty() {
                first = std::mem::take(&mut second);
            }
            let n = part.len().min(first.len());
            let (to, rest) = std::mem::take(&mut first).split_at_mut(n);
            to.copy_from_slice(&part[..n]);
            (first, part) = (rest, &part[n..]);
            if n == 0 {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{Ring, scatter};

    #[test]
    fn records_go_around_the_end_of_a_ring() {
        for split in 0..=5 {
            let mut ring = [0; 5];
            let (first, second) = ring.split_at_mut(split);
            scatter(&[b"ab", b"", b"cde"], first, second);
            assert_eq!(&ring, b"abcde");
        }
        let ring: Ring<u16> = Ring::new(16, |&length| length.into());
        for n in 0..100u16 {
            let data = vec![n as u8; usize::from(n % 7)];
            assert!(ring.put(&(n % 7), &data));
            let mut came = Vec::new();
            ring.take(1, |length, bytes| came.push((length, bytes)));
            assert_eq!(came, [(n % 7, data)]);
        }
        assert!(ring.put(&10, &[0; 10]) && !ring.put(&5, &[0; 5]));
    }
}
