//! Transmitting.

use std::io::{self, IoSlice};
use std::sync::Arc;

use millrace_core::memory::copies::{self, CopyCause};
use millrace_core::{Batch, Packet};

use super::port::Port;
use crate::meter::Meter;
use crate::offload::Link;
use crate::offload::merge::{self, Message};
use crate::queue::TxQueue;

/// A transmit queue of an interface.
#[repr(align(128))]
pub(super) struct Transmitter {
    port: Arc<Port>,
    link: Link,
    /// The maximum length of a packet that may be merged with others; 0 disables merging.
    longest: usize,
    messages: Vec<Message>,
    meter: Arc<Meter>,
}

/// The maximum number of parts of a message (`IOV_MAX` of Linux is 1,024).
const PARTS: usize = Batch::CAPACITY + 1;

impl Transmitter {
    pub(super) fn new(port: Arc<Port>, link: Link, longest: usize) -> Self {
        Self { port, link, longest, messages: Vec::new(), meter: Arc::default() }
    }

    fn write(&self, message: &Message, packets: &[Packet]) -> io::Result<()> {
        let head = IoSlice::new(message.head());
        let body = |packet| IoSlice::new(message.body(packet));
        // An interface takes a packet as a whole or not at all.
        if let [packet] = packets {
            rustix::io::writev(&self.port.file, &[head, body(packet)])?;
        } else {
            let mut parts = [head; PARTS];
            let bodies = parts.iter_mut().skip(1).zip(packets);
            bodies.for_each(|(part, packet)| *part = body(packet));
            let parts = parts.get(..packets.len() + 1).unwrap_or_default();
            rustix::io::writev(&self.port.file, parts)?;
        }
        Ok(())
    }
}

impl TxQueue for Transmitter {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut messages = std::mem::take(&mut self.messages);
        merge::messages_over(self.link, batch, self.longest, &mut messages);
        let mut taken = 0;
        let mut failure = None;
        for message in &messages {
            let packets = batch.get(message.packets.clone()).unwrap_or_default();
            match self.write(message, packets) {
                Ok(()) => taken = message.packets.end,
                Err(error) => {
                    failure = Some((error, packets.len()));
                    break;
                }
            }
        }
        self.messages = messages;
        copies::count_many(CopyCause::Transmit, taken as u64);
        self.meter.count_all(batch.get(..taken).unwrap_or_default());
        batch.drain_front(taken).free_rest();
        match failure {
            Some((error, _)) if taken == 0 && is_full(&error) => Ok(0),
            // What the kernel refuses merged it may take as it is.
            Some((error, 2..)) if taken == 0 && merge::is_refusal(&error) => {
                self.longest = 0;
                self.transmit(batch)
            }
            Some((error, _)) if taken == 0 => Err(error),
            // The next call meets the error again, and tells of it.
            _ => Ok(taken),
        }
    }

    fn meter(&self) -> Option<Arc<Meter>> {
        Some(Arc::clone(&self.meter))
    }
}

fn is_full(error: &io::Error) -> bool {
    matches!(error.raw_os_error(), Some(libc::EAGAIN | libc::ENOBUFS | libc::ENOMEM | libc::EINTR))
}
