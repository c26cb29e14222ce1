//! A receiver's hold on a queue of the device.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;

use super::port::Attachment;
use super::socket::Socket;
use crate::meter::Meter;

/// The receiving end of one queue of the device.
pub(super) struct Line {
    attachment: Arc<Attachment>,
    pub(super) socket: Arc<Socket>,
    /// Keeps the interface in promiscuous mode.
    #[expect(dead_code, reason = "held for its drop")]
    promiscuous: Option<OwnedFd>,
}

impl Line {
    /// Takes packets of the socket's queue from the kernel.
    pub(super) fn new(
        attachment: Arc<Attachment>,
        socket: Arc<Socket>,
        promiscuous: Option<OwnedFd>,
    ) -> io::Result<Self> {
        socket.refill(&mut socket.rx.visit());
        let mut receivers = socket.receivers.lock();
        attachment.direct(socket.queue, Some(&socket))?;
        *receivers += 1;
        drop(receivers);
        Ok(Self { attachment, socket, promiscuous })
    }
}

/// Makes a meter ask the kernel for the losses of these lines.
pub(super) fn watch_losses(meter: &Meter, lines: &[Line]) {
    let sockets: Vec<_> = lines.iter().map(|line| Arc::downgrade(&line.socket)).collect();
    let lost = |socket: Arc<Socket>| {
        let statistics = socket.statistics();
        statistics.rx_dropped + statistics.rx_full
    };
    meter.opened(Box::new(move || {
        Some(sockets.iter().filter_map(|socket| socket.upgrade()).map(lost).sum())
    }));
}

impl Drop for Line {
    fn drop(&mut self) {
        let mut receivers = self.socket.receivers.lock();
        *receivers = receivers.saturating_sub(1);
        if *receivers == 0 {
            // Where that fails the interface is gone, and the program with it.
            let _ = self.attachment.direct(self.socket.queue, None);
        }
    }
}
