//! Elements that choose a packet's port by a setting, in turn, by the packet's contents or at random.

use millrace_core::element::Call;
use millrace_core::{HandlerError, View};

pub mod block;
pub mod bypass;
pub mod compare_block;
pub mod exact_paint_switch;
pub mod hash_switch;
pub mod hub;
pub mod input_switch;
pub mod paint_rr;
pub mod prob_splitter;
pub mod pull_switch;
pub mod random_sample;
pub mod random_switch;
pub mod round_robin_switch;
pub mod simple_pull_switch;
pub mod static_pull_switch;
pub mod static_switch;
pub mod stride_switch;
pub mod suppressor;
pub mod switch;

/// The forward rate annotation (FWD_RATE), a signed integer as in Click.
fn forward_rate(packet: &View) -> i32 {
    packet.anno_u32(20).cast_signed()
}

/// The reverse rate annotation (REV_RATE).
fn reverse_rate(packet: &View) -> i32 {
    packet.anno_u32(24).cast_signed()
}

/// Parses the integer written to a handler.
fn click_integer(call: &Call<'_>) -> Result<i32, HandlerError> {
    call.parse().map_err(|_| "not an integer".into())
}
