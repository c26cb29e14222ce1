//! The header: which router it is, its totals, the load of its threads, and the tabs.

use super::pane::Pane;
use crate::report::scaled;
use crate::top::data::Data;
use crate::top::lists::load_ink;
use crate::top::state::{State, Tab};
use crate::top::text::Ink;

/// How many rows it takes of a screen.
pub(super) fn height(state: &State, screen: usize) -> usize {
    let lost = usize::from(trouble(state).is_some());
    let wanted = match screen {
        0..=5 => 1,
        6..=9 => 2,
        10..=15 => 3,
        _ => 5,
    };
    (wanted + lost).min(screen.saturating_sub(1))
}

pub(super) fn draw(state: &State, pane: &mut Pane<'_>) {
    let mut rows = pane.height();
    if let Some((trouble, ink)) = trouble(state)
        && rows > 1
    {
        rows -= 1;
        pane.put(0, rows, &trouble, ink);
    }
    if let Some(data) = &state.data {
        match rows {
            0 => {}
            1 => totals(data, pane, 0),
            _ => {
                router(state, data, pane, 0);
                totals(data, pane, 1);
            }
        }
        if rows > 4 {
            threads(data, pane, 2);
            history(data, pane, 3);
        }
    }
    if rows > 2 {
        tabs(state, pane, rows - 1);
    }
}

/// What the user has to know before all else.
fn trouble(state: &State) -> Option<(String, Ink)> {
    if let Some(lost) = &state.lost {
        return Some((lost.clone(), Ink::Bad));
    }
    let silent = state.silent?;
    Some((format!("the instance has not answered for {silent} s"), Ink::Notable))
}

fn router(state: &State, data: &Data, pane: &mut Pane<'_>, y: usize) {
    let now = &data.now;
    let phase = match now.phase.as_str() {
        "running" => Ink::Good,
        _ => Ink::Notable,
    };
    let mut x = pane.pieces(0, y, &[(&now.program, Ink::Strong), ("  ", Ink::Plain)]);
    x = pane.pieces(x, y, &[(&now.phase, phase), ("  ", Ink::Plain)]);
    x = pane.put(x, y, &clock(now.seconds), Ink::Plain);
    if let Some(seconds) = now.virtual_seconds {
        x = pane.put(x, y, &format!(" ({} on its clock)", clock(seconds)), Ink::Plain);
    }
    if now.generation > 0 {
        x = pane.put(x, y, &format!("  generation {}", now.generation), Ink::Plain);
    }
    if state.is_paused {
        x = pane.put(x, y, "  PAUSED", Ink::Bad);
    }
    pane.put_right(x + 1, y, &format!("process {}", now.pid), Ink::Faint);
}

/// Hours, minutes and seconds.
fn clock(seconds: f64) -> String {
    let seconds = seconds.max(0.0) as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    match hours {
        0 => format!("{minutes}:{seconds:02}"),
        _ => format!("{hours}:{minutes:02}:{seconds:02}"),
    }
}

fn totals(data: &Data, pane: &mut Pane<'_>, y: usize) {
    let passed = &data.passed.totals;
    let rate = |n: u64| format!("{}/s", scaled(data.rate(n)));
    let [bits_in, bits_out] = data.device_bits().map(|bits| format!(" {}bit/s", unit(bits)));
    let has_devices = !data.now.devices.is_empty();
    let bits = |bits: &str| if has_devices { bits.to_owned() } else { String::new() };
    let drops = if passed.dropped > 0 { Ink::Bad } else { Ink::Faint };
    let wide = pane.width() >= 60;
    let gap = if wide { "   " } else { " " };
    let x = pane.pieces(
        0,
        y,
        &[
            ("in ", Ink::Faint),
            (&rate(passed.entered), Ink::Strong),
            (&if wide { bits(&bits_in) } else { String::new() }, Ink::Plain),
            (gap, Ink::Plain),
            ("out ", Ink::Faint),
            (&rate(passed.left), Ink::Strong),
            (&if wide { bits(&bits_out) } else { String::new() }, Ink::Plain),
            (gap, Ink::Plain),
            ("drops ", drops),
            (&rate(passed.dropped), drops),
        ],
    );
    let held = data.now.totals.held;
    pane.put_right(x + 1, y, &format!("held {held}"), Ink::Faint);
}

/// A figure before a unit.
fn unit(figure: f64) -> String {
    let text = scaled(figure);
    if text.contains(' ') { text } else { format!("{text} ") }
}

/// The loads of the threads, as many as there is room for.
fn threads(data: &Data, pane: &mut Pane<'_>, y: usize) {
    let mut x = pane.put(0, y, "load", Ink::Faint);
    let count = data.passed.workers.len();
    let width = if count > 4 { 4 } else { 8 };
    for (thread, (load, polling)) in data.loads().enumerate() {
        let bar = pane.theme.bar(load, width);
        let figures = match count {
            1 => format!(" {:.1}% with packets, {:.1}% polling", load * 100.0, polling * 100.0),
            _ => format!(" {:.0}%", load * 100.0),
        };
        let number = if count > 1 { format!(" {thread} ") } else { " ".to_owned() };
        let room = number.len() + width + figures.len();
        if x + room + 2 > pane.width() && count > 1 {
            pane.put(x + 1, y, "...", Ink::Faint);
            return;
        }
        x = pane.pieces(
            x,
            y,
            &[(&number, Ink::Faint), (&bar, load_ink(load)), (&figures, Ink::Plain)],
        );
    }
}

/// The last minute of all packets and drops.
fn history(data: &Data, pane: &mut Pane<'_>, y: usize) {
    let width = (pane.width() / 2).saturating_sub(9).min(60);
    let packets = pane.theme.spark(&data.history.entered, width, None);
    let drops = pane.theme.spark(&data.history.dropped, width, None);
    let x = pane.pieces(0, y, &[("packets ", Ink::Faint), (&packets, Ink::Good)]);
    pane.pieces(x + 1, y, &[("drops ", Ink::Faint), (&drops, Ink::Bad)]);
}

fn tabs(state: &State, pane: &mut Pane<'_>, y: usize) {
    let titles = |short: bool| -> Vec<(String, Tab)> {
        let title = |(at, tab): (usize, Tab)| {
            let title = match tab {
                Tab::List(kind) => kind.title(),
                Tab::Messages => "Messages",
            };
            let title = if short { title.get(..1).unwrap_or(title) } else { title };
            (format!(" {} {title} ", at + 1), tab)
        };
        state.tabs().enumerate().map(title).collect()
    };
    let long = titles(false);
    let needs: usize = long.iter().map(|(title, _)| title.len()).sum();
    let mut x = 0;
    for (title, tab) in if needs <= pane.width() { long } else { titles(true) } {
        let chosen = tab == state.tab && state.pages.is_empty();
        let ink = match (chosen, tab) {
            (true, _) => Ink::Chosen,
            (false, Tab::List(crate::top::lists::Kind::Drops)) if drops(state) => Ink::Bad,
            _ => Ink::Plain,
        };
        x = pane.put(x, y, &title, ink);
    }
}

/// Whether packets are dropped now.
fn drops(state: &State) -> bool {
    state.data.as_ref().is_some_and(|data| data.passed.totals.dropped > 0)
}
