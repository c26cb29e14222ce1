//! The bytes of a capture, from any source, one window at a time.

use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom};
use std::os::fd::AsFd;
use std::path::Path;

use super::compress::{Format, Unpacker};
use super::error::{Error, ErrorKind};
use super::link_type::LinkType;
use super::mapping::Mapping;

/// How a [`Reader`](super::Reader) accesses the bytes of a regular file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Access {
    /// Reads it piece by piece into one buffer. Safe, whatever happens to the file meanwhile.
    #[default]
    Read,
    /// Maps it into memory, for access to all packets at once or repeatedly.
    ///
    /// The file must not change until the reader is dropped: if it becomes shorter, the kernel ends the
    /// program with `SIGBUS`. Pipes and compressed files are read as with [`Access::Read`].
    Map,
}

/// The maximum length of a part of a capture that is examined in one piece, in bytes.
pub(super) const LARGEST_PART: usize = 1 << 19;

/// Bytes per read: enough to make the call cheap, and so few that they are still in the processor's cache
/// when their packets are examined.
const PIECE: usize = 1 << 17;

/// The maximum number of bytes of a stream that a reader holds: any part, and what was read together with its
/// end.
const BUFFER: usize = LARGEST_PART + PIECE;

/// A record in the window of an input.
pub(super) struct Found {
    pub(super) timestamp: u64,
    pub(super) original_len: u32,
    /// The start of the packet in the window.
    pub(super) start: usize,
    /// The number of its captured bytes.
    pub(super) captured: usize,
    /// Bytes of the record.
    pub(super) total: usize,
    pub(super) link_type: LinkType,
    pub(super) interface: u32,
}

#[derive(Debug)]
enum Source {
    File(File),
    Unpacker(Unpacker),
    Other(Other),
    Mapping(Mapping),
}

struct Other(Box<dyn Read + Send>);

impl std::fmt::Debug for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Other")
    }
}

/// A capture's bytes: a window that moves over them.
#[derive(Debug)]
pub(super) struct Input {
    name: String,
    source: Source,
    /// Contains the window for every source except a mapping.
    buffer: Box<[u8]>,
    /// The window, in `buffer` or in the mapping.
    start: usize,
    end: usize,
    /// The position of `start` in the file.
    offset: u64,
    /// The file's length, if it has a meaningful one.
    length: Option<u64>,
    ended: bool,
}

impl Input {
    /// Opens a file; `-` is standard input. A compressed file is decompressed.
    pub(super) fn open(path: &Path, access: Access) -> Result<Input, Error> {
        if path.as_os_str() == "-" {
            return Input::stdin();
        }
        let name = path.display().to_string();
        let failed = |action| {
            let name = name.clone();
            move |error| Error::new(&name, ErrorKind::io(action, error))
        };
        let file = File::open(path).map_err(failed("open"))?;
        let metadata = file.metadata().map_err(failed("stat"))?;
        let length = metadata.is_file().then_some(metadata.len());

        let mut input = Input::new(name.clone(), Source::File(file), length);
        let available = input.fill(MAGIC)?;
        if available == 0 {
            return Err(Error::new(&name, ErrorKind::Empty));
        }
        if let Some(format) = Format::of_bytes(input.bytes()) {
            if length.is_none() {
                // The first bytes of a pipe have been taken out of it: no other program sees them.
                return Err(input.compressed(format));
            }
            let unpacker = format.unpack(path).map_err(|kind| Error::new(&name, kind))?;
            return Ok(Input::new(name, Source::Unpacker(unpacker), None));
        }
        if access == Access::Map
            && length.is_some()
            && let Source::File(file) = &input.source
        {
            let mapping = Mapping::new(file).map_err(failed("mmap"))?;
            return Ok(Input::mapped(name, mapping));
        }
        Ok(input)
    }

    /// The name of the program that decompresses the input, if one does.
    pub(super) fn helper(&self) -> Option<&'static str> {
        match &self.source {
            Source::Unpacker(unpacker) => Some(unpacker.program()),
            _ => None,
        }
    }

    fn stdin() -> Result<Input, Error> {
        let name = "<stdin>";
        let file = io::stdin().as_fd().try_clone_to_owned().map(File::from);
        let file = file.map_err(|error| Error::new(name, ErrorKind::io("open", error)))?;
        Input::stream(name.to_owned(), Source::File(file))
    }

    /// Reads the bytes from `reader`, which is called `name` in messages.
    pub(super) fn reader(name: String, reader: Box<dyn Read + Send>) -> Result<Input, Error> {
        Input::stream(name, Source::Other(Other(reader)))
    }

    fn stream(name: String, source: Source) -> Result<Input, Error> {
        let mut input = Input::new(name, source, None);
        if input.fill(MAGIC)? == 0 {
            return Err(Error::new(&input.name, ErrorKind::Empty));
        }
        match Format::of_bytes(input.bytes()) {
            Some(format) => Err(input.compressed(format)),
            None => Ok(input),
        }
    }

    fn compressed(&self, format: &Format) -> Error {
        Error::new(&self.name, ErrorKind::CompressedStream { program: format.unpack })
    }

    fn new(name: String, source: Source, length: Option<u64>) -> Input {
        let buffer = vec![0; BUFFER].into_boxed_slice();
        Input { name, source, buffer, start: 0, end: 0, offset: 0, length, ended: false }
    }

    fn mapped(name: String, mapping: Mapping) -> Input {
        let end = mapping.bytes().len();
        Input {
            name,
            source: Source::Mapping(mapping),
            buffer: Box::default(),
            start: 0,
            end,
            offset: 0,
            length: Some(end as u64),
            ended: true,
        }
    }

    pub(super) fn name(&self) -> &str {
        &self.name
    }

    /// The position of the window: bytes from the start of the (decompressed) file.
    pub(super) fn offset(&self) -> u64 {
        self.offset
    }

    /// The length of the file in bytes; `None` for a stream.
    pub(super) fn length(&self) -> Option<u64> {
        self.length
    }

    /// The whole file, if it is mapped.
    pub(super) fn mapping(&self) -> Option<&[u8]> {
        match &self.source {
            Source::Mapping(mapping) => Some(mapping.bytes()),
            _ => None,
        }
    }

    /// The window.
    pub(super) fn bytes(&self) -> &[u8] {
        let bytes = match &self.source {
            Source::Mapping(mapping) => mapping.bytes(),
            _ => &self.buffer,
        };
        bytes.get(self.start..self.end).unwrap_or_default()
    }

    /// An error at the window's position.
    pub(super) fn error(&self, kind: ErrorKind) -> Error {
        Error::at(&self.name, self.offset, kind)
    }

    /// Makes the window at least `length` bytes long, `length` being no more than [`LARGEST_PART`].
    /// Returns `false` when the file ends where the window starts.
    ///
    /// # Errors
    /// The file ends within the part, or cannot be read.
    pub(super) fn require(&mut self, length: usize, part: &'static str) -> Result<bool, Error> {
        if self.end - self.start >= length {
            return Ok(true);
        }
        match self.fill(length)? {
            0 => Ok(false),
            available if available >= length => Ok(true),
            available => Err(self.error(ErrorKind::Truncated {
                part,
                expected: length as u64,
                found: available as u64,
            })),
        }
    }

    /// Makes the window `length` bytes long, or as long as the file allows, and returns its length
    /// up to `length`.
    pub(super) fn available(&mut self, length: usize) -> Result<usize, Error> {
        Ok(self.fill(length)?.min(length))
    }

    /// Makes the window at least `length` bytes long, or as long as the file allows, and returns its
    /// length.
    #[cold]
    fn fill(&mut self, length: usize) -> Result<usize, Error> {
        if !self.ended {
            self.buffer.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
        }
        while !self.ended && self.end - self.start < length {
            let piece = self.end..self.buffer.len().min(self.end + PIECE);
            let free = self.buffer.get_mut(piece).unwrap_or_default();
            let result = match &mut self.source {
                Source::File(file) => read_file(file, free),
                Source::Unpacker(unpacker) => retry(|| unpacker.read(free)),
                Source::Other(reader) => retry(|| reader.0.read(free)),
                Source::Mapping(_) => Ok(0),
            };
            match result {
                Ok(0) => {
                    self.ended = true;
                    if let Source::Unpacker(unpacker) = &mut self.source {
                        unpacker.finish().map_err(|kind| Error::new(&self.name, kind))?;
                    }
                }
                // A reader that claims more than it was given room for is cut down to size.
                Ok(count) => self.end += count.min(free.len()),
                Err(error) => return Err(self.error(ErrorKind::io("read", error))),
            }
        }
        Ok(self.end - self.start)
    }

    /// Moves the start of the window forward by `count` bytes, which must be inside it.
    pub(super) fn consume(&mut self, count: usize) {
        let count = count.min(self.end - self.start);
        self.start += count;
        self.offset += count as u64;
    }

    /// Moves the start of the window forward by `count` bytes, possibly beyond its end. Returns how many
    /// bytes the file had.
    pub(super) fn skip(&mut self, count: u64) -> Result<u64, Error> {
        let mut left = count;
        while left > 0 {
            let available = match self.end - self.start {
                0 => self.fill(1)?,
                available => available,
            };
            if available == 0 {
                break;
            }
            let step = available.min(usize::try_from(left).unwrap_or(usize::MAX));
            self.consume(step);
            left -= step as u64;
        }
        Ok(count - left)
    }

    /// Moves the window to byte `offset` of the file. A stream can only go forward.
    pub(super) fn seek(&mut self, offset: u64) -> Result<(), Error> {
        match (&mut self.source, self.length) {
            (Source::Mapping(mapping), _) => {
                self.end = mapping.bytes().len();
                self.start = usize::try_from(offset).unwrap_or(usize::MAX).min(self.end);
                self.offset = self.start as u64;
            }
            (Source::File(file), Some(_)) => {
                let seek = file.seek(SeekFrom::Start(offset));
                seek.map_err(|error| Error::new(&self.name, ErrorKind::io("seek", error)))?;
                (self.start, self.end) = (0, 0);
                self.offset = offset;
                self.ended = false;
            }
            _ => {
                let Some(ahead) = offset.checked_sub(self.offset) else {
                    return Err(Error::new(&self.name, ErrorKind::Backwards));
                };
                self.skip(ahead)?;
            }
        }
        Ok(())
    }
}

/// Bytes that identify the type of a file.
const MAGIC: usize = 8;

fn retry(mut read: impl FnMut() -> io::Result<usize>) -> io::Result<usize> {
    loop {
        match read() {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            result => return result,
        }
    }
}

/// Reads from a file that may be a non-blocking pipe: waits for it in that case.
pub(super) fn read_file(file: &mut File, buffer: &mut [u8]) -> io::Result<usize> {
    use rustix::event::{PollFd, PollFlags, poll};

    loop {
        match retry(|| file.read(buffer)) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(file, PollFlags::IN)], None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            result => return result,
        }
    }
}
