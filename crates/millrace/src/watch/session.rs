//! A capture: what is observed for it, and the pieces of its file.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::Router;
use millrace_core::observe::{Observation, Observing};
use millrace_io::pcap::{LinkType, ng};

use super::filter::Filter;
use super::notes;
use super::places;
use super::record::Head;
use super::recorder::Recorder;
use super::wish::{Stopped, Wish};

/// A capture of a router, and of those that take its place.
pub(super) struct Session {
    wish: Wish,
    /// What is observed of the router of this generation. It ends when this is dropped.
    observed: Observed,
    /// What was counted before.
    before: Stopped,
    /// The interfaces of the file, by name and link type.
    interfaces: HashMap<(String, u32), u32>,
    /// How many packets of each interface are in the file.
    written: Vec<u64>,
    begun: bool,
    ended: bool,
    last_read: Instant,
}

struct Observed {
    generation: u64,
    recorder: Arc<Recorder>,
    /// None once the capture is to end.
    observing: Option<Observing>,
    /// The names of connections and elements, with what stands there.
    connections: HashMap<usize, (String, String)>,
    elements: Vec<(String, &'static str)>,
}

/// A read waits so long for packets.
const WAIT: Duration = Duration::from_millis(200);
const LOOK: Duration = Duration::from_millis(2);

/// About the most bytes that are read of each thread at a time.
const PIECE: usize = 1 << 20;

impl Observed {
    /// Observes what is wished for.
    ///
    /// # Errors
    /// There is no such element, port or device, or the filter is wrong.
    fn new(router: &Router, wish: &Wish) -> Result<Self, String> {
        let connections = places::connections(router, wish)?;
        if connections.is_empty() && !wish.drops {
            return Err("there is nothing to capture: name an element, a device, or all".to_owned());
        }
        let filter = Filter::new(wish, router)?;
        let recorder = Arc::new(Recorder::new(filter, wish, router.plan().threads));
        let told = |&at: &usize| {
            let ((from, _), (to, _)) = router.connections()[at];
            let classes = format!("{} to {}", router.class_of(from), router.class_of(to));
            (at, (places::name_of(router, at), classes))
        };
        let names = connections.iter().map(told).collect();
        let observer = recorder.clone();
        let observing =
            router.observe(Observation { connections, drops: wish.drops, singly: false, observer });
        Ok(Self {
            generation: router.generation(),
            recorder,
            observing: Some(observing),
            connections: names,
            elements: router
                .elements()
                .map(|info| (info.name.to_owned(), info.class.name))
                .collect(),
        })
    }
}

impl Session {
    pub(super) fn begin(router: &Router, wish: Wish) -> Result<Self, String> {
        Ok(Self {
            observed: Observed::new(router, &wish)?,
            wish,
            before: Stopped::default(),
            interfaces: HashMap::new(),
            written: Vec::new(),
            begun: false,
            ended: false,
            last_read: Instant::now(),
        })
    }

    pub(super) fn last_read(&self) -> Instant {
        self.last_read
    }

    pub(super) fn counts(&self) -> Stopped {
        let now = self.observed.recorder.counts();
        Stopped {
            matched: self.before.matched + now.matched,
            missed: self.before.missed + now.missed,
            unseen: self.before.unseen + now.unseen,
        }
    }

    /// The next pieces of the file. At the `end` nothing is observed any more, and what comes last is nothing.
    pub(super) fn read(&mut self, router: &Router, end: bool) -> Vec<u8> {
        self.last_read = Instant::now();
        let mut file = Vec::new();
        if !std::mem::replace(&mut self.begun, true) {
            ng::section(&mut file, concat!("millrace ", env!("CARGO_PKG_VERSION")));
        }
        if end {
            self.observed.observing = None;
        } else if router.generation() != self.observed.generation {
            self.follow(router, &mut file);
        }
        let patience = Instant::now() + WAIT;
        loop {
            let records = self.observed.recorder.take(PIECE);
            if !records.is_empty() {
                records.iter().for_each(|(head, data)| self.write(&mut file, head, data));
                break;
            }
            if end || !file.is_empty() || Instant::now() >= patience {
                break;
            }
            std::thread::sleep(LOOK);
        }
        if end && file.is_empty() && !std::mem::replace(&mut self.ended, true) {
            self.conclude(router, &mut file);
        }
        self.last_read = Instant::now();
        file
    }

    /// Observes the router that has taken the place of the one before. What is not in it any more is left out.
    fn follow(&mut self, router: &Router, file: &mut Vec<u8>) {
        let mut wish = self.wish.clone();
        let alone = |place: &Vec<String>, device: bool| -> Vec<String> {
            let one = |name: &&String| {
                let (places, devices) = match device {
                    true => (vec![], vec![(*name).clone()]),
                    false => (vec![(*name).clone()], vec![]),
                };
                places::connections(router, &Wish { places, devices, ..Wish::default() }).is_ok()
            };
            place.iter().filter(one).cloned().collect()
        };
        wish.places = alone(&wish.places, false);
        wish.devices = alone(&wish.devices, true);
        let Ok(next) = Observed::new(router, &wish) else {
            // Nothing of it is left: the packets of the old router come to an end.
            self.observed.generation = router.generation();
            return;
        };
        let rest = self.observed.recorder.take(usize::MAX);
        rest.iter().for_each(|(head, data)| self.write(file, head, data));
        self.before = self.counts();
        self.observed = next;
    }

    fn write(&mut self, file: &mut Vec<u8>, head: &Head, data: &[u8]) {
        let element = |id: u32| {
            let found = self.observed.elements.get(id as usize);
            found.map_or(("?", "?"), |(name, class)| (name.as_str(), *class))
        };
        let (name, description, mut comment) = match head.reason() {
            Some(reason) => {
                let (name, class) = element(head.place);
                let comment =
                    format!("dropped by {name} ({class}): {reason}; thread {}", head.thread);
                (format!("drops of {name}"), class.to_owned(), comment)
            }
            None => {
                let known = self.observed.connections.get(&(head.place as usize));
                let (name, classes) = known.cloned().unwrap_or_default();
                (name, classes, format!("thread {}, batch of {}", head.thread, head.batch))
            }
        };
        for (name, value) in notes::annotations(&head.annotations) {
            comment += &format!("; {name} {value}");
        }
        let next = self.interfaces.len() as u32;
        let snap_len = self.wish.snap_len;
        let interface =
            *self.interfaces.entry((name, head.link)).or_insert_with_key(|(name, link)| {
                ng::interface(file, LinkType(*link), snap_len, name, &description);
                next
            });
        if interface == next {
            self.written.push(0);
        }
        if let Some(written) = self.written.get_mut(interface as usize) {
            *written += 1;
        }
        let time = head.time.max(0).unsigned_abs();
        let original = head.length;
        ng::packet(file, &ng::Packet { interface, time, original, data, comment: &comment });
    }

    /// The end of the file: how many packets there are, and how many were missed, which counts at the first interface.
    fn conclude(&self, router: &Router, file: &mut Vec<u8>) {
        let time = router.clock().now().as_nanos().max(0).unsigned_abs();
        let mut missed = self.counts().missed;
        for (interface, &written) in self.written.iter().enumerate() {
            ng::statistics(file, interface as u32, time, written + missed, missed);
            missed = 0;
        }
    }
}
