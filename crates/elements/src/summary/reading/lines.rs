//! Files that elements read line by line, or record by record: plain files, compressed files, standard input, or a text
//! in the configuration.

use std::fs::File;
use std::io::{self, Read};
use std::os::fd::AsFd;

use millrace_core::{Init, Refused, os_error_text};
use millrace_io::pcap::{Format, Unpacker};

/// The number of bytes to read at once.
const PIECE: usize = 1 << 15;

/// A file being read.
pub struct LineFile {
    path: String,
    name: String,
    source: Source,
    /// Data that was read but not consumed, from `start` on.
    buffer: Vec<u8>,
    start: usize,
    /// The offset of `start` in the (uncompressed) file.
    position: u64,
    /// The number of lines or records read.
    line: u64,
    /// The text before the number in messages.
    unit: &'static str,
}

enum Source {
    File(File),
    Unpacker(Unpacker),
    /// All of it is in the buffer.
    Ended,
    Closed,
}

/// Why a file cannot be opened.
pub(crate) enum Failure {
    /// The file does not exist.
    Missing(io::Error),
    /// The file is empty.
    Empty,
    Other(String),
}

/// Bytes that a line may have. A few bytes of a packed file unpack to a line without end.
const LONGEST_LINE: usize = 1 << 20;

impl LineFile {
    /// A file that is not open.
    pub(crate) fn closed(name: &str) -> Self {
        Self {
            path: name.to_owned(),
            name: if name == "-" { "<stdin>" } else { name }.to_owned(),
            source: Source::Closed,
            buffer: Vec::new(),
            start: 0,
            position: 0,
            line: 0,
            unit: "",
        }
    }

    /// A text as a file.
    pub(crate) fn of_text(name: &str, text: Vec<u8>) -> Self {
        Self { source: Source::Ended, buffer: text, ..Self::closed(name) }
    }

    /// Opens a file; `-` is standard input. Compressed files are decompressed.
    pub(crate) fn open(name: &str) -> Result<Self, Failure> {
        let mut file = Self::closed(name);
        let is_stdin = name == "-";
        let opened = if is_stdin {
            io::stdin().as_fd().try_clone_to_owned().map(File::from)
        } else {
            File::open(name)
        };
        file.source = Source::File(opened.map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => Failure::Missing(error),
            _ => Failure::Other(format!("{}: {}", file.name, os_error_text(&error))),
        })?);
        if file.fill().map_err(|error| Failure::Other(file.describe(&error)))? == 0 {
            return Err(Failure::Empty);
        }
        // Data already read from standard input cannot be passed to another program.
        if !is_stdin && let Some(format) = Format::of_bytes(&file.buffer) {
            let unpacker = format.unpack(name.as_ref());
            let unpacker = unpacker.map_err(|error| Failure::Other(error.to_string()))?;
            file.buffer.clear();
            file.source = Source::Unpacker(unpacker);
            if file.fill().map_err(|error| Failure::Other(file.describe(&error)))? == 0 {
                return Err(Failure::Empty);
            }
        }
        Ok(file)
    }

    /// Whether there may be more to read.
    pub(crate) fn is_open(&self) -> bool {
        !matches!(self.source, Source::Closed)
    }

    pub(crate) fn close(&mut self) {
        self.position += self.left().len() as u64;
        self.source = Source::Closed;
        self.buffer = Vec::new();
        self.start = 0;
    }

    /// The name that the user gave.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// The name for messages.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// The file, and the number of the last line read.
    pub(crate) fn landmark(&self) -> String {
        format!("{}:{}{}", self.name, self.unit, self.line)
    }

    /// Counts records from here on.
    pub(crate) fn count_records(&mut self) {
        self.unit = "record ";
        self.line = 1;
    }

    /// The length of the file; `None` if it has no meaningful one.
    pub(crate) fn len(&self) -> Option<u64> {
        match &self.source {
            Source::File(file) => {
                file.metadata().ok().filter(std::fs::Metadata::is_file).map(|file| file.len())
            }
            _ => None,
        }
    }

    /// The offset in the (uncompressed) file of the next byte to read.
    pub(crate) fn position(&self) -> u64 {
        self.position
    }

    /// Reads the next line, with its line end, into `line`. False at the end of the file.
    ///
    /// # Errors
    /// Those of reading the file.
    pub(crate) fn read_line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let length = self.line_len()?;
        line.extend_from_slice(self.left().get(..length).unwrap_or_default());
        self.advance(length);
        self.line += u64::from(length > 0);
        Ok(length > 0)
    }

    /// Reads the next line into `line` without consuming it.
    ///
    /// # Errors
    /// Those of reading the file.
    pub(crate) fn peek_line(&mut self, line: &mut Vec<u8>) -> io::Result<bool> {
        line.clear();
        let length = self.line_len()?;
        line.extend_from_slice(self.left().get(..length).unwrap_or_default());
        Ok(length > 0)
    }

    /// Reads the next `length` bytes into `bytes`. False if the file has fewer.
    ///
    /// # Errors
    /// Those of reading the file.
    pub(crate) fn read_bytes(&mut self, length: usize, bytes: &mut Vec<u8>) -> io::Result<bool> {
        bytes.clear();
        while self.left().len() < length {
            if self.fill()? == 0 {
                return Ok(false);
            }
        }
        bytes.extend_from_slice(self.left().get(..length).unwrap_or_default());
        self.advance(length);
        Ok(true)
    }

    /// Counts a record.
    pub(crate) fn next_record(&mut self) {
        self.line += 1;
    }

    /// The length of the next line with its line end, which is `\n`, `\r\n` or `\r`.
    fn line_len(&mut self) -> io::Result<usize> {
        let mut looked = 0;
        loop {
            let left = self.left();
            let end = left.iter().skip(looked).position(|&byte| matches!(byte, b'\n' | b'\r'));
            match end.map(|end| looked + end) {
                Some(end) if left.get(end) == Some(&b'\n') => return Ok(end + 1),
                Some(end) => match left.get(end + 1) {
                    Some(b'\n') => return Ok(end + 2),
                    Some(_) => return Ok(end + 1),
                    None => looked = end,
                },
                None => looked = left.len(),
            }
            if looked > LONGEST_LINE {
                let message = format!("a line is longer than {LONGEST_LINE} bytes");
                return Err(io::Error::new(io::ErrorKind::InvalidData, message));
            }
            if self.fill()? == 0 {
                return Ok(self.left().len());
            }
        }
    }

    fn left(&self) -> &[u8] {
        self.buffer.get(self.start..).unwrap_or_default()
    }

    fn advance(&mut self, length: usize) {
        self.start += length;
        self.position += length as u64;
    }

    /// Reads more data. Returns how many bytes.
    fn fill(&mut self) -> io::Result<usize> {
        self.buffer.drain(..self.start);
        self.start = 0;
        let filled = self.buffer.len();
        self.buffer.resize(filled + PIECE, 0);
        let free = self.buffer.get_mut(filled..).unwrap_or_default();
        let result = loop {
            let result = match &mut self.source {
                Source::File(file) => file.read(free),
                Source::Unpacker(unpacker) => unpacker.read(free),
                Source::Ended | Source::Closed => Ok(0),
            };
            match result {
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                result => break result,
            }
        };
        let count = *result.as_ref().unwrap_or(&0);
        self.buffer.truncate(filled + count);
        result
    }

    fn describe(&self, error: &io::Error) -> String {
        format!("{}: {}", self.name, os_error_text(error))
    }
}

impl Failure {
    /// The error to report.
    pub(crate) fn refuse(self, init: &mut Init<'_>, name: &str) -> Refused {
        let file = LineFile::closed(name);
        match self {
            Self::Missing(error) => Refused(file.describe(&error)),
            Self::Empty => init.refuse_at(file.landmark(), "empty file"),
            Self::Other(message) => Refused(message),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_end_with_any_line_ending() {
        let mut file = LineFile::of_text("x", b"a\nb\r\nc\rd\n\n\re".to_vec());
        let mut line = Vec::new();
        let mut lines = Vec::new();
        while file.read_line(&mut line).unwrap() {
            lines.push(String::from_utf8(line.clone()).unwrap());
        }
        assert_eq!(lines, ["a\n", "b\r\n", "c\r", "d\n", "\n", "\r", "e"]);
        assert_eq!((file.landmark().as_str(), file.position()), ("x:7", 12));
    }

    #[test]
    fn long_lines_and_bytes_are_read() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("long");
        let long = "x".repeat(100_000);
        std::fs::write(&path, format!("{long}\r\n{long}")).unwrap();
        let mut file = LineFile::open(path.to_str().unwrap()).ok().unwrap();
        let mut line = Vec::new();
        assert!(file.peek_line(&mut line).unwrap() && line.len() == 100_002);
        assert!(file.read_line(&mut line).unwrap() && line.len() == 100_002);
        assert!(file.read_bytes(99_999, &mut line).unwrap() && line.len() == 99_999);
        assert!(!file.read_bytes(2, &mut line).unwrap());
        assert_eq!((file.len(), file.position()), (Some(200_002), 200_001));
    }
}
