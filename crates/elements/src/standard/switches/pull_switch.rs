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
//! - `config` (read): same as `switch`.
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

use millrace_core::{
    Batch, Class, Context, Element, Failed, Handlers, Init, Notifier, Refused, Setup, register,
};

use super::selection::{PullSelection, Selection};
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
        handlers.write("switch", |switch, call| {
            switch.input.set(click_word(call)?, call.router());
            Ok(())
        });
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(self.input.notifier())
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
    }
}
