//! Elements that set annotations, choose outputs by them, or write them into packets.

use millrace_core::args::Annotation;

/// The paint annotation, the default of elements with an ANNO argument.
pub(super) const PAINT: Annotation<1> = Annotation(16);

/// FastClick's second paint annotation.
pub(super) const PAINT2: Annotation<2> = Annotation(16);

pub mod check_paint;
pub mod paint;
pub mod paint2;
pub mod paint_switch;
pub mod paint_tee;
pub mod set_anno_byte;
pub mod set_packet_type;
pub mod set_timestamp;
pub mod store_anno;
pub mod unstrip_anno;
