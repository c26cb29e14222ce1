//! PullSwitch - pulls packets from one input, selected at run time, with a notifier
//!
//! # Synopsis
//! `PullSwitch([INPUT])`
//!
//! # Description
//! Returns packets only from input INPUT, which a handler can change. If there is no such input, it returns none.
//! Its notifier follows the selected input: its puller can sleep while that input has no packets, even if other
//! inputs have some, and wakes up when an input that has packets is selected.
//!
//! # Arguments
//! - INPUT: the input; negative for none. Positional, default 0.
//!
//! # Ports
//! Any number of pull inputs, one pull output.
//!
//! # Handlers
//! - `switch` (read, write): the input; -1 if there is none.
//! - `config` (read, write): same as `switch`.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! a :: Queue -> [0] s :: PullSwitch(1) -> Discard;
//! b :: Queue -> [1] s;
//! Idle -> a; InfiniteSource(LIMIT 3) -> b;
//! ```
//!
//! # See also
//! SimplePullSwitch, StaticPullSwitch, Switch

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Notifier, Refused, Router, Setup,
    register,
};

use crate::standard::click_word;

/// The element; its manual is at the top of the file.
pub struct PullSwitch {
    input: PullSelection,
}

register!(PullSwitch, "pull_switch.rs");

impl Element for PullSwitch {
    const CLASS: Class = Class::new("PullSwitch", "-/1", "l/l").passes_wakes();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let inputs = setup.inputs();
        let input = Selection::configure(setup, "INPUT", inputs);
        setup.args.complete()?;
        Ok(Self { input: input.into() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.input.initialize(init);
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _: usize, max: usize, batch: &mut Batch) {
        self.input.pull(cx, max, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("switch", |switch, _| switch.input.number());
        handlers.read("config", |switch, _| switch.input.number());
        handlers.write("config", |switch, call| {
            let mut args = call.args();
            let input = args.positional("INPUT", 0);
            if args.complete().is_err() {
                return Err(args.messages().into());
            }
            switch.input.set(input, call.router());
            Ok(())
        });
        handlers.write("switch", |switch, call| {
            switch.input.set(click_word(call)?, call.router());
            Ok(())
        });
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(self.input.notifier())
    }
}

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

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn the_handler_changes_the_input() {
        let mut rig = Rig::new("PullSwitch(1)", 2, 1).unwrap();
        assert_eq!(rig.push(1, &["a"])[0], [b"a"]);
        assert!(rig.push(0, &["b"])[0].is_empty());
        rig.write("switch", "0").unwrap();
        assert_eq!(rig.push(0, &["c"])[0], [b"b", b"c"]);
        rig.write("switch", "-7").unwrap();
        assert_eq!(rig.read("switch").unwrap(), "-1");
        assert!(rig.push(0, &["d"])[0].is_empty());
        rig.write("config", "1").unwrap();
        assert_eq!(rig.push(1, &["e"])[0], [b"e"]);
        assert!(rig.write("config", "no").is_err());
    }
}
