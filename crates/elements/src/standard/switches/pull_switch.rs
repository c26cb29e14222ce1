//! PullSwitch - pulls packets from one input, chosen while it runs, and says whether it has some
//!
//! # Synopsis
//! `PullSwitch([INPUT])`
//!
//! # Description
//! Gives packets from input INPUT only, which a handler can change. When there is no such input, it
//! gives none. Whoever pulls from it may rest while the chosen input has no packets, whatever the
//! others have, and is woken when an input that has some is chosen.
//!
//! # Arguments
//! - INPUT: the input; negative for none. Positional, default 0.
//!
//! # Ports
//! Any number of pull inputs, one pull output.
//!
//! # Handlers
//! - `switch` (read, write): the input; -1 when there is none.
//! - `config` (read): the same.
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

use millrace_core::element::Listening;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Notifier, Refused, Setup, register,
};

use super::selection::Selection;
use crate::standard::click_word;

/// The element; its manual is at the top of the file.
pub struct PullSwitch {
    input: Selection,
    inputs: usize,
    /// Whether the chosen input may have packets.
    notifier: Notifier,
    /// What each input leads to.
    upstream: OnceLock<Vec<Listening>>,
}

register!(PullSwitch, "pull_switch.rs");

impl Element for PullSwitch {
    const CLASS: Class = Class::new("PullSwitch", "-/1", "l/l").passes_wakes();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let inputs = setup.inputs();
        let input = Selection::configure(setup, "INPUT", inputs);
        setup.args.complete()?;
        let (notifier, upstream) = (Notifier::default(), OnceLock::new());
        Ok(Self { input, inputs, notifier, upstream })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        // An element is initialised once.
        let _ = self.upstream.set((0..self.inputs).map(|input| init.watch(input)).collect());
        if self.input.port().is_some() {
            self.notifier.wake();
        }
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _: usize, max: usize, batch: &mut Batch) {
        let Some(input) = self.input.port() else { return };
        if cx.pull(input, max, batch) > 0 {
            self.notifier.wake();
        } else if !self.has_packets(cx.router()) {
            self.notifier.sleep_unless(|| self.has_packets(cx.router()));
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("switch", |switch, _| switch.input.number());
        handlers.read("config", |switch, _| switch.input.number());
        handlers.write("switch", |switch, call| {
            switch.input.set(click_word(call)?);
            if switch.has_packets(call.router()) {
                switch.notifier.wake_unlocked();
            } else if switch.input.port().is_none() {
                switch.notifier.sleep_unless(|| switch.has_packets(call.router()));
            }
            Ok(())
        });
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(&self.notifier)
    }
}

impl PullSwitch {
    /// Whether the chosen input may have packets.
    fn has_packets(&self, router: &millrace_core::Router) -> bool {
        let upstream = self.upstream.get();
        let input = self.input.port().and_then(|input| upstream?.get(input));
        input.is_some_and(|input| input.active(router))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn the_handler_moves_the_switch() {
        let mut rig = Rig::new("PullSwitch(1)", 2, 1).unwrap();
        assert_eq!(rig.push(1, &["a"])[0], [b"a"]);
        assert!(rig.push(0, &["b"])[0].is_empty());
        rig.write("switch", "0").unwrap();
        assert_eq!(rig.push(0, &["c"])[0], [b"b", b"c"]);
        rig.write("switch", "-7").unwrap();
        assert_eq!(rig.read("switch").unwrap(), "-1");
        assert!(rig.push(0, &["d"])[0].is_empty());
    }
}
