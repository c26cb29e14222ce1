//! Which rows of a table are shown, and in which order.

use std::collections::BTreeSet;

use crate::top::listing::Row;

/// Which rows are shown, and in which order.
#[derive(Clone, Debug, Default)]
pub(crate) struct Choice {
    /// The column by which rows are sorted, and whether the other way round; none for the order of the configuration.
    pub(crate) sorted: Option<(usize, bool)>,
    /// Words that a row must have, in lower case.
    pub(crate) search: String,
    /// The groups of which only the sum is shown.
    pub(crate) folded: BTreeSet<String>,
    /// Whether rows without packets are left out.
    pub(crate) hides_idle: bool,
}

impl Choice {
    /// Whether a text has all words that are searched for.
    pub(super) fn finds(&self, text: &str) -> bool {
        let text = text.to_lowercase();
        self.search.split_whitespace().all(|word| text.contains(word))
    }
}

/// Sorts rows by the value of their cells: figures with the highest first, text by the alphabet.
pub(super) fn sort<'a>(rows: &mut [Row<'a>], choice: &Choice) {
    if let Some((column, reversed)) = choice.sorted {
        rows.sort_by(|a, b| {
            let order = match (a.cells.get(column), b.cells.get(column)) {
                (Some(a), Some(b)) => a.order(b),
                _ => std::cmp::Ordering::Equal,
            };
            if reversed { order.reverse() } else { order }
        });
    }
}
