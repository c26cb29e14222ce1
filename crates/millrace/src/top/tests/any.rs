//! No keys and no size of the terminal cause a panic.

use proptest::prelude::*;
use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::source::Request;
use super::super::source::{Answer, Failure, Handler};
use super::super::state::Act;
use super::super::state::State;
use super::{screen, snapshot, state};

fn key() -> impl Strategy<Value = KeyEvent> {
    let codes = prop_oneof![
        8 => prop::sample::select("123456789?/ <>roifFhjklgGqmw\u{e9}".chars().map(KeyCode::Char).collect::<Vec<_>>()),
        6 => prop::sample::select(vec![
            KeyCode::Enter, KeyCode::Esc, KeyCode::Up, KeyCode::Down, KeyCode::Left, KeyCode::Right, KeyCode::Home,
            KeyCode::End, KeyCode::PageUp, KeyCode::PageDown, KeyCode::Tab, KeyCode::BackTab, KeyCode::Backspace,
        ]),
        1 => any::<char>().prop_map(KeyCode::Char),
    ];
    codes.prop_map(|code| KeyEvent::new(code, KeyModifiers::NONE))
}

/// Answers as a router would.
fn answer(state: &mut State, act: &Act) {
    let Act::Ask(request) = act else { return };
    state.answer(match request.clone() {
        Request::Snapshot => Answer::Snapshot(Err(Failure::Lost("gone".to_owned()))),
        Request::Handlers(element) => {
            let handler = Handler { name: "config".to_owned(), read: true, write: true };
            Answer::Handlers(element, Ok((vec![handler; 9], "1, \u{4e16}\u{754c}\n2".to_owned())))
        }
        Request::Read(handler) => {
            Answer::Value(handler, Ok("\u{4e16}\u{754c}\t\x1b[1m\n".repeat(40)))
        }
        Request::Write(handler, value) => Answer::Written(handler, Ok(value)),
    });
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(128))]

    #[test]
    fn any_keys_at_any_size(
        keys in prop::collection::vec(key(), 0..40),
        columns in 0u16..200,
        rows in 0u16..60,
        has_messages in any::<bool>(),
        changes in 0usize..40,
    ) {
        let mut state = state();
        state.messages = has_messages.then(|| vec!["one".to_owned(); 100]);
        for (at, key) in keys.into_iter().enumerate() {
            let acts = state.key(key);
            acts.iter().for_each(|act| answer(&mut state, act));
            screen(&state, columns, rows);
            if at == changes {
                // Another configuration.
                let mut next = snapshot(9);
                next.elements.truncate(at % 5);
                next.workers.clear();
                next.devices.clear();
                state.answer(Answer::Snapshot(Ok(Box::new(next))));
                screen(&state, rows, columns);
            }
        }
    }

    /// What a hostile or newer server may send.
    #[test]
    fn any_names_and_counts(
        names in prop::collection::vec("[a/\u{4e16}\\x1b]{0,9}", 0..9),
        counts in prop::collection::vec(any::<u64>(), 9),
        edges in prop::collection::vec((0usize..12, 0usize..12), 0..9),
        columns in 0u16..120,
        rows in 0u16..40,
    ) {
        let mut next = snapshot(9);
        for (element, (name, n)) in next.elements.iter_mut().zip(names.iter().zip(&counts)) {
            element.name = name.clone();
            (element.entered, element.dropped, element.cycles, element.held) = (*n, *n, *n, *n);
        }
        for (connection, (from, to)) in next.connections.iter_mut().zip(edges) {
            (connection.from, connection.to) = (from, to);
        }
        next.workers.iter_mut().for_each(|worker| worker.busy_cycles = counts[0]);
        let mut state = state();
        state.answer(Answer::Snapshot(Ok(Box::new(next))));
        for keys in ["1", "2", "3", "4", "5", "1F", "1<Enter>"] {
            super::press(&mut state, keys);
            screen(&state, columns, rows);
        }
        super::super::once::page(state.data.as_ref().unwrap());
    }
}
