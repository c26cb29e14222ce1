//! Watching the packets of a running router, by global handlers: captures, and the last packets that were dropped.
//!
//! `millrace capture` is a client of these handlers; what is watched is an observation
//! ([`observe`](millrace_core::observe)) of the router.
//!
//! | handler | |
//! |---|---|
//! | `capture_start` (write, a [`Wish`] in JSON) | begins a capture, with a key of the client's choice |
//! | `capture_read` (read, with the key, and `end`) | the next pieces of its pcapng file; waits up to 200 ms for packets |
//! | `capture_stop` (read, with the key) | ends it; answers with how many packets it saw and missed, in JSON |
//! | `trace_start`, `trace_read`, `trace_stop` | the same for traces, which come as a list in JSON |
//! | `drops_keep` (read, write) | how many packets to keep for each element and reason; 0 for none |
//! | `drops_kept` (read) | these packets, in JSON |
//!
//! Who may not write begins no capture, and who does not know its key reads none: what is in packets is not for everybody.
//! Nothing stays behind: a capture that nobody reads for ten seconds ends. One follows a hot swap, to what has the same
//! names then.

mod filter;
mod kept;
mod link;
mod notes;
mod places;
mod record;
mod recorder;
mod ring;
mod session;
mod trace;
mod wish;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use millrace_core::router::{GlobalHandlers, HandlerError};
use millrace_core::{Lock, Router};

use kept::Keeper;
use session::Session;
use trace::Traces;
pub(crate) use trace::{Hop, Story, TraceWish, Traveller};
pub(crate) use wish::{Stopped, Wish};

/// What is watched of the routers that run one after the other. Clones are the same.
#[derive(Clone, Default)]
pub(crate) struct Watch(Arc<Shared>);

#[derive(Default)]
struct Shared {
    captures: Lock<Captures>,
    traces: Lock<HashMap<String, Arc<Lock<Traces>>>>,
    /// Whether somebody ends what is left.
    is_guarded: Lock<bool>,
    keeper: Lock<Keeper>,
}

/// Captures by their keys.
type Captures = HashMap<String, Arc<Lock<Session>>>;

/// Captures at a time; each has memory of its own for each thread.
const MOST_CAPTURES: usize = 8;

/// Nobody guesses a key.
const SHORTEST_KEY: usize = 16;

/// A capture that nobody reads for so long has been left.
const PATIENCE: Duration = Duration::from_secs(10);

impl Watch {
    /// Adds the handlers.
    pub(crate) fn offer(&self, handlers: &mut GlobalHandlers) {
        let watch = self.clone();
        handlers.write("capture_start", move |router, wish| watch.start(router, wish));
        let watch = self.clone();
        handlers.read_with("capture_read", move |router, words| watch.read(router, words));
        let watch = self.clone();
        handlers.read_with("capture_stop", move |_, words| watch.stop(words));
        let watch = self.clone();
        handlers.write("trace_start", move |router, wish| watch.start_trace(router, wish));
        let watch = self.clone();
        handlers.read_with("trace_read", move |router, words| watch.read_trace(router, words));
        let watch = self.clone();
        handlers.read_with("trace_stop", move |_, words| watch.stop_trace(words));
        let watch = self.clone();
        handlers.read("drops_keep", move |_| Ok(watch.0.keeper.lock().most().to_string()));
        let watch = self.clone();
        handlers.write("drops_keep", move |router, text| watch.0.keeper.lock().keep(router, text));
        let watch = self.clone();
        handlers.read("drops_kept", move |router| {
            to_json(&watch.0.keeper.lock().list(router).map_err(HandlerError::Refused)?)
        });
    }

    fn start(&self, router: &Router, wish: &[u8]) -> Result<(), HandlerError> {
        let wish: Wish = serde_json::from_slice(wish)
            .map_err(|error| HandlerError::Refused(format!("what to capture: {error}")))?;
        let key = wish.key.clone();
        check_key(&key)?;
        let session = Session::begin(router, wish).map_err(HandlerError::Refused)?;
        let mut captures = self.0.captures.lock();
        if captures.len() >= MOST_CAPTURES || captures.contains_key(&key) {
            let message = format!("{MOST_CAPTURES} captures run already, or one with this key");
            return Err(HandlerError::Refused(message));
        }
        captures.insert(key, Arc::new(Lock::new(session)));
        drop(captures);
        self.guard()
    }

    fn start_trace(&self, router: &Router, wish: &[u8]) -> Result<(), HandlerError> {
        let wish: TraceWish = serde_json::from_slice(wish)
            .map_err(|error| HandlerError::Refused(format!("what to trace: {error}")))?;
        check_key(&wish.key)?;
        let begun = Traces::begin(router, &wish).map_err(HandlerError::Refused)?;
        let mut traces = self.0.traces.lock();
        if traces.len() >= MOST_CAPTURES || traces.contains_key(&wish.key) {
            let message = format!("{MOST_CAPTURES} traces run already, or one with this key");
            return Err(HandlerError::Refused(message));
        }
        traces.insert(wish.key, Arc::new(Lock::new(begun)));
        drop(traces);
        self.guard()
    }

    fn read_trace(&self, router: &Router, words: &[u8]) -> Result<String, HandlerError> {
        let (key, rest) = key_in(words);
        let traces = self.0.traces.lock().get(key).cloned().ok_or_else(no_capture)?;
        let stories = traces.lock().read(router, rest == "end");
        to_json(&stories)
    }

    fn stop_trace(&self, words: &[u8]) -> Result<String, HandlerError> {
        let (key, _) = key_in(words);
        self.0.traces.lock().remove(key).map(|_| String::new()).ok_or_else(no_capture)
    }

    /// Has somebody end what nobody reads any more.
    fn guard(&self) -> Result<(), HandlerError> {
        let mut is_guarded = self.0.is_guarded.lock();
        if !*is_guarded {
            let watch = self.clone();
            let guard = std::thread::Builder::new().name("millrace-watch".to_owned());
            let begun = guard.spawn(move || watch.end_what_is_left());
            begun.map_err(|error| HandlerError::Refused(error.to_string()))?;
            *is_guarded = true;
        }
        Ok(())
    }

    fn read(&self, router: &Router, words: &[u8]) -> Result<Vec<u8>, HandlerError> {
        let (key, rest) = key_in(words);
        let session = self.0.captures.lock().get(key).cloned().ok_or_else(no_capture)?;
        let mut session = session.lock();
        Ok(session.read(router, rest == "end"))
    }

    fn stop(&self, words: &[u8]) -> Result<String, HandlerError> {
        let (key, _) = key_in(words);
        let session = self.0.captures.lock().remove(key).ok_or_else(no_capture)?;
        let stopped = session.lock().counts();
        to_json(&stopped)
    }

    /// Ends captures and traces that nobody reads any more, until there is none left.
    fn end_what_is_left(&self) {
        loop {
            std::thread::sleep(Duration::from_millis(500));
            let mut is_guarded = self.0.is_guarded.lock();
            let mut captures = self.0.captures.lock();
            let mut traces = self.0.traces.lock();
            let now = Instant::now();
            captures.retain(|_, session| match session.try_lock() {
                Some(session) => now.duration_since(session.last_read()) < PATIENCE,
                // It is being read.
                None => true,
            });
            traces.retain(|_, traces| match traces.try_lock() {
                Some(traces) => now.duration_since(traces.last_read()) < PATIENCE,
                None => true,
            });
            if captures.is_empty() && traces.is_empty() {
                *is_guarded = false;
                return;
            }
        }
    }
}

fn check_key(key: &str) -> Result<(), HandlerError> {
    if key.len() >= SHORTEST_KEY && key.bytes().all(|byte| byte.is_ascii_alphanumeric()) {
        return Ok(());
    }
    Err(HandlerError::Refused(format!("a key has {SHORTEST_KEY} letters and digits or more")))
}

/// The key of a capture, and the word behind it.
fn key_in(words: &[u8]) -> (&str, &str) {
    let text = std::str::from_utf8(words).unwrap_or_default().trim();
    let (key, rest) = text.split_once(' ').unwrap_or((text, ""));
    (key, rest.trim())
}

fn no_capture() -> HandlerError {
    HandlerError::Refused("nothing is watched under this key: it has ended".to_owned())
}

fn to_json(value: &impl serde::Serialize) -> Result<String, HandlerError> {
    serde_json::to_string(value).map_err(|error| HandlerError::Refused(error.to_string()))
}
