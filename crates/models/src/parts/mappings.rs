//! The rewriters' table of mappings.

use std::sync::Arc;

use loom::thread;

use crate::flows::key::{FlowId, Key};
use crate::flows::table::index::Found;
use crate::part::{Part, Scenario, join};
use crate::rewrite::mappings::flow_table::{FlowTable, NewMapping};

pub(crate) static PART: Part = Part {
    name: "mappings",
    files: &["crates/elements/src/rewrite/mappings/flow_table.rs"],
    stronger: &[],
    scenarios: &[
        Scenario {
            name: "who looks for a mapping that goes sees no other one's address",
            body: old,
        },
        Scenario {
            name: "who looks for a mapping that comes sees no other one's address",
            body: new,
        },
    ],
    broken: &[],
};

fn flow(number: u32) -> FlowId {
    Key::numbered(number).flow
}

/// Every field of a mapping follows from its number.
fn mapping(number: u32) -> NewMapping {
    NewMapping {
        keys: [flow(number), flow(number + 100)],
        map: 0,
        deltas: (number as u16, number as u16),
        outputs: [number as u16, number as u16],
        touched: 0,
        state: number,
        input: 0,
        born: 0,
    }
}

fn check(table: &FlowTable, found: Found, number: u32) -> bool {
    let view = table.view(found, Key::numbered(number));
    if let Some(view) = &view {
        assert_eq!(view.to, flow(number + 100).reversed());
        assert_eq!(
            (view.deltas.0, view.output, view.state),
            (number as u16, number as u16, number)
        );
    }
    view.is_some()
}

fn old() {
    views(1);
}

fn new() {
    views(2);
}

/// A record is used again for another mapping while a reader looks at it.
fn views(number: u32) {
    let table = Arc::new(FlowTable::new());
    let record = table.add(None, &mapping(1)).unwrap_or(u32::MAX);
    let found = Found { record, reply: false };
    let elsewhere = table.clone();
    let second = thread::spawn(move || {
        elsewhere.remove(record);
        elsewhere.add(Some(record), &mapping(2));
    });
    check(&table, found, number);
    join(second);
    assert!(check(&table, found, 2) && !check(&table, found, 1));
}
