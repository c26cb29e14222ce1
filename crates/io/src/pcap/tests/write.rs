//! What a writer leaves behind, also when it fails.

use std::io::{self, Write};
use std::sync::{Arc, Mutex};

use proptest::prelude::*;

use super::super::writer::{Options, Resolution, Sink, Writer};
use super::super::{LinkType, MAX_CAPTURED, Reader};
use super::{Packet, drain, read_all};

/// A destination that stays readable, and is full after this many bytes.
#[derive(Clone)]
struct Disk {
    bytes: Arc<Mutex<Vec<u8>>>,
    room: usize,
}

impl Disk {
    fn new(room: usize) -> Disk {
        Disk { bytes: Arc::default(), room }
    }

    fn bytes(&self) -> Vec<u8> {
        self.bytes.lock().unwrap().clone()
    }
}

impl Write for Disk {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let mut disk = self.bytes.lock().unwrap();
        let count = bytes.len().min(self.room - disk.len()).min(1000);
        if count == 0 {
            return Err(io::ErrorKind::StorageFull.into());
        }
        disk.extend_from_slice(&bytes[..count]);
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

fn nanoseconds() -> Options {
    Options { resolution: Resolution::Nanoseconds, ..Options::default() }
}

#[test]
fn the_header_says_what_it_was_told() {
    let disk = Disk::new(1000);
    let options =
        Options { link_type: LinkType::SLL, snap_len: 96, resolution: Resolution::Microseconds };
    let writer = Writer::from_writer("disk", disk.clone(), options).unwrap();
    // Written before the first packet, for whoever waits at the other end of a pipe.
    let header = [0xa1b2_c3d4, 0x0004_0002, 0, 0, 96, 113u32].map(u32::to_le_bytes).concat();
    assert_eq!(disk.bytes(), header);
    drop(writer);
}

#[test]
fn long_packets_are_cut_to_the_snap_length() {
    for (snap_len, kept) in [(0, 0), (64, 64), (u32::MAX, MAX_CAPTURED as usize)] {
        let disk = Disk::new(1 << 20);
        let options = Options { snap_len, ..Options::default() };
        let mut writer = Writer::from_writer("disk", disk.clone(), options).unwrap();
        let data = vec![1; MAX_CAPTURED as usize + 1];
        writer.write(0, data.len() as u32, &data).unwrap();
        writer.finish().unwrap();
        let (packets, error) = read_all(&disk.bytes());
        assert!(error.is_none(), "{error:?}");
        assert_eq!(packets[0].data, data[..kept]);
        assert_eq!(packets[0].original_len, MAX_CAPTURED + 1);
    }
}

#[test]
fn timestamps_beyond_the_format_stop_at_its_end() {
    let disk = Disk::new(1000);
    let mut writer = Writer::from_writer("disk", disk.clone(), nanoseconds()).unwrap();
    writer.write(u64::MAX, 0, &[]).unwrap();
    writer.finish().unwrap();
    assert_eq!(read_all(&disk.bytes()).0[0].timestamp, 4_294_967_295_999_999_999);
}

#[test]
fn a_full_disk_is_an_error_that_stays() {
    let disk = Disk::new(100);
    let mut writer = Writer::from_writer("disk", disk.clone(), Options::default()).unwrap();
    for _ in 0..3 {
        writer.write(0, 40, &[7; 40]).unwrap();
    }
    assert!(writer.error().is_none());
    let message = "disk: byte 100: write: no storage space";
    assert_eq!(writer.flush().unwrap_err().to_string(), message);
    assert_eq!(writer.write(0, 1, &[1]).unwrap_err().to_string(), message);
    assert_eq!(writer.error().unwrap().to_string(), message);
    // One record fits behind the file header.
    assert_eq!((writer.count(), writer.lost()), (3, 2));
    assert_eq!(writer.finish().unwrap_err().to_string(), message);
}

#[test]
fn a_device_that_is_full_is_found_out_at_once() {
    let error = Writer::create("/dev/full", Options::default()).unwrap_err();
    assert_eq!(
        error.to_string(),
        "/dev/full: byte 0: write: No space left on device (os error 28)"
    );
}

#[test]
fn a_file_on_a_full_disk_ends_with_a_whole_record() {
    use rustix::fs::{MemfdFlags, SealFlags, fcntl_add_seals, memfd_create};

    // A file that may shrink but not grow fills up as a disk does, in the middle of a record.
    let memory = memfd_create("disk", MemfdFlags::ALLOW_SEALING).unwrap();
    let file = std::fs::File::from(memory);
    file.set_len(8192).unwrap();
    fcntl_add_seals(&file, SealFlags::GROW).unwrap();
    let mut again = file.try_clone().unwrap();

    let mut writer = Writer::new("disk".into(), Sink::Own(file), Options::default()).unwrap();
    for _ in 0..20 {
        writer.write(0, 1000, &[7; 1000]).unwrap();
    }
    let error = writer.flush().unwrap_err().to_string();
    assert!(error.starts_with("disk: byte 8192: write: "), "{error}");
    assert_eq!(writer.lost(), 20 - (8192 - 24) / 1016);
    drop(writer);
    std::io::Seek::rewind(&mut again).unwrap();
    let (packets, error) = drain(&mut Reader::from_reader("disk", again).unwrap());
    assert!(error.is_none(), "{error:?}");
    assert_eq!(packets.len(), (8192 - 24) / 1016);
}

#[test]
fn whole_records_of_a_buffer() {
    let mut buffer = Vec::new();
    for size in [0u32, 10] {
        buffer.extend([0, 0, size, size].map(u32::to_le_bytes).concat());
        buffer.resize(buffer.len() + size as usize, 0);
    }
    for (done, kept) in [(0, 0), (15, 0), (16, 16), (41, 16), (42, 42)] {
        assert_eq!(super::super::writer::whole_records(&buffer, done), kept, "{done}");
    }
}

#[test]
fn a_file_that_is_dropped_is_complete() {
    let path = tempfile::NamedTempFile::new().unwrap();
    let mut writer = Writer::create(path.path(), Options::default()).unwrap();
    writer.write(1_000, 1, b"x").unwrap();
    drop(writer);
    let (packets, error) = drain(&mut Reader::open(path.path()).unwrap());
    assert!(error.is_none() && packets.len() == 1);
}

proptest! {
    #[test]
    fn what_is_written_is_read_back(
        resolution in prop::sample::select(vec![Resolution::Microseconds, Resolution::Nanoseconds]),
        link_type in prop::sample::select(vec![LinkType::ETHER, LinkType::IP, LinkType(276)]),
        packets in prop::collection::vec(
            (0..4_294_967_295_999_999_999u64, any::<u32>(), prop::collection::vec(any::<u8>(), 0..3000)),
            0..300,
        ),
    ) {
        let unit = if resolution == Resolution::Nanoseconds { 1 } else { 1000 };
        let disk = Disk::new(usize::MAX);
        let options = Options { link_type, resolution, ..Options::default() };
        let mut writer = Writer::from_writer("disk", disk.clone(), options).unwrap();
        let mut expected = Vec::new();
        for (timestamp, original_len, data) in packets {
            writer.write(timestamp, original_len, &data).unwrap();
            let timestamp = timestamp - timestamp % unit;
            expected.push(Packet { timestamp, data, original_len, link_type, interface: 0 });
        }
        prop_assert_eq!(writer.count(), expected.len() as u64);
        writer.finish().unwrap();
        let (packets, error) = read_all(&disk.bytes());
        prop_assert!(error.is_none());
        prop_assert_eq!(&packets, &expected);

        // The other reader says the same.
        let mut oracle = pcap_file::pcap::PcapReader::new(io::Cursor::new(disk.bytes())).unwrap();
        for packet in &expected {
            let read = oracle.next_raw_packet().unwrap().unwrap();
            let fraction = u64::from(read.ts_frac) * unit;
            prop_assert_eq!(u64::from(read.ts_sec) * 1_000_000_000 + fraction, packet.timestamp);
            prop_assert_eq!(read.orig_len, packet.original_len);
            prop_assert_eq!(&*read.data, &packet.data[..]);
        }
        prop_assert!(oracle.next_raw_packet().is_none());
    }
}
