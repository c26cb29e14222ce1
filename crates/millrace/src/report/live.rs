//! The table on the terminal, which is redrawn each second.

use std::io::Write;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use millrace_core::Router;

use super::number::{mean, scaled};
use super::summary::drops;
use super::table::{Side, align};
use crate::model::snapshot::Element;
use crate::model::{Model, Snapshot};

/// The time between two drawings.
const PERIOD: Duration = Duration::from_secs(1);

/// A thread that draws the table until this is dropped.
pub(crate) struct Live {
    stop: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Live {
    /// Starts to draw the table of a running router on standard output.
    pub(crate) fn start(router: Arc<Router>, model: Model) -> std::io::Result<Self> {
        let (stop, stopped) = channel();
        let thread = std::thread::Builder::new().name("live".to_owned()).spawn(move || {
            let mut before = model.snapshot(&router);
            let mut drawn = 0;
            while stopped.recv_timeout(PERIOD) == Err(RecvTimeoutError::Timeout) {
                let now = model.snapshot(&router);
                let (rows, columns) = terminal_size();
                let lines = lines(&before, &now, rows, columns);
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
fn lines(before: &Snapshot, now: &Snapshot, rows: usize, columns: usize) -> Vec<String> {
    let mut passed = now.since(before);
    passed.seconds = passed.seconds.max(1e-9);
    let mut lines = vec![format!("{:.0} s", now.seconds)];
    lines.extend(devices(&passed));
    let room = rows.saturating_sub(lines.len() + 3).max(1);
    lines.extend(elements(now, &passed, room));
    for line in &mut lines {
        *line = line.chars().take(columns).collect();
    }
    lines
}

fn devices(passed: &Snapshot) -> Vec<String> {
    if passed.devices.is_empty() {
        return Vec::new();
    }
    let heading = [
        ("DEVICE", Side::Left),
        ("WAY", Side::Left),
        ("PACKETS/S", Side::Right),
        ("BITS/S", Side::Right),
        ("PER BATCH", Side::Right),
    ];
    let rows: Vec<Vec<String>> = passed
        .devices
        .iter()
        .map(|device| {
            let packets = device.packets as f64;
            vec![
                device.device.clone(),
                device.direction.clone(),
                scaled(packets / passed.seconds),
                scaled(device.bytes as f64 * 8.0 / passed.seconds),
                mean((device.batches > 0).then(|| packets / device.batches as f64)),
            ]
        })
        .collect();
    let mut lines = align(&heading, &rows);
    lines.push(String::new());
    lines
}

/// A line for each element. If there is no room for all, those with the most packets. Drops are those since the start.
fn elements(now: &Snapshot, passed: &Snapshot, room: usize) -> Vec<String> {
    let heading = [
        ("ELEMENT", Side::Left),
        ("PACKETS/S", Side::Right),
        ("BITS/S", Side::Right),
        ("PER BATCH", Side::Right),
        ("CYCLES/PKT", Side::Right),
        ("HELD", Side::Right),
        ("DROPS", Side::Left),
    ];
    let all = passed.elements.iter().zip(&now.elements);
    let mut shown: Vec<(&Element, &Element)> =
        all.filter(|(element, _)| !element.information).collect();
    let left_out = shown.len().saturating_sub(room);
    if left_out > 0 {
        shown.sort_by_key(|(element, _)| std::cmp::Reverse(element.entered));
        shown.truncate(room.saturating_sub(1));
        shown.sort_unstable_by_key(|(element, _)| element.id);
    }
    let rows: Vec<Vec<String>> = shown
        .iter()
        .map(|(element, now)| {
            let bits = element.bytes.map(|bytes| scaled(bytes as f64 * 8.0 / passed.seconds));
            vec![
                element.name.clone(),
                scaled(element.entered as f64 / passed.seconds),
                bits.unwrap_or_else(|| "-".to_owned()),
                mean(element.mean_batch),
                mean(element.cycles_per_packet),
                element.held.to_string(),
                drops(now),
            ]
        })
        .collect();
    let mut lines = align(&heading, &rows);
    if left_out > 0 {
        lines.push(format!("and {} more", left_out + 1));
    }
    lines
}

#[cfg(test)]
mod tests {
    use millrace_core::Timestamp;
    use millrace_core::run::initialize;

    use super::*;
    use crate::config::{Origin as Configuration, load};
    use crate::session::{Choices, Reach, configure, services};

    /// Two moments of a router, one second of the machine's time apart.
    fn moments(text: &str) -> (Snapshot, Snapshot) {
        let configuration = Configuration::Expression(text.to_owned());
        let mut loaded = load(&configuration, &[], None).unwrap();
        let model = Model::default();
        let choices = Choices { simtime: Some(1e9), ..Choices::default() };
        let options = choices.options(services(Reach::Guarded, &model)).unwrap();
        let router = configure(&mut loaded, options).unwrap();
        let mut engine = initialize(router, 1).unwrap();
        let router = engine.router().clone();
        model.begin(&router);
        let mut moment = |seconds: i64| {
            engine.run_until(Timestamp::from_nanos((1_000_000_000 + seconds) * 1_000_000_000));
            let mut snapshot = model.snapshot(&router);
            snapshot.seconds = seconds as f64;
            snapshot
        };
        (moment(1), moment(2))
    }

    const TEXT: &str = "RatedSource(DATA abcdefghij, RATE 100) -> c :: Counter -> q :: Queue(10) \
                        -> Idle; AddressInfo(a 1.2.3.4);";

    #[test]
    fn the_table_shows_what_happened_in_the_last_second() {
        let (before, now) = moments(TEXT);
        let lines = lines(&before, &now, 24, 100);
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
        let (before, now) = moments(TEXT);
        let lines = lines(&before, &now, 7, 12);
        assert!(lines.len() < 7, "{lines:?}");
        assert!(lines.iter().all(|line| line.chars().count() <= 12), "{lines:?}");
        assert!(lines.last().unwrap().starts_with("and "), "{lines:?}");
    }
}
