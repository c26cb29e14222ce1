//! ToDevice - transmits packets by a network device
//!
//! # Synopsis
//! `ToDevice(DEVNAME [, keywords BURST, METHOD, BLOCKING, NO_PAD, DEBUG])`
//!
//! # Description
//! Transmits packets, which must have their Ethernet headers, by a device. By default that is the
//! machine's interface DEVNAME, which takes the rights of root or CAP_NET_RAW; the program can put
//! other devices in place of all of them (`millrace run --lab`).
//!
//! With a pull input it pulls packets whenever the device has room, so that a Queue in front of it
//! takes in bursts. With a push input it transmits at once; while the device has no room it waits,
//! or, without BLOCKING, drops.
//!
//! # Arguments
//! - DEVNAME: the device. Positional, mandatory.
//! - BURST: most packets pulled each time, 1 to 256. Default 64.
//! - METHOD: LINUX or PCAP, which are the same here.
//! - BLOCKING: with a push input, whether to wait for room in the device. Default true.
//! - NO_PAD: whether to leave packets that are shorter than 60 bytes as they are. Default true; most
//!   cards lengthen them by themselves.
//! - DEBUG: whether to say when the device is full. Default false.
//!
//! # Ports
//! One agnostic input. Two push outputs that may be left out: packets that were transmitted leave
//! by output 0, those that the device refused by output 1.
//!
//! # Handlers
//! - `count` (read): packets transmitted. `reset_counts` (write): sets it to 0.
//! - `pulls` (read): how often it has pulled.
//! - `q` (read): whether packets wait for room in the device.
//! - `signal` (read): whether there may be packets to pull.
//! - `debug` (read, write): as DEBUG.
//! - `scheduled` (read, write), `home_thread` (read): its task.
//!
//! # Drops
//! - transmit full: without BLOCKING, the device had no room.
//! - device error: the device refused the packet (it is longer than the MTU; the device is down),
//!   and there is no output 1.
//! - stopped: the program stopped while the packet waited for room.
//!
//! # Example
//! ```click
//! FromDevice(eth0) -> Queue(1000) -> ToDevice(eth1);
//! ```
//!
//! # See also
//! FromDevice, ToDump, Queue

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use millrace_core::args::Kind;
use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Reason, Refused, Router, Setup, Task,
    Timer, Timestamp, register,
};
use millrace_io::{Opened, TxOptions, TxQueue};

use super::backend::Source;
use super::method;
use crate::standard::supply::task_handlers;

/// The element; its manual is at the top of the file.
pub struct ToDevice {
    device: String,
    burst: usize,
    blocking: bool,
    pad: bool,
    debug: AtomicBool,
    count: AtomicU64,
    pulls: AtomicU64,
    /// Behind a lock because several threads may push.
    port: Mutex<Port>,
    task: Task,
    timer: Timer,
    upstream: OnceLock<Listening>,
}

/// The device and what waits for it.
struct Port {
    /// Absent before the start of the run and after its end.
    queue: Option<Box<dyn TxQueue>>,
    /// Packets that were pulled and that the device had no room for.
    waiting: Batch,
    /// How long the last wait for room was, in microseconds.
    backoff: i64,
    /// What the device said when it refused a packet last: that is said once.
    complaint: String,
}

/// The shortest Ethernet frame, without its check sequence (IEEE 802.3, 3.2.8).
const SHORTEST: usize = 60;
/// The longest wait for room in the device, in microseconds.
const LONGEST_BACKOFF: i64 = 256;

register!(ToDevice, "to_device.rs");

impl Element for ToDevice {
    const CLASS: Class = Class::new("ToDevice", "1/0-2", "a/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let device: String = args.mandatory("DEVNAME");
        let burst = args.in_range("BURST", Kind::Keyword, 1..=Batch::CAPACITY as u32);
        method::configure(args, "METHOD");
        let blocking = args.keyword("BLOCKING", true);
        let no_pad = args.keyword("NO_PAD", true);
        let debug = args.keyword("DEBUG", false);
        args.complete()?;
        Ok(Self {
            device,
            burst: burst.unwrap_or(64) as usize,
            blocking,
            pad: !no_pad,
            debug: AtomicBool::new(debug),
            count: AtomicU64::new(0),
            pulls: AtomicU64::new(0),
            port: Mutex::new(Port {
                queue: None,
                waiting: Batch::new(),
                backoff: 0,
                complaint: String::new(),
            }),
            task: setup.pull_task(0),
            timer: setup.timer(),
            upstream: OnceLock::new(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let opened = Source::of(init).open_tx(&self.device, &TxOptions::default());
        let Opened { queues, .. } = opened.map_err(|error| Refused(error.to_string()))?;
        let queue = queues.into_iter().next();
        let queue = queue.ok_or_else(|| Refused(format!("{}: no queue", self.device)))?;
        self.port().queue = Some(queue);
        if init.is_pull_input(0) {
            // An element is initialised once.
            let _ = self.upstream.set(init.listen(0, &self.task));
            self.task.schedule();
        }
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.pad(batch);
        let mut port = self.port();
        self.transmit(cx, &mut port, batch);
        let mut patience = Duration::from_micros(1);
        while !batch.is_empty() {
            if !self.blocking {
                cx.drop_batch(batch, Reason::TransmitFull);
            } else if cx.router().is_halted() {
                cx.drop_batch(batch, Reason::Stopped);
            } else {
                // There is nothing else that this thread could do with the packet.
                std::thread::sleep(patience);
                patience = (patience * 2).min(Duration::from_millis(1));
                self.transmit(cx, &mut port, batch);
            }
        }
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        let mut port = self.port();
        let mut batch = std::mem::take(&mut port.waiting);
        let mut pulled = 0;
        if batch.is_empty() {
            // What is pulled may come through elements that push, and they may push to this one.
            drop(port);
            self.pulls.fetch_add(1, Relaxed);
            pulled = cx.pull(0, self.burst, &mut batch);
            self.pad(&mut batch);
            port = self.port();
        }
        let sent = self.transmit(cx, &mut port, &mut batch);
        if batch.is_empty() {
            port.backoff = 0;
            if pulled == 0
                && sent == 0
                && let Some(upstream) = self.upstream.get()
            {
                upstream.rest(&self.task, cx.router());
            }
        } else {
            self.wait_for_room(cx, &mut port);
        }
        port.waiting = batch;
        sent > 0
    }

    fn run_timer(&self, _cx: &mut Context, (): &mut ()) {
        self.task.schedule();
    }

    fn held(&self) -> usize {
        self.port().waiting.len()
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |device, _| device.count.load(Relaxed));
        handlers.write("reset_counts", |device, _| {
            device.count.store(0, Relaxed);
            Ok(())
        });
        handlers.read("pulls", |device, _| device.pulls.load(Relaxed));
        handlers.read("q", |device, _| !device.port().waiting.is_empty());
        handlers.read("signal", |device, call| {
            device.upstream.get().is_some_and(|upstream| upstream.active(call.router()))
        });
        handlers.read("debug", |device, _| device.debug.load(Relaxed));
        handlers.write("debug", |device, call| {
            device.debug.store(call.parse()?, Relaxed);
            Ok(())
        });
        task_handlers(handlers, |device| &device.task);
    }

    fn cleanup(&self, _router: &Router) -> Result<(), Refused> {
        let queue = self.port().queue.take();
        let flushed = queue.map_or(Ok(()), |mut queue| queue.flush());
        flushed.map_err(|error| Refused(format!("{}: {error}", self.device)))
    }
}

impl ToDevice {
    fn port(&self) -> MutexGuard<'_, Port> {
        self.port.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn pad(&self, batch: &mut Batch) {
        if !self.pad {
            return;
        }
        batch.for_each(|packet| {
            let missing = SHORTEST.saturating_sub(packet.len());
            if missing > 0 {
                packet.append(missing).fill(0);
            }
        });
    }

    /// Transmits packets until there are none or the device has no room; takes out those that it
    /// refuses. Returns how many were taken out of the batch.
    fn transmit(&self, cx: &mut Context, port: &mut Port, batch: &mut Batch) -> usize {
        let before = batch.len();
        let Port { queue: Some(queue), complaint, .. } = port else {
            cx.drop_batch(batch, Reason::Stopped);
            return before;
        };
        while !batch.is_empty() {
            let mut copies = self.copies(cx, batch);
            match queue.transmit(batch) {
                Ok(sent) => {
                    self.count.fetch_add(sent as u64, Relaxed);
                    cx.consumed(sent);
                    if let Some(copies) = &mut copies {
                        copies.truncate(sent);
                        cx.created(copies.len());
                        cx.push_batch(0, copies);
                    }
                    if sent == 0 {
                        break;
                    }
                }
                Err(error) => {
                    let error = error.to_string();
                    if *complaint != error {
                        let router = cx.router();
                        let name = router.name_of(cx.element());
                        router.chatter(&format!("{name}: {}: {error}", self.device));
                        *complaint = error;
                    }
                    for packet in batch.drain_front(1) {
                        cx.push_or_drop(1, packet, Reason::DeviceError);
                    }
                }
            }
            if let Some(copies) = copies {
                cx.give_batch(copies);
            }
        }
        before - batch.len()
    }

    /// For output 0: second packets with the same bytes, for the device keeps the first ones. As
    /// many as there is memory for.
    fn copies(&self, cx: &mut Context, batch: &Batch) -> Option<Batch> {
        if !cx.is_connected(0) {
            return None;
        }
        let mut copies = cx.take_batch();
        for packet in batch {
            let Some(copy) = packet.share() else { break };
            // It has as much room as the other batch.
            let _ = copies.push(copy);
        }
        Some(copies)
    }

    /// Tries again a little later, the later the longer there has been no room.
    fn wait_for_room(&self, cx: &mut Context, port: &mut Port) {
        port.backoff = (port.backoff * 2).clamp(1, LONGEST_BACKOFF);
        self.task.unschedule();
        let now = cx.refresh_now();
        self.timer.schedule_at(now + Timestamp::from_micros(port.backoff));
        if self.debug.load(Relaxed) {
            let router = cx.router();
            let name = router.name_of(cx.element());
            router.chatter(&format!("{name} backing off for {} at {now}", port.backoff));
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Registry;
    use millrace_core::services::Services;
    use millrace_core::testing::Rig;
    use millrace_io::Devices;
    use millrace_io::memory::{End, Interface, Network};

    use super::*;

    fn rig(arguments: &str, outputs: usize, capacity: usize) -> (Rig, End) {
        let network = Network::default();
        let host = Interface { capacity, ..Interface::new("host") };
        let far = network.connect(Interface::new("eth0"), host);
        let mut services = Services::default();
        services.insert(Devices(Box::new(network)));
        let element = format!("ToDevice(eth0 {arguments})");
        (Rig::with(Registry::linked(), &element, 1, outputs, services).unwrap(), far)
    }

    fn arrived(far: &End) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| far.receive()).map(|packet| packet.data().to_vec()).collect()
    }

    #[test]
    fn transmits_what_is_pushed() {
        let (mut rig, far) = rig("", 0, 99);
        rig.push(0, &["a", "b"]);
        assert_eq!(arrived(&far), [b"a", b"b"]);
        assert_eq!((rig.read("count").unwrap(), rig.stats().consumed), ("2".to_owned(), 2));
        assert!(rig.stats().balanced());
    }

    #[test]
    fn transmitted_packets_leave_by_output_0() {
        let (mut rig, far) = rig(", NO_PAD false", 2, 99);
        let out = rig.push(0, &["a", "b"]);
        assert_eq!((out[0].len(), out[1].len()), (2, 0));
        let frames = arrived(&far);
        assert_eq!(frames.iter().map(Vec::len).collect::<Vec<_>>(), [60, 60]);
        assert_eq!(out[0], frames);
        assert!(rig.stats().balanced());
    }

    #[test]
    fn drops_when_it_must_not_wait() {
        let (mut rig, far) = rig(", BLOCKING false", 0, 2);
        rig.push(0, &["a", "b", "c"]);
        assert_eq!(rig.stats().drops, [(Reason::TransmitFull, 1)]);
        assert_eq!(arrived(&far), [b"a", b"b"]);
    }

    #[test]
    fn refuses_what_it_cannot_do() {
        for bad in ["ToDevice", "ToDevice(no-such-device)", "ToDevice(lo, METHOD DEVBPF)"] {
            assert!(Rig::new(bad, 1, 0).is_err(), "{bad}");
        }
    }
}
