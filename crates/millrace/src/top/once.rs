//! The view as one page of plain text, for scripts.

use std::fmt::Write;
use std::time::Duration;

use super::data::Data;
use super::listing::Listing;
use super::lists::{self, Choice, Kind};
use super::source::{Failure, Source};
use super::text::{Theme, printable};
use crate::report::scaled;

/// What happens in a router within `every`, as text.
///
/// # Errors
/// The router does not answer.
pub(crate) fn once(source: &mut dyn Source, every: Duration) -> anyhow::Result<String> {
    let mut take = || {
        source.snapshot().map_err(|failure| match failure {
            Failure::Lost(why) | Failure::Refused(why) => anyhow::anyhow!(why),
        })
    };
    let mut data = Data::new(take()?);
    std::thread::sleep(every);
    data.push(take()?);
    Ok(page(&data))
}

pub(super) fn page(data: &Data) -> String {
    let mut text = String::new();
    let (now, passed) = (&data.now, &data.passed.totals);
    let rate = |n: u64| format!("{}/s", scaled(data.rate(n)));
    let [bits_in, bits_out] = data.device_bits().map(scaled);
    let _ = writeln!(
        text,
        "{}  process {}  {}  {:.0} s  generation {}",
        printable(&now.program),
        now.pid,
        printable(&now.phase),
        now.seconds,
        now.generation
    );
    let _ = writeln!(
        text,
        "in {}  out {}  drops {}  held {}  devices: in {bits_in} bit/s, out {bits_out} bit/s",
        rate(passed.entered),
        rate(passed.left),
        rate(passed.dropped),
        now.totals.held
    );
    for kind in [Kind::Threads, Kind::Devices, Kind::Elements, Kind::Drops, Kind::Queues] {
        let sorted = (kind == Kind::Drops).then(|| lists::usual_order(kind)).flatten();
        let list = lists::listing(kind, data, &Choice { sorted, ..Choice::default() });
        if !list.rows.is_empty() {
            text.push('\n');
            text.push_str(&aligned(&list));
        }
    }
    text
}

/// A table with columns as wide as they need to be, without drawings.
fn aligned(list: &Listing<'_>) -> String {
    const PLAIN: Theme = Theme { coloured: false, unicode: false };
    let is_text = |title: &str| !title.is_empty() && title != "HISTORY";
    let columns: Vec<usize> = list
        .columns
        .iter()
        .enumerate()
        .filter(|(_, column)| is_text(column.title))
        .map(|(at, _)| at)
        .collect();
    let mut rows: Vec<Vec<String>> = Vec::new();
    rows.push(columns.iter().map(|&at| list.columns[at].title.to_owned()).collect());
    rows.extend(list.rows.iter().map(|row| {
        let cell = |&at: &usize| row.cells.get(at).map(|cell| printable(&cell.shown(0, PLAIN)));
        columns.iter().map(|at| cell(at).unwrap_or_default()).collect()
    }));
    let is_figure = |at: usize| {
        let first = list.rows.first().and_then(|row| row.cells.get(at));
        first.is_some_and(|cell| cell.is_figure())
    };
    let width = |place: usize| {
        let cells = rows.iter().filter_map(|row| row.get(place));
        cells.map(|cell| cell.chars().count()).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..columns.len()).map(width).collect();
    let mut text = String::new();
    for row in &rows {
        let cells = row.iter().zip(&widths).zip(&columns).map(|((cell, &width), &at)| {
            if is_figure(at) { format!("{cell:>width$}") } else { format!("{cell:width$}") }
        });
        text.push_str(cells.collect::<Vec<_>>().join("  ").trim_end());
        text.push('\n');
    }
    text
}
