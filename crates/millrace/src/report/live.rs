//! The table on the terminal, which is redrawn each second.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use millrace_core::Router;
use millrace_core::stats::ElementStats;

use super::figures::{Figures, Origin, cycles_per_packet, mean_batch, packets_in};
use super::number::{mean, scaled};
use super::summary::drops;
use super::table::{Side, align};
use super::{Ledger, devices::DeviceFigures};

/// The time between two drawings.
const PERIOD: Duration = Duration::from_secs(1);

/// A thread that draws the table until this is dropped.
pub(crate) struct Live {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    /// Starts to draw the table of a running router on standard output.
    pub(crate) fn start(
        router: Arc<Router>,
        ledger: Ledger,
        origin: Arc<Origin>,
    ) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("live".to_owned()).spawn(move || {
            let mut before = Figures::take(&router, &ledger, &origin);
            let mut drawn = 0;
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let now = Figures::take(&router, &ledger, &origin);
                let (rows, columns) = terminal_size();
                let lines = lines(&router, &before, &now, rows, columns);
                if draw(&lines, drawn).is_err() {
                    // The terminal is closed.
                    return;
                }
                drawn = lines.len();
                before = now;
            }
            // The summary replaces the table. The terminal may be closed by now.
            let _ = draw(&[], drawn);
        })?;
        Ok(Self { stop: Some(stop), thread: Some(thread) })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.stop = None;
        if let Some(thread) = self.thread.take() {
            // A failure here has no consequence.
            let _ = thread.join();
        }
    }
}

/// Replaces the last `drawn` lines above the cursor.
fn draw(lines: &[String], drawn: usize) -> std::io::Result<()> {
    let mut text = String::new();
    if drawn > 0 {
        text.push_str(&format!("\x1b[{drawn}A"));
    }
    text.push_str("\r\x1b[J");
    for line in lines {
        text.push_str(line);
        text.push('\n');
    }
    let mut stdout = std::io::stdout().lock();
    stdout.write_all(text.as_bytes())?;
    stdout.flush()
}

/// Rows and columns of the terminal.
fn terminal_size() -> (usize, usize) {
    match rustix::termios::tcgetwinsize(std::io::stdout()) {
        Ok(size) if size.ws_row > 0 && size.ws_col > 0 => (size.ws_row.into(), size.ws_col.into()),
        _ => (24, 80),
    }
}

/// The table of what happened between two moments, cut to the size of the terminal.
fn lines(
    router: &Router,
    before: &Figures,
    now: &Figures,
    rows: usize,
    columns: usize,
) -> Vec<String> {
    let seconds = (now.elapsed.saturating_sub(before.elapsed)).as_secs_f64().max(1e-9);
    let mut lines = vec![format!("{:.0} s", now.elapsed.as_secs_f64())];
    lines.extend(devices(before, now, seconds));
    let room = rows.saturating_sub(lines.len() + 3).max(1);
    lines.extend(elements(router, before, now, seconds, room));
    for line in &mut lines {
        *line = line.chars().take(columns).collect();
    }
    lines
}

fn devices(before: &Figures, now: &Figures, seconds: f64) -> Vec<String> {
    if now.devices.is_empty() {
        return Vec::new();
    }
    let heading = [
        ("DEVICE", Side::Left),
        ("WAY", Side::Left),
        ("PACKETS/S", Side::Right),
        ("BITS/S", Side::Right),
        ("PER BATCH", Side::Right),
    ];
    let none = DeviceFigures::default();
    let then = before.devices.iter().chain(std::iter::repeat(&none));
    let rows: Vec<Vec<String>> = now
        .devices
        .iter()
        .zip(then)
        .map(|(now, then)| {
            let packets = now.packets.wrapping_sub(then.packets) as f64;
            let bytes = now.bytes.wrapping_sub(then.bytes) as f64;
            let batches = now.batches.wrapping_sub(then.batches);
            vec![
                now.device.clone(),
                now.direction.to_owned(),
                scaled(packets / seconds),
                scaled(bytes * 8.0 / seconds),
                mean((batches > 0).then(|| packets / batches as f64)),
            ]
        })
        .collect();
    let mut lines = align(&heading, &rows);
    lines.push(String::new());
    lines
}

/// A line for each element. If there is no room for all, those with the most packets.
fn elements(
    router: &Router,
    before: &Figures,
    now: &Figures,
    seconds: f64,
    room: usize,
) -> Vec<String> {
    let heading = [
        ("ELEMENT", Side::Left),
        ("PACKETS/S", Side::Right),
        ("BITS/S", Side::Right),
        ("PER BATCH", Side::Right),
        ("CYCLES/PKT", Side::Right),
        ("HELD", Side::Right),
        ("DROPS", Side::Left),
    ];
    let deltas: Vec<ElementStats> =
        now.elements.iter().zip(&before.elements).map(|(now, then)| since(now, then)).collect();
    let mut shown: Vec<usize> = router
        .elements()
        .enumerate()
        .filter(|(_, element)| !element.class.information)
        .map(|(id, _)| id)
        .collect();
    let packets = |id: &usize| deltas.get(*id).map_or(0, packets_in);
    let left_out = shown.len().saturating_sub(room);
    if left_out > 0 {
        shown.sort_by_key(|id| std::cmp::Reverse(packets(id)));
        shown.truncate(room.saturating_sub(1));
        shown.sort_unstable();
    }
    let rows: Vec<Vec<String>> = shown
        .iter()
        .filter_map(|&id| Some((id, deltas.get(id)?)))
        .map(|(id, stats)| {
            let bytes = |figures: &Figures| figures.bytes.get(id).copied().flatten();
            let bits = match (bytes(now), bytes(before)) {
                (Some(now), Some(before)) if now >= before => {
                    scaled((now - before) as f64 * 8.0 / seconds)
                }
                _ => "-".to_owned(),
            };
            vec![
                router.name_of(id).to_owned(),
                scaled(packets_in(stats) as f64 / seconds),
                bits,
                mean(mean_batch(stats)),
                mean(cycles_per_packet(stats)),
                stats.held.to_string(),
                drops(stats),
            ]
        })
        .collect();
    let mut lines = align(&heading, &rows);
    if left_out > 0 {
        lines.push(format!("and {} more", left_out + 1));
    }
    lines
}

/// The difference between two moments of an element. The packets that it holds and its drops are those of the later
/// one.
fn since(now: &ElementStats, then: &ElementStats) -> ElementStats {
    ElementStats {
        received: now.received.wrapping_sub(then.received),
        batches: now.batches.wrapping_sub(then.batches),
        sent: now.sent.wrapping_sub(then.sent),
        created: now.created.wrapping_sub(then.created),
        consumed: now.consumed.wrapping_sub(then.consumed),
        cycles: now.cycles.wrapping_sub(then.cycles),
        held: now.held,
        drops: now.drops.clone(),
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::run::initialize;

    use super::*;
    use crate::config::{Origin as Configuration, load};
    use crate::session::{Choices, Reach, configure, services};

    /// Two moments of a router, one second of the machine's time apart.
    fn moments(text: &str) -> (Arc<Router>, Figures, Figures) {
        let configuration = Configuration::Expression(text.to_owned());
        let mut loaded = load(&configuration, &[], None).unwrap();
        let ledger = Ledger::default();
        let choices = Choices { simtime: Some(1e9), ..Choices::default() };
        let options = choices.options(services(Reach::Guarded, &ledger)).unwrap();
        let router = configure(&mut loaded, options).unwrap();
        let mut engine = initialize(router, 1).unwrap();
        let router = engine.router().clone();
        let origin = Origin::new(&router);
        let mut moment = |seconds: i64| {
            engine.run_until(Timestamp::from_nanos((1_000_000_000 + seconds) * 1_000_000_000));
            let mut figures = Figures::take(&router, &ledger, &origin);
            figures.elapsed = Duration::from_secs(seconds.unsigned_abs());
            figures
        };
        let (before, now) = (moment(1), moment(2));
        (router, before, now)
    }

    const TEXT: &str = "RatedSource(DATA abcdefghij, RATE 100) -> c :: Counter -> q :: Queue(10) \
                        -> Idle; AddressInfo(a 1.2.3.4);";

    #[test]
    fn the_table_shows_what_happened_in_the_last_second() {
        let (router, before, now) = moments(TEXT);
        let lines = lines(&router, &before, &now, 24, 100);
        assert_eq!(lines[0], "2 s");
        let cells = |line: usize| lines[line].split_whitespace().collect::<Vec<_>>();
        assert_eq!(cells(1)[..3], ["ELEMENT", "PACKETS/S", "BITS/S"]);
        let counter = cells(3);
        assert_eq!(counter[..5], ["c", "100", "8.0", "k", "1.0"]);
        let queue = cells(4);
        assert_eq!(queue[queue.len() - 4..], ["10", "191", "queue", "full"]);
        // AddressInfo handles no packets.
        assert_eq!(lines.len(), 6);
    }

    #[test]
    fn the_table_fits_the_terminal() {
        let (router, before, now) = moments(TEXT);
        let lines = lines(&router, &before, &now, 7, 12);
        assert!(lines.len() < 7, "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 12), "{lines:?}");
        assert!(lines.last().unwrap().starts_with("and "), "{lines:?}");
    }
}
