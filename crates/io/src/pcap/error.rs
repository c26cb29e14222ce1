//! What can be wrong with a capture file.

use std::io;
use std::sync::Arc;

/// A capture that cannot be read or written any further: which file, where, and why.
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

    /// The file, as messages name it.
    #[must_use]
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Where the part of the file that is at fault starts: bytes from its start (after
    /// decompression), or `None` where the fault has no place.
    #[must_use]
    pub fn offset(&self) -> Option<u64> {
        self.offset
    }

    /// What is at fault.
    #[must_use]
    pub fn kind(&self) -> &ErrorKind {
        &self.kind
    }
}

/// What is at fault with a capture.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The operating system refused: the file is missing, unreadable, the disk is full, ...
    #[error("{action}: {error}")]
    Io {
        /// What was tried.
        action: &'static str,
        /// What the system said.
        error: Arc<io::Error>,
    },
    /// The program that packs or unpacks the file could not be run, or failed.
    #[error("{program}: {problem}")]
    Helper {
        /// The program.
        program: &'static str,
        /// What it said, or why it could not be run.
        problem: String,
    },
    /// Compressed data where it cannot be handed to the program that unpacks it.
    #[error("is compressed; unpack it with '{program}' before it comes here")]
    CompressedStream {
        /// The program that unpacks it.
        program: &'static str,
    },
    /// There is nothing in the file.
    #[error("empty file")]
    Empty,
    /// The file does not start as a capture does.
    #[error(
        "not a capture file: starts with {found:02x?}, expected the magic number of pcap or pcapng"
    )]
    Magic {
        /// What it starts with.
        found: [u8; 4],
    },
    /// A version of the format that nobody has defined.
    #[error("unknown version {found}, expected {expected}")]
    Version {
        /// The version that the file claims.
        found: String,
        /// The version that can be read.
        expected: &'static str,
    },
    /// The file ends too early.
    #[error("the file ends within {part}: expected {expected} bytes, found {found}")]
    Truncated {
        /// What it ends within.
        part: &'static str,
        /// Bytes that the part takes.
        expected: u64,
        /// Bytes that there are of it.
        found: u64,
    },
    /// A length that cannot be.
    #[error("{part} of {found} bytes, expected {expected}")]
    Length {
        /// What has this length.
        part: &'static str,
        /// The length.
        found: u64,
        /// What it may be.
        expected: &'static str,
    },
    /// A byte-order mark that is neither way round.
    #[error("section with byte-order mark {found:02x?}, expected 1a2b3c4d in either order")]
    ByteOrder {
        /// The mark.
        found: [u8; 4],
    },
    /// The lengths before and behind a block differ.
    #[error("block that ends with length {found}, expected {expected} as at its start")]
    Trailer {
        /// The length behind the block.
        found: u32,
        /// The length before it.
        expected: u32,
    },
    /// A packet of an interface that no block describes.
    #[error("packet of interface {found}, expected one of the section's {expected}")]
    Interface {
        /// The interface.
        found: u32,
        /// How many the section has.
        expected: usize,
    },
    /// The place lies before what can still be reached.
    #[error("cannot go back in a stream")]
    Backwards,
}

impl ErrorKind {
    pub(super) fn io(action: &'static str, error: io::Error) -> ErrorKind {
        ErrorKind::Io { action, error: Arc::new(error) }
    }
}
