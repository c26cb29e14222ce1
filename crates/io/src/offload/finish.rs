//! Making finished packets of what was received.

use millrace_core::Packet;

use super::{Offload, Segments, cut};

/// Makes finished packets, and says how they are to be.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Finisher {
    /// Free bytes before each packet.
    pub(crate) headroom: usize,
    /// The most bytes of a packet that are kept.
    pub(crate) snap_length: usize,
}

/// What became of a received packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Finished {
    /// It is one packet still.
    Whole,
    /// It was cut into several.
    Cut {
        /// How many of them there was no memory for.
        lost: u64,
    },
    /// Nothing that could be handed on.
    Lost,
}

impl Finisher {
    /// Does what `offload` tells to the packet whose bytes are those of `first` and then `rest`, and
    /// hands on what comes of it.
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

    /// The packet with the bytes behind it.
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

    /// A packet cut to the snap length.
    fn limit(&self, mut packet: Packet) -> Packet {
        let beyond = packet.len().saturating_sub(self.snap_length);
        if beyond > 0 {
            packet.truncate(self.snap_length);
            packet.set_extra_length(u32::try_from(beyond).unwrap_or(u32::MAX));
        }
        packet
    }
}
