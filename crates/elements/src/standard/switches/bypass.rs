//! Bypass - switches packets between a main path and a side path at run time
//!
//! # Synopsis
//! `Bypass([ACTIVE, keyword INLINE])`
//!
//! # Description
//! Forwards packets from input 0 to output 0, like Null. While ACTIVE, packets use the side path instead: a packet
//! pushed to input 0 leaves by output 1, if there is one, and a pull on output 0 pulls from input 1, if there is one.
//!
//! With two inputs and two outputs, the side path can lead back into the element: packets pushed to input 1 leave by
//! output 0, and a pull on output 1 pulls from input 0. So the same configuration works for both push and pull:
//! `b [1] -> Print -> [1] b`.
//!
//! # Arguments
//! - ACTIVE: whether packets use the side path. Positional, default false.
//! - INLINE: accepted without effect: the element always stays in the path. In Click, false lets Click connect its
//!   neighbours directly.
//!
//! # Ports
//! One or two agnostic inputs, one or two agnostic outputs.
//!
//! # Handlers
//! - `active` (read, write): the ACTIVE argument.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 3) -> b :: Bypass(true) -> Discard;
//! b [1] -> Print(beside) -> [1] b;
//! ```
//!
//! # See also
//! Switch, PullSwitch, Null

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::args::Kind;
use millrace_core::{Batch, Class, Context, Element, Failed, Handlers, Setup, register};

use crate::standard::click_word;

/// The element; its manual is at the top of the file.
pub struct Bypass {
    active: AtomicBool,
    inputs: usize,
    outputs: usize,
}

register!(Bypass, "bypass.rs");

impl Element for Bypass {
    const CLASS: Class = Class::new("Bypass", "1-2/1-2", "a/a").flow("xy/[xy]x").reentrant();
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let active = setup.args.positional("ACTIVE", false);
        setup.args.ignored::<bool>("INLINE", Kind::Keyword, "the element always stays in the path");
        setup.args.complete()?;
        let (inputs, outputs) = (setup.inputs(), setup.outputs());
        Ok(Self { active: AtomicBool::new(active), inputs, outputs })
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        cx.push_batch(self.other(port, self.outputs), batch);
    }

    fn pull(&self, cx: &mut Context, (): &mut (), port: usize, max: usize, batch: &mut Batch) {
        cx.pull(self.other(port, self.inputs), max, batch);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("active", |bypass, _| bypass.active.load(Relaxed));
        handlers.write("active", |bypass, call| {
            bypass.active.store(click_word(call)?, Relaxed);
            Ok(())
        });
    }
}

impl Bypass {
    /// The port on the other side, which has `ports` ports, that this port leads to.
    fn other(&self, port: usize, ports: usize) -> usize {
        usize::from(port == 0 && ports > 1 && self.active.load(Relaxed))
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;

    #[test]
    fn packets_leave_by_the_second_output_while_it_is_active() {
        let mut rig = Rig::new("Bypass", 2, 2).unwrap();
        assert_eq!(rig.push(0, &["a"]), [vec![b"a".to_vec()], vec![]]);
        rig.write("active", "true").unwrap();
        assert_eq!(rig.push(0, &["b"]), [vec![], vec![b"b".to_vec()]]);
        assert_eq!(rig.push(1, &["c"]), [vec![b"c".to_vec()], vec![]]);
        assert!(rig.write("active", "perhaps").is_err());
    }

    #[test]
    fn without_a_second_output_it_acts_like_null() {
        let mut rig = Rig::new("Bypass(true, INLINE true)", 1, 1).unwrap();
        assert_eq!(rig.push(0, &["a"]), [[b"a"]]);
    }
}
