//! The threads: how busy they are with packets, how long they look for some, how they sleep.

use super::choice::{Choice, sort};
use crate::top::data::Data;
use crate::top::history::{cycles, share};
use crate::top::listing::{Cell, Column, Listing, Row, Target};
use crate::top::text::Ink;

const COLUMNS: &[Column] = &[
    Column { title: "THREAD", width: 7, rank: 0 },
    Column { title: "CORES", width: 8, rank: 4 },
    Column { title: "LOAD", width: 7, rank: 0 },
    Column { title: "", width: 12, rank: 2 },
    Column { title: "POLLING", width: 8, rank: 1 },
    Column { title: "ASLEEP", width: 7, rank: 1 },
    Column { title: "SLEEPS/S", width: 9, rank: 3 },
    Column { title: "HISTORY", width: 12, rank: 5 },
];

pub(super) fn listing<'a>(data: &'a Data, choice: &Choice) -> Listing<'a> {
    let mut rows: Vec<Row<'a>> = data
        .passed
        .workers
        .iter()
        .enumerate()
        .map(|(at, worker)| {
            let all = cycles(worker);
            let load = share(worker.busy_cycles, all);
            let ink = load_ink(load);
            let asleep = match data.passed.seconds > 0.0 {
                true => (worker.slept_seconds / data.passed.seconds).min(1.0),
                false => 0.0,
            };
            Row {
                key: worker.thread.to_string(),
                target: Target::Nothing,
                cells: vec![
                    Cell::text(worker.thread.to_string()),
                    Cell::text(cores(&worker.cores)),
                    Cell::share(load).ink(ink),
                    Cell::fill(load).ink(ink),
                    Cell::share(share(worker.polling_cycles, all)),
                    Cell::share(asleep),
                    Cell::rate(data.rate(worker.sleeps)),
                    Cell::spark(data.history.threads.get(at), Some(1.0)),
                ],
            }
        })
        .filter(|row| choice.finds(&row.key))
        .collect();
    sort(&mut rows, choice);
    Listing { columns: COLUMNS, sorted: choice.sorted, rows, empty: "no thread" }
}

/// The colour of a load: a thread without time left loses packets.
pub(crate) fn load_ink(load: f64) -> Ink {
    match load {
        0.95.. => Ink::Bad,
        0.8.. => Ink::Notable,
        _ => Ink::Good,
    }
}

fn cores(cores: &[usize]) -> String {
    match cores {
        [] => "any".to_owned(),
        cores => cores.iter().map(usize::to_string).collect::<Vec<_>>().join(","),
    }
}
