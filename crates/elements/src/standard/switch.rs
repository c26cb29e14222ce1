//! Switch - sends packets to one output, chosen while it runs
//!
//! # Synopsis
//! `Switch([OUTPUT])`
//!
//! # Description
//! Sends every packet to output OUTPUT, which a handler can change. When there is no such output,
//! packets are dropped.
//!
//! # Arguments
//! - OUTPUT: the output; negative to drop. Positional, default 0.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `switch` (read, write): the output; -1 when packets are dropped.
//!
//! # Drops
//! - discarded: there is no output OUTPUT.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: Switch(1);
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! PullSwitch, PaintSwitch, RoundRobinSwitch

use std::sync::atomic::{AtomicI64, Ordering::Relaxed};

use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Reason, Setup, register};

/// The element; its manual is at the top of the file.
pub struct Switch {
    /// The output; -1 for none.
    output: AtomicI64,
    outputs: usize,
}

register!(Switch, "switch.rs");

impl Element for Switch {
    const CLASS: Class = Class::new("Switch", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let output: i64 = setup.args.positional("OUTPUT", 0);
        setup.args.complete()?;
        let outputs = setup.outputs();
        Ok(Self { output: existing(output, outputs).into(), outputs })
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        match usize::try_from(self.output.load(Relaxed)) {
            Ok(output) => cx.push_batch(output, batch),
            Err(_) => cx.drop_batch(batch, Reason::Discarded),
        }
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("switch", |switch, _| switch.output.load(Relaxed));
        handlers.write("switch", |switch, call| {
            switch.output.store(existing(call.parse()?, switch.outputs), Relaxed);
            Ok(())
        });
    }
}

/// The output, or -1 when there is none with this number.
fn existing(output: i64, outputs: usize) -> i64 {
    match usize::try_from(output) {
        Ok(number) if number < outputs => output,
        _ => -1,
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn the_handler_moves_the_switch() {
        let mut rig = Rig::new("Switch", 1, 2).unwrap();
        assert_eq!(rig.push(0, &["a"]), [vec![b"a".to_vec()], vec![]]);
        rig.write("switch", "1").unwrap();
        assert_eq!(rig.push(0, &["b"]), [vec![], vec![b"b".to_vec()]]);
        rig.write("switch", "2").unwrap();
        assert_eq!(rig.read("switch").unwrap(), "-1");
        assert!(rig.push(0, &["c"]).iter().all(Vec::is_empty));
        assert!(rig.stats().balanced());
    }
}
