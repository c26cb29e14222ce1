//! Writes the blocks of a pcapng file: packets of many interfaces, with comments.
//!
//! A file is a sequence of blocks: [`section`], then [`interface`]s and [`packet`]s, each packet after its interface.
//! Source: <https://datatracker.ietf.org/doc/draft-ietf-opsawg-pcapng/>.

use super::LinkType;

/// The type of a section header block.
pub const SECTION: u32 = 0x0a0d_0d0a;
/// The type of an interface description block.
pub const INTERFACE: u32 = 1;
/// The type of an enhanced packet block.
pub const PACKET: u32 = 6;
/// The type of an interface statistics block.
const STATISTICS: u32 = 5;

const BYTE_ORDER: u32 = 0x1a2b_3c4d;

/// The longest comment; an option has a length of 16 bits.
const LONGEST: usize = u16::MAX as usize - 3;

/// Appends a section header that names the program which writes.
pub fn section(out: &mut Vec<u8>, program: &str) {
    block(out, SECTION, |out| {
        out.extend_from_slice(&BYTE_ORDER.to_le_bytes());
        out.extend_from_slice(&[1, 0, 0, 0]);
        // The length of the section is not known.
        out.extend_from_slice(&u64::MAX.to_le_bytes());
        text(out, 4, program);
        end(out);
    });
}

/// Appends the description of an interface, the next one of the section. Its timestamps are nanoseconds.
pub fn interface(out: &mut Vec<u8>, link: LinkType, snap_len: u32, name: &str, description: &str) {
    block(out, INTERFACE, |out| {
        out.extend_from_slice(&(link.0 as u16).to_le_bytes());
        out.extend_from_slice(&[0, 0]);
        out.extend_from_slice(&snap_len.to_le_bytes());
        text(out, 2, name);
        text(out, 3, description);
        option(out, 9, &[9]);
        end(out);
    });
}

/// A packet of an interface.
#[derive(Clone, Copy, Debug)]
pub struct Packet<'a> {
    /// The interface, counted from the start of the section.
    pub interface: u32,
    /// Nanoseconds since 1970-01-01 00:00 UTC.
    pub time: u64,
    /// The length of the whole packet.
    pub original: u32,
    /// The bytes that were captured.
    pub data: &'a [u8],
    /// A comment; may be empty.
    pub comment: &'a str,
}

/// Appends a packet.
pub fn packet(out: &mut Vec<u8>, packet: &Packet<'_>) {
    let Packet { interface, time, original, data, comment } = *packet;
    block(out, PACKET, |out| {
        let words = [interface, (time >> 32) as u32, time as u32, data.len() as u32, original];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        out.extend_from_slice(data);
        pad(out, data.len());
        if !comment.is_empty() {
            text(out, 1, comment);
            end(out);
        }
    });
}

/// Appends how many packets an interface has seen and how many of them are not in the file.
pub fn statistics(out: &mut Vec<u8>, interface: u32, time: u64, seen: u64, missed: u64) {
    block(out, STATISTICS, |out| {
        let words = [interface, (time >> 32) as u32, time as u32];
        words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        option(out, 4, &seen.to_le_bytes());
        option(out, 5, &missed.to_le_bytes());
        end(out);
    });
}

/// The first block of `bytes`: its type, and its length in bytes; `None` if it is not there as a whole.
pub fn first(bytes: &[u8]) -> Option<(u32, usize)> {
    let word = |at: usize| Some(u32::from_le_bytes(*bytes.get(at..)?.first_chunk()?));
    let (kind, length) = (word(0)?, word(4)? as usize);
    (12..=bytes.len()).contains(&length).then_some((kind, length))
}

/// A block around what `body` appends.
fn block(out: &mut Vec<u8>, kind: u32, body: impl FnOnce(&mut Vec<u8>)) {
    let start = out.len();
    out.extend_from_slice(&kind.to_le_bytes());
    out.extend_from_slice(&[0; 4]);
    body(out);
    let length = (out.len() - start + 4) as u32;
    if let Some(place) = out.get_mut(start + 4..start + 8) {
        place.copy_from_slice(&length.to_le_bytes());
    }
    out.extend_from_slice(&length.to_le_bytes());
}

fn option(out: &mut Vec<u8>, code: u16, value: &[u8]) {
    out.extend_from_slice(&code.to_le_bytes());
    out.extend_from_slice(&(value.len() as u16).to_le_bytes());
    out.extend_from_slice(value);
    pad(out, value.len());
}

fn text(out: &mut Vec<u8>, code: u16, text: &str) {
    let mut end = text.len().min(LONGEST);
    while !text.is_char_boundary(end) {
        end -= 1;
    }
    option(out, code, &text.as_bytes()[..end]);
}

fn end(out: &mut Vec<u8>) {
    out.extend_from_slice(&[0; 4]);
}

fn pad(out: &mut Vec<u8>, len: usize) {
    out.resize(out.len() + len.wrapping_neg() % 4, 0);
}

#[cfg(test)]
mod tests {
    use std::io::Cursor;
    use std::time::Duration;

    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketOption;
    use pcap_file::pcapng::blocks::interface_description::InterfaceDescriptionOption;
    use pcap_file::pcapng::{Block, PcapNgReader};

    use super::*;
    use crate::pcap::Reader;

    #[test]
    fn the_pcap_file_crate_reads_what_is_written() {
        let time = 1_700_000_000_123_456_789;
        let mut file = Vec::new();
        section(&mut file, "millrace");
        interface(&mut file, LinkType::ETHER, 96, "a[0] -> [1]b", "");
        interface(&mut file, LinkType::IP, 0, "c[0] -> [0]d", "Strip to Queue");
        let comment = "dropped: ttl expired";
        for (n, interface) in [(0u32, 1), (5, 0), (60, 1)] {
            let data = vec![n as u8; n as usize];
            let one = Packet { interface, time, original: 1000 + n, data: &data, comment };
            packet(&mut file, &one);
        }
        statistics(&mut file, 0, time, 7, 6);

        let mut reader = PcapNgReader::new(Cursor::new(&file)).unwrap();
        let mut packets = Vec::new();
        while let Some(block) = reader.next_block() {
            match block.unwrap() {
                Block::EnhancedPacket(packet) => {
                    let EnhancedPacketOption::Comment(text) = &packet.options[0] else { panic!() };
                    assert_eq!((&**text, packet.options.len()), (comment, 1));
                    assert_eq!(packet.timestamp, Duration::from_nanos(time));
                    packets.push((packet.interface_id, packet.original_len, packet.data.len()));
                }
                Block::InterfaceDescription(_) | Block::InterfaceStatistics(_) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(packets, [(1, 1000, 0), (0, 1005, 5), (1, 1060, 60)]);
        let names = reader.interfaces().iter().map(|interface| &interface.options[0]);
        let names: Vec<_> = names
            .map(|option| match option {
                InterfaceDescriptionOption::IfName(name) => name.to_string(),
                _ => String::new(),
            })
            .collect();
        assert_eq!(names, ["a[0] -> [1]b", "c[0] -> [0]d"]);

        let mut own = Reader::from_reader("own", Cursor::new(file.clone())).unwrap();
        let mut read = 0;
        while own.next().unwrap().is_some() {
            read += 1;
        }
        assert_eq!(read, 3);
        let mut at = 0;
        let mut kinds = Vec::new();
        while let Some((kind, length)) = first(&file[at..]) {
            kinds.push(kind);
            at += length;
        }
        assert_eq!((kinds, at), (vec![SECTION, 1, 1, 6, 6, 6, 5], file.len()));
    }

    #[test]
    fn a_comment_that_is_too_long_is_cut_between_two_characters() {
        let mut file = Vec::new();
        section(&mut file, "");
        interface(&mut file, LinkType::ETHER, 0, "a", "");
        let comment = "ü".repeat(40_000);
        packet(
            &mut file,
            &Packet { interface: 0, time: 0, original: 0, data: b"", comment: &comment },
        );
        let mut reader = PcapNgReader::new(Cursor::new(&file)).unwrap();
        while let Some(block) = reader.next_block() {
            block.unwrap();
        }
    }
}
