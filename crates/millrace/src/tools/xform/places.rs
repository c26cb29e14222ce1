//! Where a match can begin: the elements by class, and for each pattern the part of the configuration that was searched.

use std::collections::{BTreeSet, HashMap};

use super::pattern::{Pattern, Rule};
use crate::tools::router::Router;

/// How many elements are looked at to find where a match can begin after a replacement. If there are more, it can begin
/// anywhere.
const MOST_NEAR: usize = 1_000;

/// How many elements are dead before they are removed, in small configurations. (In large ones a share is.)
const MOST_DEAD: usize = 499;

/// The elements of a configuration by class.
pub(super) struct Places {
    by_class: HashMap<String, BTreeSet<usize>>,
    class_of: HashMap<usize, String>,
    /// The number of elements, dead ones among them, above which dead ones are removed.
    room: usize,
}

impl Places {
    pub(super) fn new(router: &Router) -> Self {
        let (by_class, class_of) = (HashMap::new(), HashMap::new());
        let room = router.elements.len().next_power_of_two();
        let mut places = Self { by_class, class_of, room };
        (0..router.elements.len()).for_each(|place| places.note(router, place));
        places
    }

    /// The first element of a class that is not before this one.
    pub(super) fn next(&self, class: &str, start: usize) -> Option<usize> {
        self.by_class.get(class)?.range(start..).next().copied()
    }

    /// Notes what became of these elements. False if all indices are new: dead elements were removed.
    pub(super) fn update(&mut self, router: &mut Router, changed: &[usize]) -> bool {
        changed.iter().for_each(|place| self.note(router, *place));
        let live = self.class_of.len();
        let most = self.room.min(live + MOST_DEAD.max(live / 8));
        if router.elements.len() <= most {
            return true;
        }
        router.remove_dead();
        *self = Self::new(router);
        false
    }

    fn note(&mut self, router: &Router, place: usize) {
        let old = self.class_of.remove(&place);
        if let Some(places) = old.and_then(|class| self.by_class.get_mut(&class)) {
            places.remove(&place);
        }
        let Some(class) = router.live(place).and_then(|element| element.class.clone()) else {
            return;
        };
        self.by_class.entry(class.clone()).or_default().insert(place);
        self.class_of.insert(place, class);
    }
}

/// For each pattern, the index before which no match begins.
pub(super) struct Searched(Vec<usize>);

impl Searched {
    pub(super) fn new(rules: &[Rule]) -> Self {
        Self(vec![0; rules.len()])
    }

    pub(super) fn of(&self, rule: usize) -> usize {
        self.0.get(rule).copied().unwrap_or(0)
    }

    /// No match of a rule begins before this element.
    pub(super) fn note(&mut self, rule: usize, start: usize) {
        if let Some(slot) = self.0.get_mut(rule) {
            *slot = start;
        }
    }

    /// These elements are new, or have other connections. A match that did not exist before contains one of them.
    pub(super) fn changed(&mut self, router: &Router, rules: &[Rule], changed: &[usize]) {
        for (rule, start) in rules.iter().zip(&mut self.0) {
            *start = (*start).min(first_near(router, &rule.pattern, changed));
        }
    }
}

/// The first element with which a match can begin that contains one of these.
fn first_near(router: &Router, pattern: &Pattern, changed: &[usize]) -> usize {
    if !pattern.connected {
        return 0;
    }
    let known = |place: &usize| router.live(*place).is_some_and(|e| pattern.knows(e.class()));
    let mut near: BTreeSet<usize> = changed.iter().copied().filter(known).collect();
    let mut edge: Vec<usize> = near.iter().copied().collect();
    for _ in 1..pattern.size {
        let mut next = Vec::new();
        for place in edge {
            next.extend(router.neighbours(place).into_iter().filter(known));
            if next.len() > MOST_NEAR {
                return 0;
            }
        }
        next.retain(|place| near.insert(*place));
        edge = next;
    }
    let class = pattern.first().and_then(|first| pattern.class(first));
    let can_begin = |place: &usize| router.live(*place).and_then(|e| e.class.as_deref()) == class;
    near.into_iter().find(can_begin).unwrap_or(usize::MAX)
}
