//! Handlers, and the protocol of control sockets, while packets flow: commands for handlers that there are, with values of
//! any kind, and any bytes, in pieces of any length.

use arbitrary::Unstructured;
use millrace::control::{Access, Session};
use millrace_core::{Router, Timestamp};

use crate::bench::Bench;
use crate::draw::{Care, arguments, below, burst, draw, hostile_text, known, one_of, rarely};

/// Most commands of an input.
const COMMANDS: usize = 48;

pub(super) fn run(data: &[u8]) {
    let mut input = Unstructured::new(data);
    let first = one_of(&mut input, &known().classes);
    let drawing = draw(&mut input, first, Care::Right);
    let Some(mut bench) = Bench::new(&drawing.text, 1) else { return };
    let access = Access {
        read_only: rarely(&mut input, 16),
        token: rarely(&mut input, 16).then(|| "open".into()),
    };
    let mut session = Session::new(access.clone());
    for _ in 0..COMMANDS {
        if input.is_empty() {
            break;
        }
        let router = bench.router().clone();
        let command = command(&mut input, &router);
        let mut answer = Vec::new();
        match below(&mut input, 4) {
            0 => {
                let (begin, end) = command.split_at(below(&mut input, command.len()));
                session.receive(begin, &*router, &mut answer);
                session.receive(end, &*router, &mut answer);
            }
            _ => session.receive(&command, &*router, &mut answer),
        }
        while session.is_unfinished() {
            answer.clear();
            session.receive(&[], &*router, &mut answer);
        }
        if session.is_closed() || rarely(&mut input, 16) {
            session.finish(&*router, &mut answer);
            session = Session::new(access.clone());
        }
        drop(router);
        if rarely(&mut input, 3) {
            bench.give(below(&mut input, drawing.feeds.max(1)), burst(&mut input));
        }
        let time = [0, 1, 1_000][below(&mut input, 3)];
        bench.pass(Timestamp::from_millis(time));
    }
    drop(session);
    bench.end();
}

/// A command, or what is none.
fn command(input: &mut Unstructured<'_>, router: &Router) -> Vec<u8> {
    const WORDS: &[&str] =
        &["READ", "WRITE", "CHECKREAD", "CHECKWRITE", "LLRPC", "AUTH open", "HELP"];
    let handler = handler(input, router);
    let value = value(input, router);
    let text = match below(input, 8) {
        0..=3 => format!("WRITE {handler} {value}\n"),
        4 => format!("WRITEDATA {handler} {}\r\n{value}", value.len()),
        5 => format!("WRITEUNTIL {handler} .\n{value}\n.\n"),
        6 => format!("{} {handler} {value}\r\n", one_of(input, WORDS).copied().unwrap_or_default()),
        _ => hostile_text(input),
    };
    text.into_bytes()
}

/// A handler of some element, or a name that may be one.
fn handler(input: &mut Unstructured<'_>, router: &Router) -> String {
    let id = below(input, router.len() + 1);
    if id == router.len() {
        return one_of(input, &known().handlers).cloned().unwrap_or_default();
    }
    let handlers = router.handlers_of(id);
    let handler = one_of(input, &handlers).map(|(name, _, _)| name.as_str());
    format!("{}.{}", router.name_of(id), handler.unwrap_or_default())
}

/// What may be written: arguments of a class, or a short text.
fn value(input: &mut Unstructured<'_>, router: &Router) -> String {
    const SHORT: &[&str] =
        &["", "true", "false", "0", "1", "-1", "10.0.0.1", "4294967295", "x", "1 2"];
    match below(input, 4) {
        0 => hostile_text(input),
        1 => {
            let class = router.class_of(below(input, router.len()));
            let known = known().classes.iter().find(|known| known.name == class);
            known.map_or_else(String::new, |known| arguments(input, known, Care::Any))
        }
        _ => one_of(input, SHORT).copied().unwrap_or_default().to_owned(),
    }
}
