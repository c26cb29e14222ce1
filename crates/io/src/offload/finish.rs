//! Makes finished packets from received ones.

use millrace_core::Packet;

use super::{Offload, Segments, cut};

/// Makes finished packets, with these options.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finisher {
    /// Free bytes before each packet.
    pub(crate) headroom: usize,
    /// The maximum number of bytes kept of a packet.
    pub(crate) snap_length: usize,
}

/// The result for a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// It is still one packet.
    Whole,
    /// It was cut into several.
    Cut {
        /// The number of those for which there was no memory.
        lost: u64,
    },
    /// No packet to pass on.
    Lost,
}

impl Finisher {
    /// Does what `offload` requires for the packet whose bytes are those of `first` and then `rest`, and
    /// passes on the resulting packets.
    pub(crate) fn finish(
        &self,
        offload: Offload,
        first: Packet,
        rest: &[u8],
        mut take: impl FnMut(Packet),
    ) -> Finished {
        match offload.segments {
            Some(Segments::Of(size)) => {
                let left_out = cut(offload.link, &first, rest, size, |mut segment| {
                    segment.copy_annotations(&first);
                    take(self.limit(segment));
                });
                left_out.map_or(Finished::Lost, |lost| Finished::Cut { lost: lost as u64 })
            }
            Some(Segments::Unknown) => Finished::Lost,
            None => {
                let Some(mut packet) = self.join(first, rest) else { return Finished::Lost };
                if offload.lacks_checksum() {
                    offload.complete(packet.data_mut());
                }
                take(self.limit(packet));
                Finished::Whole
            }
        }
    }

    /// The packet with the bytes after it.
    fn join(&self, first: Packet, rest: &[u8]) -> Option<Packet> {
        if rest.is_empty() {
            return Some(first);
        }
        let mut whole = Packet::stale(self.headroom, first.len() + rest.len(), 0)?;
        let (head, tail) = whole.data_mut().split_at_mut(first.len());
        head.copy_from_slice(first.data());
        tail.copy_from_slice(rest);
        whole.copy_annotations(&first);
        Some(whole)
    }

    /// A packet truncated to the snap length.
    fn limit(&self, mut packet: Packet) -> Packet {
        let beyond = packet.len().saturating_sub(self.snap_length);
        if beyond > 0 {
            packet.truncate(self.snap_length);
            packet.set_extra_length(u32::try_from(beyond).unwrap_or(u32::MAX));
        }
        packet
    }
}
