//! Drops: a row a reason, and under it a row for each element that has dropped packets for it.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};

use super::choice::{Choice, sort};
use crate::top::data::Data;
use crate::top::history::{Ring, share};
use crate::top::listing::{Cell, Column, Listing, Row, Target, Value};
use crate::top::text::Ink;

const COLUMNS: &[Column] = &[
    Column { title: "REASON / ELEMENT", width: 20, rank: 0 },
    Column { title: "DROPS/S", width: 8, rank: 0 },
    Column { title: "DROPS", width: 10, rank: 1 },
    Column { title: "SHARE", width: 7, rank: 2 },
    Column { title: "CLASS", width: 16, rank: 4 },
    Column { title: "HISTORY", width: 20, rank: 3 },
];

/// The column of rates.
pub(super) const RATE: usize = 1;

/// What an element has dropped for a reason.
struct Drop<'a> {
    element: &'a str,
    class: &'a str,
    passed: u64,
    all: u64,
    history: Option<&'a Ring>,
}

pub(super) fn reasons(data: &Data) -> BTreeSet<String> {
    let drops = data.elements().flat_map(|(now, _)| now.drops.iter());
    drops.map(|(reason, _)| reason.to_owned()).collect()
}

pub(super) fn listing<'a>(data: &'a Data, choice: &Choice) -> Listing<'a> {
    let mut reasons: BTreeMap<&str, Vec<Drop<'a>>> = BTreeMap::new();
    for (now, passed) in data.elements() {
        for (reason, all) in now.drops.iter().filter(|(_, all)| *all > 0) {
            let drop = Drop {
                element: &now.name,
                class: &now.class,
                passed: passed.drops.get(reason),
                all,
                history: data.history.element(&now.name).and_then(|own| own.reasons.get(reason)),
            };
            let is_found = choice.finds(&format!("{reason} {} {}", now.name, now.class));
            if is_found && !(choice.hides_idle && drop.passed == 0) {
                reasons.entry(reason).or_default().push(drop);
            }
        }
    }
    let whole = data.now.totals.dropped;
    let mut groups: Vec<Row<'a>> = Vec::new();
    let mut members: BTreeMap<String, Vec<Row<'a>>> = BTreeMap::new();
    for (reason, drops) in reasons {
        let folded = choice.folded.contains(reason);
        let passed: u64 = drops.iter().fold(0, |sum, drop| drop.passed.saturating_add(sum));
        let all: u64 = drops.iter().fold(0, |sum, drop| drop.all.saturating_add(sum));
        let mut history = Ring::default();
        drops.iter().filter_map(|drop| drop.history).for_each(|ring| history.add(ring));
        groups.push(Row {
            key: reason.to_owned(),
            target: Target::Group { name: reason.to_owned(), folded },
            cells: vec![
                Cell::text(reason.to_owned()).ink(Ink::Strong).marked(0, Some(folded)),
                Cell::rate(data.rate(passed)).bad_if(passed > 0),
                Cell::count(all),
                Cell::share(share(all, whole)),
                Cell::text(""),
                Cell { value: Value::Spark(Cow::Owned(history), None), ink: Ink::Bad },
            ],
        });
        if folded {
            continue;
        }
        let mut rows: Vec<Row<'a>> = drops
            .iter()
            .map(|drop| Row {
                key: format!("{reason} {}", drop.element),
                target: Target::Element(drop.element.to_owned()),
                cells: vec![
                    Cell::text(drop.element).marked(1, None),
                    Cell::rate(data.rate(drop.passed)).bad_if(drop.passed > 0),
                    Cell::count(drop.all),
                    Cell::share(share(drop.all, whole)),
                    Cell::text(drop.class).ink(Ink::Faint),
                    Cell::spark(drop.history, None).ink(Ink::Bad),
                ],
            })
            .collect();
        sort(&mut rows, choice);
        members.insert(reason.to_owned(), rows);
    }
    sort(&mut groups, choice);
    let mut rows = Vec::new();
    for group in groups {
        let own = members.remove(&group.key).unwrap_or_default();
        rows.push(group);
        rows.extend(own);
    }
    Listing { columns: COLUMNS, sorted: choice.sorted, rows, empty: "no packet was dropped" }
}
