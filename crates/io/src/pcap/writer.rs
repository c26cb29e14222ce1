//! Writes captures.

use std::fs::File;
use std::io::{self, Write};
use std::os::fd::AsFd;
use std::path::Path;

use millrace_core::{OutputFile, standard_output};

use super::classic::{FILE_HEADER, MAGIC_MICRO, MAGIC_NANO, RECORD_HEADER, SECOND};
use super::compress::{Format, Packer};
use super::error::{Error, ErrorKind};
use super::{LinkType, MAX_CAPTURED};

/// The settings of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Options {
    /// The first header of every packet.
    pub link_type: LinkType,
    /// The maximum number of bytes written of each packet. [`MAX_CAPTURED`] is a limit in any case.
    pub snap_len: u32,
    /// The resolution of timestamps.
    pub resolution: Resolution,
}

impl Default for Options {
    /// Whole Ethernet packets, with microsecond timestamps, which every program can read.
    fn default() -> Options {
        let resolution = Resolution::Microseconds;
        Options { link_type: LinkType::ETHER, snap_len: MAX_CAPTURED, resolution }
    }
}

/// The unit of a capture's timestamps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Resolution {
    /// A millionth of a second; the rest is truncated.
    #[default]
    Microseconds,
    /// A billionth of a second.
    Nanoseconds,
}

/// Bytes that are buffered before they are written.
const BUFFER: usize = 1 << 18;

/// Writes packets to a capture file in the classic format, little-endian, version 2.4.
///
/// Records are buffered and written many at a time; [`Writer::flush`] writes the buffered ones. A file whose
/// name ends in `.gz`, `.Z`, `.bz2`, `.xz` or `.zst` is compressed by `gzip` or a similar program.
///
/// # Errors
/// The first failure (a full disk, a closed pipe) is stored: every later call returns it immediately, so that
/// it cannot be missed. A file that [`Writer::create`] made then ends with the last record that fitted
/// completely, and stays readable; [`Writer::lost`] returns how many accepted packets are not in it.
///
/// # Resource usage
/// One buffer of 256 KiB, more only for a packet that does not fit.
#[derive(Debug)]
pub struct Writer {
    name: String,
    options: Options,
    sink: Sink,
    /// Complete records that are still to be written.
    buffer: Vec<u8>,
    /// Bytes that were written before the buffer.
    written: u64,
    count: u64,
    lost: u64,
    failed: Option<Error>,
}

#[derive(Debug)]
pub(super) enum Sink {
    /// A file that no other process writes to: it may be truncated to a complete record.
    Own(File),
    /// A shared descriptor: standard output, a pipe, a device.
    Shared(File),
    Packer(Packer),
    Other(Other),
}

pub(super) struct Other(Box<dyn Write + Send>);

impl std::fmt::Debug for Other {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Other")
    }
}

/// Where a capture is to be written: open, and not changed yet.
#[derive(Debug)]
pub struct Destination {
    name: String,
    /// None is standard output.
    file: Option<OutputFile>,
    format: Option<&'static Format>,
}

impl Destination {
    /// Opens a file, or creates it; `-` is standard output.
    ///
    /// # Errors
    /// The file cannot be opened or created.
    pub fn open(path: &Path) -> Result<Destination, Error> {
        let name = path.display().to_string();
        if path.as_os_str() == "-" {
            standard_output::for_data();
            return Ok(Destination { name, file: None, format: None });
        }
        let failed = |error| Error::new(&name, ErrorKind::io("create", error));
        let file = OutputFile::open(path).map_err(failed)?;
        // Only what is a file by now has a format by its name, no pipe.
        let regular = path.metadata().map_err(failed)?.is_file();
        let format = Format::of_name(path).filter(|_| regular);
        Ok(Destination { name, file: Some(file), format })
    }

    /// The name of the program that compresses the file, if one does.
    #[must_use]
    pub fn helper(&self) -> Option<&'static str> {
        self.format.map(Format::packer)
    }
}

impl Writer {
    /// Creates a file, or empties an existing one; `-` is standard output. The file header is written at
    /// once.
    ///
    /// # Errors
    /// The file cannot be created or written.
    pub fn create(path: impl AsRef<Path>, options: Options) -> Result<Writer, Error> {
        Self::begin(Destination::open(path.as_ref())?, options)
    }

    /// Begins to write to a destination: empties the file, and writes the file header.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn begin(destination: Destination, options: Options) -> Result<Writer, Error> {
        let Destination { name, file, format } = destination;
        let Some(file) = file else { return Self::stdout(options) };
        let failed = |error| Error::new(&name, ErrorKind::io("create", error));
        let file = file.begin().map_err(failed)?;
        let regular = file.metadata().map_err(failed)?.is_file();
        let sink = match format {
            Some(format) => {
                Sink::Packer(format.pack(file).map_err(|kind| Error::new(&name, kind))?)
            }
            None if regular => Sink::Own(file),
            None => Sink::Shared(file),
        };
        Self::new(name, sink, options)
    }

    fn stdout(options: Options) -> Result<Writer, Error> {
        let name = "<stdout>";
        let file = standard_output::for_data().as_fd().try_clone_to_owned().map(File::from);
        let file = file.map_err(|error| Error::new(name, ErrorKind::io("open", error)))?;
        Self::new(name.to_owned(), Sink::Shared(file), options)
    }

    /// Writes a capture to any destination; errors call it `name`.
    ///
    /// # Errors
    /// The file header cannot be written.
    pub fn from_writer(
        name: impl Into<String>,
        writer: impl Write + Send + 'static,
        options: Options,
    ) -> Result<Writer, Error> {
        Self::new(name.into(), Sink::Other(Other(Box::new(writer))), options)
    }

    pub(super) fn new(name: String, sink: Sink, options: Options) -> Result<Writer, Error> {
        let buffer = Vec::with_capacity(BUFFER);
        let mut writer =
            Writer { name, options, sink, buffer, written: 0, count: 0, lost: 0, failed: None };
        writer.buffer.extend_from_slice(&file_header(options));
        writer.flush()?;
        Ok(writer)
    }

    /// Adds a packet of `original_len` bytes that was captured at `timestamp`, in nanoseconds since
    /// 1970-01-01 00:00 UTC. Keeps at most the snap length of its bytes in `data`. A timestamp after the year
    /// 2106, which the format cannot represent, becomes the last possible one.
    ///
    /// # Errors
    /// The file cannot be written, now or earlier.
    #[inline]
    pub fn write(&mut self, timestamp: u64, original_len: u32, data: &[u8]) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let limit = self.options.snap_len.min(MAX_CAPTURED) as usize;
        let data = data.get(..limit).unwrap_or(data);
        if self.buffer.len() + RECORD_HEADER + data.len() > BUFFER {
            self.write_buffer()?;
        }
        let header = self.record_header(timestamp, original_len, data.len() as u32);
        self.buffer.extend_from_slice(&header);
        self.buffer.extend_from_slice(data);
        self.count += 1;
        Ok(())
    }

    #[inline]
    fn record_header(
        &self,
        timestamp: u64,
        original_len: u32,
        captured: u32,
    ) -> [u8; RECORD_HEADER] {
        let unit = match self.options.resolution {
            Resolution::Microseconds => 1000,
            Resolution::Nanoseconds => 1,
        };
        let timestamp = timestamp.min(u64::from(u32::MAX) * SECOND + (SECOND - 1));
        let (seconds, fraction) = (timestamp / SECOND, timestamp % SECOND / unit);
        let mut header = [0; RECORD_HEADER];
        let words = [seconds as u32, fraction as u32, captured, original_len];
        for (bytes, word) in header.chunks_exact_mut(4).zip(words) {
            bytes.copy_from_slice(&word.to_le_bytes());
        }
        header
    }

    /// Passes all packets so far to the operating system, or to the program that compresses them.
    ///
    /// # Errors
    /// The file cannot be written, now or earlier.
    pub fn flush(&mut self) -> Result<(), Error> {
        self.write_buffer()?;
        let result = match &mut self.sink {
            Sink::Other(writer) => writer.0.flush(),
            Sink::Packer(packer) => packer.input().map_or(Ok(()), |input| input.flush()),
            Sink::Own(_) | Sink::Shared(_) => Ok(()),
        };
        result.map_err(|error| self.fail(ErrorKind::io("write", error)))
    }

    /// Flushes, and waits until a compressed file is complete.
    ///
    /// # Errors
    /// The file cannot be written, now or earlier.
    pub fn finish(mut self) -> Result<(), Error> {
        self.flush()?;
        match &mut self.sink {
            Sink::Packer(packer) => packer.finish().map_err(|kind| self.fail(kind)),
            _ => Ok(()),
        }
    }

    /// The file's name in messages: its path, or `<stdout>`.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The settings of the capture.
    #[must_use]
    pub fn options(&self) -> Options {
        self.options
    }

    /// Packets accepted so far.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.count
    }

    /// Packets that were accepted, but never reached the file: those that were still buffered when writing
    /// failed.
    #[must_use]
    pub fn lost(&self) -> u64 {
        self.lost
    }

    /// The failure that ended the writing, if there was one.
    #[must_use]
    pub fn error(&self) -> Option<&Error> {
        self.failed.as_ref()
    }

    #[cold]
    fn write_buffer(&mut self) -> Result<(), Error> {
        if let Some(error) = &self.failed {
            return Err(error.clone());
        }
        let mut done = 0;
        while let Some(rest) = self.buffer.get(done..).filter(|rest| !rest.is_empty()) {
            match self.sink.write(rest) {
                Ok(0) => {
                    let error = io::ErrorKind::WriteZero.into();
                    return Err(self.fail_after(done, error));
                }
                Ok(count) => done += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(self.fail_after(done, error)),
            }
        }
        self.written += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    /// Stores the failure that occurred after `done` bytes of the buffer had been written.
    fn fail_after(&mut self, done: usize, error: io::Error) -> Error {
        let kept = match self.written {
            // Only the file header can have been on its way.
            0 => 0,
            written => {
                let whole = whole_records(&self.buffer, done);
                self.lost = count_records(self.buffer.get(whole..).unwrap_or_default());
                written + whole as u64
            }
        };
        if let Sink::Own(file) = &self.sink {
            // The failure that counts is the one that is kept; if this one fails too, the file
            // ends within a record.
            let _ = file.set_len(kept);
        }
        let failure =
            Error::at(&self.name, self.written + done as u64, ErrorKind::io("write", error));
        self.keep(failure)
    }

    fn fail(&mut self, kind: ErrorKind) -> Error {
        let failure = Error::new(&self.name, kind);
        self.keep(failure)
    }

    fn keep(&mut self, failure: Error) -> Error {
        self.buffer = Vec::new();
        self.failed.get_or_insert(failure).clone()
    }
}

impl Drop for Writer {
    fn drop(&mut self) {
        // Whoever wants to know of a failure calls `finish`.
        let _ = self.flush();
    }
}

impl Sink {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Sink::Own(file) => file.write(bytes),
            Sink::Shared(file) => write_shared(file, bytes),
            Sink::Packer(packer) => match packer.input() {
                Some(input) => input.write(bytes),
                None => Ok(0),
            },
            // A writer that claims more than it was given is cut down to size.
            Sink::Other(writer) => Ok(writer.0.write(bytes)?.min(bytes.len())),
        }
    }
}

/// Writes to a descriptor that may be non-blocking: waits for it in that case.
fn write_shared(file: &mut File, bytes: &[u8]) -> io::Result<usize> {
    use rustix::event::{PollFd, PollFlags, poll};

    loop {
        match file.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                match poll(&mut [PollFd::new(file, PollFlags::OUT)], None) {
                    Ok(_) | Err(rustix::io::Errno::INTR) => {}
                    Err(error) => return Err(error.into()),
                }
            }
            result => return result,
        }
    }
}

fn file_header(options: Options) -> [u8; FILE_HEADER] {
    let magic = match options.resolution {
        Resolution::Microseconds => MAGIC_MICRO,
        Resolution::Nanoseconds => MAGIC_NANO,
    };
    let version = 2 | 4 << 16;
    // Between them lie the time zone and the accuracy, which nobody uses.
    let words = [magic, version, 0, 0, options.snap_len, options.link_type.0];
    let mut header = [0; FILE_HEADER];
    for (bytes, word) in header.chunks_exact_mut(4).zip(words) {
        bytes.copy_from_slice(&word.to_le_bytes());
    }
    header
}

/// How many of the first `done` bytes of a buffer belong to complete records.
pub(super) fn whole_records(buffer: &[u8], done: usize) -> usize {
    record_ends(buffer).take_while(|&end| end <= done).last().unwrap_or(0)
}

/// The number of records in a buffer of complete records.
fn count_records(buffer: &[u8]) -> u64 {
    record_ends(buffer).count() as u64
}

/// The end of each record in a buffer.
fn record_ends(buffer: &[u8]) -> impl Iterator<Item = usize> {
    let mut end = 0;
    std::iter::from_fn(move || {
        let captured = buffer.get(end + 8..)?.first_chunk()?;
        end += RECORD_HEADER + u32::from_le_bytes(*captured) as usize;
        Some(end)
    })
}
