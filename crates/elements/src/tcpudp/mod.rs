//! TCP and UDP.
