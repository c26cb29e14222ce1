//! The watched connections of a thread, and who watches them.

use std::sync::Arc;

use crate::graph::{Link, NOWHERE, TAPPED, Wiring};
use crate::observe::{Observation, Observer};

/// What is watched.
pub(crate) struct Taps {
    taps: Vec<Tap>,
    /// Who watches drops.
    pub(super) drops: Vec<Arc<dyn Observer>>,
    pub(crate) singly: bool,
    /// Who sees which packet an element processes.
    pub(super) followers: Vec<Arc<dyn Observer>>,
}

/// A watched connection.
pub(super) struct Tap {
    /// Its place among the router's connections, and its ends.
    pub(super) connection: usize,
    pub(super) link: Link,
    /// The frame that packets are pushed to, or [`NOWHERE`] if they are pulled.
    pub(super) frame: u32,
    pub(super) observers: Vec<Arc<dyn Observer>>,
}

impl Taps {
    /// The taps of these observations; none if there is nothing to watch.
    pub(crate) fn new(observations: &[Observation], links: &[Link], wiring: &Wiring) -> Self {
        let mut taps: Vec<Tap> = Vec::new();
        let mut tap_of = vec![usize::MAX; links.len()];
        for observation in observations {
            for &connection in &observation.connections {
                let Some(&link) = links.get(connection) else { continue };
                if tap_of[connection] == usize::MAX {
                    tap_of[connection] = taps.len();
                    let frame = wiring.frame_of(link.0);
                    taps.push(Tap { connection, link, frame, observers: Vec::new() });
                }
                let observers = &mut taps[tap_of[connection]].observers;
                // A connection that is named twice is shown once.
                if !observers.iter().any(|one| Arc::ptr_eq(one, &observation.observer)) {
                    observers.push(observation.observer.clone());
                }
            }
        }
        let drops = observations.iter().filter(|one| one.drops).map(|one| one.observer.clone());
        let follows = observations.iter().filter(|one| one.singly);
        let followers: Vec<_> = follows.map(|one| one.observer.clone()).collect();
        Self { taps, drops: drops.collect(), singly: !followers.is_empty(), followers }
    }

    /// The wiring with these taps in it.
    pub(crate) fn wire(&self, wiring: &Wiring) -> Wiring {
        let mut wiring = wiring.clone();
        for (at, tap) in self.taps.iter().enumerate() {
            let (from, to) = tap.link;
            match tap.is_pulled() {
                true => wiring.tap_input(to, at as u32),
                false => wiring.tap_output(from, at as u32),
            }
        }
        wiring
    }

    /// The outputs by which packets are pushed into taps, with the tap's number.
    pub(crate) fn outputs(&self) -> impl Iterator<Item = ((usize, usize), usize)> {
        let pushed = |(_, tap): &(usize, &Tap)| !tap.is_pulled();
        self.taps.iter().enumerate().filter(pushed).map(|(at, tap)| (tap.link.0, at))
    }

    pub(super) fn get(&self, tap: usize) -> Option<&Tap> {
        self.taps.get(tap)
    }

    /// The tap behind the mark of an output or input, and its number.
    pub(super) fn marked(&self, mark: u32) -> Option<(usize, &Tap)> {
        let at = (mark >= TAPPED).then_some((mark & !TAPPED) as usize)?;
        Some((at, self.get(at)?))
    }
}

impl Tap {
    fn is_pulled(&self) -> bool {
        self.frame == NOWHERE
    }
}
