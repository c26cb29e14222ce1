//! Limits of what clients may take, and a stream that gives up on those who do not read.

use std::future::Future;
use std::io::{self, ErrorKind};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::time::{Sleep, sleep};

/// The maximum number of connections at a time, on one address.
pub(super) const CONNECTIONS: usize = 100;

/// So many of them may follow events; others are for requests.
pub(super) const FOLLOWERS: usize = 32;

/// The maximum number of bytes of a request without its body.
pub(super) const HEAD: usize = 16 << 10;

/// The maximum number of headers.
pub(super) const HEADERS: usize = 64;

/// The maximum number of bytes of a body.
pub(super) const BODY: usize = 1 << 20;

/// A connection that sends no request for so long is closed, also between two requests.
pub(super) const IDLE: Duration = Duration::from_secs(10);

/// The most time that a request may take until its answer begins.
pub(super) const REQUEST: Duration = Duration::from_secs(10);

/// A client that does not read [`PIECE`] bytes of its answer in this time is closed.
const PATIENCE: Duration = Duration::from_secs(10);
const PIECE: usize = 64 << 10;

/// Names in labels of metrics have so many bytes at most.
pub(super) const LABEL: usize = 256;

/// Who offers a wrong token waits.
pub(super) const WRONG_TOKEN: Duration = Duration::from_millis(200);

/// Threads that ask the router for clients; requests wait for one, and those that wait too long leave nothing behind.
pub(super) const ASKING_THREADS: usize = 4;

/// The maximum number of bytes of answers that clients have not read yet, for all of them together, and the unit in which
/// they are counted.
pub(super) const HELD: usize = 256 << 20;
pub(super) const HELD_UNIT: usize = 1 << 10;

/// When the server stops, answers under way have this time. Who tells the program to stop twice does not wait long.
pub(super) const FAREWELL: Duration = Duration::from_millis(200);

/// A stream whose peer must read what is written to it in time.
pub(super) struct Patient<S> {
    stream: S,
    /// The end of the time for what the peer has not read yet.
    until: Option<Pin<Box<Sleep>>>,
    /// How much it has read of that.
    written: usize,
}

impl<S> Patient<S> {
    pub(super) fn new(stream: S) -> Self {
        Self { stream, until: None, written: 0 }
    }

    /// Notes the outcome of a write of `wanted` bytes.
    fn note(
        &mut self,
        cx: &mut Context<'_>,
        wanted: usize,
        outcome: Poll<io::Result<usize>>,
    ) -> Poll<io::Result<usize>> {
        match outcome {
            Poll::Ready(Ok(n)) => {
                self.written += n;
                if n >= wanted || self.written >= PIECE {
                    (self.until, self.written) = (None, 0);
                } else {
                    self.until.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
                }
                Poll::Ready(Ok(n))
            }
            Poll::Pending => {
                let until = self.until.get_or_insert_with(|| Box::pin(sleep(PATIENCE)));
                match until.as_mut().poll(cx) {
                    Poll::Ready(()) => Poll::Ready(Err(ErrorKind::TimedOut.into())),
                    Poll::Pending => Poll::Pending,
                }
            }
            failed => failed,
        }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for Patient<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for Patient<S> {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write(cx, bytes);
        self.note(cx, bytes.len(), outcome)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        parts: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let outcome = Pin::new(&mut self.stream).poll_write_vectored(cx, parts);
        self.note(cx, parts.iter().map(|part| part.len()).sum(), outcome)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt, duplex};

    use super::*;

    fn run<T>(future: impl Future<Output = T>) -> T {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(future)
    }

    #[test]
    fn who_reads_nothing_is_given_up() {
        run(async {
            let (ours, _theirs) = duplex(100);
            let mut ours = Patient::new(ours);
            let error = ours.write_all(&[0; 1000]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        });
    }

    #[test]
    fn who_reads_a_byte_at_a_time_is_given_up_too() {
        run(async {
            let (ours, mut theirs) = duplex(100);
            let mut ours = Patient::new(ours);
            tokio::spawn(async move {
                loop {
                    sleep(Duration::from_millis(300)).await;
                    if theirs.read_u8().await.is_err() {
                        return;
                    }
                }
            });
            let error = ours.write_all(&[0; 1000]).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::TimedOut);
        });
    }

    #[test]
    fn who_reads_has_as_much_time_as_it_takes() {
        run(async {
            let (ours, mut theirs) = duplex(PIECE);
            let mut ours = Patient::new(ours);
            let reader = tokio::spawn(async move {
                let mut piece = vec![0; PIECE];
                for _ in 0..20 {
                    sleep(Duration::from_secs(5)).await;
                    theirs.read_exact(&mut piece).await.unwrap();
                }
            });
            ours.write_all(&vec![0; 20 * PIECE]).await.unwrap();
            reader.await.unwrap();
        });
    }
}
