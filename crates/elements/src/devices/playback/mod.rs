//! Playing captures and recorded packets: which of them, when, and how often.

pub(crate) mod expression;
pub(crate) mod force_len;
pub(crate) mod pace;
pub(crate) mod recording;
pub(crate) mod trace;
pub(crate) mod window;
