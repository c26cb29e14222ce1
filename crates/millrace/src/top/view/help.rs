//! The help: keys, and what columns mean.

use super::pane::Pane;
use crate::top::pages::Scroll;
use crate::top::state::State;
use crate::top::text::Ink;

/// Keys and what they do; without a key, a heading; without anything, an empty row.
const HELP: &[(&str, &str)] = &[
    ("", "KEYS"),
    ("1 to 6, Tab", "another table"),
    ("Up, Down, k, j", "the row above, the row below; PgUp, PgDn, Home, End"),
    ("Enter", "the page of an element; folds and unfolds a group"),
    ("Left, Right", "folds, unfolds"),
    ("f, F", "folds or unfolds the group; all groups"),
    ("/", "shows only rows with these words; Esc shows all again"),
    ("<, >", "sorts by the column to the left, to the right"),
    ("r, o", "sorts the other way round; in the configuration's order"),
    ("i", "leaves out rows without packets"),
    ("Space", "stops and goes on with new figures"),
    ("Ctrl-L, Ctrl-Z", "draws all anew; back to the shell until `fg`"),
    ("", ""),
    ("", "THE PAGE OF AN ELEMENT"),
    ("Enter", "on a connection: the element there; on a handler: reads it"),
    ("w", "writes the handler: type a value, Enter sends it, Esc does not"),
    ("m, r", "the manual of its class; reads the handlers' list again"),
    ("Esc", "back"),
    ("", ""),
    ("", "COLUMNS"),
    ("PACKETS/S", "packets that came in: by inputs, from a device, or made there; into a"),
    ("", " compound element: those from outside of it"),
    ("BITS/S", "of elements that count bytes"),
    ("BATCH", "packets in a batch, on average"),
    ("CYC/PKT", "cycles a packet; runs without a packet do not count"),
    ("LOAD", "cycles with packets, as a share of one thread"),
    ("POLL", "cycles of looking for packets in vain, likewise"),
    ("DROPS/S, DROPS", "packets dropped: now, since the start"),
    ("HELD", "packets in the element now"),
    ("HISTORY", "the last minute, newest at the right"),
];

pub(super) fn draw(state: &State, scroll: &Scroll, pane: &mut Pane<'_>) {
    let quit = format!(
        "on a page: back; else {}, as does Ctrl-C",
        match state.end {
            "quit" => "leaves",
            _ => "ends the router",
        }
    );
    let mut rows: Vec<(&str, &str)> = vec![HELP[0], ("q", &quit)];
    rows.extend(&HELP[1..]);
    let top = scroll.fit(rows.len(), pane.height());
    let indent = if pane.width() < 60 { 12 } else { 17 };
    for (y, (key, what)) in rows.iter().skip(top).take(pane.height()).enumerate() {
        match (*key, what.starts_with(' ')) {
            ("", false) => drop(pane.put(0, y, what, Ink::Strong)),
            (key, _) => {
                let x = pane.put(1, y, key, Ink::Heading);
                pane.put((x + 1).max(indent), y, what.trim_start(), Ink::Plain);
            }
        }
    }
}
