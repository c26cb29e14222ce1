//! Frames through whole routers: nothing panics, and every packet is accounted for.
//!
//! The first byte of the input chooses the router. Then come frames: a byte for the device, two
//! for the length, and so many bytes, or what is left.
//!
//! To make a router takes fifty times as long as an input, so one serves many inputs. What came before an input is noted
//! in a file of the same form, which is an input, too.

#[path = "../../../crates/elements/tests/support/router.rs"]
#[allow(clippy::panic, reason = "a configuration of the repository that is wrong")]
mod support;

use std::cell::RefCell;
use std::fs::File;
use std::io::Write;

use support::Bench;

use crate::guard;

const ROUTERS: [&str; 3] = [
    include_str!("../../../examples/ip-router.click"),
    include_str!("../../../examples/minimal-router.click"),
    include_str!("../../../examples/ping-responder.click"),
];

/// So many inputs a router serves.
const INPUTS: u32 = 256;

/// A router that has served some inputs.
struct Kept {
    bench: Bench,
    inputs: u32,
    /// All that it was fed with, as an input; none if no file can be made.
    history: Option<File>,
}

thread_local! {
    static KEPT: RefCell<[Option<Kept>; ROUTERS.len()]> = RefCell::default();
}

pub(super) fn run(data: &[u8]) {
    let Some((&choice, mut rest)) = data.split_first() else { return };
    let choice = usize::from(choice) % ROUTERS.len();
    // After a panic there is none.
    let kept = KEPT.with_borrow_mut(|kept| kept[choice].take());
    let mut kept = kept.unwrap_or_else(|| Kept::new(choice));
    let (mut frames, mut noted) = (Vec::new(), Vec::new());
    while let Some((&[device, high, low], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low]) % 2048).min(after.len());
        let (frame, next) = after.split_at(length);
        noted.push(device);
        noted.extend_from_slice(&(length as u16).to_be_bytes());
        noted.extend_from_slice(frame);
        frames.push((device, frame.to_vec()));
        rest = next;
    }
    if let Some(history) = &mut kept.history {
        // Without it, a finding is harder to understand.
        let _ = history.write_all(&noted);
    }
    for (device, frame) in frames {
        kept.bench.feed(device.into(), &[frame]);
    }
    kept.bench.assert_balanced();
    kept.inputs += 1;
    if kept.inputs < INPUTS {
        KEPT.with_borrow_mut(|all| all[choice] = Some(kept));
    } else {
        kept.bench.end();
    }
}

impl Kept {
    fn new(choice: usize) -> Self {
        let mut history = guard::history(&format!("router-{choice}")).ok();
        if let Some(history) = &mut history {
            let _ = history.write_all(&[choice as u8]);
        }
        Self { bench: Bench::new(ROUTERS[choice]), inputs: 0, history }
    }
}
