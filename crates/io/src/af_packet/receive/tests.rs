//! Which source packets take into a queue that has two.

use std::time::{Duration, Instant};

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::thread::{UnshareFlags, unshare_unsafe};

use super::super::transmit::Transmitter;
use super::*;
use crate::meter::QueueCounts;
use crate::options::TxOptions;
use crate::queue::TxQueue;

/// For what takes a moment on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// A queue of the loopback interface, and a socket to send to it.
struct Loop {
    queue: Receiver,
    out: Transmitter,
    sent: u32,
    received: u32,
}

impl Loop {
    fn new() -> Self {
        let options = RxOptions::default();
        let opening = Arc::new(Opening::new("lo", &options));
        let inlet = opening.open().unwrap();
        let queue = Receiver::new(opening, Some(inlet), &options).unwrap();
        let out = Transmitter::open("lo", &TxOptions::default()).unwrap();
        Self { queue, out, sent: 0, received: 0 }
    }

    fn send(&mut self, count: u32) {
        let mut batch = Batch::new();
        for number in self.sent..self.sent + count {
            let mut frame = [0xff; 60];
            frame[12..14].copy_from_slice(&[0x88, 0xb5]);
            frame[20..24].copy_from_slice(&number.to_be_bytes());
            batch.push(Packet::from_bytes(&frame).unwrap()).unwrap();
        }
        self.sent += count;
        while self.out.transmit(&mut batch).unwrap() > 0 && !batch.is_empty() {}
    }

    /// Receives the packets that were sent, in order.
    fn receive(&mut self) {
        let end = Instant::now() + PATIENCE;
        while self.received < self.sent && Instant::now() < end {
            self.receive_some(256);
        }
        assert_eq!(self.received, self.sent);
    }

    fn receive_some(&mut self, most: usize) {
        let mut batch = Batch::new();
        self.queue.receive(&mut batch, most).unwrap();
        assert!(self.received + batch.len() as u32 <= self.sent, "no packet comes twice");
        for packet in batch.drain() {
            assert_eq!(packet.data()[20..24], self.received.to_be_bytes());
            self.received += 1;
        }
    }

    /// How many packets have come by the express socket first, and how many of their copies by the ring.
    fn came_first(&mut self) -> (u64, u64) {
        self.queue.express().unwrap().1.came_first()
    }

    /// Whether there is an express socket in use.
    fn is_express(&mut self) -> bool {
        self.queue.express().unwrap().1.socket().is_some()
    }

    /// Receives nothing until there is an express socket. A sleeping thread wakes up for it.
    fn become_express(&mut self) {
        let asleep = self.queue.readiness().unwrap();
        while !self.is_express() {
            let mut polled = [PollFd::new(&asleep, PollFlags::IN)];
            let limit = Timespec::try_from(PATIENCE).unwrap();
            assert_eq!(poll(&mut polled, Some(&limit)).unwrap(), 1);
            self.receive_some(256);
        }
    }
}

#[test]
fn packets_that_come_alone_come_by_the_express_socket() {
    let Some(_alone) = millrace_testkit::privileged!("ip") else { return };
    in_its_own_network(|| {
        let mut lo = Loop::new();
        for _ in 0..3 {
            // Without an express socket.
            for _ in 0..10 {
                lo.send(2);
                lo.receive();
                std::thread::sleep(Duration::from_millis(1));
            }
            // What the ring has from before is not overtaken.
            lo.send(1);
            lo.queue.take(Step::Open);
            lo.send(1);
            lo.receive();
            // While it is open and not yet read.
            for _ in 0..10 {
                lo.send(2);
                lo.receive();
            }
            lo.become_express();
            let (before, _) = lo.came_first();
            for _ in 0..40 {
                lo.send(1);
                lo.receive();
                std::thread::sleep(Duration::from_millis(3));
            }
            let by_messages = lo.came_first().0 - before;
            // A thread may be interrupted where it has just found none.
            assert!(by_messages > 20, "packets that come alone wait for no block: {by_messages}");
            while lo.is_express() {
                assert!(lo.sent < 100_000, "many packets come by the block");
                lo.send(200);
                lo.receive_some(100);
            }
            (0..10).for_each(|_| lo.send(150));
            lo.receive();
            let end = Instant::now() + PATIENCE;
            while lo.came_first().0 != lo.came_first().1 {
                assert!(Instant::now() < end, "each copy comes: {:?}", lo.came_first());
                lo.receive_some(256);
            }
        }
        assert_eq!(lo.queue.counts(), QueueCounts::default());
    });
}

/// There is always a packet in the block that the kernel fills.
#[test]
fn a_steady_trickle_comes_by_the_express_socket() {
    let Some(_alone) = millrace_testkit::privileged!("ip") else { return };
    in_its_own_network(|| {
        let mut lo = Loop::new();
        let end = Instant::now() + PATIENCE;
        while !lo.is_express() {
            assert!(Instant::now() < end, "the ring is never empty");
            for _ in 0..4 {
                lo.send(1);
                std::thread::sleep(Duration::from_micros(200));
            }
            lo.receive_some(256);
        }
        lo.receive();
    });
}

/// A ring has fewer blocks than packets come alone while nobody reads; the express socket has them all.
#[test]
fn what_comes_alone_during_a_standstill_is_received() {
    let Some(_alone) = millrace_testkit::privileged!("ip") else { return };
    in_its_own_network(|| {
        let mut lo = Loop::new();
        lo.become_express();
        for _ in 0..3 {
            for _ in 0..200 {
                lo.send(1);
                std::thread::sleep(Duration::from_millis(2));
            }
            lo.receive();
            // The copies come, as far as there are any.
            std::thread::sleep(Duration::from_millis(5));
            lo.receive_some(256);
            lo.become_express();
        }
        // What the ring has dropped came by the express socket. That is known when no copy can come any more.
        let inlet = lo.queue.inlet.as_ref().unwrap();
        assert!(inlet.socket.counted().unwrap().dropped > 100);
        let end = Instant::now() + PATIENCE;
        while lo.queue.counts().lost > 0 && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
            lo.receive_some(256);
        }
        assert_eq!(lo.queue.counts(), QueueCounts::default());
    });
}

/// Runs a test on a thread of its own, and with it in a network of its own.
fn in_its_own_network(test: impl FnOnce() + Send + 'static) {
    let thread = std::thread::spawn(|| {
        // SAFETY: this thread shares no descriptors that depend on its network.
        #[allow(unsafe_code, reason = "a system call that may not be made anywhere")]
        unsafe { unshare_unsafe(UnshareFlags::NEWNET) }.unwrap();
        let ip = millrace_testkit::find_program("ip").unwrap();
        let up = ["link", "set", "dev", "lo", "up"];
        assert!(std::process::Command::new(ip).args(up).status().unwrap().success());
        test();
    });
    thread.join().unwrap();
}
