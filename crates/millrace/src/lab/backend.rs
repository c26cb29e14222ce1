//! The devices of the lab, as elements see them.
//!
//! They are not the wires of `millrace_io::memory`: nothing is on its way to the router until the router asks. Then the
//! hosts act, on the thread that asked, so that one seed gives one run.

use std::io;
use std::sync::Arc;

use millrace_core::{Batch, Lock, Packet, Timestamp};
use millrace_io::tap::{Tap, TapOptions};
use millrace_io::{
    Backend, DeviceError, Opened, QueueCounts, RxOptions, RxQueue, TxOptions, TxQueue, bpf,
};

use super::world::World;

/// The lab's backend.
#[derive(Clone)]
pub(super) struct LabBackend(pub(super) Arc<Lock<World>>);

struct Queue {
    world: Arc<Lock<World>>,
    wire: usize,
    headroom: usize,
    snap_length: usize,
    filter: Vec<bpf::Instruction>,
    lost: u64,
}

impl Backend for LabBackend {
    fn open_rx(
        &self,
        device: &str,
        options: &RxOptions,
    ) -> Result<Opened<dyn RxQueue>, DeviceError> {
        let queue = self.queue(device, options.headroom, options.snap_length)?;
        Ok(Opened::new("lab", vec![Box::new(Queue { filter: options.filter.clone(), ..queue })]))
    }

    fn open_tx(
        &self,
        device: &str,
        _options: &TxOptions,
    ) -> Result<Opened<dyn TxQueue>, DeviceError> {
        Ok(Opened::new("lab", vec![Box::new(self.queue(device, 0, usize::MAX)?)]))
    }

    /// The machine itself is not in the lab: a host that listens and says nothing stands for it.
    fn open_tap(&self, options: &TapOptions) -> Result<Tap, DeviceError> {
        let mut rx: Opened<dyn RxQueue> = Opened::new("lab", vec![Box::new(Silent)]);
        let mut tx: Opened<dyn TxQueue> = Opened::new("lab", vec![Box::new(Silent)]);
        rx.queues.resize_with(options.queues.max(1), || Box::new(Silent));
        tx.queues.resize_with(options.queues.max(1), || Box::new(Silent));
        let name = options.name.clone().unwrap_or_else(|| "tap0".to_owned());
        Ok(Tap { name, rx, tx })
    }
}

impl LabBackend {
    fn queue(
        &self,
        device: &str,
        headroom: usize,
        snap_length: usize,
    ) -> Result<Queue, DeviceError> {
        let wire = self.0.lock().wire(device);
        let wire = wire.ok_or_else(|| DeviceError::Unknown(device.to_owned()))?;
        let (world, filter) = (self.0.clone(), Vec::new());
        Ok(Queue { world, wire, headroom, snap_length, filter, lost: 0 })
    }
}

impl RxQueue for Queue {
    fn receive(&mut self, batch: &mut Batch, max: usize) -> io::Result<usize> {
        let mut world = self.world.lock();
        let mut n = 0;
        while n < max && !batch.is_full() {
            let Some(frame) = world.receive(self.wire) else { break };
            if !bpf::wants(&self.filter, &frame) {
                continue;
            }
            let kept = frame.get(..self.snap_length).unwrap_or(&frame);
            let Some(mut packet) = Packet::with_room(self.headroom, 0, kept.len()) else {
                self.lost += 1;
                continue;
            };
            packet.push_back(kept);
            packet.set_timestamp(Timestamp::now());
            if batch.push(packet).is_err() {
                break;
            }
            n += 1;
        }
        Ok(n)
    }

    fn counts(&self) -> QueueCounts {
        QueueCounts { lost: self.lost, ..QueueCounts::default() }
    }
}

impl TxQueue for Queue {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let mut world = self.world.lock();
        let n = batch.len();
        for packet in batch.drain() {
            world.transmit(self.wire, packet.data());
        }
        Ok(n)
    }
}

/// A host that listens and says nothing.
struct Silent;

impl RxQueue for Silent {
    fn receive(&mut self, _batch: &mut Batch, _max: usize) -> io::Result<usize> {
        Ok(0)
    }

    fn is_finished(&self) -> bool {
        true
    }
}

impl TxQueue for Silent {
    fn transmit(&mut self, batch: &mut Batch) -> io::Result<usize> {
        let n = batch.len();
        batch.clear();
        Ok(n)
    }
}
