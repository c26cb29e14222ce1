//! Hub - floods packets to every output except that of their input port
//!
//! # Synopsis
//! `Hub`
//!
//! # Description
//! Sends a clone of each packet to every output except the one with the same number as the packet's input, like an
//! Ethernet hub. Clones share the packet's data.
//!
//! # Arguments
//! None.
//!
//! # Ports
//! One or more push inputs, the same number of push outputs.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! - discarded: the element has only one output.
//! - no buffer: no packet memory was free for a clone.
//!
//! # Example
//! ```click
//! InfiniteSource(LIMIT 10) -> h :: Hub -> Discard;
//! Idle -> [1] h [1] -> Discard;
//! ```
//!
//! # See also
//! Tee, Switch

use millrace_core::{Batch, Class, Context, Element, Failed, Reason, Setup, register};

use crate::standard::tee::push_copies;

/// The element; its manual is at the top of the file.
pub struct Hub;

register!(Hub, "hub.rs");

impl Element for Hub {
    const CLASS: Class = Class::new("Hub", "1-/=", "h/h").flow("#/[^#]");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        setup.args.complete()?;
        Ok(Self)
    }

    fn push(&self, cx: &mut Context, (): &mut (), port: usize, batch: &mut Batch) {
        let others = || (0..cx.outputs()).filter(|&output| output != port);
        let Some(last) = others().next_back() else {
            return cx.drop_batch(batch, Reason::Discarded);
        };
        for output in (0..last).filter(|&output| output != port) {
            push_copies(cx, output, batch);
        }
        cx.push_batch(last, batch);
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::Reason;
    use millrace_core::testing::Rig;

    #[test]
    fn every_other_output_gets_a_copy() {
        let mut rig = Rig::new("Hub", 3, 3).unwrap();
        let all = || vec![b"a".to_vec(), b"b".to_vec()];
        assert_eq!(rig.push(0, &["a", "b"]), [vec![], all(), all()]);
        assert_eq!(rig.push(1, &["a", "b"]), [all(), vec![], all()]);
        assert_eq!(rig.push(2, &["a", "b"]), [all(), all(), vec![]]);
        assert!(rig.stats().balanced());
        let mut rig = Rig::new("Hub", 1, 1).unwrap();
        assert!(rig.push(0, &["a"])[0].is_empty());
        assert_eq!(rig.stats().drops, [(Reason::Discarded, 1)]);
    }
}
