//! Switch - sends packets to one output, selected at run time
//!
//! # Synopsis
//! `Switch([OUTPUT])`
//!
//! # Description
//! Sends every packet to output OUTPUT, which a handler can change. If there is no such output, all packets are
//! dropped.
//!
//! # Arguments
//! - OUTPUT: the output, which must exist; negative to drop all packets. Positional, default 0.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! - `switch` (read, write): the output; negative if all packets are dropped.
//! - `config` (read, write): same as `switch`.
//! - Low-level calls (`LLRPC` of ControlSocket) 5 and 6: read and set the output.
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

use std::sync::atomic::{AtomicI32, Ordering::Relaxed};

use millrace_core::{
    Class, Element, Failed, Handlers, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct Switch {
    /// The output; negative for none.
    output: AtomicI32,
    outputs: usize,
}

register!(Switch, "switch.rs");

impl Element for Switch {
    const CLASS: Class = Class::new("Switch", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let output: i32 = setup.args.positional("OUTPUT", 0);
        setup.args.complete()?;
        let outputs = setup.outputs();
        if existing(output, outputs) != output {
            setup.args.error("OUTPUT", format!("output must be < {outputs}"));
            return Err(Failed);
        }
        Ok(Self { output: output.into(), outputs })
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.reconfigure(|switch, new| {
            switch.output.store(new.output.into_inner(), Relaxed);
            Ok(())
        });
        handlers.read("switch", |switch, _| switch.output.load(Relaxed));
        handlers.read("config", |switch, _| switch.output.load(Relaxed));
        handlers.write("switch", |switch, call| {
            let output = call.parse().map_err(|_| "Switch output must be integer")?;
            switch.output.store(existing(output, switch.outputs), Relaxed);
            Ok(())
        });
        handlers.low_level(GET_SWITCH, |switch, call| {
            call.bytes();
            Ok(switch.output.load(Relaxed).to_ne_bytes().to_vec())
        });
        handlers.low_level(SET_SWITCH, |switch, call| {
            let output = call.bytes().try_into().map_err(|_| "Invalid argument")?;
            let output = i32::from_ne_bytes(output);
            switch.output.store(existing(output, switch.outputs), Relaxed);
            Ok(Vec::new())
        });
    }
}

impl PerPacket for Switch {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, _: &mut Moment) -> Way {
        match u16::try_from(self.output.load(Relaxed)) {
            Ok(output) => Way::output(output),
            Err(_) => Way::drop(Reason::Discarded),
        }
    }
}

/// Numbers of Click's low-level calls.
const GET_SWITCH: u8 = 5;
const SET_SWITCH: u8 = 6;

/// The output, or -1 if it does not exist. Negative numbers are unchanged.
fn existing(output: i32, outputs: usize) -> i32 {
    match usize::try_from(output) {
        Ok(number) if number >= outputs => -1,
        _ => output,
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn the_handler_changes_the_output() {
        let mut rig = Rig::new("Switch", 1, 2).unwrap();
        assert_eq!(rig.push(0, &["a"]), [vec![b"a".to_vec()], vec![]]);
        rig.write("switch", "1").unwrap();
        assert_eq!(rig.push(0, &["b"]), [vec![], vec![b"b".to_vec()]]);
        rig.write("switch", "2").unwrap();
        assert_eq!(rig.read("switch").unwrap(), "-1");
        assert!(rig.push(0, &["c"]).iter().all(Vec::is_empty));
        assert!(rig.stats().balanced());
        assert!(rig.write("switch", "x").is_err());
        assert!(Rig::new("Switch(2)", 1, 2).is_err());
    }
}
