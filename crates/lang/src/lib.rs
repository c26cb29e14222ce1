//! The Click language.
