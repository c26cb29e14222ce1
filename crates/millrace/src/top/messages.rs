//! What the program writes on standard error while the view has the terminal: it would write over the view otherwise. It
//! is kept, shown as a page, and written when the terminal is free again.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::os::fd::OwnedFd;
use std::sync::Arc;

use millrace_core::Lock;

/// The most lines that are kept.
const MOST: usize = 10_000;

/// The most bytes of a line that are kept in one piece.
const LONGEST: u64 = 4096;

/// The lines that were written. Clones are the same.
#[derive(Clone, Default)]
pub(super) struct Messages(Arc<Lock<Kept>>);

#[derive(Default)]
struct Kept {
    lines: VecDeque<String>,
    /// How many lines came, those included that are not kept.
    came: u64,
    /// How many of them were written already.
    written: u64,
}

impl Messages {
    /// Keeps all lines that come out of a pipe, until nobody can write into it any more.
    pub(super) fn keep(&self, pipe: OwnedFd) {
        let mut pipe = BufReader::new(std::fs::File::from(pipe));
        let mut line = Vec::new();
        loop {
            line.clear();
            match pipe.by_ref().take(LONGEST).read_until(b'\n', &mut line) {
                Ok(0) | Err(_) => return,
                Ok(_) => self.add(String::from_utf8_lossy(&line).trim_end().to_owned()),
            }
        }
    }

    fn add(&self, line: String) {
        let mut kept = self.0.lock();
        if kept.lines.len() == MOST {
            kept.lines.pop_front();
        }
        kept.lines.push_back(line);
        kept.came += 1;
    }

    /// How many lines have come.
    pub(super) fn came(&self) -> u64 {
        self.0.lock().came
    }

    /// The last lines.
    pub(super) fn last(&self, n: usize) -> Vec<String> {
        let kept = self.0.lock();
        kept.lines.iter().skip(kept.lines.len().saturating_sub(n)).cloned().collect()
    }

    /// Writes what was not written yet. The reader may be gone.
    pub(super) fn write(&self, mut to: impl Write) {
        let mut kept = self.0.lock();
        let new = usize::try_from(kept.came - kept.written).unwrap_or(usize::MAX);
        let left_out = new.saturating_sub(kept.lines.len());
        let mut text = String::new();
        if left_out > 0 {
            text.push_str(&format!("{left_out} more lines were written; --no-table shows all\n"));
        }
        for line in kept.lines.iter().skip(kept.lines.len().saturating_sub(new)) {
            text.push_str(line);
            text.push('\n');
        }
        kept.written = kept.came;
        drop(kept);
        let _ = to.write_all(text.as_bytes());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_is_written_once_and_no_more_are_kept_than_fit() {
        let messages = Messages::default();
        let written = |messages: &Messages| {
            let mut text = Vec::new();
            messages.write(&mut text);
            String::from_utf8(text).unwrap()
        };
        messages.add("a".to_owned());
        messages.add("b".to_owned());
        assert_eq!(messages.last(1), ["b"]);
        assert_eq!(written(&messages), "a\nb\n");
        assert_eq!(written(&messages), "");
        (0..MOST + 2).for_each(|n| messages.add(n.to_string()));
        let text = written(&messages);
        assert!(
            text.starts_with("2 more lines were written; --no-table shows all\n2\n"),
            "{text:.100}"
        );
        assert_eq!(text.lines().count(), MOST + 1);
    }

    #[test]
    fn lines_come_out_of_a_pipe_until_it_is_closed() {
        let (reader, writer) = rustix::pipe::pipe().unwrap();
        rustix::io::write(&writer, b"one\ntwo").unwrap();
        drop(writer);
        let messages = Messages::default();
        messages.keep(reader);
        assert_eq!(messages.last(9), ["one", "two"]);
    }
}
