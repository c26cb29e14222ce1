//! Sources, sinks and the plain ways between.

use millrace_core::args::Annotation;

/// The paint annotation, where elements that paint look unless told otherwise.
const PAINT: Annotation<1> = Annotation(16);

pub mod check_paint;
mod color;
pub mod discard;
pub mod idle;
pub mod infinite_source;
pub mod null;
pub mod paint;
pub mod paint_switch;
pub mod paint_tee;
pub mod rated_source;
pub mod strip;
pub(crate) mod supply;
pub mod switch;
pub mod tee;
pub mod timed_source;
pub mod unstrip;
