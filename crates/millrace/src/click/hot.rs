//! The option `-R`: a client replaces the configuration of the running router by writing the handler `hotconfig`.

use std::sync::mpsc::{RecvTimeoutError, channel};
use std::sync::{Arc, Condvar, MutexGuard};
use std::time::Duration;

use millrace_core::services::HotConfig;
use millrace_core::{Lock, Router};

use super::options::Options;
use super::{build, complain, read, sockets};
use crate::config::Origin;
use crate::model::Model;
use crate::signals::{Inbox, StopOnSignal};

/// The router that runs at the moment.
pub(super) struct HotSwap {
    options: Options,
    model: Model,
    state: Lock<State>,
    /// Notified when the engine runs.
    begun: Condvar,
    /// Locked while a configuration is being replaced.
    replacing: Lock<()>,
}

#[derive(Default)]
struct State {
    router: Option<Arc<Router>>,
    signals: Option<StopOnSignal>,
    stage: Stage,
}

/// Where the engine is.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Stage {
    #[default]
    Starts,
    Runs,
    HasEnded,
}

/// The maximum time that a request for a new configuration waits until the configuration runs.
const PATIENCE: Duration = Duration::from_secs(5);

impl HotSwap {
    pub(super) fn new(options: Options) -> Self {
        Self {
            options,
            model: Model::default(),
            state: Lock::default(),
            begun: Condvar::new(),
            replacing: Lock::default(),
        }
    }

    /// The service that replaces the configuration.
    pub(super) fn service(this: &Arc<Self>) -> HotConfig {
        let this = Arc::downgrade(this);
        HotConfig(Box::new(move |text| match this.upgrade() {
            Some(hot) => hot.replace(text),
            None => Err("the program ends".to_owned()),
        }))
    }

    /// When the first router began.
    pub(super) fn model(&self) -> &Model {
        &self.model
    }

    pub(super) fn start(&self, router: &Arc<Router>) {
        self.state().router = Some(router.clone());
    }

    /// The router that runs.
    ///
    /// Nobody calls this before [`start`](Self::start), when there is none.
    pub(super) fn router(&self) -> Arc<Router> {
        loop {
            if let Some(router) = self.state().router.clone() {
                return router;
            }
            std::thread::yield_now();
        }
    }

    /// Begins to handle signals, because the engine is about to run.
    pub(super) fn listen(&self, inbox: Inbox) -> std::io::Result<()> {
        let router = self.router();
        let signals = StopOnSignal::start(inbox, router, || {})?;
        let mut state = self.state();
        state.signals = Some(signals);
        state.stage = Stage::Runs;
        drop(state);
        self.begun.notify_all();
        Ok(())
    }

    /// Notes that the engine has ended.
    pub(super) fn end(&self) {
        let mut state = self.state();
        state.stage = Stage::HasEnded;
        state.signals.iter().for_each(StopOnSignal::router_has_ended);
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock()
    }

    /// Waits until the engine runs: control sockets are open before all elements are initialised.
    fn await_start(&self) -> Result<(), String> {
        let starts = |state: &mut State| state.stage == Stage::Starts;
        let waited = self.begun.wait_timeout_while(self.state(), PATIENCE, starts);
        match waited.is_ok_and(|(_, waited)| waited.timed_out()) {
            true => Err("the router has not started within 5 s".to_owned()),
            false => Ok(()),
        }
    }

    /// Replaces the configuration by the one in `text`. The error contains the faults of the text.
    fn replace(self: &Arc<Self>, text: &str) -> Result<(), String> {
        let _alone = self.replacing.lock();
        // A thread of the router must continue, so that it starts and ends.
        let outside = std::thread::current().name().is_some_and(|name| name.starts_with("control"));
        if outside {
            self.await_start()?;
        }
        let old = self.router();
        let mut loaded = read(&self.options, &Origin::Expression(text.to_owned()))?;
        sockets::add(&self.options, &mut loaded, ", RETRIES 1, RETRY_WARNINGS false");
        let engine = build(&self.options, &mut loaded, self, Some(&old))?;
        if self.state().stage != Stage::Runs {
            return Err("the router is not running".to_owned());
        }
        let (told, swapped) = channel::<()>();
        let this = Arc::downgrade(self);
        old.replace(engine, move |done| {
            done.complaints.into_iter().for_each(complain);
            if let Some(this) = this.upgrade() {
                let mut state = this.state();
                state.router = Some(done.router.clone());
                if let Some(signals) = &state.signals {
                    // The router runs without the signals of its elements, too.
                    let _ = signals.turn_to(done.router);
                }
            }
            drop(told);
        });
        if outside && swapped.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout) {
            return Err("the new router has not started within 5 s".to_owned());
        }
        Ok(())
    }
}
