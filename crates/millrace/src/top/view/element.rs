//! The page of an element: its figures, connections, drops and handlers.

use super::pane::Pane;
use crate::model::{Element, PortKind};
use crate::report::{mean, scaled};
use crate::top::data::Data;
use crate::top::history::{OfElement, share};
use crate::top::pages::{Edge, ElementPage, Item};
use crate::top::source::Handler;
use crate::top::state::State;
use crate::top::text::{Ink, Theme, cut, printable};

/// A row: pieces of text, and which item it is.
#[derive(Default)]
struct Row {
    pieces: Vec<(String, Ink)>,
    item: Option<usize>,
}

impl Row {
    fn new(text: impl Into<String>, ink: Ink) -> Self {
        Self::default().then(text, ink)
    }

    fn then(mut self, text: impl Into<String>, ink: Ink) -> Self {
        self.pieces.push((text.into(), ink));
        self
    }
}

pub(super) fn draw(state: &State, page: &ElementPage, pane: &mut Pane<'_>) {
    let Some(data) = &state.data else { return };
    let rows = rows(data, page, pane.theme, pane.width());
    let last = rows.iter().filter(|row| row.item.is_some()).count().saturating_sub(1);
    let chosen = page.item.min(last);
    let height = pane.height();
    if let Some(line) = rows.iter().position(|row| row.item == Some(chosen))
        && chosen > 0
    {
        page.scroll.show(line, height);
    }
    let top = page.scroll.fit(rows.len(), height);
    for (y, row) in rows.iter().skip(top).take(height).enumerate() {
        let mut x = 0;
        for (text, ink) in &row.pieces {
            x = pane.put(x, y, text, *ink);
        }
        if row.item == Some(chosen) {
            pane.mark(y, Ink::Chosen);
        }
    }
}

fn rows(data: &Data, page: &ElementPage, theme: Theme, width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let found = data.find(&page.name);
    let ends =
        found.and_then(|at| Some((data.now.elements.get(at)?, data.passed.elements.get(at)?)));
    match ends {
        None => {
            rows.push(Row::new(&page.name, Ink::Heading));
            rows.push(Row::new("The configuration has no such element any more.", Ink::Bad));
        }
        Some((now, passed)) => {
            let title = format!("{} :: {}", now.name, now.class);
            rows.push(
                Row::new(title, Ink::Heading).then(format!("  {}", now.landmark), Ink::Faint),
            );
            rows.extend(figures(data, now, passed));
            let history = data.history.element(&now.name);
            rows.extend(histories(history, now, theme, width));
        }
    }
    for line in page.config.lines() {
        rows.push(Row::new("configured ", Ink::Faint).then(printable(line), Ink::Plain));
    }
    let items = page.items(data);
    let mut comes = None;
    let mut in_handlers = false;
    for (number, item) in items.iter().enumerate() {
        let row = match item {
            Item::Edge(edge) => {
                if comes != Some(edge.comes) {
                    comes = Some(edge.comes);
                    let title = if edge.comes { "PACKETS COME FROM" } else { "PACKETS GO TO" };
                    rows.push(Row::new(title, Ink::Strong));
                }
                edge_row(data, edge, width)
            }
            Item::Handler(handler) => {
                if !std::mem::replace(&mut in_handlers, true) {
                    rows.extend(drop_rows(data, ends, theme));
                    rows.push(Row::new("HANDLERS", Ink::Strong));
                }
                handler_row(page, handler)
            }
        };
        rows.push(Row { item: Some(number), ..row });
    }
    if !in_handlers {
        rows.extend(drop_rows(data, ends, theme));
        rows.push(Row::new("HANDLERS", Ink::Strong));
        rows.push(match &page.handlers {
            None => Row::new(" asking for them", Ink::Faint),
            Some(Ok(_)) => Row::new(" none", Ink::Faint),
            Some(Err(why)) => Row::new(format!(" {}", printable(why)), Ink::Bad),
        });
    }
    rows
}

fn figures(data: &Data, now: &Element, passed: &Element) -> Vec<Row> {
    let rate = |n: u64| format!("{}/s", scaled(data.rate(n)));
    let thread = data.cycles_of_a_thread();
    let load = |cycles: u64| if thread > 0.0 { cycles as f64 / thread * 100.0 } else { 0.0 };
    let bad = if passed.dropped > 0 { Ink::Bad } else { Ink::Plain };
    let lately = Row::new("now    ", Ink::Faint)
        .then(format!("in {}  out {}  ", rate(passed.entered), rate(passed.left)), Ink::Plain)
        .then(format!("drops {}", rate(passed.dropped)), bad);
    let bits = passed.bytes.map(|bytes| format!("  {}bit/s", scaled(data.bits(bytes))));
    let lately = lately.then(bits.unwrap_or_default(), Ink::Plain);
    let all = Row::new("since  ", Ink::Faint).then(
        format!("in {}  out {}  drops {}  held {}", now.entered, now.left, now.dropped, now.held),
        Ink::Plain,
    );
    let cost = Row::new("cost   ", Ink::Faint).then(
        format!(
            "{} cycles/packet  load {:.1}%  polling {:.1}%  batch {}",
            mean(passed.cycles_per_packet),
            load(passed.cycles),
            load(passed.polling_cycles),
            mean(passed.mean_batch)
        ),
        Ink::Plain,
    );
    vec![lately, all, cost]
}

fn histories(history: Option<&OfElement>, now: &Element, theme: Theme, width: usize) -> Vec<Row> {
    let mut rows = Vec::new();
    let width = width.saturating_sub(8).min(60);
    if let Some(history) = history {
        let packets = theme.spark(&history.packets, width, None);
        rows.push(Row::new("packets ", Ink::Faint).then(packets, Ink::Good));
        if now.dropped > 0 {
            let drops = theme.spark(&history.drops, width, None);
            rows.push(Row::new("drops   ", Ink::Faint).then(drops, Ink::Bad));
        }
    }
    if let Some(queue) = &now.queue {
        let full = share(queue.length, queue.capacity);
        let text = format!(" {} of {}", queue.length, queue.capacity);
        let bar = theme.bar(full, width.saturating_sub(text.len()).min(30));
        rows.push(Row::new("queue   ", Ink::Faint).then(bar, Ink::Good).then(text, Ink::Plain));
        if let Some(history) = history {
            let fill = theme.spark(&history.held, width, Some(queue.capacity as f64));
            rows.push(Row::new("fill    ", Ink::Faint).then(fill, Ink::Notable));
        }
    }
    rows
}

fn edge_row(data: &Data, edge: &Edge, width: usize) -> Row {
    let kind = match edge.kind {
        Some(PortKind::Push) => "push",
        Some(PortKind::Pull) => "pull",
        Some(PortKind::Agnostic) | None => "",
    };
    let other = match edge.comes {
        true => format!("{} [{}]", edge.other, edge.other_port),
        false => format!("[{}] {}", edge.other_port, edge.other),
    };
    let rate = match edge.packets {
        Some(packets) => format!("{}/s", scaled(data.rate(packets))),
        None => "-".to_owned(),
    };
    let room = width.saturating_sub(24).clamp(8, 48);
    let other = cut(&other, room, '~');
    Row::new(format!(" [{}] {kind:4} {other:room$} {rate:>10}", edge.port), Ink::Plain)
}

fn drop_rows(data: &Data, ends: Option<(&Element, &Element)>, theme: Theme) -> Vec<Row> {
    let Some((now, passed)) = ends.filter(|(now, _)| now.dropped > 0) else { return Vec::new() };
    let mut rows = vec![Row::new("DROPS", Ink::Strong)];
    let history = data.history.element(&now.name);
    for (reason, all) in now.drops.iter().filter(|(_, all)| *all > 0) {
        let lately = passed.drops.get(reason);
        let rate = format!("{}/s", scaled(data.rate(lately)));
        let ring = history.and_then(|history| history.reasons.get(reason));
        let spark = ring.map_or(String::new(), |ring| theme.spark(ring, 20, None));
        let ink = if lately > 0 { Ink::Bad } else { Ink::Plain };
        rows.push(
            Row::new(format!(" {:24} {rate:>10} {all:>12} ", printable(reason)), ink)
                .then(spark, Ink::Bad),
        );
    }
    rows
}

fn handler_row(page: &ElementPage, handler: &Handler) -> Row {
    let mark = |can: bool, letter: char| if can { letter } else { '-' };
    let (read, write) = (mark(handler.read, 'r'), mark(handler.write, 'w'));
    let row = Row::new(format!(" {read}{write}  {:20} ", printable(&handler.name)), Ink::Plain);
    match page.values.get(&handler.name) {
        Some(Ok(value)) => row.then(value, Ink::Good),
        Some(Err(why)) => row.then(why, Ink::Bad),
        None => row,
    }
}
