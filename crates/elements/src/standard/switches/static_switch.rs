//! StaticSwitch - sends packets to one output, fixed by the configuration
//!
//! # Synopsis
//! `StaticSwitch(OUTPUT)`
//!
//! # Description
//! Sends every packet to output OUTPUT. If there is no such output, all packets are dropped. Unlike with Switch, the
//! output cannot change at run time.
//!
//! # Arguments
//! - OUTPUT: the output; negative to drop. Positional, mandatory.
//!
//! # Ports
//! One push input, any number of push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - discarded: there is no output OUTPUT.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> s :: StaticSwitch(1);
//! s [0] -> Discard;
//! s [1] -> Discard;
//! ```
//!
//! # See also
//! Switch, StaticPullSwitch, RoundRobinSwitch

use millrace_core::{
    Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way, register,
};

/// The element; its manual is at the top of the file.
pub struct StaticSwitch {
    output: Option<usize>,
}

register!(StaticSwitch, "static_switch.rs");

impl Element for StaticSwitch {
    const CLASS: Class = Class::new("StaticSwitch", "1/-", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let output: i32 = setup.args.mandatory("OUTPUT");
        setup.args.complete()?;
        let outputs = setup.outputs();
        Ok(Self { output: usize::try_from(output).ok().filter(|output| *output < outputs) })
    }
}

impl PerPacket for StaticSwitch {
    const ROUTES: bool = true;

    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, _: &mut Moment) -> Way {
        match self.output {
            Some(output) => Way::output(output as u16),
            None => Way::drop(Reason::Discarded),
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn one_output_gets_all_packets() {
        let mut rig = Rig::new("StaticSwitch(1)", 1, 2).unwrap();
        assert_eq!(rig.push(0, &["a"]), [vec![], vec![b"a".to_vec()]]);
        for none in ["2", "-1"] {
            let mut rig = Rig::new(&format!("StaticSwitch({none})"), 1, 2).unwrap();
            assert!(rig.push(0, &["a"]).iter().all(Vec::is_empty));
            assert_eq!(rig.stats().drops, [(Reason::Discarded, 1)]);
        }
        assert!(Rig::new("StaticSwitch", 1, 2).is_err());
    }
}
