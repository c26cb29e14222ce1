//! What a reader returns for valid and invalid files.

use proptest::prelude::*;

use super::super::fields::ByteOrder;
use super::super::{ErrorKind, LinkType, MAX_CAPTURED, Reader};
use super::build::{Bytes, small_files};
use super::{Packet, drain, read_all};

const ORDERS: [ByteOrder; 2] = [ByteOrder::Little, ByteOrder::Big];

fn packet(timestamp: u64, data: &[u8], original_len: u32) -> Packet {
    let link_type = LinkType::ETHER;
    Packet { timestamp, data: data.to_vec(), original_len, link_type, interface: 0 }
}

#[test]
fn classic_files_of_every_magic_number() {
    for order in ORDERS {
        for (magic, second_field, extra) in
            [(0xa1b2_c3d4, 5_000, 0), (0xa1b2_3c4d, 5, 0), (0xa1b2_cd34, 5_000, 8)]
        {
            let mut file = Bytes::new(order);
            file.classic(magic, 4, 1);
            let data = [&[0xee; 8][..extra], b"abc"].concat();
            file.record((7, 5), (3, 60), &data).record((4_000_000_000, 0), (3, 3), &data);
            let expected = vec![
                packet(7_000_000_000 + second_field, b"abc", 60),
                packet(4_000_000_000_000_000_000, b"abc", 3),
            ];
            let (packets, error) = read_all(&file.bytes);
            assert_eq!((packets, error.map(|error| error.to_string())), (expected, None));
        }
    }
}

#[test]
fn old_versions_have_their_lengths_the_other_way_round() {
    for (minor, lengths) in [(2, (60, 3)), (3, (60, 3)), (3, (3, 60)), (4, (3, 60))] {
        let mut file = Bytes::new(ByteOrder::Big);
        file.classic(0xa1b2_c3d4, minor, 1).record((0, 0), lengths, b"abc");
        assert_eq!(read_all(&file.bytes).0, [packet(0, b"abc", 60)], "version 2.{minor}");
    }
}

#[test]
fn bits_above_the_link_type_are_no_part_of_it() {
    let mut file = Bytes::new(ByteOrder::Little);
    file.classic(0xa1b2_c3d4, 4, 0x4c00_0000 | 113).record((0, 0), (0, 0), b"");
    assert_eq!(read_all(&file.bytes).0[0].link_type, LinkType::SLL);
}

#[test]
fn pcapng_with_several_sections_and_interfaces() {
    // Nanoseconds and an offset of 100 s, as options of either order.
    let exact = |order| {
        let mut options = Bytes::new(order);
        options.u16(9).u16(1).raw(&[9, 0, 0, 0]).u16(14).u16(8);
        match order {
            ByteOrder::Little => options.raw(&100u64.to_le_bytes()),
            ByteOrder::Big => options.raw(&100u64.to_be_bytes()),
        };
        options.bytes
    };
    let mut file = Bytes::new(ByteOrder::Big);
    file.section().interface(1, 4, &[]).enhanced(0, 5, 60, b"abc");
    file.interface(101, 0, &exact(ByteOrder::Big)).enhanced(1, 5, 2, b"de");
    // The first interface keeps four bytes of each packet.
    file.simple(9, b"fghi").obsolete(1, 6, 1, b"j");
    file.order = ByteOrder::Little;
    file.section().interface(113, 0, &exact(ByteOrder::Little)).enhanced(0, 1, 1, b"k");

    let (packets, error) = read_all(&file.bytes);
    assert!(error.is_none(), "{error:?}");
    let expect = |timestamp, data: &[u8], original_len, link_type, interface| Packet {
        timestamp,
        data: data.to_vec(),
        original_len,
        link_type,
        interface,
    };
    assert_eq!(
        packets,
        [
            expect(5_000, b"abc", 60, LinkType::ETHER, 0),
            expect(100_000_000_005, b"de", 2, LinkType::IP, 1),
            expect(0, b"fghi", 9, LinkType::ETHER, 0),
            expect(100_000_000_006, b"j", 1, LinkType::IP, 1),
            expect(100_000_000_001, b"k", 1, LinkType::SLL, 0),
        ]
    );
}

#[test]
fn a_big_block_that_does_not_matter_is_passed_by() {
    let mut file = Bytes::new(ByteOrder::Little);
    file.section().interface(1, 0, &[]);
    file.block(0xbad, |body| body.bytes.resize(5 << 20, 7));
    file.enhanced(0, 0, 1, b"x");
    assert_eq!(read_all(&file.bytes).0, [packet(0, b"x", 1)]);
}

#[test]
fn what_is_wrong_is_said_with_its_place() {
    let le = || Bytes::new(ByteOrder::Little);
    let section = || {
        let mut file = le();
        file.section().interface(1, 0, &[]);
        file
    };
    let mut table: Vec<(Bytes, &str)> = Vec::new();
    let mut case = |mut file: Bytes, fill: &dyn Fn(&mut Bytes), message| {
        fill(&mut file);
        table.push((file, message));
    };
    case(le(), &|_| (), "test: empty file");
    case(
        le(),
        &|file| {
            file.raw(b"hello, world");
        },
        "test: byte 0: not a capture file: starts with [68, 65, 6c, 6c], \
         expected the magic number of pcap or pcapng",
    );
    case(
        le(),
        &|file| {
            file.raw(&[0xd4, 0xc3, 0xb2, 0xa1, 2, 0]);
        },
        "test: byte 0: the file ends within the file header: expected 24 bytes, found 6",
    );
    case(
        le(),
        &|file| {
            file.u32(0xa1b2_c3d4).u16(3).u16(1).raw(&[0; 16]);
        },
        "test: byte 0: unknown version 3.1, expected 2",
    );
    case(
        le(),
        &|file| {
            file.classic(0xa1b2_c3d4, 4, 1).record((0, 0), (60, 60), &[0; 12]);
        },
        "test: byte 24: the file ends within a packet: expected 76 bytes, found 28",
    );
    case(
        le(),
        &|file| {
            file.classic(0xa1b2_c3d4, 4, 1).record((0, 0), (MAX_CAPTURED + 1, 0), &[0; 12]);
        },
        "test: byte 24: packet of 262145 bytes, expected at most 262144",
    );
    case(
        le(),
        &|file| {
            file.raw(&super::super::pcapng::MAGIC).u32(28).raw(&[1; 20]);
        },
        "test: byte 0: section with byte-order mark [01, 01, 01, 01], \
         expected 1a2b3c4d in either order",
    );
    case(
        le(),
        &|file| {
            file.block(0x0a0d_0d0a, |body| {
                body.u32(0x1a2b_3c4d).u16(2).raw(&[0; 10]);
            });
        },
        "test: byte 0: unknown version 2.0, expected 1.0",
    );
    case(
        section(),
        &|file| {
            file.u32(6).u32(30).raw(&[0; 30]);
        },
        "test: byte 48: packet block of 30 bytes, expected a multiple of 4, at least 32",
    );
    case(
        section(),
        &|file| {
            file.u32(6).u32(0x7fff_fff0).raw(&[0; 30]);
        },
        "test: byte 48: block of 2147483632 bytes, \
         expected at most 524288 for a packet, an interface or a section",
    );
    case(
        section(),
        &|file| {
            file.u32(0xbad).u32(0x7fff_fff0).raw(&[0; 30]);
        },
        "test: byte 48: the file ends within a block: expected 2147483632 bytes, found 38",
    );
    case(
        section(),
        &|file| {
            file.u32(0xbad).u32(16).u32(0).u32(20);
        },
        "test: byte 48: block that ends with length 20, expected 16 as at its start",
    );
    case(
        section(),
        &|file| {
            file.enhanced(1, 0, 1, b"x");
        },
        "test: byte 48: packet of interface 1, expected one of the section's 1",
    );
    case(
        section(),
        &|file| {
            file.block(6, |body| {
                body.raw(&[0; 12]).u32(5).u32(5).raw(&[0; 4]);
            });
        },
        "test: byte 48: packet of 5 bytes, \
         expected no more than its block has room for, and at most 262144",
    );
    for (file, message) in table {
        let (packets, error) = read_all(&file.bytes);
        assert_eq!(packets, []);
        assert_eq!(error.map(|error| error.to_string()).as_deref(), Some(message));
    }
}

#[test]
fn a_file_cut_anywhere_yields_its_whole_records() {
    for file in small_files() {
        let (whole, error) = read_all(&file);
        assert!(error.is_none() && whole.len() == 3, "{error:?}");
        let mut clean_ends = 0;
        for length in 0..file.len() {
            let (packets, error) = read_all(&file[..length]);
            assert_eq!(packets, whole[..packets.len()], "cut at {length}");
            match error {
                None => clean_ends += 1,
                Some(error) => assert!(
                    matches!(
                        error.kind(),
                        ErrorKind::Truncated { .. } | ErrorKind::Empty | ErrorKind::Magic { .. }
                    ),
                    "cut at {length}: {error}"
                ),
            }
        }
        // Between two records, and between two blocks.
        assert_eq!(clean_ends, if file[0] == 0x0a { 6 } else { 3 });
    }
}

#[test]
fn position_and_offset_lead_back() {
    for file in small_files() {
        let path = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(path.path(), &file).unwrap();
        let mut reader = Reader::open(path.path()).unwrap();
        assert_eq!(reader.file_len(), Some(file.len() as u64));

        let mut places = Vec::new();
        loop {
            let position = reader.position();
            let Some(record) = reader.next().unwrap() else { break };
            let start = record.offset as usize;
            assert_eq!(record.data, &file[start..start + record.data.len()]);
            places.push((position, Packet::from(record)));
        }
        assert_eq!(reader.position(), file.len() as u64);
        for (position, packet) in places.iter().rev() {
            reader.seek(*position).unwrap();
            assert_eq!(&Packet::from(reader.next().unwrap().unwrap()), packet);
        }
        reader.rewind().unwrap();
        let all: Vec<Packet> = places.into_iter().map(|(_, packet)| packet).collect();
        assert_eq!(drain(&mut reader).0, all);
    }
}

#[test]
fn a_stream_goes_forward_only() {
    let file = &small_files()[0];
    let mut reader = Reader::from_reader("pipe", std::io::Cursor::new(file.clone())).unwrap();
    reader.next().unwrap().unwrap();
    let second = reader.position();
    reader.next().unwrap().unwrap();
    let third = reader.position();
    assert_eq!(reader.seek(second).unwrap_err().to_string(), "pipe: cannot go back in a stream");
    reader.seek(third).unwrap();
    assert_eq!(reader.next().unwrap().unwrap().data, b"de");
}

/// Returns its bytes in pieces of one to seven, so that every boundary is tested.
struct Dribble(std::io::Cursor<Vec<u8>>, usize);

impl std::io::Read for Dribble {
    fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
        self.1 = self.1 % 7 + 1;
        let room = buffer.len().min(self.1);
        self.0.read(&mut buffer[..room])
    }
}

#[test]
fn records_across_every_edge_of_the_buffer() {
    // 4 MiB in records of odd sizes, some as large as a record may be.
    let mut file = Bytes::new(ByteOrder::Little);
    file.classic(0xa1b2_c3d4, 4, 1);
    let mut expected = Vec::new();
    for (second, size) in [262_144usize, 1, 99_991, 0, 262_143, 65_537].iter().cycle().enumerate() {
        let data: Vec<u8> = (0..*size).map(|byte| (byte * 31 + second) as u8).collect();
        file.record((second as u32, 0), (*size as u32, *size as u32), &data);
        expected.push(packet(second as u64 * 1_000_000_000, &data, *size as u32));
        if file.bytes.len() > 4 << 20 {
            break;
        }
    }
    assert_eq!(read_all(&file.bytes).0, expected);
    let dribble = Dribble(std::io::Cursor::new(file.bytes), 0);
    let mut reader = Reader::from_reader("dribble", dribble).unwrap();
    assert_eq!(drain(&mut reader).0, expected);
}

#[test]
fn the_pcap_file_crate_writes_what_we_read() {
    use pcap_file::pcapng::PcapNgWriter;
    use pcap_file::pcapng::blocks::enhanced_packet::EnhancedPacketBlock;
    use pcap_file::pcapng::blocks::interface_description::{
        InterfaceDescriptionBlock, InterfaceDescriptionOption,
    };
    use pcap_file::pcapng::blocks::section_header::SectionHeaderBlock;
    use pcap_file::{DataLink, Endianness};

    for endianness in [Endianness::Big, Endianness::Little] {
        let section = SectionHeaderBlock { endianness, ..Default::default() };
        let mut writer = PcapNgWriter::with_section_header(Vec::new(), section).unwrap();
        let mut interface = InterfaceDescriptionBlock::new(DataLink::ETHERNET, 0xffff);
        interface.options.push(InterfaceDescriptionOption::IfName("eth0".into()));
        interface.options.push(InterfaceDescriptionOption::IfTsResol(9));
        writer.write_pcapng_block(interface).unwrap();
        let data = b"some packet";
        for nanoseconds in [1, 1_700_000_000_123_456_789] {
            let timestamp = std::time::Duration::from_nanos(nanoseconds);
            let block = EnhancedPacketBlock {
                interface_id: 0,
                timestamp,
                original_len: 100,
                data: data.into(),
                options: Vec::new(),
            };
            writer.write_pcapng_block(block).unwrap();
        }
        let (packets, error) = read_all(&writer.into_inner());
        assert!(error.is_none(), "{error:?}");
        assert_eq!(packets, [packet(1, data, 100), packet(1_700_000_000_123_456_789, data, 100)]);
    }
}

proptest! {
    #[test]
    fn any_bytes_end_in_peace(
        start in prop::sample::select(vec![0usize, 1, 2, 3, 4]),
        tail in prop::collection::vec(any::<u8>(), 0..400),
    ) {
        let mut file = small_files().get(start).cloned().unwrap_or_default();
        file.extend_from_slice(&tail);
        read_all(&file);
    }

    #[test]
    fn one_wrong_byte_ends_in_peace(
        which in 0usize..4,
        at in any::<prop::sample::Index>(),
        value: u8,
    ) {
        let mut file = small_files().swap_remove(which);
        let at = at.index(file.len());
        file[at] = value;
        read_all(&file);
    }

    #[test]
    fn the_pcap_file_crate_agrees(
        nano: bool,
        big: bool,
        packets in prop::collection::vec(
            (0u64..1 << 32, 0u32..1_000_000, 0u32..3000, prop::collection::vec(any::<u8>(), 0..300)),
            0..20,
        ),
    ) {
        use pcap_file::pcap::{PcapHeader, PcapPacket, PcapWriter};
        use pcap_file::{DataLink, Endianness, TsResolution};

        let header = PcapHeader {
            datalink: DataLink::ETHERNET,
            endianness: if big { Endianness::Big } else { Endianness::Little },
            ts_resolution: if nano { TsResolution::NanoSecond } else { TsResolution::MicroSecond },
            ..Default::default()
        };
        let mut writer = PcapWriter::with_header(Vec::new(), header).unwrap();
        let mut expected = Vec::new();
        for (seconds, fraction, more, data) in packets {
            let nanoseconds = if nano { fraction } else { fraction * 1000 };
            let timestamp = std::time::Duration::new(seconds, nanoseconds);
            let original_len = data.len() as u32 + more;
            writer.write_packet(&PcapPacket::new(timestamp, original_len, &data)).unwrap();
            expected.push(packet(timestamp.as_nanos() as u64, &data, original_len));
        }
        let (packets, error) = read_all(&writer.into_writer());
        prop_assert!(error.is_none());
        prop_assert_eq!(packets, expected);
    }
}
