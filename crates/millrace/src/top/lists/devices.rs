//! The devices: what they receive and send, and what they lose.

use super::choice::{Choice, sort};
use crate::top::data::Data;
use crate::top::listing::{Cell, Column, Listing, Row, Target};
use crate::top::text::Ink;

const COLUMNS: &[Column] = &[
    Column { title: "DEVICE", width: 10, rank: 0 },
    Column { title: "WAY", width: 4, rank: 0 },
    Column { title: "PACKETS/S", width: 10, rank: 1 },
    Column { title: "BITS/S", width: 8, rank: 2 },
    Column { title: "BATCH", width: 6, rank: 5 },
    Column { title: "LOST/S", width: 8, rank: 3 },
    Column { title: "LOST", width: 8, rank: 4 },
    Column { title: "QUEUES", width: 7, rank: 7 },
    Column { title: "BY", width: 10, rank: 6 },
    Column { title: "HISTORY", width: 12, rank: 8 },
];

pub(super) fn listing<'a>(data: &'a Data, choice: &Choice) -> Listing<'a> {
    let devices = data.now.devices.iter().zip(&data.passed.devices);
    let devices = devices.filter(|(now, passed)| {
        let text = format!("{} {} {}", now.device, now.direction, now.backend);
        let is_idle = (passed.packets, passed.lost) == (0, 0);
        choice.finds(&text) && !(choice.hides_idle && is_idle)
    });
    let mut rows: Vec<Row<'a>> = devices
        .map(|(now, passed)| {
            let batch = (passed.batches > 0).then(|| passed.packets as f64 / passed.batches as f64);
            let way = if now.direction == "in" { Ink::Good } else { Ink::Notable };
            Row {
                key: format!("{} {}", now.device, now.direction),
                target: Target::Nothing,
                cells: vec![
                    Cell::text(&now.device),
                    Cell::text(&now.direction).ink(way),
                    Cell::rate(data.rate(passed.packets)),
                    Cell::rate(data.bits(passed.bytes)),
                    Cell::mean(batch),
                    Cell::rate(data.rate(passed.lost)).bad_if(passed.lost > 0),
                    Cell::count(now.lost),
                    Cell::count(now.queues as u64),
                    Cell::text(&now.backend),
                    Cell::spark(data.history.device(&now.device, &now.direction), None),
                ],
            }
        })
        .collect();
    sort(&mut rows, choice);
    Listing { columns: COLUMNS, sorted: choice.sorted, rows, empty: "no device is open" }
}
