//! Frames through whole routers: nothing panics, and every packet is accounted for.
//!
//! The first byte of the input chooses the router. Then come frames: a byte for the device, two
//! for the length, and so many bytes, or what is left.

#![no_main]

#[path = "../../crates/elements/tests/support/router.rs"]
mod router;

use router::Bench;
use libfuzzer_sys::fuzz_target;

const ROUTERS: [&str; 3] = [
    include_str!("../../examples/ip-router.click"),
    include_str!("../../examples/minimal-router.click"),
    include_str!("../../examples/ping-responder.click"),
];

fuzz_target!(|data: &[u8]| {
    let Some((&choice, mut rest)) = data.split_first() else { return };
    let mut bench = Bench::new(ROUTERS[usize::from(choice) % ROUTERS.len()]);
    while let Some((&[device, high, low], after)) = rest.split_first_chunk() {
        let length = usize::from(u16::from_be_bytes([high, low]) % 2048).min(after.len());
        let (frame, next) = after.split_at(length);
        bench.feed(device.into(), &[frame.to_vec()]);
        rest = next;
    }
    bench.assert_balanced();
});
