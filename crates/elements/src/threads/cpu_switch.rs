//! CPUSwitch - sends packets to the output of the thread they arrive on
//!
//! # Synopsis
//! `CPUSwitch`
//!
//! # Description
//! Sends packets that arrive on thread t to output t modulo the number of outputs. This gives each
//! thread a private part of the graph: only the threads of an output reach the elements after it, and
//! those elements have no state on other threads.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One push input, one or more push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> c :: CPUSwitch;
//! c[0] -> Counter -> Discard;
//! c[1] -> Counter -> Discard;
//! ```
//!
//! # See also
//! CPUQueue, Switch, Pipeliner, StaticThreadSched

use millrace_core::{Batch, Class, Context, Element, Failed, Setup, register};

/// The element; its manual is at the top of the file.
pub struct CpuSwitch;

register!(CpuSwitch, "cpu_switch.rs");

impl Element for CpuSwitch {
    const CLASS: Class = Class::new("CPUSwitch", "1/1-", "h/h").by_thread();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        let output = cx.thread().checked_rem(cx.outputs()).unwrap_or(0);
        cx.push_batch(output, batch);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn thread_0_sends_to_output_0() {
        let mut rig = Rig::new("CPUSwitch", 1, 2).unwrap();
        assert_eq!(rig.push(0, &["a"]), [vec![b"a".to_vec()], vec![]]);
        assert!(Rig::new("CPUSwitch(1)", 1, 2).is_err());
    }
}
