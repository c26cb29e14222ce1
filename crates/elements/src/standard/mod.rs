//! Sources, sinks, and elements that forward or copy packets unchanged.

use millrace_core::element::Call;
use millrace_core::{Arg, HandlerError};

/// The maximum length of a packet that these elements produce, in bytes.
const LONGEST: usize = 65_535;

/// Parses the value written to a handler. As in Click, the error for an invalid value is `syntax error`.
fn click_word<T: Arg>(call: &Call<'_>) -> Result<T, HandlerError> {
    call.parse().map_err(|_| "syntax error".into())
}

pub mod annotations;
pub mod data;
pub mod discard;
pub mod duplicate;
pub mod idle;
pub mod infinite_source;
pub mod min_batch;
pub mod null;
pub mod pull_null;
pub mod pull_tee;
pub mod push_null;
pub mod random_source;
pub mod rated_source;
pub mod simple_idle;
pub(crate) mod supply;
pub mod switches;
pub mod tee;
pub mod timed_sink;
pub mod timed_source;
