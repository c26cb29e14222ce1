//! Files of rules and of patterns: read within bounds, and what is wrong with them told with its place.

use std::fmt;
use std::fs::{Metadata, OpenOptions};
use std::io::Read;
use std::os::unix::fs::{FileTypeExt, MetadataExt, OpenOptionsExt};
use std::path::Path;

use millrace_core::{Inspection, refusal_advice};
use millrace_lang::{Diagnostic, Excerpt};
use rustix::fs::OFlags;

/// A file may have so many bytes: some 2 million rules.
const MOST: u64 = 256 << 20;

/// What is wrong with a file, or with a text that a handler was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Fault {
    /// The file's name, if it is one.
    file: Option<String>,
    place: Option<Place>,
    message: String,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    /// From 1 on.
    line: usize,
    column: usize,
    /// The line.
    text: String,
    /// The byte of it that the column is.
    at: usize,
}

/// A text, and where it comes from.
#[derive(Clone, Copy)]
pub(crate) struct Origin<'a> {
    file: Option<&'a Path>,
    pub(crate) text: &'a [u8],
}

impl<'a> Origin<'a> {
    /// A text. No place counts the byte order mark that some editors begin every file with.
    pub(crate) fn new(file: Option<&'a Path>, text: &'a [u8]) -> Self {
        Self { file, text: text.strip_prefix(b"\xef\xbb\xbf").unwrap_or(text) }
    }

    /// A fault at a line and a character of it, from 1 on.
    pub(crate) fn fault(&self, line: usize, column: usize, message: impl Into<String>) -> Fault {
        let text = self.line(line).into_owned();
        let at = text.char_indices().nth(column - 1).map_or(text.len(), |(at, _)| at);
        self.at(Place { line, column, text, at }, message)
    }

    /// The same with a byte of the line, from 1 on, which need not be UTF-8.
    pub(crate) fn fault_at_byte(
        &self,
        line: usize,
        byte: usize,
        message: impl Into<String>,
    ) -> Fault {
        let text = self.line(line).into_owned();
        let bytes = self.text.split(|&byte| byte == b'\n').nth(line - 1).unwrap_or_default();
        let before = String::from_utf8_lossy(bytes.get(..byte - 1).unwrap_or(bytes));
        let (column, at) = (before.chars().count() + 1, before.len().min(text.len()));
        self.at(Place { line, column, text, at }, message)
    }

    /// A fault of the whole.
    pub(crate) fn fault_of_all(&self, message: impl Into<String>) -> Fault {
        Fault { file: self.name(), place: None, message: message.into() }
    }

    fn at(&self, place: Place, message: impl Into<String>) -> Fault {
        Fault { file: self.name(), place: Some(place), message: message.into() }
    }

    fn name(&self) -> Option<String> {
        self.file.map(|path| path.display().to_string())
    }

    fn line(&self, number: usize) -> std::borrow::Cow<'_, str> {
        let line = self.text.split(|&byte| byte == b'\n').nth(number.saturating_sub(1));
        String::from_utf8_lossy(line.unwrap_or_default().trim_ascii_end())
    }
}

/// Reads a file. It must be a file: a FIFO may have nobody who writes, and a device no end.
///
/// # Errors
/// It is none, or cannot be read, is too large, changes meanwhile, or is no text.
pub(crate) fn read(path: &Path) -> Result<Vec<u8>, Fault> {
    let wrong = |message: String| Origin::new(Some(path), &[]).fault_of_all(message);
    // In the sandbox, a file that replaced the configured one is another one.
    let failed = |error: std::io::Error| wrong(format!("{error}{}", refusal_advice(&error)));
    let sound = |metadata: Metadata| match kind(&metadata) {
        Some(kind) => Err(wrong(format!("this is {kind}, not a file"))),
        None if metadata.len() > MOST => {
            Err(wrong(format!("{} bytes are more than the maximum of {MOST}", metadata.len())))
        }
        None => Ok(metadata),
    };
    sound(std::fs::metadata(path).map_err(failed)?)?;
    // Should something else stand there by now, it is not waited for.
    let flags = OFlags::NONBLOCK.bits().cast_signed();
    let file = OpenOptions::new().read(true).custom_flags(flags).open(path).map_err(failed)?;
    let before = sound(file.metadata().map_err(failed)?)?;
    let mut bytes = Vec::with_capacity(before.len() as usize);
    (&file).take(MOST + 1).read_to_end(&mut bytes).map_err(failed)?;
    let after = sound(file.metadata().map_err(failed)?)?;
    let state = |metadata: &Metadata| (metadata.len(), metadata.mtime(), metadata.mtime_nsec());
    if state(&before) != state(&after) || after.len() != bytes.len() as u64 {
        return Err(wrong("it changed while it was read".to_owned()));
    }
    let origin = Origin::new(Some(path), &bytes);
    if let Some(at) = origin.text.iter().position(|&byte| byte == 0) {
        let before = origin.text.get(..at).unwrap_or_default();
        let line = before.iter().filter(|&&byte| byte == b'\n').count() + 1;
        let byte = before.iter().rev().take_while(|&&byte| byte != b'\n').count() + 1;
        return Err(origin.fault_at_byte(line, byte, "a zero byte: this is not a text file"));
    }
    Ok(bytes)
}

/// What it is if not a file.
fn kind(metadata: &Metadata) -> Option<&'static str> {
    let kind = metadata.file_type();
    match () {
        () if kind.is_file() => None,
        () if kind.is_dir() => Some("a directory"),
        () if kind.is_fifo() => Some("a pipe"),
        () if kind.is_socket() => Some("a socket"),
        () => Some("a device"),
    }
}

/// As handlers say it: `RULES:2:44: what is wrong`.
impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.file, &self.place) {
            (Some(file), Some(place)) => {
                write!(f, "{file}:{}:{}: {}", place.line, place.column, self.message)
            }
            (Some(file), None) => write!(f, "{file}: {}", self.message),
            (None, Some(place)) => {
                write!(f, "line {}, column {}: {}", place.line, place.column, self.message)
            }
            (None, None) => f.write_str(&self.message),
        }
    }
}

/// Faults, a line each.
pub(crate) fn lines(faults: &[Fault]) -> String {
    faults.iter().map(Fault::to_string).collect::<Vec<_>>().join("\n")
}

/// Reports faults of a file that the inspecting element reads.
pub(crate) fn report(faults: Vec<Fault>, inspection: &mut Inspection<'_>) {
    let id = inspection.id();
    let context = format!("While reading rules of ‘{}’", inspection.described(id));
    let span = inspection.span_of(id);
    for fault in faults {
        let file = fault.file.unwrap_or_default();
        let finding = Diagnostic::error(span, fault.message).context(&context);
        inspection.report(match fault.place {
            Some(Place { line, column, text, at }) => {
                let landmark = format!("{file}:{line}:{column}");
                finding.landmark(landmark).excerpt(Excerpt { file, line, text, at })
            }
            None if is_missing(Path::new(&file)) => finding
                .landmark(file)
                .help("file names are relative to the directory in which the program was started"),
            None => finding.landmark(file),
        });
    }
}

/// Whether it is not where a name without a leading `/` was looked for.
fn is_missing(path: &Path) -> bool {
    path.is_relative() && !path.exists()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt;

    use super::*;

    fn message(path: &Path) -> String {
        read(path).unwrap_err().to_string()
    }

    #[test]
    fn what_is_no_text_of_bounded_size_is_refused_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        let file = path("file");
        fs::write(&file, "text\n").unwrap();
        assert_eq!(read(&file).unwrap(), b"text\n");
        let name = file.display();
        fs::write(&file, b"x\n\xffy\0").unwrap();
        assert_eq!(message(&file), format!("{name}:2:3: a zero byte: this is not a text file"));
        // A file with a hole: nothing of it is read.
        fs::File::create(&file).unwrap().set_len(MOST + 1).unwrap();
        assert!(message(&file).ends_with("bytes are more than the maximum of 268435456"));

        assert!(message(dir.path()).ends_with(": this is a directory, not a file"));
        assert_eq!(message(Path::new("/dev/zero")), "/dev/zero: this is a device, not a file");
        let fifo = path("fifo");
        let mode = rustix::fs::Mode::RUSR;
        rustix::fs::mkfifoat(rustix::fs::CWD, &fifo, mode).unwrap();
        assert!(message(&fifo).ends_with(": this is a pipe, not a file"));
        let _listener = std::os::unix::net::UnixListener::bind(path("socket")).unwrap();
        assert!(message(&path("socket")).ends_with(": this is a socket, not a file"));
        assert!(message(&path("none")).contains("none: No such file"));
        std::os::unix::fs::symlink("loop", path("loop")).unwrap();
        assert!(message(&path("loop")).contains("loop: "));
        if !rustix::process::geteuid().is_root() {
            fs::set_permissions(&file, fs::Permissions::from_mode(0o000)).unwrap();
            assert!(message(&file).contains("Permission denied"));
        }
    }

    #[test]
    fn places_are_told_in_characters() {
        let text = "a\nä@\r\n\u{ff}".as_bytes();
        let origin = Origin::new(Some(Path::new("F")), text);
        let place = |fault: &Fault| fault.place.clone().map(|place| (place.text, place.at));
        let fault = origin.fault(2, 2, "wrong");
        assert_eq!(fault.to_string(), "F:2:2: wrong");
        assert_eq!(place(&fault), Some(("ä@".to_owned(), 2)));
        assert_eq!(place(&origin.fault_at_byte(2, 3, "wrong")), place(&fault));
        assert_eq!(origin.fault_at_byte(2, 3, "wrong").to_string(), "F:2:2: wrong");
        // Behind the end of a line, and of all.
        assert_eq!(place(&origin.fault(2, 9, "")), Some(("ä@".to_owned(), 3)));
        assert_eq!(place(&origin.fault_at_byte(9, 9, "")), Some((String::new(), 0)));
        let origin = Origin::new(None, text);
        assert_eq!(origin.fault(2, 2, "wrong").to_string(), "line 2, column 2: wrong");
        assert_eq!(origin.fault_of_all("wrong").to_string(), "wrong");
        // A byte order mark stands in front of the first column.
        let origin = Origin::new(None, b"\xef\xbb\xbfab\ncd");
        for fault in [origin.fault(1, 2, ""), origin.fault_at_byte(1, 2, "")] {
            assert_eq!(place(&fault), Some(("ab".to_owned(), 1)));
        }
    }
}
