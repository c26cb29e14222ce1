//! Choosing one of several targets for each new flow.

pub(crate) mod address;

use std::sync::atomic::{AtomicI64, AtomicUsize, Ordering::Relaxed};

use millrace_core::args::Word;
use millrace_core::{Args, Reason, View};

use super::key::Key;

/// Milliseconds of silence after which a flow's target is forgotten.
pub(crate) const IDLE: u64 = 60_000;
/// Milliseconds between checks for such flows.
pub(crate) const SWEEP: u64 = 1000;

/// How targets are chosen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    RoundRobin,
    Weighted,
    /// By addresses and ports.
    Hash,
    /// By the aggregate annotation.
    HashAggregate,
    /// The one with the fewest flows.
    Least,
}

/// Chooses targets.
pub(super) struct Balance {
    mode: Mode,
    next: AtomicUsize,
    /// The number of flows of each target.
    flows: Vec<AtomicI64>,
    /// Targets in the order of a weighted round.
    round: Vec<usize>,
}

impl Balance {
    /// Reads MODE, LST_MODE and WEIGHT.
    pub(super) fn configure(args: &mut Args<'_>, targets: usize) -> Self {
        let mode: Option<Word> = args.optional_keyword("MODE");
        let least: Option<Word> = args.optional_keyword("LST_MODE");
        let weights: Vec<u16> = args.repeated("WEIGHT");
        let mode = match mode.as_ref().map(Word::as_str) {
            None | Some("rr") => Mode::RoundRobin,
            Some("wrr") => Mode::Weighted,
            Some("hash") => Mode::Hash,
            Some("hash_agg") => Mode::HashAggregate,
            Some("least") => Mode::Least,
            Some(_) => {
                args.error("MODE", "MODE must be rr, wrr, hash, hash_agg or least");
                Mode::RoundRobin
            }
        };
        if least.is_some_and(|least| least.as_str() != "conn") {
            args.error("LST_MODE", "LST_MODE must be conn");
        }
        if !weights.is_empty() && weights.len() != targets {
            args.error("WEIGHT", "as many WEIGHT as targets");
        }
        Self {
            mode,
            next: 0.into(),
            flows: (0..targets).map(|_| AtomicI64::new(0)).collect(),
            round: round(&weights, targets),
        }
    }

    /// The target of a new flow, given its first packet.
    fn pick(&self, packet: &View) -> Option<usize> {
        let turn = |among: usize| {
            self.next.fetch_update(Relaxed, Relaxed, |turn| Some((turn + 1) % among)).ok()
        };
        let targets = Some(self.flows.len()).filter(|&targets| targets > 0)?;
        let target = match self.mode {
            Mode::RoundRobin => turn(targets)?,
            Mode::Weighted => *self.round.get(turn(self.round.len().max(1))?)?,
            Mode::Hash => {
                let hash = Key::five_tuple(packet).unwrap_or_default().flow.click_hash();
                ((hash >> 16) ^ (hash & 0xffff)) as usize % targets
            }
            Mode::HashAggregate => packet.aggregate() as usize % targets,
            Mode::Least => {
                let flows = |&target: &usize| self.flows.get(target).map(|n| n.load(Relaxed));
                (0..targets).min_by_key(flows)?
            }
        };
        self.flows.get(target)?.fetch_add(1, Relaxed);
        Some(target)
    }

    /// The target of a new flow, as the state of the flow; if there is none, sets `refusal`.
    pub(super) fn pick_or(&self, packet: &View, refusal: &mut Reason) -> Option<u64> {
        let target = self.pick(packet);
        if target.is_none() {
            *refusal = Reason::NoMatch;
        }
        target.map(|target| target as u64)
    }

    /// A flow of this target has ended.
    pub(super) fn release(&self, target: usize) {
        if let Some(flows) = self.flows.get(target) {
            flows.fetch_sub(1, Relaxed);
        }
    }

    /// The number of flows of each target.
    pub(super) fn loads(&self) -> String {
        let loads = self.flows.iter().map(|flows| flows.load(Relaxed).to_string());
        loads.collect::<Vec<_>>().join(" ")
    }

    /// Takes over the state of a balance with as many targets.
    pub(super) fn take(&self, old: &Self) {
        self.next.store(old.next.load(Relaxed), Relaxed);
        for (flows, old) in self.flows.iter().zip(&old.flows) {
            flows.store(old.load(Relaxed), Relaxed);
        }
    }

    pub(super) fn targets(&self) -> usize {
        self.flows.len()
    }
}

/// One round: each target as often as its weight, with the turns of heavy targets spread out (nginx's algorithm).
fn round(weights: &[u16], targets: usize) -> Vec<usize> {
    let weights: Vec<i64> = match weights {
        [] => vec![1; targets],
        weights => weights.iter().map(|&weight| weight.into()).collect(),
    };
    let sum: i64 = weights.iter().sum();
    let mut credit = vec![0; weights.len()];
    (0..sum)
        .filter_map(|_| {
            for (credit, weight) in credit.iter_mut().zip(&weights) {
                *credit += weight;
            }
            let best = (0..credit.len()).rev().max_by_key(|&target| credit.get(target).copied())?;
            *credit.get_mut(best)? -= sum;
            Some(best)
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_round_has_each_target_as_often_as_its_weight() {
        assert_eq!(round(&[5, 1, 1], 3), [0, 0, 1, 0, 2, 0, 0]);
        assert_eq!(round(&[], 3), [0, 1, 2]);
        assert_eq!(round(&[0, 2], 2), [1, 1]);
        assert!(round(&[0], 1).is_empty());
    }
}
