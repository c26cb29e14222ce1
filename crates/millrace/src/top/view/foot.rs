//! The last row: what is typed, what came of the last key, or the keys.

use super::pane::Pane;
use crate::top::lists::Kind;
use crate::top::pages::{Item, Page};
use crate::top::state::{Input, State, Tab};
use crate::top::text::Ink;

pub(super) fn draw(state: &State, pane: &mut Pane<'_>) {
    match &state.input {
        Some(Input::Search) => {
            let shown = state.kind().and_then(|kind| state.lists.get(&kind));
            let words = shown.map_or("", |shown| &shown.choice.search);
            return typed(pane, "search: ", words);
        }
        Some(Input::Write { handler, text }) => {
            return typed(pane, &format!("write {handler}: "), text);
        }
        None => {}
    }
    if let Some((said, ink)) = &state.said {
        pane.put(0, 0, said, *ink);
        return;
    }
    let mut x = 0;
    for (key, what) in keys(state) {
        if x > 0 && x + key.len() + what.len() + 3 > pane.width() {
            break;
        }
        x = pane.pieces(
            x,
            0,
            &[(key, Ink::Heading), (" ", Ink::Plain), (what, Ink::Plain), ("  ", Ink::Plain)],
        );
    }
}

/// Text that is typed; of a long one the end.
fn typed(pane: &mut Pane<'_>, before: &str, text: &str) {
    let x = pane.put(0, 0, before, Ink::Heading);
    let room = pane.width().saturating_sub(x + 1);
    let length = text.chars().count();
    let end: String = text.chars().skip(length.saturating_sub(room)).collect();
    let x = pane.put(x, 0, &end, Ink::Plain);
    pane.put(x, 0, " ", Ink::Chosen);
}

/// The keys that mean something now, the most important first.
fn keys(state: &State) -> Vec<(&'static str, &'static str)> {
    let help = ("?", "help");
    match (state.pages.last(), state.tab) {
        (Some(Page::Help(_)), _) => vec![("Esc", "back"), ("Up/Down", "scroll")],
        (Some(Page::Text(page)), _) => match page.handler {
            Some(_) => vec![("Esc", "back"), ("r", "read again"), ("Up/Down", "scroll"), help],
            None => vec![("Esc", "back"), ("Up/Down", "scroll"), help],
        },
        (Some(Page::Element(page)), _) => {
            let mut keys = vec![("Esc", "back")];
            match state.data.as_ref().and_then(|data| page.chosen(data)) {
                Some(Item::Edge(_)) => keys.push(("Enter", "go there")),
                Some(Item::Handler(handler)) => {
                    keys.extend(handler.read.then_some(("Enter", "read")));
                    keys.extend(handler.write.then_some(("w", "write")));
                }
                None => {}
            }
            keys.extend([("m", "manual"), ("r", "reload"), help]);
            keys
        }
        (None, Tab::Messages) => vec![("q", state.end), help, ("Up/Down", "scroll")],
        (None, Tab::List(kind)) => {
            let mut keys =
                vec![("q", state.end), help, ("/", "search"), ("<>", "sort"), ("r", "reverse")];
            match kind {
                Kind::Elements => keys.extend([("Enter", "open"), ("f", "fold"), ("i", "idle")]),
                Kind::Drops => keys.extend([("Enter", "open"), ("f", "fold")]),
                Kind::Queues => keys.push(("Enter", "open")),
                Kind::Devices | Kind::Threads => {}
            }
            keys.push(("Space", "pause"));
            keys
        }
    }
}
