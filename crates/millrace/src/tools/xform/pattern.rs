//! What the search for a pattern needs to know of it.

use std::collections::{BTreeSet, HashSet};

use crate::tools::router::{Connection, Router};

/// A pattern and its replacement.
pub(super) struct Rule {
    pub(super) name: String,
    pub(super) pattern: Pattern,
    pub(super) replacement: Router,
}

/// Elements and connections to look for. Elements without a class are the pattern's inputs and outputs.
pub(super) struct Pattern {
    pub(super) router: Router,
    /// For each element, its connections with itself and with those before it.
    links: Vec<Vec<Connection>>,
    /// For an element: the earlier element whose output 0 is connected only to it.
    only_from: Vec<Option<usize>>,
    /// The number of elements with a class, and their classes.
    pub(super) size: usize,
    classes: HashSet<String>,
    /// True if there is a way from each element to each other one, forward or backward.
    pub(super) connected: bool,
}

impl Pattern {
    /// The pattern of a compound without other compounds in it.
    pub(super) fn new(router: Router) -> Self {
        let count = router.elements.len();
        let classes = router.elements.iter().filter_map(|element| element.class.clone());
        let mut pattern = Self {
            links: vec![Vec::new(); count],
            only_from: vec![None; count],
            size: classes.clone().count(),
            classes: classes.collect(),
            connected: true,
            router,
        };
        for connection in pattern.router.connections() {
            let (from, to) = (connection.from, connection.to);
            if pattern.has_class(from.0)
                && pattern.has_class(to.0)
                && let Some(links) = pattern.links.get_mut(from.0.max(to.0))
            {
                links.push(connection);
            }
            if let [only] = pattern.router.ports_from((from.0, 0))[..]
                && only.0 > from.0
                && pattern.has_class(from.0)
                && pattern.has_class(only.0)
                && let Some(slot) = pattern.only_from.get_mut(only.0)
            {
                *slot = (*slot).max(Some(from.0));
            }
        }
        pattern.connected = pattern.is_connected();
        pattern
    }

    fn is_connected(&self) -> bool {
        let all = (0..self.router.elements.len()).filter(|index| self.has_class(*index));
        let all: BTreeSet<usize> = all.collect();
        let mut reached: BTreeSet<usize> = all.iter().copied().take(1).collect();
        let mut next: Vec<usize> = reached.iter().copied().collect();
        while let Some(index) = next.pop() {
            let neighbours = self.router.neighbours(index).into_iter();
            next.extend(neighbours.filter(|one| self.has_class(*one) && reached.insert(*one)));
        }
        reached == all
    }

    pub(super) fn has_class(&self, index: usize) -> bool {
        self.class(index).is_some()
    }

    pub(super) fn class(&self, index: usize) -> Option<&str> {
        self.router.live(index)?.class.as_deref()
    }

    /// True if an element of this class is part of it.
    pub(super) fn knows(&self, class: &str) -> bool {
        self.classes.contains(class)
    }

    pub(super) fn links(&self, index: usize) -> &[Connection] {
        self.links.get(index).map_or(&[], Vec::as_slice)
    }

    pub(super) fn only_from(&self, index: usize) -> Option<usize> {
        self.only_from.get(index).copied().flatten()
    }

    /// The first element that is looked for.
    pub(super) fn first(&self) -> Option<usize> {
        (0..self.router.elements.len()).find(|index| self.has_class(*index))
    }
}
