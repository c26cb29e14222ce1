//! InputSwitch - forwards packets from one input, selected at run time, and drops the others
//!
//! # Synopsis
//! `InputSwitch([INPUT])`
//!
//! # Description
//! Forwards packets from input INPUT, which a handler can change, and drops packets from the other inputs.
//!
//! # Arguments
//! - INPUT: the input, which must exist; negative for none. Positional, default 0.
//!
//! # Ports
//! Any number of push inputs, one push output.
//!
//! # Handlers
//! - `switch` (read, write): the input; -1 if all packets are dropped.
//! - `config` (read): same as `switch`.
//!
//! # Drops
//! - discarded: the packet arrived on another input.
//!
//! # Example
//! ```click
//! s :: InputSwitch(1) -> Counter -> Discard;
//! InfiniteSource(LIMIT 10) -> [0] s;
//! InfiniteSource(LIMIT 20) -> [1] s;
//! ```
//!
//! # See also
//! Switch, PullSwitch

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Reason, Setup, register};

use super::pull_switch::Selection;

/// The element; its manual is at the top of the file.
pub struct InputSwitch {
    input: Selection,
}

register!(InputSwitch, "input_switch.rs");

impl Element for InputSwitch {
    const CLASS: Class = Class::new("InputSwitch", "-/1", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let input: i32 = setup.args.positional("INPUT", 0);
        setup.args.complete()?;
        let inputs = setup.inputs();
        if usize::try_from(input).is_ok_and(|input| input >= inputs) {
            setup.args.error("INPUT", format!("input must be < {inputs}"));
            return Err(Failed);
        }
        Ok(Self { input: Selection::new(input, inputs) })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        match self.input.port() {
            Some(input) if input == port => cx.push_batch(0, batch),
            _ => cx.drop_batch(batch, Reason::Discarded),
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("switch", |switch, _| switch.input.number());
        handlers.read("config", |switch, _| switch.input.number());
        handlers.write("switch", |switch, call| {
            switch.input.set(call.parse().map_err(|_| "Switch input must be integer")?);
            Ok(())
        });
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn only_the_selected_input_is_forwarded() {
        let mut rig = Rig::new("InputSwitch(1)", 2, 1).unwrap();
        assert!(rig.push(0, &["a"])[0].is_empty());
        assert_eq!(rig.push(1, &["b"])[0], [b"b"]);
        rig.write("switch", "7").unwrap();
        assert_eq!(rig.read("switch").unwrap(), "-1");
        assert!(rig.push(1, &["c"])[0].is_empty());
        assert!(rig.stats().balanced());
        assert!(Rig::new("InputSwitch(2)", 2, 1).is_err());
    }
}
