//! The table of flows: records with versions, and the index that finds them.

use std::sync::Arc;

use loom::thread;

use crate::engine::published::Seat;
use crate::flows::key::Key;
use crate::flows::table::{Changing, Fixed, Flows};
use crate::moment::Round;
use crate::part::{Part, Scenario, join};

pub(crate) static PART: Part = Part {
    name: "flows",
    files: &[
        "crates/elements/src/flows/table/mod.rs",
        "crates/elements/src/flows/table/index.rs",
        "crates/elements/src/flows/table/records.rs",
    ],
    stronger: &[],
    scenarios: &[
        Scenario { name: "a reader sees no other flow's number", body: numbers },
        Scenario {
            name: "a record that another thread has freed keeps no old flow's key",
            body: again,
        },
        Scenario { name: "a flow that stays is known while others come", body: knows },
        Scenario { name: "two packets of a flow are both counted", body: counts },
        Scenario { name: "an entry that moves is found", body: moves },
    ],
    broken: &[],
};

/// After this many milliseconds a flow is forgotten.
const TIMEOUT: u64 = 10;

/// The number of flow `n` is `n`. A record is used again for another flow while a reader looks at it.
fn numbers() {
    let mut seat = Seat::new();
    seat.begin_round();
    let flows = Arc::new(Flows::<Key, Fixed>::new(1, TIMEOUT, 0));
    let number = |flows: &Flows<Key, Fixed>, flow: u32, now: u64| {
        flows.number(&Round, Key::numbered(flow), now, || Some(flow.into()), |_| ())
    };
    assert_eq!(number(&flows, 1, 0), Some(1));
    let elsewhere = flows.clone();
    let second = thread::spawn(move || {
        let mut seat = Seat::new();
        seat.begin_round();
        let found = number(&elsewhere, 2, TIMEOUT);
        assert!(matches!(found, None | Some(2)), "{found:?}");
    });
    for now in [1, TIMEOUT + 1] {
        let found = number(&flows, 1, now);
        assert!(matches!(found, None | Some(1)), "{found:?}");
    }
    join(second);
}

fn knows() {
    let mut seat = Seat::new();
    seat.begin_round();
    let flows = Arc::new(Flows::<Key, Fixed>::new(3, 0, 0));
    let add = |flows: &Flows<Key, Fixed>, flow: u32| {
        flows.number(&Round, Key::numbered(flow), 0, || Some(flow.into()), |_| ())
    };
    add(&flows, 1);
    let elsewhere = flows.clone();
    let second = thread::spawn(move || {
        let mut seat = Seat::new();
        seat.begin_round();
        assert_eq!(add(&elsewhere, 2), Some(2));
    });
    assert!(flows.knows(&Round, Key::numbered(1), 0));
    assert!(!flows.knows(&Round, Key::numbered(3), 0));
    join(second);
    assert!(flows.knows(&Round, Key::numbered(2), 0));
}

fn counts() {
    let mut seat = Seat::new();
    seat.begin_round();
    let flows = Arc::new(Flows::<Key, Changing<u64>>::new(2, TIMEOUT, 0));
    let packet = |flows: &Flows<Key, Changing<u64>>, now: u64, gone: &mut u64| {
        let act = |count: &mut u64| *count += 1;
        flows.with(&Round, Key::numbered(1), now, || Some(0), |count| *gone += count, act)
    };
    let mut gone = 0;
    packet(&flows, 0, &mut gone);
    let elsewhere = flows.clone();
    let second = thread::spawn(move || {
        let mut seat = Seat::new();
        seat.begin_round();
        let mut gone = 0;
        packet(&elsewhere, TIMEOUT, &mut gone);
        gone
    });
    packet(&flows, 1, &mut gone);
    gone += join(second);
    let act = |count: &mut u64| *count;
    let left =
        flows.with(&Round, Key::numbered(1), TIMEOUT, || Some(0), |count| gone += count, act);
    assert_eq!(left.unwrap_or(0) + gone, 3);
}

/// One thread frees a record, another one uses it again, and a third one looks at it meanwhile.
fn again() {
    let mut seat = Seat::new();
    seat.begin_round();
    let flows = Arc::new(Flows::<Key, Fixed>::new(2, TIMEOUT, 0));
    let number = |flows: &Flows<Key, Fixed>, flow: u32, now: u64| {
        let mut seat = Seat::new();
        seat.begin_round();
        flows.number(&Round, Key::numbered(flow), now, || Some(flow.into()), |_| ())
    };
    assert_eq!(number(&flows, 1, 0), Some(1));
    let reads = flows.clone();
    let reader = thread::spawn(move || assert_eq!(number(&reads, 1, 1), Some(1)));
    // It begins its round before: the fence of that is none between the record's two flows.
    let adds = flows.clone();
    let other = thread::spawn(move || assert_eq!(number(&adds, 2, TIMEOUT + 1), Some(2)));
    flows.count(TIMEOUT + 1, |_| ());
    join(reader);
    join(other);
}

/// A full bucket: a new entry makes another one move to its other bucket. A reader that misses it finds it when it looks
/// again, after it has seen that the index has changed.
fn moves() {
    let mut seat = Seat::new();
    seat.begin_round();
    let flows = Arc::new(Flows::<Key, Fixed>::new(3, 0, 0));
    let add = |flows: &Flows<Key, Fixed>, flow: u32| {
        flows.number(&Round, Key::numbered(flow), 0, || Some(flow.into()), |_| ())
    };
    // Multiples of eight have one bucket only, and it is the first one of all.
    let (moving, staying, coming) = (1, 8, 16);
    assert!(add(&flows, moving).is_some() && add(&flows, staying).is_some());
    let elsewhere = flows.clone();
    let second = thread::spawn(move || {
        let mut seat = Seat::new();
        seat.begin_round();
        assert!(add(&elsewhere, coming).is_some());
    });
    assert!(flows.knows(&Round, Key::numbered(moving), 0));
    join(second);
    assert!(flows.knows(&Round, Key::numbered(staying), 0));
}
