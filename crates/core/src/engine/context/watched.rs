//! What a context does while something is watched: cold code, which no thread reaches otherwise.

use std::sync::Arc;

use super::{Context, Running};
use crate::drops::Reason;
use crate::engine::taps::Taps;
use crate::graph::Wiring;
use crate::memory::{Batch, Packet};
use crate::observe::{Begin, Loss, Observer, Passage};

impl Context {
    /// Shows a packet that passes a tap, one of a batch of so many.
    #[cold]
    pub(crate) fn show(&self, tap: usize, packet: &Packet, batch: usize) {
        let Some(taps) = &self.taps else { return };
        let Some(tap) = taps.get(tap) else { return };
        let passage = Passage {
            connection: tap.connection,
            batch,
            thread: self.thread(),
            now: self.now(),
            cycles: self.cycles_so_far(taps),
        };
        tap.observers.iter().for_each(|observer| observer.passes(&passage, packet));
    }

    /// Shows the packets that the element at whose input they wait is about to process.
    #[cold]
    pub(crate) fn show_begin(&self, frame: usize, packets: &[Packet]) {
        let Some(taps) = &self.taps else { return };
        let element = self.wiring.frames[frame].0 as usize;
        let begin = Begin { element, thread: self.thread(), now: self.now() };
        for observer in &taps.followers {
            packets.iter().for_each(|packet| observer.begins(&begin, packet));
        }
    }

    /// Shows packets that are about to be dropped by an element.
    #[cold]
    pub(super) fn show_drops(&self, element: usize, reason: Reason, packets: &[Packet]) {
        if let Some(taps) = self.taps.as_ref().filter(|taps| !taps.drops.is_empty()) {
            let loss = self.loss(taps, element, reason);
            let shown = |observer: &Arc<dyn Observer>| {
                packets.iter().for_each(|packet| observer.drops(&loss, packet));
            };
            taps.drops.iter().for_each(shown);
        }
    }

    #[cold]
    pub(super) fn tell_drops(&self, element: usize, reason: Reason, count: usize) {
        if let Some(there) = self.stats.get(element) {
            there.add_drops(reason, count as u64);
        }
        if let Some(taps) = self.taps.as_ref().filter(|_| count > 0) {
            let loss = self.loss(taps, element, reason);
            taps.drops.iter().for_each(|observer| observer.drops_unseen(&loss, count));
        }
    }

    fn loss(&self, taps: &Taps, element: usize, reason: Reason) -> Loss {
        let cycles = self.cycles_so_far(taps);
        Loss { element, reason, thread: self.thread(), now: self.now(), cycles }
    }

    fn cycles_so_far(&self, taps: &Taps) -> u64 {
        match taps.singly {
            true => crate::cycles::now().wrapping_sub(self.mark()),
            false => 0,
        }
    }

    /// Watches with these taps from now on, or no more. Between two rounds.
    pub(crate) fn set_taps(&mut self, taps: Option<Arc<Taps>>, wiring: Arc<Wiring>) {
        self.counted = match &taps {
            Some(_) => Arc::default(),
            None => self.stats.clone(),
        };
        (self.taps, self.wiring) = (taps, wiring);
    }

    /// Whether what is watched has packets go singly.
    pub(crate) fn is_watched_singly(&self) -> bool {
        self.taps.as_ref().is_some_and(|taps| taps.singly)
    }

    /// The mark of an output: a frame, a tap, or nowhere.
    fn output_mark(&self, port: usize) -> Option<u32> {
        let Running { first_output, outputs, .. } = self.running;
        (port < outputs).then(|| self.wiring.outputs[first_output + port])
    }

    /// The frame that an output leads to through a tap, and the tap.
    fn tapped_output(&self, port: usize) -> Option<(usize, u32)> {
        let (at, tap) = self.taps.as_ref()?.marked(self.output_mark(port)?)?;
        Some((at, tap.frame))
    }

    /// What becomes of a packet for an output that leads to no frame: it passes a tap, or is dropped.
    #[cold]
    pub(super) fn push_through(&mut self, port: usize, packet: Packet, reason: Reason) {
        match self.tapped_output(port) {
            Some((tap, frame)) => {
                self.show(tap, &packet, 1);
                self.here().sent.add(1);
                self.waiting.add(frame, packet);
            }
            None => {
                self.show_drops(self.element(), reason, std::slice::from_ref(&packet));
                drop(packet);
                self.here().add_drops(reason, 1);
            }
        }
    }

    /// [`push_through`](Self::push_through) for a batch.
    #[cold]
    pub(super) fn push_batch_through(&mut self, port: usize, batch: &mut Batch, reason: Reason) {
        match self.tapped_output(port) {
            Some((tap, frame)) => {
                batch.iter().for_each(|packet| self.show(tap, packet, batch.len()));
                self.here().sent.add(batch.len() as u64);
                self.waiting.add_batch(frame, batch);
            }
            None => {
                self.show_drops(self.element(), reason, batch);
                self.here().add_drops(reason, batch.len() as u64);
                batch.clear();
            }
        }
    }

    /// Pulls through a tap. `mark` is that of the input.
    #[cold]
    pub(super) fn pull_through(&mut self, mark: u32, max: usize, batch: &mut Batch) -> usize {
        let Some((tap, to)) = self.taps.as_ref().and_then(|taps| taps.marked(mark)) else {
            return 0;
        };
        let (element, output) = to.link.0;
        let n = self.pull_from(element, output, max, batch);
        batch.iter().for_each(|packet| self.show(tap, packet, n));
        n
    }
}
