//! How the devices of the lab are attached to it.

use std::sync::Arc;

use millrace_core::{Lock, Packet};
use millrace_io::Meter;
use millrace_io::memory::Link;

use super::world::World;

/// A device's link to the hosts around it.
///
/// It is no wire: nothing is on its way to the router until the router asks. Then the hosts act, on the thread that asked,
/// so that one seed gives one run.
pub(super) struct Cable {
    pub(super) world: Arc<Lock<World>>,
    /// Index of the device's wire in the world.
    pub(super) wire: usize,
}

impl Link for Cable {
    fn receive(&self, headroom: usize, meter: &Meter) -> Option<Packet> {
        loop {
            let frame = self.world.lock().receive(self.wire)?;
            match Packet::with_room(headroom, 0, frame.len()) {
                Some(mut packet) => {
                    packet.push_back(&frame);
                    return Some(packet);
                }
                None => meter.lost(1),
            }
        }
    }

    fn send(&self, packet: Packet) -> Result<(), Packet> {
        self.world.lock().transmit(self.wire, packet.data());
        Ok(())
    }
}

/// The machine itself is not in the lab: a host that listens and says nothing stands for it.
pub(super) struct Silent;

impl Link for Silent {
    fn receive(&self, _headroom: usize, _meter: &Meter) -> Option<Packet> {
        None
    }

    fn send(&self, _packet: Packet) -> Result<(), Packet> {
        Ok(())
    }

    fn is_finished(&self) -> bool {
        true
    }
}
