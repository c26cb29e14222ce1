//! Sources, sinks and the plain ways between.

use millrace_core::args::Annotation;
use millrace_core::element::Call;
use millrace_core::{Arg, HandlerError};

/// The paint annotation, where elements that paint look unless told otherwise.
const PAINT: Annotation<1> = Annotation(16);

/// The value that a handler was given; Click says `syntax error` of what is none.
fn click_word<T: Arg>(call: &Call<'_>) -> Result<T, HandlerError> {
    call.parse().map_err(|_| "syntax error".into())
}

pub mod annotations;
pub mod check_paint;
mod color;
pub mod data;
pub mod discard;
pub mod duplicate;
pub mod idle;
pub mod infinite_source;
pub mod min_batch;
pub mod null;
pub mod paint;
pub mod paint_switch;
pub mod paint_tee;
pub mod pull_null;
pub mod pull_tee;
pub mod push_null;
pub mod random_source;
pub mod rated_source;
pub mod simple_idle;
mod source;
pub mod strip;
pub(crate) mod supply;
pub mod switch;
pub mod switches;
pub mod tee;
mod ticks;
pub mod timed_sink;
pub mod timed_source;
pub mod unstrip;
