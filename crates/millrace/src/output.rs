//! Standard output, whose reader may close it at any time, or not read on.

use std::io::{self, Write};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// How much was written so far.
static WRITTEN: AtomicU64 = AtomicU64::new(0);

/// Writes to standard output without buffering.
///
/// # Errors
/// The reader has closed the output ([`is_broken_pipe`]), or the disk is full.
pub(crate) fn print(text: impl AsRef<[u8]>) -> io::Result<()> {
    // At a time, so that it can be seen whether a slow reader reads on.
    const PIECE: usize = 4096;
    let mut stdout = io::stdout().lock();
    for piece in text.as_ref().chunks(PIECE) {
        stdout.write_all(piece)?;
        stdout.flush()?;
        WRITTEN.fetch_add(piece.len() as u64, Relaxed);
    }
    Ok(())
}

/// How many bytes were written so far.
pub(crate) fn written() -> u64 {
    WRITTEN.load(Relaxed)
}

/// True if an error says that the reader of the output has closed it.
pub(crate) fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}
