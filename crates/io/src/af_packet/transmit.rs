//! Transmitting.

use std::io;

use millrace_core::Batch;
use millrace_core::memory::copies::{self, CopyCause};

use super::socket::{Outbox, PacketSocket};
use crate::queue::TxQueue;

/// The transmit queue of an interface.
pub(super) struct Transmitter {
    socket: PacketSocket,
    outbox: Outbox,
}

impl Transmitter {
    pub(super) fn new(socket: PacketSocket) -> Self {
        Self { socket, outbox: Outbox::default() }
    }
}

impl TxQueue for Transmitter {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        if batch.is_empty() {
            return Ok(0);
        }
        let sent = match self.socket.send(batch, &mut self.outbox) {
            Ok(sent) => sent,
            // The interface's queue or the socket's buffer is full: what was not sent waits.
            Err(error) if is_full(&error) => return Ok(0),
            Err(error) => return Err(error),
        };
        copies::count_many(CopyCause::Transmit, sent as u64);
        batch.drain_front(sent).free_rest();
        Ok(sent)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR))
}
