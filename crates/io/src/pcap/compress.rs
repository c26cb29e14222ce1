//! Compressed captures, with the usual external programs.
//!
//! Click does so too. It needs no dependency, handles every format that the machine can, and decompresses on
//! another core.

use std::fs::File;
use std::io::{self, Read};
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

use super::error::ErrorKind;

/// A compression format and the programs for it.
#[derive(Debug)]
pub struct Format {
    /// The first bytes of its files.
    magic: &'static [u8],
    /// The suffix of its files.
    suffix: &'static str,
    /// The program that decompresses a named file to its standard output.
    pub unpack: &'static str,
    /// The program that, with `-c`, compresses its standard input to its standard output.
    pack: &'static str,
}

const FORMATS: &[Format] = &[
    Format { magic: &[0x1f, 0x8b], suffix: "gz", unpack: "zcat", pack: "gzip" },
    Format { magic: &[0x1f, 0x9d], suffix: "Z", unpack: "zcat", pack: "compress" },
    Format { magic: b"BZh", suffix: "bz2", unpack: "bzcat", pack: "bzip2" },
    Format { magic: b"\xfd7zXZ", suffix: "xz", unpack: "xzcat", pack: "xz" },
    Format { magic: b"\x28\xb5\x2f\xfd", suffix: "zst", unpack: "zstdcat", pack: "zstd" },
];

impl Format {
    /// The format of a file that starts with `bytes`.
    pub fn of_bytes(bytes: &[u8]) -> Option<&'static Format> {
        FORMATS.iter().find(|format| bytes.starts_with(format.magic))
    }

    /// The format of a file with this name.
    pub(super) fn of_name(path: &Path) -> Option<&'static Format> {
        let suffix = path.extension()?;
        FORMATS.iter().find(|format| suffix == format.suffix)
    }

    /// The program that compresses.
    pub(super) fn packer(&self) -> &'static str {
        self.pack
    }

    /// Starts to decompress a file.
    ///
    /// # Errors
    /// The program cannot be run.
    pub fn unpack(&self, path: &Path) -> Result<Unpacker, ErrorKind> {
        let program = self.unpack;
        let mut child = Command::new(program)
            .arg("--")
            .arg(path)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| helper(program, &error))?;
        let output = child.stdout.take().ok_or_else(|| helper(program, &"no output"))?;
        Ok(Unpacker { program, child, output: Some(output) })
    }

    /// Starts to compress the written data into `file`.
    pub(super) fn pack(&self, file: File) -> Result<Packer, ErrorKind> {
        let program = self.pack;
        let mut child = Command::new(program)
            .arg("-c")
            .stdin(Stdio::piped())
            .stdout(file)
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| helper(program, &error))?;
        let input = child.stdin.take().ok_or_else(|| helper(program, &"no input"))?;
        Ok(Packer { program, child, input: Some(input) })
    }
}

/// A running program that decompresses a file.
#[derive(Debug)]
pub struct Unpacker {
    program: &'static str,
    child: Child,
    /// None when the program is being ended.
    output: Option<ChildStdout>,
}

impl Unpacker {
    /// The name of the program.
    pub(super) fn program(&self) -> &'static str {
        self.program
    }

    /// Reads decompressed data.
    ///
    /// # Errors
    /// Like any pipe.
    pub fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        self.output.as_mut().map_or(Ok(0), |output| output.read(buffer))
    }

    /// Waits for the program, after all its output was read.
    ///
    /// # Errors
    /// The program's message.
    pub fn finish(&mut self) -> Result<(), ErrorKind> {
        finish(self.program, &mut self.child)
    }
}

impl Drop for Unpacker {
    fn drop(&mut self) {
        // It may still be at work on a file that nobody reads any more. Without a reader it ends when it writes.
        self.output = None;
        // In the sandbox, no other process gets a signal; then nobody waits for it either, for it may be waiting itself.
        let _ = match self.child.kill() {
            Ok(()) => self.child.wait().map(Some),
            Err(_) => self.child.try_wait(),
        };
    }
}

/// A running program that compresses a file.
#[derive(Debug)]
pub(super) struct Packer {
    program: &'static str,
    child: Child,
    input: Option<ChildStdin>,
}

impl Packer {
    pub(super) fn input(&mut self) -> Option<&mut ChildStdin> {
        self.input.as_mut()
    }

    /// Ends the input and waits until the program has written everything.
    pub(super) fn finish(&mut self) -> Result<(), ErrorKind> {
        match self.input.take() {
            Some(input) => drop(input),
            None => return Ok(()),
        }
        finish(self.program, &mut self.child)
    }
}

impl Drop for Packer {
    fn drop(&mut self) {
        // Whoever wants to know of a failure calls `finish`.
        let _ = self.finish();
    }
}

fn finish(program: &'static str, child: &mut Child) -> Result<(), ErrorKind> {
    /// Bytes of a program's error message that are worth printing.
    const COMPLAINT: u64 = 512;

    let mut complaint = Vec::new();
    if let Some(stderr) = child.stderr.take() {
        // A complaint that cannot be read is an empty one; the status decides.
        let _ = stderr.take(COMPLAINT).read_to_end(&mut complaint);
    }
    let status = child.wait().map_err(|error| helper(program, &error))?;
    if status.success() {
        return Ok(());
    }
    let complaint = String::from_utf8_lossy(&complaint);
    let lines: Vec<&str> =
        complaint.lines().map(str::trim).filter(|line| !line.is_empty()).collect();
    Err(match lines.as_slice() {
        [] => helper(program, &status),
        lines => helper(program, &lines.join("; ")),
    })
}

fn helper(program: &'static str, problem: &dyn std::fmt::Display) -> ErrorKind {
    ErrorKind::Helper { program, problem: problem.to_string() }
}
