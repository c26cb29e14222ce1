//! The tools.

use clap::ValueEnum;

/// The tools, quick ones first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Tool {
    /// Lock-free parts in every order of their threads' steps, with loom (stable Rust).
    Models,
    /// Tests in the interpreter Miri, with the aliasing rules "stacked borrows" (nightly Rust).
    Stacked,
    /// Tests in Miri, with the aliasing rules "tree borrows".
    Tree,
    /// Tests with the address sanitizer.
    Address,
    /// Tests with the thread sanitizer, the standard library included.
    Thread,
}

impl Tool {
    pub(super) fn name(self) -> String {
        self.to_possible_value().map_or_else(String::new, |value| value.get_name().to_owned())
    }
}
