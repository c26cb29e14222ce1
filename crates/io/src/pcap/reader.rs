//! Reads captures.

use std::io::Read;
use std::path::Path;

use super::classic::Classic;
use super::error::{Error, ErrorKind};
use super::input::{Access, Input};
use super::pcapng::{self, PcapNg};
use super::{LinkType, Record};

/// Reads the packets of a capture file, one after the other.
///
/// The first bytes of the file determine its format: pcap (either byte order, micro- and nanoseconds,
/// "modified", versions before 2.4) or pcapng (either byte order, several sections and interfaces; enhanced,
/// simple and obsolete packet blocks). They also identify files compressed with gzip, compress, bzip2, xz or
/// zstd, which `zcat` and similar programs decompress.
///
/// ```
/// use millrace_io::pcap::{Options, Reader, Writer};
///
/// let path = std::env::temp_dir().join(format!("reader-doc-{}.pcap", std::process::id()));
/// let mut writer = Writer::create(&path, Options::default())?;
/// writer.write(1_700_000_000_000_001_000, 60, &[0; 60])?;
/// writer.finish()?;
///
/// let mut reader = Reader::open(&path)?;
/// while let Some(record) = reader.next()? {
///     assert_eq!((record.timestamp, record.data.len()), (1_700_000_000_000_001_000, 60));
/// }
/// # std::fs::remove_file(&path).unwrap();
/// # Ok::<(), millrace_io::pcap::Error>(())
/// ```
///
/// # Resource usage
/// One buffer of 640 KiB (none for a mapped file) and 24 bytes for each interface of a pcapng section. It
/// never allocates memory by a length in the file.
///
/// # Errors
/// A truncated or corrupt file yields every complete record before that position, then one [`Error`] with the
/// position, then nothing more.
#[derive(Debug)]
pub struct Reader {
    input: Input,
    format: Format,
    /// Bytes of the last record, which stay in the window for as long as it is borrowed.
    behind: usize,
    failed: bool,
}

#[derive(Debug)]
enum Format {
    Classic(Classic),
    PcapNg(PcapNg),
}

impl Reader {
    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// The file cannot be read, or does not start like a capture.
    pub fn open(path: impl AsRef<Path>) -> Result<Reader, Error> {
        Self::open_with(path, Access::Read)
    }

    /// Opens a file; `-` is standard input.
    ///
    /// # Errors
    /// See [`Reader::open`].
    pub fn open_with(path: impl AsRef<Path>, access: Access) -> Result<Reader, Error> {
        Self::new(Input::open(path.as_ref(), access)?)
    }

    /// Reads an uncompressed capture from any source; errors call it `name`.
    ///
    /// # Errors
    /// See [`Reader::open`].
    pub fn from_reader(
        name: impl Into<String>,
        reader: impl Read + Send + 'static,
    ) -> Result<Reader, Error> {
        Self::new(Input::reader(name.into(), Box::new(reader))?)
    }

    fn new(mut input: Input) -> Result<Reader, Error> {
        let format = Format::open(&mut input)?;
        Ok(Reader { input, format, behind: 0, failed: false })
    }

    /// The name of the program that decompresses the file, if it is compressed.
    pub fn helper(&self) -> Option<&'static str> {
        self.input.helper()
    }

    /// The next record, or `None` after the last one and after an error.
    ///
    /// # Errors
    /// The file is truncated, corrupt or cannot be read.
    #[expect(clippy::should_implement_trait, reason = "a record borrows the reader's buffer")]
    #[inline]
    pub fn next(&mut self) -> Result<Option<Record<'_>>, Error> {
        if self.failed {
            return Ok(None);
        }
        self.input.consume(std::mem::take(&mut self.behind));
        let found = match &mut self.format {
            Format::Classic(classic) => classic.next(&mut self.input),
            Format::PcapNg(pcapng) => pcapng.next(&mut self.input),
        };
        let Some(found) = found.inspect_err(|_| self.failed = true)? else {
            return Ok(None);
        };
        self.behind = found.total;
        let packet = found.start..found.start + found.captured;
        Ok(Some(Record {
            timestamp: found.timestamp,
            data: self.input.bytes().get(packet).unwrap_or_default(),
            offset: self.input.offset() + found.start as u64,
            original_len: found.original_len,
            link_type: found.link_type,
            interface: found.interface,
        }))
    }

    /// The file's name in messages: its path, or `<stdin>`.
    #[must_use]
    pub fn name(&self) -> &str {
        self.input.name()
    }

    /// The link type of the packets; for a pcapng file, that of the current section's first interface, or
    /// `None` if there is no interface before the first packet.
    #[must_use]
    pub fn link_type(&self) -> Option<LinkType> {
        self.format.first_interface().map(|(link_type, _)| link_type)
    }

    /// The maximum number of bytes captured of each packet, according to the file; 0 means no limit.
    #[must_use]
    pub fn snap_len(&self) -> u32 {
        self.format.first_interface().map_or(0, |(_, snap_len)| snap_len)
    }

    /// The length of the file in bytes; `None` for a stream and for a compressed file.
    #[must_use]
    pub fn file_len(&self) -> Option<u64> {
        self.input.length()
    }

    /// Bytes read of the (decompressed) file: the position of the next record.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.input.offset() + self.behind as u64
    }

    /// All bytes of a mapped file, to which [`Record::offset`] refers.
    #[must_use]
    pub fn mapping(&self) -> Option<&[u8]> {
        self.input.mapping()
    }

    /// Continues at byte `position` of the file, which must be the start of a record: a value that
    /// [`Reader::position`] returned. In a pcapng file it must be in the current section. An earlier error
    /// that ended the reading is cleared.
    ///
    /// # Errors
    /// The system cannot seek there; in a stream or a compressed file that is any position before the current
    /// one.
    pub fn seek(&mut self, position: u64) -> Result<(), Error> {
        self.input.consume(std::mem::take(&mut self.behind));
        self.input.seek(position)?;
        self.failed = false;
        Ok(())
    }

    /// Starts again with the first record.
    ///
    /// # Errors
    /// See [`Reader::seek`], and [`Reader::open`] if the file has been replaced.
    pub fn rewind(&mut self) -> Result<(), Error> {
        self.seek(0)?;
        self.format = Format::open(&mut self.input).inspect_err(|_| self.failed = true)?;
        Ok(())
    }
}

impl Format {
    fn open(input: &mut Input) -> Result<Format, Error> {
        if !input.require(4, "the magic number")? {
            return Err(Error::new(input.name(), ErrorKind::Empty));
        }
        let magic = input.bytes().first_chunk().copied().unwrap_or_default();
        if Classic::recognises(magic) {
            return Classic::open(input).map(Format::Classic);
        }
        if magic == pcapng::MAGIC {
            let mut pcapng = PcapNg::new();
            pcapng.read_preamble(input)?;
            return Ok(Format::PcapNg(pcapng));
        }
        Err(input.error(ErrorKind::Magic { found: magic }))
    }

    fn first_interface(&self) -> Option<(LinkType, u32)> {
        match self {
            Format::Classic(classic) => Some((classic.link_type, classic.snap_len)),
            Format::PcapNg(pcapng) => pcapng.first_interface(),
        }
    }
}
