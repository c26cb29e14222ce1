//! The options of a compilation.

use super::library::FindLibrary;

/// See [`Options::absent`]: the sentence for a class.
pub type WhyAbsent<'o> = &'o dyn Fn(&str) -> Option<String>;

/// The options of [`compile`](crate::compile).
#[derive(Clone, Copy, Default)]
pub struct Options<'o> {
    /// Variables of the command line (`VAR=value`). They take precedence over the file's
    /// `define`s.
    pub params: &'o [(String, String)],
    /// The element classes that exist, if the caller knows them. Then every use of another class, and of an
    /// undeclared element, is an error with a location and the name that was meant; otherwise an unknown name
    /// counts as a class.
    pub classes: Option<&'o [String]>,
    /// Says of a class that does not exist why, if it is one that other programs have and a user may expect.
    pub absent: Option<WhyAbsent<'o>>,
    /// How to find the file of `require(library FILE)`; without it, that is an error.
    pub library: Option<FindLibrary<'o>>,
}
