//! Standard output, whose reader may go away at any time.

use std::io::{self, Write};

/// Writes to standard output, at once.
///
/// # Errors
/// The reader went away ([`is_broken_pipe`]), or the disk is full.
pub(crate) fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(text.as_ref())?;
    stdout.flush()
}

/// True when an error comes from a reader of our output that went away.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}
