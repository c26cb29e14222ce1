//! Transmitting.

use std::io;

use millrace_core::Batch;
use millrace_core::memory::copies::{self, CopyCause};

use super::socket::{Outbox, PacketSocket};
use crate::offload::merge::{self, Message};
use crate::queue::TxQueue;

/// The transmit queue of an interface.
pub(super) struct Transmitter {
    socket: PacketSocket,
    /// The longest packet that may be merged with others; 0 merges none.
    longest: usize,
    messages: Vec<Message>,
    outbox: Outbox,
}

impl Transmitter {
    /// Transmits to an interface that takes packets of at most `longest` bytes.
    pub(super) fn new(socket: PacketSocket, longest: usize) -> Self {
        Self { socket, longest, messages: Vec::new(), outbox: Outbox::default() }
    }
}

impl TxQueue for Transmitter {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        if batch.is_empty() {
            return Ok(0);
        }
        merge::messages(batch, self.longest, &mut self.messages);
        let sent = match self.socket.send(&self.messages, batch, &mut self.outbox) {
            Ok(sent) => sent,
            // The interface's queue or the socket's buffer is full: what was not sent waits.
            Err(error) if is_full(&error) => return Ok(0),
            // What the kernel refuses merged it may take as it is.
            Err(_) if self.messages.first().is_some_and(|first| first.packets.len() > 1) => {
                self.longest = 0;
                return self.transmit(batch);
            }
            Err(error) => return Err(error),
        };
        let last = sent.checked_sub(1).and_then(|last| self.messages.get(last));
        let packets = last.map_or(0, |message| message.packets.end);
        copies::count_many(CopyCause::Transmit, packets as u64);
        batch.drain_front(packets).free_rest();
        Ok(packets)
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::EINTR))
}
