//! Errors in capture files.

use std::io;
use std::sync::Arc;

/// A capture that cannot be read or written any further, with the file, the position and the reason.
///
/// It prints as one line: `trace.pcap: byte 1064: the file ends within a packet: expected 60 bytes,
/// found 12`.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{file}: {}{kind}", place(.offset))]
pub struct Error {
    file: String,
    offset: Option<u64>,
    kind: ErrorKind,
}

fn place(offset: &Option<u64>) -> String {
    offset.map_or_else(String::new, |offset| format!("byte {offset}: "))
}

impl Error {
    pub(super) fn new(file: &str, kind: ErrorKind) -> Error {
        Error { file: file.to_owned(), offset: None, kind }
    }

    pub(super) fn at(file: &str, offset: u64, kind: ErrorKind) -> Error {
        Error { file: file.to_owned(), offset: Some(offset), kind }
    }

    /// The file's name in messages.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// The position of the faulty part of the file: bytes from its start (after decompression), or `None` if
    /// the fault has no position.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// The fault.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

/// A fault of a capture.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system returned an error: the file is missing or unreadable, or the disk is full.
    #[error("{action}: {error}")]
    Io {
        /// The operation.
        action: &'static str,
        /// The system's error.
        error: Arc<io::Error>,
    },
    /// The program that compresses or decompresses the file could not be run, or failed.
    #[error("{program}: {problem}")]
    Helper {
        /// The program.
        program: &'static str,
        /// Its message, or why it could not be run.
        problem: String,
    },
    /// Compressed data that cannot be passed to the program that decompresses it.
    #[error("is compressed; unpack it with '{program}' before it comes here")]
    CompressedStream {
        /// The program that decompresses it.
        program: &'static str,
    },
    /// The file is empty.
    #[error("empty file")]
    Empty,
    /// The file does not start like a capture.
    #[error(
        "not a capture file: starts with {found:02x?}, expected the magic number of pcap or pcapng"
    )]
    Magic {
        /// Its first bytes.
        found: [u8; 4],
    },
    /// An undefined version of the format.
    #[error("unknown version {found}, expected {expected}")]
    Version {
        /// The version in the file.
        found: String,
        /// The version that can be read.
        expected: &'static str,
    },
    /// The file ends too early.
    #[error("the file ends within {part}: expected {expected} bytes, found {found}")]
    Truncated {
        /// The part in which it ends.
        part: &'static str,
        /// The length of the part in bytes.
        expected: u64,
        /// The bytes of it that exist.
        found: u64,
    },
    /// An impossible length.
    #[error("{part} of {found} bytes, expected {expected}")]
    Length {
        /// The part with this length.
        part: &'static str,
        /// The length.
        found: u64,
        /// The allowed values.
        expected: &'static str,
    },
    /// A byte-order mark that is not valid in either order.
    #[error("section with byte-order mark {found:02x?}, expected 1a2b3c4d in either order")]
    ByteOrder {
        /// The mark.
        found: [u8; 4],
    },
    /// The lengths before and after a block differ.
    #[error("block that ends with length {found}, expected {expected} as at its start")]
    Trailer {
        /// The length after the block.
        found: u32,
        /// The length before it.
        expected: u32,
    },
    /// A packet from an interface that no block describes.
    #[error("packet of interface {found}, expected one of the section's {expected}")]
    Interface {
        /// The interface.
        found: u32,
        /// The number of interfaces of the section.
        expected: usize,
    },
    /// The position is before the part that can still be reached.
    #[error("cannot go back in a stream")]
    Backwards,
}

impl ErrorKind {
    pub(super) fn io(action: &'static str, error: io::Error) -> ErrorKind {
        ErrorKind::Io { action, error: Arc::new(error) }
    }
}
