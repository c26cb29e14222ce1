//! The last packets that were dropped, of each element for each reason.

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;

use millrace_core::drops::Reason;
use millrace_core::memory::annotations::ANNOTATION_LEN;
use millrace_core::observe::{Loss, Observation, Observer, Observing, Passage};
use millrace_core::router::HandlerError;
use millrace_core::{Count, Lock, Packet, Router};
use serde::{Deserialize, Serialize};

use super::link::link_of;
use super::notes;

/// Keeps dropped packets, once it is told to.
#[derive(Default)]
pub(crate) struct Keeper {
    most: usize,
    watched: Option<Watched>,
}

struct Watched {
    generation: u64,
    shelf: Arc<Shelf>,
    _observing: Observing,
}

/// A dropped packet.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct KeptDrop {
    /// The element that dropped it.
    pub(crate) element: String,
    /// Its class.
    pub(crate) class: String,
    /// Why.
    pub(crate) reason: String,
    /// When, in seconds since 1970-01-01 00:00 UTC.
    pub(crate) time: f64,
    /// The thread.
    pub(crate) thread: usize,
    /// Its length.
    pub(crate) length: usize,
    /// `ETHER` or `IP`: what its bytes begin with.
    pub(crate) link: String,
    /// Its first bytes, in hexadecimal digits.
    pub(crate) data: String,
    /// Its annotations that are not 0.
    pub(crate) annotations: BTreeMap<String, String>,
}

/// The most packets of an element for a reason.
const MOST: usize = 64;

/// The most bytes of each.
const BYTES: usize = 256;

/// What each thread has dropped.
struct Shelf {
    most: usize,
    /// One a thread, which waits for nobody: while a reader has it, what is dropped is not kept.
    threads: Vec<(Lock<Kept>, Count)>,
}

type Kept = BTreeMap<(usize, Reason), VecDeque<One>>;

#[derive(Clone)]
struct One {
    time: i64,
    length: usize,
    link: millrace_io::pcap::LinkType,
    data: Vec<u8>,
    annotations: [u8; ANNOTATION_LEN],
}

impl Keeper {
    /// How many packets of each element it keeps for each reason.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Keeps so many from now on; none ends it.
    pub(super) fn keep(&mut self, router: &Router, text: &[u8]) -> Result<(), HandlerError> {
        let text = String::from_utf8_lossy(text);
        let number = text.trim().parse().ok().filter(|&number| number <= MOST);
        let wrong = || format!("expected a number of packets up to {MOST}, not ‘{}’", text.trim());
        self.most = number.ok_or_else(|| HandlerError::Refused(wrong()))?;
        self.watched = None;
        self.watch(router);
        Ok(())
    }

    fn watch(&mut self, router: &Router) {
        if self.most == 0 {
            return;
        }
        let threads = (0..router.plan().threads).map(|_| Default::default()).collect();
        let shelf = Arc::new(Shelf { most: self.most, threads });
        let observer = shelf.clone();
        let observation =
            Observation { connections: Vec::new(), drops: true, singly: false, observer };
        let _observing = router.observe(observation);
        self.watched = Some(Watched { generation: router.generation(), shelf, _observing });
    }

    /// The packets that are kept, those of each element and reason with the last one first.
    pub(super) fn list(&mut self, router: &Router) -> Result<Vec<KeptDrop>, String> {
        if self.most == 0 {
            return Err("no dropped packets are kept: write how many to ‘drops_keep’".to_owned());
        }
        let Some(watched) = &self.watched else { return Ok(Vec::new()) };
        if watched.generation != router.generation() {
            // The elements are others.
            self.watch(router);
            return Ok(Vec::new());
        }
        let mut all: BTreeMap<(usize, Reason), Vec<(usize, One)>> = BTreeMap::new();
        for (thread, (kept, _)) in watched.shelf.threads.iter().enumerate() {
            for (&place, packets) in kept.lock().iter() {
                let packets = packets.iter().map(|one| (thread, one.clone()));
                all.entry(place).or_default().extend(packets);
            }
        }
        let mut list = Vec::new();
        for ((element, reason), mut packets) in all {
            packets.sort_by_key(|(_, one)| std::cmp::Reverse(one.time));
            packets.truncate(self.most);
            list.extend(packets.into_iter().map(|(thread, one)| {
                KeptDrop {
                    element: router.name_of(element).to_owned(),
                    class: router.class_of(element).to_owned(),
                    reason: reason.name().to_owned(),
                    time: one.time as f64 / 1e9,
                    thread,
                    length: one.length,
                    link: one.link.to_string(),
                    data: one.data.iter().map(|byte| format!("{byte:02x}")).collect(),
                    annotations: notes::annotations(&one.annotations)
                        .into_iter()
                        .map(|(name, value)| (name.to_owned(), value))
                        .collect(),
                }
            }));
        }
        Ok(list)
    }
}

impl Observer for Shelf {
    fn passes(&self, _: &Passage, _: &Packet) {}

    fn drops(&self, at: &Loss, packet: &Packet) {
        let Some((kept, missed)) = self.threads.get(at.thread) else { return };
        let Some(mut kept) = kept.try_lock() else { return missed.add(1) };
        let kept = kept.entry((at.element, at.reason)).or_default();
        // The memory of the one that goes is used again.
        let mut data = match kept.len() < self.most {
            true => Vec::with_capacity(BYTES),
            false => kept.pop_front().map(|one| one.data).unwrap_or_default(),
        };
        data.clear();
        data.extend(packet.data().iter().take(BYTES));
        kept.push_back(One {
            time: at.now.as_nanos(),
            length: packet.len(),
            link: link_of(packet),
            data,
            annotations: *packet.annotations(),
        });
    }
}
