//! Receives packets from a socket: the part that Socket, McastSocket and RawSocket share.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

use millrace_core::{Batch, Context, Packet, Setup, Task, Timestamp};
use millrace_io::socket::{Address, Received, Socket};

use super::arguments::Common;

/// The receiving side of a socket element.
pub(crate) struct Intake {
    task: Task,
    snap_length: usize,
    headroom: usize,
    burst: usize,
    timestamp: bool,
    count: AtomicU64,
}

impl Intake {
    /// Requests a task.
    pub(crate) fn configure(setup: &mut Setup<'_>, common: &Common) -> Self {
        let Common { snap_length, headroom, burst, timestamp, .. } = *common;
        Self { task: setup.task(), snap_length, headroom, burst, timestamp, count: 0.into() }
    }

    /// The task that receives.
    pub(crate) fn task(&self) -> &Task {
        &self.task
    }

    /// The maximum number of packets at a time.
    pub(crate) fn burst(&self) -> usize {
        self.burst
    }

    /// The number of packets received.
    pub(crate) fn count(&self) -> u64 {
        self.count.load(Relaxed)
    }

    /// A packet to receive into.
    pub(crate) fn spare(&self) -> Option<Packet> {
        Packet::stale(self.headroom, 0, self.snap_length)
    }

    /// Receives a datagram; returns it with its sender.
    pub(crate) fn datagram(
        &self,
        cx: &Context,
        socket: &Socket,
    ) -> Option<(Packet, Option<Address>)> {
        let mut packet = self.spare()?;
        match socket.receive_from(&mut packet, self.snap_length) {
            Ok((Received::Bytes { beyond }, from)) => {
                self.annotate(cx, &mut packet, beyond);
                Some((packet, from))
            }
            Ok((Received::Nothing | Received::Closed, _)) | Err(_) => None,
        }
    }

    /// Sets the annotations of a packet of which `beyond` bytes were cut off.
    pub(crate) fn annotate(&self, cx: &Context, packet: &mut Packet, beyond: usize) {
        packet.set_extra_length(u32::try_from(beyond).unwrap_or(u32::MAX));
        packet.set_timestamp(if self.timestamp { cx.now() } else { Timestamp::ZERO });
    }

    /// Fills a batch with what `next` receives: `None` ends the burst, `Some(None)` is a rejected packet, which counts
    /// towards the burst, too.
    pub(crate) fn fill(
        &self,
        cx: &mut Context,
        batch: &mut Batch,
        mut next: impl FnMut(&Context) -> Option<Option<Packet>>,
    ) {
        for _ in 0..self.burst {
            let Some(received) = next(cx) else { break };
            if let Some(packet) = received {
                // The batch has room: a burst is no larger than a batch.
                let _ = batch.push(packet);
            }
        }
        cx.created(batch.len());
        self.count.fetch_add(batch.len() as u64, Relaxed);
    }
}
