//! A capture file that a device of the lab replays.

use std::path::Path;

use anyhow::Context;
use millrace_io::pcap::Reader;

use super::frame::Frame;

/// The frames of a capture file, in order.
pub(super) struct Trace {
    reader: Reader,
    over: bool,
    problem: Option<String>,
}

impl Trace {
    /// Opens a capture file.
    ///
    /// # Errors
    /// It cannot be read, or is none.
    pub(super) fn open(path: &Path) -> anyhow::Result<Self> {
        let reader = Reader::open(path).with_context(|| format!("--lab: {}", path.display()))?;
        Ok(Self { reader, over: false, problem: None })
    }

    /// The file's name, and what is wrong with it.
    pub(super) fn name(&self) -> String {
        match &self.problem {
            Some(problem) => format!("{}: {problem}", self.reader.name()),
            None => self.reader.name().to_owned(),
        }
    }

    /// Whether there is no more frame.
    pub(super) fn is_over(&self) -> bool {
        self.over
    }

    /// The next frame.
    pub(super) fn next(&mut self) -> Option<Frame> {
        if self.over {
            return None;
        }
        match self.reader.next() {
            Ok(Some(record)) => Some(record.data.to_vec()),
            Ok(None) => {
                self.over = true;
                None
            }
            Err(error) => {
                self.over = true;
                self.problem = Some(error.to_string());
                None
            }
        }
    }
}
