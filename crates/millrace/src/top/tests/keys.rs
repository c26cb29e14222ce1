//! What keys do.

use ratatui_crossterm::crossterm::event::{KeyCode, KeyEvent, KeyModifiers};

use super::super::source::{Answer, Failure, Handler, Request};
use super::super::state::Act;
use super::{press, screen, state};

/// Keys from text: letters, and names in angle brackets.
pub(super) fn parsed(text: &str) -> Vec<KeyEvent> {
    let mut keys = Vec::new();
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let named = rest.strip_prefix('<').and_then(|rest| rest.split_once('>'));
        let code = named.and_then(|(name, _)| named_key(name));
        match (code, named) {
            (Some((code, modifiers)), Some((_, after))) => {
                keys.push(KeyEvent::new(code, modifiers));
                rest = after;
            }
            _ => {
                keys.push(KeyEvent::new(KeyCode::Char(c), KeyModifiers::NONE));
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    keys
}

fn named_key(name: &str) -> Option<(KeyCode, KeyModifiers)> {
    let plain = |code| Some((code, KeyModifiers::NONE));
    match name {
        "Enter" => plain(KeyCode::Enter),
        "Esc" => plain(KeyCode::Esc),
        "Up" => plain(KeyCode::Up),
        "Down" => plain(KeyCode::Down),
        "Left" => plain(KeyCode::Left),
        "Right" => plain(KeyCode::Right),
        "Home" => plain(KeyCode::Home),
        "End" => plain(KeyCode::End),
        "PgUp" => plain(KeyCode::PageUp),
        "PgDn" => plain(KeyCode::PageDown),
        "Tab" => plain(KeyCode::Tab),
        "BackTab" => plain(KeyCode::BackTab),
        "Back" => plain(KeyCode::Backspace),
        "C-c" => Some((KeyCode::Char('c'), KeyModifiers::CONTROL)),
        "C-z" => Some((KeyCode::Char('z'), KeyModifiers::CONTROL)),
        "C-l" => Some((KeyCode::Char('l'), KeyModifiers::CONTROL)),
        _ => None,
    }
}

/// The names in the first column of the table, in their order.
fn rows(text: &str) -> Vec<String> {
    let below = text.lines().skip_while(|line| !line.starts_with("ELEMENT")).skip(1);
    let name =
        |line: &str| line.trim_start_matches(['-', '+', ' ']).split(' ').next().map(str::to_owned);
    below.take_while(|line| !line.is_empty()).filter_map(name).collect()
}

#[test]
fn keys_sort_search_and_fold() {
    let cases: [(&str, &[&str]); 12] = [
        // By load.
        ("", &["check", "ip", "count", "out", "in", "q", "idle"]),
        ("r", &["idle", "q", "in", "out", "check", "count", "ip"]),
        ("o", &["in", "check", "ip", "count", "q", "out", "idle"]),
        // The column after the load: polling.
        (">", &["in", "check", "ip", "count", "q", "out", "idle"]),
        // By the last column: the packets of the last second, which compound elements have not.
        ("o<<>", &["in", "q", "out", "check", "ip", "count", "idle"]),
        // By name.
        ("<<<<<<", &["check", "count", "ip", "idle", "in", "out", "q"]),
        ("/count", &["check/count"]),
        ("/DEVICE from<Enter>", &["in"]),
        ("/nothing<Esc>o", &["in", "check", "ip", "count", "q", "out", "idle"]),
        ("i", &["check", "ip", "count", "out", "in", "q"]),
        ("F", &["check", "out", "in", "q", "idle"]),
        ("<Down><Up><Left>", &["check", "out", "in", "q", "idle"]),
    ];
    for (keys, expected) in cases {
        let mut state = state();
        press(&mut state, keys);
        let text = screen(&state, 200, 40);
        assert_eq!(rows(&text), expected, "{keys}\n{text}");
    }
}

#[test]
fn keys_that_the_caller_heeds() {
    let open = |name: &str| Act::Ask(Request::Handlers(name.to_owned()));
    let cases = [
        ("q", vec![Act::Quit]),
        ("<C-c>", vec![Act::Quit]),
        ("/abc<C-c>", vec![Act::Quit]),
        ("?q", vec![]),
        ("?qq", vec![Act::Quit]),
        ("/q", vec![]),
        ("<C-z>", vec![Act::Suspend]),
        ("<C-l>", vec![Act::Redraw]),
        // The first row is a compound element.
        ("<Enter>", vec![]),
        ("<Down><Enter>", vec![open("check/ip")]),
        ("o<Enter>", vec![open("in")]),
        // From the element along its only connection to the next.
        ("o<Enter><Enter>", vec![open("in"), open("check/ip")]),
        ("4<Down><Enter>", vec![open("q")]),
        ("5<Enter>", vec![open("q")]),
        ("2<Enter>3<Enter>", vec![]),
    ];
    for (keys, expected) in cases {
        assert_eq!(press(&mut state(), keys), expected, "{keys}");
    }
}

#[test]
fn handlers_are_read_and_written() {
    let mut state = state();
    press(&mut state, "5<Enter>");
    let handler = |name: &str, read, write| Handler { name: name.to_owned(), read, write };
    let handlers = vec![
        handler("length", true, false),
        handler("capacity", true, true),
        handler("reset", false, true),
    ];
    state.answer(Answer::Handlers("q".to_owned(), Ok((handlers, "1000".to_owned()))));
    // After the two connections.
    let read = |name: &str| vec![Act::Ask(Request::Read(format!("q.{name}")))];
    let write = |name: &str, value: &str| {
        vec![Act::Ask(Request::Write(format!("q.{name}"), value.to_owned()))]
    };
    assert_eq!(press(&mut state, "<Down><Down><Enter>"), read("length"));
    assert_eq!(press(&mut state, "w"), []);
    assert!(screen(&state, 80, 24).contains("length can only be read"));
    assert_eq!(press(&mut state, "<Down><Enter>"), read("capacity"));
    state.answer(Answer::Value("q.capacity".to_owned(), Ok("1000\n".to_owned())));
    assert_eq!(press(&mut state, "w<Back>5<Enter>"), write("capacity", "1005"));
    assert_eq!(press(&mut state, "w12<Esc>"), []);
    assert_eq!(press(&mut state, "<Down><Enter><Enter>"), write("reset", ""));
    state.answer(Answer::Written("q.reset".to_owned(), Ok(String::new())));
    assert!(screen(&state, 80, 24).contains("q.reset is written"));
    state.answer(Answer::Written(
        "q.reset".to_owned(),
        Err(Failure::Refused("not\nallowed".to_owned())),
    ));
    assert!(screen(&state, 80, 24).contains("q.reset is not written: not allowed"));
}

#[test]
fn a_long_value_is_a_page_that_can_be_read_again() {
    let mut state = state();
    press(&mut state, "5<Enter>");
    state.answer(Answer::Value("q.list".to_owned(), Ok("one\n\x1b[2Jtwo\n".to_owned())));
    let text = screen(&state, 80, 24);
    assert!(text.contains("q.list\none\n[2Jtwo\n"), "{text}");
    assert_eq!(press(&mut state, "r"), [Act::Ask(Request::Read("q.list".to_owned()))]);
    state.answer(Answer::Value("q.list".to_owned(), Ok("three\n".to_owned())));
    let text = screen(&state, 80, 24);
    assert!(text.contains("q.list\nthree\n") && !text.contains("two"), "{text}");
    press(&mut state, "<Esc>");
    assert!(screen(&state, 80, 24).contains("q :: Queue"));
}

#[test]
fn pauses_and_tabs_and_manuals() {
    let cases = [
        (" ", "PAUSED"),
        ("<Tab>", "DEVICE"),
        ("<BackTab>", "QUEUE"),
        ("4", "REASON / ELEMENT"),
        ("4f", "+ queue full"),
        ("5<Enter>m", "DESCRIPTION"),
        ("o<Enter>m", "This program does not know the class."),
        ("/none", "no element is found"),
        ("?", "THE PAGE OF AN ELEMENT"),
    ];
    for (keys, expected) in cases {
        let mut state = state();
        press(&mut state, keys);
        let text = screen(&state, 80, 50);
        assert!(text.contains(expected), "{keys}\n{text}");
    }
}
