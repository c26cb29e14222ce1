//! Code shared by the elements that print lines: LABEL, TIMESTAMP, ACTIVE and OUTFILE.

use std::fmt::Write as _;
use std::fs::File;
use std::io::{BufWriter, Write as _};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::args::FileName;
use millrace_core::{
    Args, Context, Element, Handlers, Lock, Need, OutputFile, Packet, Refused, os_error_text,
};

/// Prints lines to standard error or to a file.
pub(crate) struct Printer {
    label: String,
    timestamp: bool,
    active: AtomicBool,
    file_name: Option<FileName>,
    /// What is open, and not changed before the run starts.
    opened: Lock<Option<OutputFile>>,
    file: Lock<Option<BufWriter<File>>>,
}

impl Printer {
    /// Reads LABEL, TIMESTAMP, ACTIVE and OUTFILE.
    pub(crate) fn configure(args: &mut Args<'_>) -> Self {
        let label = args.positional("LABEL", String::new());
        let timestamp = args.keyword("TIMESTAMP", true);
        let active = args.keyword("ACTIVE", true);
        let file_name: Option<FileName> = args.optional_keyword("OUTFILE");
        args.needs(file_name.as_ref().and_then(Need::write));
        let (opened, file) = (Lock::new(None), Lock::new(None));
        Self { label, timestamp, active: AtomicBool::new(active), file_name, opened, file }
    }

    /// Opens the file.
    pub(crate) fn initialize(&self) -> Result<(), Refused> {
        if let Some(name) = &self.file_name {
            let opened = OutputFile::open(name.as_path());
            *self.opened.lock() = Some(opened.map_err(|error| refuse(name, &error))?);
        }
        Ok(())
    }

    /// Empties the file.
    pub(crate) fn start(&self) -> Result<(), Refused> {
        if let Some((name, opened)) = self.file_name.as_ref().zip(self.opened.lock().take()) {
            let file = opened.begin().map_err(|error| refuse(name, &error))?;
            *self.file.lock() = Some(BufWriter::new(file));
        }
        Ok(())
    }

    /// Whether lines are currently printed.
    pub(crate) fn is_active(&self) -> bool {
        self.active.load(Relaxed)
    }

    /// The beginning of a packet's line: the label and the time.
    pub(crate) fn begin(&self, packet: &Packet) -> String {
        let mut line = self.label.clone();
        if !line.is_empty() {
            line.push_str(": ");
        }
        if self.timestamp {
            // Writing to a string cannot fail.
            let _ = write!(line, "{}: ", packet.timestamp());
        }
        line
    }

    /// Prints a line.
    pub(crate) fn print(&self, cx: &Context, line: &str) {
        let mut file = self.file.lock();
        match file.as_mut() {
            None => cx.router().chatter(line),
            Some(open) => {
                if let Err(error) = writeln!(open, "{line}") {
                    let name = cx.router().name_of(cx.element());
                    cx.router().complain(format!("{name}: {}", os_error_text(&error)));
                    *file = None;
                }
            }
        }
    }

    /// The handler `active`.
    pub(crate) fn handlers<E: Element>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("active", move |element: &E, _| of(element).is_active());
        handlers.write("active", move |element: &E, call| {
            of(element).active.store(call.parse()?, Relaxed);
            Ok(())
        });
    }

    /// Closes the file.
    pub(crate) fn cleanup(&self) -> Result<(), Refused> {
        match self.file.lock().take() {
            Some(mut file) => Ok(file.flush()?),
            None => Ok(()),
        }
    }
}

fn refuse(name: &FileName, error: &std::io::Error) -> Refused {
    Refused(format!("{}: {}", name.as_path().display(), os_error_text(error)))
}
