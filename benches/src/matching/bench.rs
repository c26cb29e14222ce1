//! The common data of all parts.

use std::path::{Path, PathBuf};

use super::race;
use crate::report::rounded;

/// What the parts share.
pub(super) struct Bench {
    pub(super) core: usize,
    pub(super) length: race::Length,
    pub(super) folder: tempfile::TempDir,
    /// The paths of the other programs.
    pub(super) acl: Option<PathBuf>,
    pub(super) hyperscan: Option<PathBuf>,
    /// Text to search in.
    pub(super) corpus: Option<Vec<u8>>,
}

impl Bench {
    /// Where files for the rivals are.
    pub(super) fn folder(&self) -> &Path {
        self.folder.path()
    }
}

/// How many times as long the other program takes.
pub(super) fn ratio(theirs: f64, ours: f64) -> f64 {
    rounded(theirs / ours)
}
