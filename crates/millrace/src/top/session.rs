//! The loop: figures, keys, drawings.

use std::io;
use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::time::{Duration, Instant};

use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Signal, getpid, kill_process};

use super::messages::Messages;
use super::screen::{Screen, Waited, is_in_foreground};
use super::source::{Answer, Asker, Request, Source};
use super::state::{Act, State};
use super::text::Theme;
use super::view;
use crate::manual;

/// So often somebody looks whether the view is to end.
const TICK: Duration = Duration::from_millis(250);

/// A router that does not answer so long is said to be silent.
const SILENCE: Duration = Duration::from_secs(3);

/// The most lines of messages on the screen.
const MOST_MESSAGES: usize = 1000;

/// How a view ends.
pub(super) trait End {
    /// What the key for it does, in words.
    const WORD: &'static str;
    /// Whether the view is to end.
    fn has_come(&self) -> bool;
    /// Somebody wants it to.
    fn ask(&self);
}

/// What wakes the view.
pub(super) fn waker() -> io::Result<Arc<OwnedFd>> {
    Ok(Arc::new(eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK)?))
}

/// Wakes the view. If that fails, it is being woken already.
pub(super) fn wake(waker: &OwnedFd) {
    let _ = rustix::io::write(waker, &1u64.to_ne_bytes());
}

/// Ends when the process is told to.
struct Signals(Arc<std::sync::atomic::AtomicBool>);

impl End for Signals {
    const WORD: &'static str = "quit";

    fn has_come(&self) -> bool {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }

    fn ask(&self) {
        self.0.store(true, std::sync::atomic::Ordering::Relaxed);
    }
}

/// Shows a router until the user leaves, or a signal ends it.
///
/// # Errors
/// Standard output is no terminal, or it is gone.
pub(crate) fn watch(source: Box<dyn Source>, every: Duration) -> io::Result<()> {
    let told = Arc::default();
    for signal in
        [signal_hook::consts::SIGINT, signal_hook::consts::SIGTERM, signal_hook::consts::SIGHUP]
    {
        signal_hook::flag::register(signal, Arc::clone(&told))?;
    }
    run(source, every, None, &waker()?, &Signals(told))
}

/// Shows a router until the end has come.
pub(super) fn run<E: End>(
    source: Box<dyn Source>,
    every: Duration,
    messages: Option<Messages>,
    waker: &Arc<OwnedFd>,
    end: &E,
) -> io::Result<()> {
    let screen = Screen::take(messages.clone())?;
    let asker = Asker::start(source, Arc::clone(waker))?;
    let mut state = State::new(manual::of_class, E::WORD);
    state.messages = screen.has_messages().then(Vec::new);
    let theme = Theme::of_environment();
    let now = Instant::now();
    let mut session =
        Session { screen, state, asker, theme, every, messages, due: now, asked: None };
    let outcome = session.go(waker, end);
    let Session { screen, asker, .. } = session;
    drop(screen);
    asker.end(Duration::from_millis(500));
    outcome
}

struct Session {
    screen: Screen,
    state: State,
    asker: Asker,
    theme: Theme,
    every: Duration,
    messages: Option<Messages>,
    /// When new figures are asked for.
    due: Instant,
    /// When figures were asked for that have not come yet.
    asked: Option<Instant>,
}

impl Session {
    fn go<E: End>(&mut self, waker: &OwnedFd, end: &E) -> io::Result<()> {
        let mut is_away = false;
        let mut is_changed = true;
        let mut seen = 0;
        while !end.has_come() && Screen::is_held() {
            if !is_in_foreground() {
                is_away = true;
                std::thread::sleep(TICK);
                continue;
            }
            if std::mem::take(&mut is_away) {
                // A shell has used the terminal meanwhile.
                self.screen.give_back();
                self.screen.take_again()?;
                is_changed = true;
            }
            let now = Instant::now();
            if now >= self.due && self.asked.is_none() && !self.state.is_paused {
                self.asker.ask(Request::Snapshot);
                self.asked = Some(now);
                self.due = now + self.every;
            }
            is_changed |= self.take_answers();
            is_changed |= self.is_silent();
            if let Some(messages) = &self.messages
                && let Some(shown) = &mut self.state.messages
                && messages.came() != seen
            {
                seen = messages.came();
                *shown = messages.last(MOST_MESSAGES);
                is_changed = true;
            }
            if is_changed || self.screen.is_resized() {
                let mut buffer = self.screen.empty();
                view::draw(&self.state, &mut buffer, self.theme);
                self.screen.draw(buffer)?;
            }
            let patience = match self.asked {
                None => self.due.saturating_duration_since(Instant::now()).min(TICK),
                Some(_) => TICK,
            };
            let patience = if self.state.is_paused { TICK } else { patience };
            let keys = match self.screen.wait(waker, patience) {
                Waited::Keys(keys) => keys,
                Waited::Gone => return Ok(()),
            };
            is_changed = !keys.is_empty();
            for act in keys.into_iter().flat_map(|key| self.state.key(key)).collect::<Vec<_>>() {
                self.act(act, end)?;
            }
        }
        Ok(())
    }

    fn act<E: End>(&mut self, act: Act, end: &E) -> io::Result<()> {
        match act {
            Act::Quit => end.ask(),
            Act::Redraw => self.screen.redraw(),
            Act::Ask(request) => self.asker.ask(request),
            Act::Suspend => {
                self.screen.give_back();
                // It goes on here when the shell lets it.
                let _ = kill_process(getpid(), Signal::TSTP);
                self.screen.take_again()?;
            }
        }
        Ok(())
    }

    /// Takes what the router has answered; false if that is nothing.
    fn take_answers(&mut self) -> bool {
        let mut any = false;
        while let Some(answer) = self.asker.answer() {
            any = true;
            if matches!(answer, Answer::Snapshot(_)) {
                self.asked = None;
                self.state.silent = None;
            }
            self.state.answer(answer);
        }
        any
    }

    /// Whether there is something new to say about a router that does not answer.
    fn is_silent(&mut self) -> bool {
        let since = self.asked.map(|asked| asked.elapsed()).filter(|since| *since >= SILENCE);
        let silent = since.map(|since| since.as_secs());
        std::mem::replace(&mut self.state.silent, silent) != silent
    }
}
