//! ProgressBar - draws a progress bar on the terminal
//!
//! # Synopsis
//! `ProgressBar(POSHANDLER [, SIZEHANDLER, UPDATE, BANNER, ACTIVE, DELAY, CHECK_STDOUT, FIXED_SIZE, INVERT])`
//!
//! # Description
//! Draws a bar on standard error, if that is a terminal, and redraws it periodically: the value of POSHANDLER as a
//! fraction of the value that SIZEHANDLER had at the start, the position itself, and the estimated time left. Without a
//! size, a mark moves back and forth. A position that has not moved for five seconds is shown as stalled. Nothing is
//! drawn while the program is in the background.
//!
//! # Arguments
//! - POSHANDLER: names of read handlers, separated by spaces; their sum is the position. Mandatory.
//! - SIZEHANDLER: read handlers whose sum is the size. Default: none.
//! - UPDATE: seconds between redraws. Default: 0.25.
//! - BANNER: text before the bar. Default: none.
//! - ACTIVE: whether to draw. Default: true.
//! - DELAY: seconds before the bar is first drawn. Default: 0.
//! - CHECK_STDOUT: draw nothing if standard output is a terminal too. Default: false.
//! - FIXED_SIZE: the size, instead of SIZEHANDLER.
//! - INVERT: whether the position counts down to zero. Default: false.
//!
//! # Ports
//! None.
//!
//! # Handlers
//! - `mark_stopped` (write): draws the bar for the last time.
//! - `mark_done` (write): the same, as complete.
//! - `active` (read, write): whether to draw.
//! - `banner` (read, write): the text before the bar.
//! - `poshandler`, `sizehandler` (read, write): the handlers' names.
//! - `pos` (read): the position when last drawn. `size` (read, write): the size.
//! - `reset` (write): starts again.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! c :: InfiniteSource(LIMIT 1000, STOP true) -> Counter -> Discard;
//! ProgressBar(Counter@2.count, FIXED_SIZE 1000, BANNER packets);
//! ```
//!
//! # See also
//! Script, PokeHandlers

use std::fmt::Write as _;
use std::io::{IsTerminal, Write as _};
use std::sync::MutexGuard;

use millrace_core::args::{ArgText, HandlerRef, Scope, Seconds};
use millrace_core::{
    Arg, Class, Context, Element, Failed, Handlers, Init, Lock, Refused, Router, Setup, Timer,
    Timestamp, register,
};

/// The element; its manual is at the top of the file.
pub struct ProgressBar {
    id: usize,
    update: Timestamp,
    delay: Timestamp,
    check_stdout: bool,
    inverted: bool,
    fixed_size: Option<f64>,
    timer: Timer,
    state: Lock<State>,
}

struct State {
    stage: Stage,
    active: bool,
    banner: Vec<u8>,
    positions: Vec<HandlerRef>,
    sizes: Vec<HandlerRef>,
    size: f64,
    has_size: bool,
    last: f64,
    /// When the position last moved.
    moved: Timestamp,
    start: Timestamp,
    stalled: Timestamp,
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Stage {
    First,
    Middle,
    Done,
    /// There is no terminal.
    Dead,
}

/// A position that has not moved for this many seconds is stalled.
const STALL: f64 = 5.0;

const LONGEST_BAR: usize = 240;

register!(ProgressBar, "progress_bar.rs");

impl Element for ProgressBar {
    const CLASS: Class = Class::new("ProgressBar", "0/0", "a/a");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let (id, timer) = (setup.id(), setup.timer());
        let args = &mut setup.args;
        let Names(positions) = args.mandatory("POSHANDLER");
        let Names(sizes) = args.positional("SIZEHANDLER", Names::default());
        let fixed_size: Option<f64> = args.optional_keyword("FIXED_SIZE");
        let update: Option<Seconds> = args.optional_keyword("UPDATE");
        let delay: Option<Seconds> = args.optional_keyword("DELAY");
        let state = State {
            stage: Stage::First,
            active: args.keyword("ACTIVE", true),
            banner: args.keyword("BANNER", Vec::new()),
            positions,
            sizes,
            size: fixed_size.unwrap_or(-1.0),
            has_size: fixed_size.is_some(),
            last: 0.0,
            moved: Timestamp::ZERO,
            start: Timestamp::ZERO,
            stalled: Timestamp::ZERO,
        };
        let check_stdout = args.keyword("CHECK_STDOUT", false);
        let inverted = args.keyword("INVERT", false);
        args.complete()?;
        let time = |given: Option<Seconds>, default: i64| {
            let millis = given.map(|time| i64::try_from(time.as_nanos() / 1_000_000).ok());
            Timestamp::from_millis(millis.flatten().unwrap_or(default))
        };
        let (update, delay) = (time(update, 250), time(delay, 0));
        let state = Lock::new(state);
        Ok(Self { id, update, delay, check_stdout, inverted, fixed_size, timer, state })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        let mut state = self.state();
        for handler in state.sizes.iter().chain(&state.positions) {
            check(init.router(), init.id(), handler)?;
        }
        let stdout = self.check_stdout && std::io::stdout().is_terminal();
        if !std::io::stderr().is_terminal() || stdout {
            state.stage = Stage::Dead;
        } else if state.active {
            self.timer.schedule_at(init.clock().now());
        }
        Ok(())
    }

    fn run_timer(&self, cx: &mut Context, (): &mut ()) {
        self.draw(cx.router());
    }

    fn cleanup(&self, router: &Router) -> Result<(), Refused> {
        if self.state().stage == Stage::Middle {
            self.state().stage = Stage::Done;
            self.draw(router);
        }
        Ok(())
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("mark_stopped", |bar, call| {
            bar.finish(call.router(), false);
            Ok(())
        });
        handlers.write("mark_done", |bar, call| {
            bar.finish(call.router(), true);
            Ok(())
        });
        handlers.read("active", |bar, _| bar.state().active);
        handlers.write("active", |bar, call| {
            let active = call.parse().map_err(|_| "type mismatch")?;
            bar.state().active = active;
            if active && bar.timer.expiry().is_none() {
                bar.timer.schedule_at(call.now());
            }
            Ok(())
        });
        handlers.read("banner", |bar, _| bar.state().banner.clone());
        handlers.write("banner", |bar, call| {
            bar.state().banner = call.bytes().to_vec();
            Ok(())
        });
        handlers.read("poshandler", |bar, call| names(call.router(), &bar.state().positions));
        handlers.write("poshandler", |bar, call| {
            let Names(new) = call.parse()?;
            for handler in &new {
                check(call.router(), call.element(), handler).map_err(|refused| refused.0)?;
            }
            bar.state().positions = new;
            Ok(())
        });
        handlers.read("sizehandler", |bar, call| names(call.router(), &bar.state().sizes));
        handlers.write("sizehandler", |bar, call| {
            let Names(new) = call.parse()?;
            for handler in &new {
                check(call.router(), call.element(), handler).map_err(|refused| refused.0)?;
            }
            let mut state = bar.state();
            state.sizes = new;
            state.has_size = false;
            Ok(())
        });
        handlers.read("pos", |bar, _| bar.state().last);
        handlers.read("size", |bar, _| bar.state().size);
        handlers.write("size", |bar, call| {
            bar.state().size = call.parse()?;
            Ok(())
        });
        handlers.write("reset", |bar, call| {
            let mut state = bar.state();
            state.has_size = bar.fixed_size.is_some();
            if state.stage != Stage::Dead {
                state.stage = Stage::First;
            }
            state.active = true;
            bar.timer.schedule_at(call.now());
            Ok(())
        });
    }
}

/// Names of handlers, separated by spaces.
#[derive(Default)]
struct Names(Vec<HandlerRef>);

impl Arg for Names {
    const EXPECTS: &'static str = "names of handlers";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, millrace_core::args::ArgError> {
        let names = text.words();
        names.iter().map(|name| HandlerRef::parse(name, scope)).collect::<Result<_, _>>().map(Self)
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

fn name(router: &Router, handler: &HandlerRef) -> String {
    match handler {
        HandlerRef::Of { element, handler } => format!("{}.{handler}", router.name_of(*element)),
        other => other.handler().to_owned(),
    }
}

fn names(router: &Router, handlers: &[HandlerRef]) -> String {
    handlers.iter().map(|handler| name(router, handler)).collect::<Vec<_>>().join(" ")
}

fn check(router: &Router, id: usize, handler: &HandlerRef) -> Result<(), Refused> {
    match router.access_from(id, handler) {
        Ok((true, _)) => Ok(()),
        _ => Err(format!("no ‘{}’ read handler", name(router, handler)).into()),
    }
}

/// The sum of the handlers' values; not known when a value is not a number, or there are no handlers.
fn sum(router: &Router, id: usize, handlers: &[HandlerRef]) -> (f64, bool) {
    let mut known = !handlers.is_empty();
    let mut sum = 0.0;
    for handler in handlers {
        let text = router.read_from(id, handler, b"").unwrap_or_default();
        match String::from_utf8_lossy(&text).trim().parse::<f64>() {
            Ok(value) => sum += value,
            Err(_) => known = false,
        }
    }
    (sum, known)
}

/// Whether this program is in the terminal's foreground.
fn in_foreground() -> bool {
    let group = rustix::termios::tcgetpgrp(std::io::stderr());
    group.is_ok_and(|group| group == rustix::process::getpgrp())
}

fn terminal_width() -> usize {
    match rustix::termios::tcgetwinsize(std::io::stderr()) {
        Ok(size) if size.ws_col > 0 => size.ws_col.into(),
        _ => 80,
    }
}

impl ProgressBar {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    fn finish(&self, router: &Router, full: bool) {
        {
            let mut state = self.state();
            if state.stage >= Stage::Done || !state.active {
                return;
            }
            if state.stage == Stage::First {
                self.begin(&mut state, router);
            }
            if full {
                state.has_size = true;
                state.size = sum(router, self.id, &state.positions).0;
            }
            state.stage = Stage::Done;
        }
        self.timer.unschedule();
        self.draw(router);
    }

    fn begin(&self, state: &mut State, router: &Router) {
        if !state.has_size {
            (state.size, state.has_size) = sum(router, self.id, &state.sizes);
        }
        state.last = 0.0;
        state.start = router.clock().now();
        state.moved = state.start;
        state.stalled = Timestamp::ZERO;
    }

    fn draw(&self, router: &Router) {
        let mut state = self.state();
        if !state.active || state.stage == Stage::Dead {
            return;
        }
        if state.stage == Stage::First {
            self.begin(&mut state, router);
            state.stage = Stage::Middle;
        }
        let now = router.clock().now();
        if !in_foreground() {
            return self.timer.schedule_at(now + self.update);
        }
        if now < state.start + self.delay {
            return self.timer.schedule_at(state.start + self.delay);
        }
        let (position, known) = sum(router, self.id, &state.positions);
        let line = state.line(position, known, self.inverted, now, terminal_width());
        // If standard error cannot be written, no one is watching.
        let _ = std::io::stderr().write_all(&line);
        if state.stage < Stage::Done {
            self.timer.schedule_at(now + self.update);
        } else {
            state.active = false;
        }
    }
}

impl State {
    /// The text to draw now.
    fn line(
        &mut self,
        position: f64,
        known: bool,
        inverted: bool,
        now: Timestamp,
        width: usize,
    ) -> Vec<u8> {
        let done = self.stage >= Stage::Done;
        let percent = match (known, self.has_size, self.size > 0.0) {
            (false, _, _) => -1,
            (true, false, _) => {
                let step = (position / 100_000.0) as i64 % 200;
                if step > 100 { 200 - step } else { step }
            }
            (true, true, true) => {
                let come = if inverted { self.size - position } else { position };
                ((100.0 * come / self.size) as i64).clamp(0, 100)
            }
            (true, true, false) => 100,
        };
        let mut line = b"\r".to_vec();
        if !self.banner.is_empty() {
            line.extend_from_slice(&self.banner);
            line.push(b' ');
        }
        let mut text = String::new();
        if self.has_size {
            // Writing to a string cannot fail.
            let _ = match known {
                true => write!(text, "{percent:3}% "),
                false => write!(text, "  -% "),
            };
        }
        // The position is informative only with SIZEHANDLER's size.
        let without_position = self.has_size && self.sizes.is_empty();
        let beside = line.len() + text.len() + 25 - if without_position { 8 } else { 0 };
        let length = width.saturating_sub(beside).min(LONGEST_BAR);
        if length > 0 {
            text.push_str(&bar(length, percent, self.has_size, done));
        }
        if without_position {
            text.push(' ');
        } else if known {
            let (mut shown, mut prefix) = (position, 0);
            while shown >= 100_000.0 && prefix < PREFIXES.len() - 1 {
                shown /= 1024.0;
                prefix += 1;
            }
            let unit = if prefix == 0 { ' ' } else { 'B' };
            let _ = write!(text, " {:5}{}{unit} ", shown as u64, char::from(PREFIXES[prefix]));
        } else {
            text.push_str(" -----   ");
        }
        let mut wait = (now - self.moved).as_secs_f64();
        if position > self.last {
            if wait >= STALL {
                self.stalled += now - self.moved;
            }
            self.moved = now;
            self.last = position;
            wait = 0.0;
        }
        let elapsed = (now - self.start - self.stalled).as_secs_f64();
        let unknown = !known || !self.has_size || elapsed <= 0.0 || position > self.size;
        if !done && unknown {
            text.push_str("   --:-- ETA");
        } else if wait >= STALL {
            text.push_str(" - stalled -");
        } else {
            let over = done || !known || position < 1e-6;
            let left = if over { elapsed } else { self.size / (position / elapsed) - elapsed };
            let (left, word) = (left as i64, if over { "    " } else { " ETA" });
            let _ = match left / 3600 {
                0 => write!(text, "   "),
                hours => write!(text, "{hours:2}:"),
            };
            let _ = write!(text, "{:02}:{:02}{word}", left % 3600 / 60, left % 60);
        }
        if done {
            text.push('\n');
        }
        line.extend_from_slice(text.as_bytes());
        line
    }
}

/// The units for multiples of 1024.
const PREFIXES: &[u8; 6] = b" KMGTP";

/// The bar itself, `length` wide: stars up to `percent`, or a mark that moves back and forth.
fn bar(length: usize, percent: i64, has_size: bool, done: bool) -> String {
    let part = |of: usize| (of as f64 * percent as f64 / 100.0) as usize;
    if percent < 0 || !has_size && done {
        format!("|{}|", "-".repeat(length))
    } else if has_size {
        format!("|{:length$}|", "*".repeat(part(length)))
    } else {
        let mark = if length > 3 { "***" } else { "*" };
        let before = " ".repeat(part(length - mark.len()));
        format!("|{:length$}|", before + mark)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use millrace_core::testing::Rig;

    fn state(size: Option<f64>) -> State {
        State {
            stage: Stage::Middle,
            active: true,
            banner: b"abc".to_vec(),
            positions: Vec::new(),
            sizes: vec![HandlerRef::Global("x".to_owned())],
            size: size.unwrap_or(0.0),
            has_size: size.is_some(),
            last: 0.0,
            moved: Timestamp::ZERO,
            start: Timestamp::ZERO,
            stalled: Timestamp::ZERO,
        }
    }

    fn drawn(state: &mut State, position: f64, seconds: i64) -> String {
        let now = Timestamp::from_secs(seconds);
        String::from_utf8(state.line(position, true, false, now, 60)).unwrap()
    }

    #[test]
    fn a_bar_grows_and_shows_the_time_left() {
        let mut it = state(Some(200.0));
        assert_eq!(drawn(&mut it, 0.0, 0), format!("\rabc   0% |{:25}|     0      --:-- ETA", ""));
        let half = format!("\rabc  50% |{:25}|   100      00:04 ETA", "*".repeat(12));
        assert_eq!(drawn(&mut it, 100.0, 4), half);
        assert!(drawn(&mut it, 100.0, 9).ends_with(" - stalled -"));
        it.stage = Stage::Done;
        let full = format!("\rabc 100% |{}|   200      00:04    \n", "*".repeat(25));
        assert_eq!(drawn(&mut it, 200.0, 10), full);
    }

    #[test]
    fn without_a_size_a_mark_moves() {
        let mut it = state(None);
        let line = drawn(&mut it, 5_000_000.0, 1);
        assert_eq!(line, format!("\rabc |{:13}***{:14}|  4882KB    --:-- ETA", "", ""));
        assert_eq!(bar(3, 100, false, false), "|  *|");
        assert_eq!(bar(4, -1, true, false), "|----|");
    }

    #[test]
    fn handlers_must_exist() {
        assert!(Rig::new("ProgressBar(nobody.count)", 0, 0).is_err());
        assert!(Rig::new("ProgressBar()", 0, 0).is_err());
        let mut rig = Rig::new("ProgressBar(list, FIXED_SIZE 7.5)", 0, 0).unwrap();
        assert_eq!(rig.read("poshandler").unwrap(), "list");
        assert_eq!(rig.read("size").unwrap(), "7.5");
        assert!(rig.write("poshandler", "nothing").is_err());
        rig.write("poshandler", "version").unwrap();
        assert_eq!(rig.read("poshandler").unwrap(), "version");
    }
}
