//! What tells packets apart by the rate at which they come.
