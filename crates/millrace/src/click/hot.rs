//! `-R`: the configuration is replaced while the router runs, by writing the handler `hotconfig`.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, MutexGuard};
use std::time::Duration;

use millrace_core::services::HotConfig;
use millrace_core::{Lock, Router};

use super::options::Options;
use super::{build, complain, read, sockets};
use crate::config::Origin;
use crate::signals::StopOnSignal;

/// The router that runs, whichever that is at the moment.
pub(super) struct HotSwap {
    options: Options,
    state: Lock<State>,
    /// Held by whoever replaces the configuration.
    replacing: Lock<()>,
}

#[derive(Default)]
struct State {
    router: Option<Arc<Router>>,
    signals: Option<StopOnSignal>,
    /// Whether the engine runs.
    running: bool,
}

/// Whoever asks for a new configuration waits for so long until it runs.
const PATIENCE: Duration = Duration::from_secs(5);

impl HotSwap {
    pub(super) fn new(options: Options) -> Self {
        Self { options, state: Lock::default(), replacing: Lock::default() }
    }

    /// The service that replaces the configuration.
    pub(super) fn service(this: &Arc<Self>) -> HotConfig {
        let this = Arc::downgrade(this);
        HotConfig(Box::new(move |text| match this.upgrade() {
            Some(hot) => hot.replace(text),
            None => Err("the program ends".to_owned()),
        }))
    }

    pub(super) fn start(&self, router: &Arc<Router>) {
        self.state().router = Some(router.clone());
    }

    /// The router that runs.
    ///
    /// Before [`start`](Self::start) there is none, and nobody asks.
    pub(super) fn router(&self) -> Arc<Router> {
        loop {
            if let Some(router) = self.state().router.clone() {
                return router;
            }
            std::thread::yield_now();
        }
    }

    /// Begins to hear signals: the engine will run.
    pub(super) fn listen(&self) -> std::io::Result<()> {
        let router = self.router();
        let signals = StopOnSignal::start(router, || {})?;
        let mut state = self.state();
        state.signals = Some(signals);
        state.running = true;
        Ok(())
    }

    /// The engine has ended.
    pub(super) fn end(&self) {
        let signals = {
            let mut state = self.state();
            state.running = false;
            state.signals.take()
        };
        drop(signals);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Replaces the configuration by the one in a text. The error is what is wrong with it.
    fn replace(self: &Arc<Self>, text: &str) -> Result<(), String> {
        let _alone = self.replacing.lock();
        let old = self.router();
        let mut loaded = read(&self.options, &Origin::Expression(text.to_owned()))?;
        sockets::add(&self.options, &mut loaded, ", RETRIES 1, RETRY_WARNINGS false");
        let engine = build(&self.options, &mut loaded, self, Some(&old))?;
        if !self.state().running {
            return Err("the router does not run".to_owned());
        }
        let (told, swapped) = channel::<()>();
        let this = Arc::downgrade(self);
        old.replace(engine, move |done| {
            done.complaints.into_iter().for_each(complain);
            if let Some(this) = this.upgrade() {
                let signals = {
                    let mut state = this.state();
                    state.router = Some(done.router.clone());
                    state.signals.take()
                };
                drop(signals);
                // Without them the router runs all the same.
                let signals = StopOnSignal::start(done.router, || {}).ok();
                this.state().signals = signals;
            }
            drop(told);
        });
        // A thread of the router must go on for the others to end.
        let outside = std::thread::current().name().is_some_and(|name| name.starts_with("control"));
        if outside && swapped.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            return Err("the router takes its time".to_owned());
        }
        Ok(())
    }
}
