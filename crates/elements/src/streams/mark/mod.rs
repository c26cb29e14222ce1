//! What TCPIn says about a packet to the elements up to TCPOut: four bytes of annotations.

use millrace_core::Packet;

/// What a packet is to the stream that it belongs to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Kind {
    /// It belongs to no stream that is followed, or says nothing new: it only passes.
    #[default]
    Other,
    /// Its payload is the next bytes of the stream. It may be empty.
    Data,
    /// Its bytes have passed before.
    Again,
    /// It asks for bytes that are held back.
    Flush,
    /// It makes the receiver answer.
    Probe,
}

/// The mark of a packet.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Mark {
    pub(crate) kind: Kind,
    /// How many bytes of the original stream it brings.
    pub(crate) length: u16,
    /// [`HOLDS`] and the following.
    pub(crate) flags: u8,
}

/// An element holds bytes of the stream back.
pub(crate) const HOLDS: u8 = 1;
/// The payload is not what the sender sent.
pub(crate) const CHANGED: u8 = 2;
/// A new connection begins: forget what you know.
pub(crate) const BEGINS: u8 = 4;
/// No bytes follow, so none may be held back.
pub(crate) const ENDS: u8 = 8;
/// An element asks to close the connection.
pub(crate) const CLOSES: u8 = 16;
/// The payload is a header of an application's message, which only elements that know it may change.
pub(crate) const HEADER: u8 = 32;
/// A message of the application ends with this payload.
pub(crate) const MESSAGE_ENDS: u8 = 64;

/// Where the mark is: the annotation SEQUENCE_NUMBER.
const OFFSET: usize = 36;

impl Mark {
    pub(crate) fn of(packet: &Packet) -> Self {
        let [low, high, kind, flags] = packet.anno_u32(OFFSET).to_le_bytes();
        let kind = match kind {
            1 => Kind::Data,
            2 => Kind::Again,
            3 => Kind::Flush,
            4 => Kind::Probe,
            _ => Kind::Other,
        };
        Self { kind, length: u16::from_le_bytes([low, high]), flags }
    }

    pub(crate) fn put(self, packet: &mut Packet) {
        let [low, high] = self.length.to_le_bytes();
        packet.set_anno_u32(OFFSET, u32::from_le_bytes([low, high, self.kind as u8, self.flags]));
    }

    pub(crate) fn has(self, flag: u8) -> bool {
        self.flags & flag != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_travel_with_packets() {
        let mut packet = Packet::with_len(1).unwrap();
        assert_eq!(Mark::of(&packet), Mark::default());
        for kind in [Kind::Data, Kind::Again, Kind::Flush, Kind::Probe, Kind::Other] {
            let mark = Mark { kind, length: 0xfedc, flags: HOLDS | MESSAGE_ENDS };
            mark.put(&mut packet);
            assert_eq!(Mark::of(&packet), mark);
            assert!(mark.has(HOLDS) && !mark.has(ENDS));
        }
    }
}
