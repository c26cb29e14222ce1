//! StaticPullSwitch - pulls packets from one input, fixed by the configuration
//!
//! # Synopsis
//! `StaticPullSwitch(INPUT)`
//!
//! # Description
//! Returns packets only from input INPUT. If there is no such input, it returns none. Unlike with PullSwitch, the
//! input cannot change at run time.
//!
//! # Arguments
//! - INPUT: the input; negative for none. Positional, mandatory.
//!
//! # Ports
//! Any number of pull inputs, one pull output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! a :: Queue -> [0] s :: StaticPullSwitch(1) -> Discard;
//! b :: Queue -> [1] s;
//! Idle -> a; InfiniteSource(LIMIT 3) -> b;
//! ```
//!
//! # See also
//! PullSwitch, SimplePullSwitch, StaticSwitch

use millrace_core::{
    Batch, Class, Context, Element, Failed, Init, Notifier, Refused, Setup, register,
};

use super::pull_switch::{PullSelection, Selection};

/// The element; its manual is at the top of the file.
pub struct StaticPullSwitch {
    input: PullSelection,
}

register!(StaticPullSwitch, "static_pull_switch.rs");

impl Element for StaticPullSwitch {
    const CLASS: Class = Class::new("StaticPullSwitch", "-/1", "l/l").passes_wakes();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let input = setup.args.mandatory("INPUT");
        setup.args.complete()?;
        Ok(Self { input: Selection::new(input, setup.inputs()).into() })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        self.input.initialize(init);
        Ok(())
    }

    fn pull(&self, cx: &mut Context, (): &mut (), _: usize, max: usize, batch: &mut Batch) {
        self.input.pull(cx, max, batch);
    }

    fn notifier(&self, _port: usize) -> Option<&Notifier> {
        Some(self.input.notifier())
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn packets_come_from_one_input_only() {
        let mut rig = Rig::new("StaticPullSwitch(1)", 2, 1).unwrap();
        assert!(rig.push(0, &["a"])[0].is_empty());
        assert_eq!(rig.push(1, &["b"])[0], [b"b"]);
        let mut rig = Rig::new("StaticPullSwitch(-1)", 2, 1).unwrap();
        assert!(rig.push(0, &["a"])[0].is_empty());
        assert!(Rig::new("StaticPullSwitch", 2, 1).is_err());
    }
}
