//! What is on the screen, for figures that never change.

mod any;
mod keys;

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use super::data::Data;
use super::source::{Answer, Failure, Handler};
use super::state::State;
use super::text::Theme;
use super::view;
use crate::model::{Connection, Device, Element, PortKind, QueueFill, Snapshot, Totals, Worker};

/// A router after so many seconds: a device, a compound element with two elements, a queue, and a sink that nobody uses.
fn snapshot(seconds: u64) -> Snapshot {
    let n = |rate: u64| rate * seconds;
    let drops =
        |list: &[(&str, u64)]| list.iter().map(|(why, n)| ((*why).to_owned(), *n)).collect();
    let element = |name: &str, class: &str| Element {
        name: name.to_owned(),
        class: class.to_owned(),
        landmark: "router.click:1".to_owned(),
        ..Element::default()
    };
    let elements = [
        Element {
            created: n(1_000_000),
            sent: n(1_000_000),
            cycles: n(20_000_000),
            polling_cycles: n(100_000_000),
            outputs: vec![PortKind::Push],
            ..element("in", "FromDevice")
        },
        Element {
            received: n(1_000_000),
            batches: n(31_250),
            sent: n(999_000),
            cycles: n(50_000_000),
            drops: drops(&[("bad checksum", n(400)), ("bad header", n(600))]),
            inputs: vec![PortKind::Push],
            outputs: vec![PortKind::Push],
            ..element("check/ip", "CheckIPHeader")
        },
        Element {
            received: n(999_000),
            batches: n(31_250),
            sent: n(999_000),
            bytes: Some(n(63_936_000)),
            cycles: n(9_000_000),
            inputs: vec![PortKind::Push],
            outputs: vec![PortKind::Push],
            ..element("check/count", "Counter")
        },
        Element {
            received: n(999_000),
            batches: n(31_250),
            sent: n(900_000) - 640,
            held: 640,
            cycles: n(8_000_000),
            drops: drops(&[("queue full", n(99_000))]),
            queue: Some(QueueFill { length: 640, capacity: 1000 }),
            inputs: vec![PortKind::Push],
            outputs: vec![PortKind::Pull],
            ..element("q", "Queue")
        },
        Element {
            received: n(900_000) - 640,
            batches: n(28_125),
            consumed: n(900_000) - 640,
            cycles: n(30_000_000),
            inputs: vec![PortKind::Pull],
            ..element("out", "ToDevice")
        },
        element("idle", "Discard"),
        Element { information: true, ..element("names", "AddressInfo") },
    ];
    let elements =
        elements.into_iter().enumerate().map(|(id, element)| Element { id, ..element }.complete());
    let edge = |from: usize, to: usize, packets: u64| Connection {
        from,
        to,
        packets: Some(packets),
        ..Connection::default()
    };
    let device = |direction: &str, rate: u64, lost: u64| Device {
        device: "eth0".to_owned(),
        direction: direction.to_owned(),
        backend: "AF_XDP".to_owned(),
        queues: 2,
        packets: n(rate),
        bytes: n(rate) * 64,
        batches: n(rate / 32),
        lost,
        ..Device::default()
    };
    Snapshot {
        version: Snapshot::VERSION,
        program: "millrace 0.1.0".to_owned(),
        pid: 4711,
        phase: "running".to_owned(),
        seconds: seconds as f64,
        threads: 2,
        workers: vec![
            Worker {
                thread: 0,
                cores: vec![2],
                busy_cycles: n(850_000_000),
                polling_cycles: n(100_000_000),
                idle_cycles: n(50_000_000),
                ..Worker::default()
            },
            Worker {
                thread: 1,
                busy_cycles: n(20_000_000),
                idle_cycles: n(980_000_000),
                sleeps: n(120),
                slept_seconds: seconds as f64 * 0.9,
                ..Worker::default()
            },
        ],
        elements: elements.collect(),
        connections: vec![
            edge(0, 1, n(1_000_000)),
            edge(1, 2, n(999_000)),
            edge(2, 3, n(999_000)),
            edge(3, 4, n(900_000) - 640),
        ],
        devices: vec![device("in", 1_000_000, n(17)), device("out", 900_000, 0)],
        totals: Totals {
            entered: n(1_000_000),
            left: n(900_000) - 640,
            dropped: n(100_000),
            held: 640,
            balanced: true,
        },
        ..Snapshot::default()
    }
}

fn manual(class: &str) -> Option<String> {
    (class == "Queue")
        .then(|| "Queue - stores packets\n\nDESCRIPTION\n  It stores them.\n".to_owned())
}

/// The view after some seconds.
fn state() -> State {
    let mut state = State::new(manual, "quit");
    (1..=5).for_each(|seconds| state.answer(Answer::Snapshot(Ok(Box::new(snapshot(seconds))))));
    state
}

const ASCII: Theme = Theme { coloured: false, unicode: false };

/// The screen as text.
fn screen(state: &State, columns: u16, rows: u16) -> String {
    let mut buffer = Buffer::empty(Rect::new(0, 0, columns, rows));
    view::draw(state, &mut buffer, ASCII);
    text(&buffer)
}

fn text(buffer: &Buffer) -> String {
    let width = usize::from(buffer.area.width).max(1);
    let row = |cells: &[ratatui_core::buffer::Cell]| {
        let line: String = cells.iter().map(ratatui_core::buffer::Cell::symbol).collect();
        format!("{}\n", line.trim_end())
    };
    buffer.content.chunks(width).map(row).collect()
}

/// Keys as they are written here: letters, and names such as `<Enter>`.
fn press(state: &mut State, keys: &str) -> Vec<super::state::Act> {
    keys::parsed(keys).into_iter().flat_map(|key| state.key(key)).collect()
}

#[test]
fn tables_on_a_usual_terminal() {
    let mut state = state();
    for (key, name) in
        [("1", "elements"), ("2", "devices"), ("3", "threads"), ("4", "drops"), ("5", "queues")]
    {
        press(&mut state, key);
        insta::assert_snapshot!(format!("{name}_80x24"), screen(&state, 80, 24));
    }
}

#[test]
fn elements_on_small_and_large_terminals() {
    for (columns, rows) in [(40, 10), (20, 4), (160, 30)] {
        insta::assert_snapshot!(
            format!("elements_{columns}x{rows}"),
            screen(&state(), columns, rows)
        );
    }
}

#[test]
fn pages_above_the_tables() {
    let mut state = state();
    press(&mut state, "?");
    insta::assert_snapshot!("help_80x24", screen(&state, 80, 24));
    press(&mut state, "<Esc>5<Enter>");
    let handler = |name: &str, read, write| Handler { name: name.to_owned(), read, write };
    let handlers = vec![
        handler("length", true, false),
        handler("capacity", true, true),
        handler("reset", false, true),
    ];
    state.answer(Answer::Handlers("q".to_owned(), Ok((handlers, "1000".to_owned()))));
    state.answer(Answer::Value("q.length".to_owned(), Ok("640\n".to_owned())));
    state.answer(Answer::Value("q.capacity".to_owned(), Err(Failure::Refused("no".to_owned()))));
    insta::assert_snapshot!("element_80x24", screen(&state, 80, 24));
    press(&mut state, "<End>");
    insta::assert_snapshot!("element_40x10", screen(&state, 40, 10));
    press(&mut state, "m");
    insta::assert_snapshot!("manual_40x10", screen(&state, 40, 10));
}

#[test]
fn what_is_wrong_is_said_in_the_header() {
    let mut state = state();
    state.answer(Answer::Snapshot(Err(Failure::Lost("connection refused".to_owned()))));
    assert!(
        screen(&state, 80, 24)
            .contains("the instance has ended, or cannot be reached; trying again (")
    );
    assert!(screen(&state, 80, 3).contains("the instance has ended"), "{}", screen(&state, 80, 3));
    let another = Snapshot { pid: 1, ..snapshot(1) };
    state.answer(Answer::Snapshot(Ok(Box::new(another))));
    let text = screen(&state, 80, 24);
    assert!(
        text.contains("another instance answers: process 1") && !text.contains("ended"),
        "{text}"
    );
    state.silent = Some(7);
    assert!(screen(&state, 80, 24).contains("has not answered for 7 s"));
}

#[test]
fn polling_is_no_cost_of_packets() {
    let data = state().data.unwrap();
    let page = super::once::page(&data);
    let row = page.lines().find(|line| line.starts_with("in  ")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().collect();
    // Name, class, packets, bits, batch, cycles a packet, load, polling.
    assert_eq!(
        cells[..9],
        ["in", "FromDevice", "1.0", "M", "-", "-", "20.0", "2.0%", "10.0%"],
        "{page}"
    );
}

#[test]
fn one_page_of_text_has_all_tables() {
    insta::assert_snapshot!("once", super::once::page(&state().data.unwrap()));
}

#[test]
fn a_folded_compound_element_counts_what_comes_into_it() {
    let mut state = state();
    press(&mut state, "F");
    let text = screen(&state, 120, 24);
    let row = text.lines().find(|line| line.contains("+ check")).unwrap();
    let cells: Vec<&str> = row.split_whitespace().skip(2).collect();
    // A million packets, 59 cycles each, not the two million that its elements counted.
    assert_eq!(cells[..6], ["1.0", "M", "-", "-", "59.0", "5.9%"], "{text}");
    assert!(!text.contains("count"), "{text}");
}

#[test]
fn a_minute_of_samples_is_drawn_from_the_right() {
    let mut data = Data::new(snapshot(1));
    (2..=80).for_each(|seconds| data.push(snapshot(seconds)));
    let mut state = State::new(manual, "quit");
    state.data = Some(data);
    let text = screen(&state, 160, 24);
    let packets = text.lines().find(|line| line.starts_with("packets")).unwrap();
    assert!(packets.contains(&"#".repeat(60)), "{text}");
}
