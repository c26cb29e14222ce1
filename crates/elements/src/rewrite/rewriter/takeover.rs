//! The state that moves from a rewriter to its successor on a hot swap: mappings, and the positions of patterns in
//! their ranges.

use std::sync::atomic::Ordering::Relaxed;

use millrace_core::Init;

use super::input::Input;
use super::{Placed, Rewriter};
use crate::flows::table::millis;
use crate::rewrite::mappings::flow_set::{Wanted, protocol_of};
use crate::rewrite::mappings::flow_table::{ANNO_SHIFT, Record};

impl Rewriter {
    /// Takes over the mappings of the rewriter of the same class that this one replaces, except those whose input
    /// or outputs no longer exist. Timeouts and capacity are the new ones.
    pub(crate) fn take_state(&self, old: &Self, init: &Init<'_>) {
        let inputs = self.inputs().clone();
        for (new, old) in inputs.iter().zip(old.inputs().iter()) {
            if let (Input::Pattern(new, _), Input::Pattern(old, _)) = (new, old) {
                new.go_on_from(old);
            }
        }
        let (Some(new), Some(before)) = (self.placed(), old.placed()) else { return };
        let now = millis(init.clock().now());
        let capacity = new.set.lock().capacity();
        let alone = |placed: &Placed| placed.set.lock().maps() == placed.maps.len();
        if alone(new) && alone(before) {
            // Takes over a million mappings as fast as one.
            let mut changing = before.set.lock();
            changing.keep(&before.maps, self.policies(), |record| self.has_place_for(record), now);
            changing.set_inputs(&before.maps, inputs.len());
            changing.set_capacity(capacity, now);
            drop(changing);
            self.adopt(Placed { set: before.set.clone(), maps: before.maps.clone() });
            return;
        }
        for (from, to) in before.maps.iter().zip(&new.maps) {
            self.copy(before, *from, new, *to);
        }
        new.set.lock().set_capacity(capacity, now);
    }

    fn has_place_for(&self, record: &Record) -> bool {
        let outputs = record.outputs().into_iter().all(|output| usize::from(output) < self.outputs);
        outputs && (record.input.load(Relaxed) as usize) < self.inputs().len()
    }

    /// Copies the mappings of one map to another one, in the order in which they were made.
    fn copy(&self, before: &Placed, from: u32, new: &Placed, to: u32) {
        let records = before.set.table.records().filter(|(_, record)| record.map() == from);
        let mut records: Vec<_> =
            records.filter(|(_, record)| self.has_place_for(record)).collect();
        records.sort_by_key(|(_, record)| record.born.load(Relaxed));
        for (number, record) in records {
            let state = record.state.load(Relaxed);
            let (flow, becomes) = (record.key(false), record.key(true).reversed());
            let wanted = Wanted {
                map: to,
                from: flow,
                to: becomes,
                outputs: record.outputs(),
                input: record.input.load(Relaxed) as usize,
                protocol: protocol_of(state),
                anno: (state >> ANNO_SHIFT) as u8,
                deltas: self.family.deltas(flow, becomes),
            };
            let touched = record.touched.load(Relaxed);
            let copy = new.set.lock().add(&wanted, touched);
            let Some(copy) = copy else { continue };
            if let Some(record) = new.set.table.record(copy) {
                record.state.store(state, Relaxed);
            }
            if let Some(shifts) = before.set.shifts().remove(&number) {
                new.set.shifts().insert(copy, shifts);
            }
        }
    }
}
