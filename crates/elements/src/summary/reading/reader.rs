//! Reading the lines and records of a summary dump.

use std::net::Ipv4Addr;

use millrace_core::args::{self, Scope};
use millrace_core::names::NumberKind;
use millrace_core::{Packet, os_error_text};

use super::lines::LineFile;
use crate::summary::fields::draft::Draft;
use crate::summary::fields::field::Field;
use crate::summary::fields::table;
use crate::summary::fields::text::{self, is_command, is_space, unquote, words};

/// The format's version.
const MAJOR_VERSION: u32 = 1;
const MINOR_VERSION: u32 = 3;

/// A dump being read.
pub struct SummaryReader {
    pub(crate) file: LineFile,
    /// The fields of a line. Unknown ones are ignored.
    fields: Vec<Option<&'static Field>>,
    /// The indices of fields, in the order in which they are written into packets.
    order: Vec<usize>,
    protocol: u8,
    has_flow: bool,
    aggregate: Option<u32>,
    minor_version: u32,
    binary: bool,
    checksums: bool,
    /// Whether an invalid line has been reported.
    complained: bool,
    line: Vec<u8>,
}

/// The result of one read.
pub enum Found {
    Packet(Packet),
    /// A line that is not a packet.
    Nothing,
    /// There was no memory for a packet.
    NoBuffer,
    End,
}

/// A message for the user.
pub struct Remark {
    pub(crate) landmark: String,
    pub(crate) is_error: bool,
    pub(crate) message: String,
}

impl Remark {
    /// A remark on the last line read.
    pub(crate) fn at(file: &LineFile, is_error: bool, message: impl Into<String>) -> Self {
        Self { landmark: file.landmark(), is_error, message: message.into() }
    }

    /// The text that the program prints while it runs.
    pub(crate) fn text(&self) -> String {
        let level = if self.is_error { "" } else { "warning: " };
        format!("{}: {level}{}", self.landmark, self.message)
    }
}

impl LineFile {
    /// Reads the next line, with its line end, into `line`. False if there is none; then the file is closed, and an error is
    /// in `remarks`.
    pub(crate) fn next_line(&mut self, line: &mut Vec<u8>, remarks: &mut Vec<Remark>) -> bool {
        let more = self.read_line(line).unwrap_or_else(|error| {
            remarks.push(Remark::at(self, true, os_error_text(&error)));
            false
        });
        if !more {
            self.close();
        }
        more
    }
}

impl SummaryReader {
    pub(crate) fn new(file: LineFile, protocol: u8, checksums: bool) -> Self {
        Self {
            file,
            fields: Vec::new(),
            order: Vec::new(),
            protocol,
            has_flow: false,
            aggregate: None,
            minor_version: MINOR_VERSION,
            binary: false,
            checksums,
            complained: false,
            line: Vec::new(),
        }
    }

    fn remark(&self, is_error: bool, message: impl Into<String>) -> Remark {
        Remark::at(&self.file, is_error, message)
    }

    /// Reads the first line, which should identify the format.
    pub(crate) fn read_banner(&mut self, remarks: &mut Vec<Remark>) {
        let mut line = Vec::new();
        if let Err(error) = self.file.peek_line(&mut line) {
            remarks.push(self.remark(true, os_error_text(&error)));
            return;
        }
        if let Some(version) = line.strip_prefix(b"!IPSummaryDump") {
            let found = version_of(version);
            if let Some((major, minor)) = found {
                self.minor_version = minor;
                if major != MAJOR_VERSION || minor > MINOR_VERSION {
                    let message = format!("unexpected IPSummaryDump version {major}.{minor}");
                    remarks.push(self.remark(false, message));
                    self.minor_version = MINOR_VERSION;
                }
            }
            // The line was there a moment ago.
            let _ = self.file.read_line(&mut line);
            return;
        }
        let known = ["!creator", "!data", "!contents", "!proto", "!flowid"];
        let is_known = known.iter().any(|known| line.starts_with(known.as_bytes()));
        if !is_known && self.fields.is_empty() {
            let message = "missing banner line; is this an IP summary dump?";
            remarks.push(self.remark(false, message));
        }
    }

    /// The next line, which may or may not be a packet.
    pub(crate) fn next_line(&mut self, scope: Scope<'_>, remarks: &mut Vec<Remark>) -> Found {
        let mut line = std::mem::take(&mut self.line);
        let found = self.next_in(&mut line, scope, remarks);
        self.line = line;
        found
    }

    fn next_in(
        &mut self,
        line: &mut Vec<u8>,
        scope: Scope<'_>,
        remarks: &mut Vec<Remark>,
    ) -> Found {
        let is_record = loop {
            let result = if self.binary {
                self.read_record(line, remarks)
            } else {
                self.file.read_line(line).map(|more| more.then_some(false))
            };
            let is_record = match result {
                Ok(Some(is_record)) => is_record,
                Ok(None) => {
                    self.file.close();
                    return Found::End;
                }
                Err(error) => {
                    remarks.push(self.remark(true, os_error_text(&error)));
                    self.file.close();
                    return Found::End;
                }
            };
            if is_record || !matches!(line.first(), None | Some(b'!' | b'#')) {
                break is_record;
            }
            self.command(line, scope, remarks);
        };
        let mut draft = Draft::new(scope, self.minor_version, self.protocol);
        draft.has_flow = self.has_flow;
        let found = match self.binary {
            true => self.put_record(line, &mut draft),
            false => self.put_line(line, &mut draft),
        };
        if found > 0 {
            draft.aggregate = draft.aggregate.or(self.aggregate);
            return draft.finish(self.checksums).map_or(Found::NoBuffer, Found::Packet);
        }
        let is_blank = line.iter().all(|&byte| is_space(byte));
        if !self.complained && (is_record || !is_blank) {
            let message = match self.fields.is_empty() {
                true => "no '!data' provided",
                false => "packet parse error",
            };
            remarks.push(self.remark(true, message));
            self.complained = true;
        }
        Found::Nothing
    }

    /// Reads a binary record. Returns true for a packet, false for text, and `None` at the end.
    fn read_record(
        &mut self,
        record: &mut Vec<u8>,
        remarks: &mut Vec<Remark>,
    ) -> std::io::Result<Option<bool>> {
        const TEXT: u32 = 1 << 31;
        const LONGEST_RECORD: usize = 1 << 20;
        if !self.file.read_bytes(4, record)? {
            return Ok(None);
        }
        let word = u32::from_be_bytes(record.first_chunk().copied().unwrap_or_default());
        let length = (word & !TEXT) as usize;
        if length < 4 {
            remarks.push(self.remark(true, "binary record too short"));
            return Ok(None);
        }
        if length > LONGEST_RECORD {
            remarks.push(self.remark(true, "binary record too long"));
            return Ok(None);
        }
        if !self.file.read_bytes(length - 4, record)? || record.is_empty() {
            return Ok(None);
        }
        let is_text = word & TEXT != 0;
        if is_text {
            let end = record.iter().rposition(|&byte| byte != 0).map_or(0, |last| last + 1);
            record.truncate(end);
        }
        self.file.next_record();
        Ok(Some(!is_text))
    }

    /// Writes the fields of a line into a packet. Returns how many were valid.
    fn put_line(&self, line: &[u8], draft: &mut Draft<'_>) -> usize {
        let mut texts: Vec<&[u8]> = Vec::new();
        text::fields(line, self.fields.len(), |text| texts.push(text));
        let mut found = 0;
        for &index in &self.order {
            let field = self.fields.get(index).copied().flatten();
            let (Some(field), Some(text)) = (field, texts.get(index)) else { continue };
            let Some(put) = field.put.filter(|_| !text.is_empty() && *text != b"-") else {
                continue;
            };
            if let Some(value) = (field.parse)(text, draft) {
                put(draft, &value);
                found += 1;
            }
        }
        found
    }

    /// Writes the fields of a binary record into a packet. Returns how many were valid.
    fn put_record(&self, record: &[u8], draft: &mut Draft<'_>) -> usize {
        let mut rest = record;
        let mut values = Vec::new();
        for field in &self.fields {
            let Some(field) = field else {
                values.push(None);
                continue;
            };
            let unpacked = field.unpack(rest);
            rest = unpacked.as_ref().map_or(&[], |(_, rest)| rest);
            values.push(unpacked.map(|(value, _)| value));
        }
        let mut found = 0;
        for &index in &self.order {
            let field = self.fields.get(index).copied().flatten();
            let value = values.get(index).and_then(Option::as_ref);
            let (Some(field), Some(value)) = (field, value) else { continue };
            if let Some(put) = field.put {
                put(draft, value);
                found += 1;
            }
        }
        found
    }

    /// Executes a line that begins with `!`.
    fn command(&mut self, line: &[u8], scope: Scope<'_>, remarks: &mut Vec<Remark>) {
        if is_command(line, "!data") || is_command(line, "!contents") {
            self.set_fields(line, remarks);
        } else if is_command(line, "!flowid") {
            self.set_flow(line, scope, remarks);
        } else if is_command(line, "!proto") {
            let words = words(line);
            match words.as_slice() {
                [_, protocol] => self.set_protocol(protocol, "!proto", scope, remarks),
                _ => remarks.push(self.remark(true, "bad !proto")),
            }
        } else if is_command(line, "!aggregate") {
            let words = words(line);
            let number = match words.as_slice() {
                [_, number] => text::number(number.as_bytes()),
                _ => None,
            };
            self.aggregate = number.and_then(|number| u32::try_from(number).ok());
            if self.aggregate.is_none() {
                remarks.push(self.remark(true, "bad !aggregate specification"));
            }
        } else if is_command(line, "!binary") {
            if words(line).len() != 1 {
                remarks.push(self.remark(true, "bad !binary specification"));
            }
            self.binary = true;
            self.file.count_records();
        }
    }

    /// Sets the fields of the following lines.
    pub(crate) fn set_fields(&mut self, line: &[u8], remarks: &mut Vec<Remark>) {
        self.fields.clear();
        for (index, word) in words(line).iter().enumerate() {
            let name = String::from_utf8_lossy(&unquote(word.as_bytes())).into_owned();
            if index == 0 && (name == "!data" || name == "!contents") {
                continue;
            }
            let field = table::find(&name).filter(|field| field.put.is_some());
            if field.is_none() {
                let message = format!("unknown content type '{name}'");
                remarks.push(self.remark(false, message));
            }
            self.fields.push(field);
        }
        if self.fields.is_empty() {
            remarks.push(self.remark(true, "no contents specified"));
        }
        let fields = &self.fields;
        self.order = (0..fields.len()).collect();
        self.order.sort_by_key(|&index| fields.get(index).copied().flatten().map(|f| f.order));
    }

    /// Declares that packets belong to a flow: any first word, then addresses, ports and optionally the protocol.
    /// Click's newest code checks addresses and ports, but does not use them.
    pub(crate) fn set_flow(&mut self, line: &[u8], scope: Scope<'_>, remarks: &mut Vec<Remark>) {
        let words = words(line);
        let address = |text: &str| text == "-" || args::parse::<Ipv4Addr>(text, &scope).is_ok();
        let port = |text: &str| {
            text == "-" || text::number(text.as_bytes()).is_some_and(|port| port <= 0xffff)
        };
        self.has_flow = match words.as_slice() {
            [_, src, src_port, dst, dst_port, ..] => {
                address(src) && port(src_port) && address(dst) && port(dst_port)
            }
            _ => false,
        };
        if !self.has_flow {
            remarks.push(self.remark(true, "bad !flowid specification"));
        } else if let Some(protocol) = words.get(5) {
            self.set_protocol(protocol, "!flowid", scope, remarks);
        }
    }

    fn set_protocol(
        &mut self,
        text: &str,
        command: &str,
        scope: Scope<'_>,
        remarks: &mut Vec<Remark>,
    ) {
        let number = text::number(text.as_bytes()).and_then(|number| u8::try_from(number).ok());
        let named = || scope.number_named(NumberKind::IpProtocol, text);
        let letter = || match text {
            "T" => Some(6),
            "U" => Some(17),
            "I" => Some(1),
            _ => None,
        };
        let found = number.or_else(|| u8::try_from(named()?).ok()).or_else(letter);
        match found {
            Some(found) => self.protocol = found,
            None => remarks.push(self.remark(true, format!("bad protocol in {command}"))),
        }
    }
}

/// The version after the name of the format: ` 1.3`.
fn version_of(text: &[u8]) -> Option<(u32, u32)> {
    let text = std::str::from_utf8(text).ok()?.trim_start();
    let (major, rest) = text.split_once('.')?;
    let end = rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(rest.len());
    Some((major.parse().ok()?, rest.get(..end)?.parse().ok()?))
}
