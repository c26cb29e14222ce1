//! The way of a packet, put together from single looks at it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use millrace_core::Router;
use millrace_core::drops::Reason;
use millrace_io::pcap::LinkType;
use serde::{Deserialize, Serialize};

use super::super::{notes, places};
use super::fields::{self, Change, Fields};
use super::tracer::{Look, NONE};

/// The way of a packet, and of those that elements made of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Story {
    /// Its number.
    pub(crate) trace: u32,
    /// The packets, the traced one first.
    pub(crate) packets: Vec<Traveller>,
    /// Whether looks were missed, so that the way may have gaps.
    pub(crate) incomplete: bool,
}

/// A packet of a [`Story`].
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Traveller {
    /// Its number in the router's traces.
    pub(crate) packet: u32,
    /// The packet that it was made of: a clone, a fragment, an answer.
    pub(crate) parent: Option<u32>,
    /// Its fields when it was first seen.
    pub(crate) fields: Vec<(String, String)>,
    /// Where it went.
    pub(crate) hops: Vec<Hop>,
}

/// A step of a packet's way.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Hop {
    /// The connection, `a[0] -> [1]b`; empty at a drop.
    pub(crate) connection: String,
    /// The element in front, or the one that dropped it, and its class.
    pub(crate) element: String,
    /// Its class.
    pub(crate) class: String,
    /// Why it was dropped; empty if it was not.
    pub(crate) dropped: String,
    /// Seconds since 1970-01-01 00:00 UTC, of the round.
    pub(crate) time: f64,
    /// The thread.
    pub(crate) thread: u32,
    /// The packets that were sent together.
    pub(crate) batch: u32,
    /// The cycles of the element until then.
    pub(crate) cycles: u64,
    /// What the element changed.
    pub(crate) changes: Vec<Change>,
}

/// Stories that have begun.
pub(super) struct Stories {
    connections: Vec<String>,
    /// For each connection, the element in front.
    fronts: Vec<usize>,
    /// For each connection, whether it leads to an element without outputs.
    ends: Vec<bool>,
    elements: Vec<(String, &'static str)>,
    begun: BTreeMap<u32, Draft>,
    missed: u64,
}

struct Draft {
    story: Story,
    /// For each packet its fields as last seen, and whether its way has ended.
    last: BTreeMap<u32, (Fields, bool)>,
    touched: Instant,
}

/// A packet that is not seen for so long stays where it is, or was consumed there.
const REST: Duration = Duration::from_millis(500);

/// When nothing was seen of a trace for so long, all its packets have come to their ends.
const SETTLED: Duration = Duration::from_millis(20);

impl Stories {
    pub(super) fn new(router: &Router) -> Self {
        let links = router.connections();
        let sink = |id: usize| router.output_kind(id, 0).is_none();
        Self {
            connections: (0..links.len()).map(|at| places::name_of(router, at)).collect(),
            fronts: links.iter().map(|link| link.0.0).collect(),
            ends: links.iter().map(|link| sink(link.1.0)).collect(),
            elements: router
                .elements()
                .map(|info| (info.name.to_owned(), info.class.name))
                .collect(),
            begun: BTreeMap::new(),
            missed: 0,
        }
    }

    /// Adds looks in their order. `missed` is how many found no room so far.
    pub(super) fn add(&mut self, looks: Vec<(Look, Vec<u8>)>, missed: u64) {
        for (look, data) in looks {
            self.add_one(&look, &data);
        }
        if missed > self.missed {
            self.missed = missed;
            self.begun.values_mut().for_each(|draft| draft.story.incomplete = true);
        }
    }

    fn add_one(&mut self, look: &Look, data: &[u8]) {
        let mut seen = fields::of(LinkType(look.link), data, look.length as usize);
        let notes = notes::annotations(&look.annotations).into_iter();
        seen.extend(notes.map(|(name, value)| (name.to_owned(), value)));
        let place = look.place as usize;
        let is_drop = look.batch == 0;
        let element = if is_drop { Some(place) } else { self.fronts.get(place).copied() };
        let (name, class) =
            element.and_then(|id| self.elements.get(id)).cloned().unwrap_or_default();
        let draft = self.begun.entry(look.trace).or_insert_with(|| Draft {
            story: Story { trace: look.trace, ..Story::default() },
            last: BTreeMap::new(),
            touched: Instant::now(),
        });
        draft.touched = Instant::now();
        let packets = &mut draft.story.packets;
        let at = packets.iter().position(|one| one.packet == look.packet).unwrap_or_else(|| {
            packets.push(Traveller {
                packet: look.packet,
                parent: Some(look.parent).filter(|&parent| parent != NONE),
                fields: seen.clone(),
                hops: Vec::new(),
            });
            packets.len() - 1
        });
        let before = draft.last.get(&look.packet).map(|(fields, _)| fields);
        let changes = before.map_or(Vec::new(), |before| fields::changes(before, &seen));
        let reason = Reason::ALL.get(look.reason as usize).map_or("", |reason| reason.name());
        packets[at].hops.push(Hop {
            connection: match is_drop {
                true => String::new(),
                false => self.connections.get(place).cloned().unwrap_or_default(),
            },
            element: name,
            class: class.to_owned(),
            dropped: if is_drop { reason.to_owned() } else { String::new() },
            time: look.time as f64 / 1e9,
            thread: look.thread,
            batch: look.batch,
            cycles: look.cycles,
            changes,
        });
        let ended = is_drop || self.ends.get(place) == Some(&true);
        draft.last.insert(look.packet, (seen, ended));
    }

    /// The stories that have come to their end, or all.
    pub(super) fn take(&mut self, all: bool) -> Vec<Story> {
        let is_over = |draft: &Draft| {
            let settled = draft.last.values().all(|(_, ended)| *ended);
            all || draft.touched.elapsed() >= if settled { SETTLED } else { REST }
        };
        let over: Vec<u32> =
            self.begun.iter().filter(|(_, draft)| is_over(draft)).map(|(&at, _)| at).collect();
        over.into_iter().filter_map(|at| self.begun.remove(&at)).map(|draft| draft.story).collect()
    }
}
