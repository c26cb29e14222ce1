//! Writing the lines and records of a summary dump.

use millrace_core::{Args, Packet};
use millrace_lang::config::{split_words, unquote};

use super::field::{Field, Size};
use super::seen::{Seen, Wishes};
use super::table;

/// The fields to write, and their format.
pub(crate) struct Recorder {
    fields: Vec<&'static Field>,
    /// Whether any field needs the IP header.
    of_ip: bool,
    wishes: Wishes,
    binary: bool,
}

/// The highest bit of a record's length: the record is a line of text.
const TEXT: u32 = 1 << 31;

impl Recorder {
    /// Looks up the fields; unknown ones are errors.
    pub(crate) fn configure(
        args: &mut Args<'_>,
        names: &str,
        wishes: Wishes,
        binary: bool,
    ) -> Self {
        let mut fields = Vec::new();
        for word in split_words(names) {
            let name = String::from_utf8_lossy(&unquote(word.text)).into_owned();
            let Some(field) = table::find(&name) else {
                args.error((), format!("unknown content type '{name}'"));
                continue;
            };
            if binary && field.size == Size::None {
                args.error((), format!("cannot use field {name} with BINARY"));
            }
            fields.push(field);
        }
        if fields.is_empty() {
            args.error((), "no contents specified");
        }
        Self::new(fields, wishes, binary)
    }

    pub(crate) fn new(fields: Vec<&'static Field>, wishes: Wishes, binary: bool) -> Self {
        let of_ip = fields.iter().any(|field| field.of_ip);
        Self { fields, of_ip, wishes, binary }
    }

    pub(crate) fn wishes(&self) -> Wishes {
        self.wishes
    }

    /// The lines that name the fields, and mark records as binary.
    pub(crate) fn description(&self) -> String {
        let names = self.fields.iter().map(|field| match field.name {
            "ntimestamp" if !self.binary => "timestamp",
            name => name,
        });
        let mut lines = format!("!data {}\n", names.collect::<Vec<_>>().join(" "));
        if self.binary {
            lines += "!binary\n";
        }
        lines
    }

    /// Writes a packet, on this thread. Changes its extra length annotation as Click does.
    pub(crate) fn write(&self, packet: &mut Packet, thread: usize, out: &mut Vec<u8>) {
        let mut seen = Seen::new(packet, thread, self.wishes);
        if self.of_ip {
            seen.look();
        }
        let mut record = Vec::new();
        for (index, field) in self.fields.iter().enumerate() {
            let value = (field.get)(&mut seen);
            if self.binary {
                field.pack(&mut record, value.as_ref());
                continue;
            }
            if index > 0 {
                record.push(b' ');
            }
            match value {
                Some(value) => (field.show)(&mut record, &value, &seen),
                None => record.push(b'-'),
            }
        }
        if let Some(bad) = seen.bad.take() {
            self.write_line(bad.as_bytes(), out);
        }
        if self.binary {
            out.extend_from_slice(&((record.len() + 4) as u32).to_be_bytes());
        } else {
            record.push(b'\n');
        }
        out.append(&mut record);
        let extra_length = seen.extra_length;
        if self.of_ip {
            packet.set_extra_length(extra_length);
        }
    }

    /// Writes a line of text that is not a packet.
    pub(crate) fn write_line(&self, line: &[u8], out: &mut Vec<u8>) {
        if self.binary {
            out.extend_from_slice(&((line.len() + 4) as u32 | TEXT).to_be_bytes());
        }
        out.extend_from_slice(line);
    }
}
