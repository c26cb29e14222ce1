//! Server-sent events: a snapshot a second, taken once for all who follow.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use hyper::body::Bytes;
use tokio::sync::{Notify, OwnedSemaphorePermit, Semaphore, watch};

use super::limits::FOLLOWERS;

/// The time between two snapshots.
const PERIOD: Duration = Duration::from_secs(1);

/// The next event, and where those after it come from; none at the end.
type Next = Pin<Box<dyn Future<Output = Option<(Bytes, watch::Receiver<Bytes>)>> + Send>>;

/// Where events come from.
#[derive(Clone)]
pub(super) struct Source {
    latest: watch::Receiver<Bytes>,
    /// Notified when somebody begins to follow.
    begun: Arc<Notify>,
    seats: Arc<Semaphore>,
}

/// The events of one client.
pub(super) struct Events {
    next: Next,
    _seat: OwnedSemaphorePermit,
}

impl Source {
    /// A source, and what keeps it flowing: `take` gives a snapshot as text.
    pub(super) fn new<F: Future<Output = Option<Vec<u8>>>>(
        take: impl Fn() -> F,
    ) -> (Self, impl Future<Output = ()>) {
        let (sender, latest) = watch::channel(Bytes::new());
        let begun = Arc::new(Notify::new());
        let seats = Arc::new(Semaphore::new(FOLLOWERS));
        let source = Self { latest, begun: begun.clone(), seats: seats.clone() };
        let flow = async move {
            let mut number = 0u64;
            loop {
                if seats.available_permits() == FOLLOWERS {
                    begun.notified().await;
                }
                if let Some(text) = take().await {
                    number += 1;
                    let mut event = format!("id: {number}\nevent: snapshot\ndata: ").into_bytes();
                    event.extend_from_slice(&text);
                    event.extend_from_slice(b"\n\n");
                    // Somebody may have left meanwhile.
                    let _ = sender.send(event.into());
                }
                tokio::time::sleep(PERIOD).await;
            }
        };
        (source, flow)
    }

    /// The events from now on, if not too many follow them already.
    pub(super) fn follow(&self) -> Option<Events> {
        let seat = self.seats.clone().try_acquire_owned().ok()?;
        self.begun.notify_one();
        let mut latest = self.latest.clone();
        latest.mark_unchanged();
        Some(Events { next: next(latest), _seat: seat })
    }
}

fn next(mut latest: watch::Receiver<Bytes>) -> Next {
    Box::pin(async move {
        // What a client was too slow for it has missed.
        latest.changed().await.ok()?;
        let event = latest.borrow_and_update().clone();
        Some((event, latest))
    })
}

impl Events {
    pub(super) fn poll_next(&mut self, cx: &mut Context<'_>) -> Poll<Option<Bytes>> {
        match self.next.as_mut().poll(cx) {
            Poll::Pending => Poll::Pending,
            Poll::Ready(None) => Poll::Ready(None),
            Poll::Ready(Some((event, latest))) => {
                self.next = next(latest);
                Poll::Ready(Some(event))
            }
        }
    }
}
