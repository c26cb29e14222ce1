//! The selected port of a switch: the argument, and pulling from that port.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use millrace_core::element::Listening;
use millrace_core::{Batch, Context, Init, Notifier, Router, Setup};

/// A selected port, or none.
pub(in crate::standard) struct Selection {
    /// The port; -1 for none.
    port: AtomicI32,
    ports: usize,
}

impl Selection {
    /// Selects one of `ports` ports. A number that is out of range selects none.
    pub(in crate::standard) fn new(port: i32, ports: usize) -> Self {
        let selection = Self { port: AtomicI32::new(-1), ports };
        selection.set(port);
        selection
    }

    /// Reads the argument with this name; the default is port 0.
    pub(in crate::standard) fn configure(setup: &mut Setup<'_>, name: &str, ports: usize) -> Self {
        Self::new(setup.args.positional(name, 0), ports)
    }

    /// The port; -1 for none.
    pub(in crate::standard) fn number(&self) -> i32 {
        self.port.load(Relaxed)
    }

    /// The port, if there is one.
    pub(in crate::standard) fn port(&self) -> Option<usize> {
        usize::try_from(self.number()).ok()
    }

    /// Selects a port. A number that is out of range selects none.
    pub(in crate::standard) fn set(&self, port: i32) {
        let exists = usize::try_from(port).is_ok_and(|port| port < self.ports);
        self.port.store(if exists { port } else { -1 }, Relaxed);
    }
}

/// The selected input of an element whose notifier tells pullers whether that input has packets.
pub(super) struct PullSelection {
    input: Selection,
    /// Whether the selected input may have packets.
    notifier: Notifier,
    /// The notifiers upstream of each input.
    upstream: OnceLock<Vec<Listening>>,
}

impl From<Selection> for PullSelection {
    fn from(input: Selection) -> Self {
        Self { input, notifier: Notifier::default(), upstream: OnceLock::new() }
    }
}

impl PullSelection {
    /// Finds the notifiers upstream of the inputs. The puller starts awake if an input is selected.
    pub(super) fn initialize(&self, init: &Init<'_>) {
        let inputs = 0..self.input.ports;
        // An element is initialised once.
        let _ = self.upstream.set(inputs.map(|input| init.watch(input)).collect());
        if self.input.port().is_some() {
            self.notifier.wake();
        }
    }

    /// Fills a batch from the selected input.
    pub(super) fn pull(&self, cx: &mut Context, max: usize, batch: &mut Batch) {
        let Some(input) = self.input.port() else { return };
        if cx.pull(input, max, batch) > 0 {
            self.notifier.wake();
        } else if !self.has_packets(cx.router()) {
            self.notifier.sleep_unless(|| self.has_packets(cx.router()));
        }
    }

    /// The number of the selected input; -1 for none.
    pub(super) fn number(&self) -> i32 {
        self.input.number()
    }

    /// Selects another input.
    pub(super) fn set(&self, input: i32, router: &Router) {
        self.input.set(input);
        if self.has_packets(router) {
            self.notifier.wake_unlocked();
        } else if self.input.port().is_none() {
            self.notifier.sleep_unless(|| self.has_packets(router));
        }
    }

    pub(super) fn notifier(&self) -> &Notifier {
        &self.notifier
    }

    /// Whether the selected input may have packets.
    fn has_packets(&self, router: &Router) -> bool {
        let upstream = self.upstream.get();
        let input = self.input.port().and_then(|input| upstream?.get(input));
        input.is_some_and(|input| input.active(router))
    }
}
