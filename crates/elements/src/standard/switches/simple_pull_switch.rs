//! SimplePullSwitch - pulls packets from one input, selected at run time, without a notifier
//!
//! # Synopsis
//! `SimplePullSwitch([INPUT])`
//!
//! # Description
//! Returns packets only from input INPUT, which a handler can change. If there is no such input, it returns none.
//! Unlike PullSwitch, it has no notifier that follows the selected input: its puller is woken by packets on any
//! input, and polls while any input has packets.
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
//! a :: Queue -> [0] s :: SimplePullSwitch(1) -> Discard;
//! b :: Queue -> [1] s;
//! Idle -> a; InfiniteSource(LIMIT 3) -> b;
//! ```
//!
//! # See also
//! PullSwitch, StaticPullSwitch, Switch

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use super::pull_switch::Selection;
use crate::standard::click_word;

/// The element; its manual is at the top of the file.
pub struct SimplePullSwitch {
    input: Selection,
}

register!(SimplePullSwitch, "simple_pull_switch.rs");

impl Element for SimplePullSwitch {
    const CLASS: Class = Class::new("SimplePullSwitch", "-/1", "l/l");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let inputs = setup.inputs();
        let input = Selection::configure(setup, "INPUT", inputs);
        setup.args.complete()?;
        Ok(Self { input })
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _: usize, max: usize, batch: &mut Batch) {
        if let Some(input) = self.input.port() {
            cx.pull(input, max, batch);
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("switch", |switch, _| switch.input.number());
        handlers.read("config", |switch, _| switch.input.number());
        handlers.write("switch", |switch, call| {
            switch.input.set(click_word(call)?);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn the_handler_changes_the_input() {
        let mut rig = Rig::new("SimplePullSwitch", 2, 1).unwrap();
        assert_eq!(rig.push(0, &["a"])[0], [b"a"]);
        assert!(rig.push(1, &["b"])[0].is_empty());
        rig.write("switch", "1").unwrap();
        assert_eq!(rig.push(1, &["c"])[0], [b"b", b"c"]);
        rig.write("switch", "2").unwrap();
        assert_eq!(rig.read("config").unwrap(), "-1");
        assert!(rig.push(0, &["d"])[0].is_empty());
        assert!(rig.write("switch", "x").is_err());
    }
}
