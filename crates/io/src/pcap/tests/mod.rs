//! Captures written by these tests, by the `pcap-file` crate and at random, read and written.

mod build;
mod files;
mod read;
mod write;

use super::{Error, LinkType, Reader, Record};

/// A record that owns its bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Packet {
    timestamp: u64,
    data: Vec<u8>,
    original_len: u32,
    link_type: LinkType,
    interface: u32,
}

impl From<Record<'_>> for Packet {
    fn from(record: Record<'_>) -> Packet {
        Packet {
            timestamp: record.timestamp,
            data: record.data.to_vec(),
            original_len: record.original_len,
            link_type: record.link_type,
            interface: record.interface,
        }
    }
}

/// All packets of a capture, and the error that ended it.
fn read_all(bytes: &[u8]) -> (Vec<Packet>, Option<Error>) {
    match Reader::from_reader("test", std::io::Cursor::new(bytes.to_vec())) {
        Ok(mut reader) => drain(&mut reader),
        Err(error) => (Vec::new(), Some(error)),
    }
}

fn drain(reader: &mut Reader) -> (Vec<Packet>, Option<Error>) {
    let mut packets = Vec::new();
    loop {
        match reader.next() {
            Ok(Some(record)) => packets.push(record.into()),
            Ok(None) => return (packets, None),
            Err(error) => {
                assert_eq!(reader.next().unwrap(), None, "nothing comes after an error");
                return (packets, Some(error));
            }
        }
    }
}
