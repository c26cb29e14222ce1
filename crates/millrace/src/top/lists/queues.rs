//! The queues: how full they are, what goes in and out.

use super::choice::{Choice, sort};
use crate::model::Element;
use crate::top::data::Data;
use crate::top::history::share;
use crate::top::listing::{Cell, Column, Listing, Row, Target};
use crate::top::text::Ink;

const COLUMNS: &[Column] = &[
    Column { title: "QUEUE", width: 14, rank: 0 },
    Column { title: "FULL", width: 7, rank: 1 },
    Column { title: "", width: 12, rank: 3 },
    Column { title: "LENGTH", width: 8, rank: 0 },
    Column { title: "CAPACITY", width: 9, rank: 4 },
    Column { title: "IN/S", width: 8, rank: 2 },
    Column { title: "OUT/S", width: 8, rank: 5 },
    Column { title: "DROPS/S", width: 8, rank: 2 },
    Column { title: "HISTORY", width: 12, rank: 6 },
];

pub(super) fn listing<'a>(data: &'a Data, choice: &Choice) -> Listing<'a> {
    let row = |(now, passed): (&'a Element, &'a Element)| {
        let queue = now.queue.as_ref()?;
        let is_idle = [passed.entered, passed.left, passed.dropped, queue.length] == [0; 4];
        if !choice.finds(&format!("{} {}", now.name, now.class)) || choice.hides_idle && is_idle {
            return None;
        }
        let full = share(queue.length, queue.capacity);
        let ink = match full {
            0.95.. => Ink::Bad,
            0.5.. => Ink::Notable,
            _ => Ink::Good,
        };
        let history = data.history.element(&now.name).map(|own| &own.held);
        Some(Row {
            key: now.name.clone(),
            target: Target::Element(now.name.clone()),
            cells: vec![
                Cell::text(&now.name),
                Cell::share(full).ink(ink),
                Cell::fill(full).ink(ink),
                Cell::count(queue.length),
                Cell::count(queue.capacity),
                Cell::rate(data.rate(passed.entered)),
                Cell::rate(data.rate(passed.left)),
                Cell::rate(data.rate(passed.dropped)).bad_if(passed.dropped > 0),
                Cell::spark(history, Some(queue.capacity as f64)),
            ],
        })
    };
    let mut rows: Vec<Row<'a>> = data.elements().filter_map(row).collect();
    sort(&mut rows, choice);
    Listing { columns: COLUMNS, sorted: choice.sorted, rows, empty: "no element stores packets" }
}
