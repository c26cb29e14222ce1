//! Tables: rows of cells under a heading, which are formatted when they are seen.

use std::borrow::Cow;
use std::cell::Cell as Place;
use std::cmp::Ordering;

use super::history::{KEPT, Ring};
use super::text::{Ink, Theme};
use crate::report::{mean, scaled};

/// A column.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Column {
    pub(crate) title: &'static str,
    /// Its width; the first column has what the others leave.
    pub(crate) width: usize,
    /// Which columns go first when there is no room: those with the highest rank. The first column stays.
    pub(crate) rank: u8,
}

/// What a cell shows.
#[derive(Clone, Debug)]
pub(crate) enum Value<'a> {
    Text(Cow<'a, str>),
    /// A figure with a unit.
    Rate(f64),
    Count(u64),
    Mean(Option<f64>),
    /// From 0 to 1.
    Share(f64),
    /// From 0 to 1, as a bar.
    Fill(f64),
    /// The last minute, as bars of which the highest is as high as this.
    Spark(Cow<'a, Ring>, Option<f64>),
    /// A row's name in a tree: how deep it lies, and, of a group, whether it is folded.
    Branch(Cow<'a, str>, usize, Option<bool>),
    Nothing,
}

/// A cell.
#[derive(Clone, Debug)]
pub(crate) struct Cell<'a> {
    pub(crate) value: Value<'a>,
    pub(crate) ink: Ink,
}

impl<'a> Cell<'a> {
    pub(crate) fn text(text: impl Into<Cow<'a, str>>) -> Self {
        Self { value: Value::Text(text.into()), ink: Ink::Plain }
    }

    pub(crate) fn rate(rate: f64) -> Self {
        Self { value: Value::Rate(rate), ink: Ink::Plain }.quiet(rate == 0.0)
    }

    pub(crate) fn count(n: u64) -> Self {
        Self { value: Value::Count(n), ink: Ink::Plain }.quiet(n == 0)
    }

    pub(crate) fn share(share: f64) -> Self {
        Self { value: Value::Share(share), ink: Ink::Plain }.quiet(share < 0.0005)
    }

    pub(crate) fn mean(value: Option<f64>) -> Self {
        Self { value: Value::Mean(value), ink: Ink::Plain }.quiet(value.is_none())
    }

    pub(crate) fn spark(ring: Option<&'a Ring>, most: Option<f64>) -> Self {
        match ring {
            Some(ring) => Self { value: Value::Spark(Cow::Borrowed(ring), most), ink: Ink::Good },
            None => Self { value: Value::Nothing, ink: Ink::Plain },
        }
    }

    pub(crate) fn fill(fill: f64) -> Self {
        Self { value: Value::Fill(fill), ink: Ink::Plain }
    }

    /// Text at its place in a tree.
    pub(crate) fn marked(self, depth: usize, folded: Option<bool>) -> Self {
        match self.value {
            Value::Text(text) => Self { value: Value::Branch(text, depth, folded), ..self },
            _ => self,
        }
    }

    pub(crate) fn ink(self, ink: Ink) -> Self {
        Self { ink, ..self }
    }

    fn quiet(self, quiet: bool) -> Self {
        if quiet { self.ink(Ink::Faint) } else { self }
    }

    /// Shows it in red if `bad`.
    pub(crate) fn bad_if(self, bad: bool) -> Self {
        if bad { self.ink(Ink::Bad) } else { self }
    }

    /// The text of the cell, as wide as `width` if it is a drawing.
    pub(crate) fn shown(&self, width: usize, theme: Theme) -> String {
        match &self.value {
            Value::Text(text) => text.clone().into_owned(),
            Value::Rate(rate) => scaled(*rate),
            Value::Count(n) => n.to_string(),
            Value::Mean(value) => mean(*value),
            Value::Share(share) => format!("{:.1}%", share * 100.0),
            Value::Fill(fill) => theme.bar(*fill, width),
            Value::Spark(ring, most) => theme.spark(ring, width, *most),
            Value::Branch(text, depth, folded) => {
                let marks = theme.marks();
                let mark = match folded {
                    Some(true) => format!("{} ", marks.folded),
                    Some(false) => format!("{} ", marks.unfolded),
                    None => String::new(),
                };
                format!("{}{mark}{text}", "  ".repeat((*depth).min(DEEPEST)))
            }
            Value::Nothing => String::new(),
        }
    }

    /// How cells of a column are sorted: figures with the highest first, text by the alphabet.
    pub(crate) fn order(&self, other: &Self) -> Ordering {
        match (self.label(), other.label()) {
            (Some(a), Some(b)) => a.cmp(b),
            _ => other.figure().total_cmp(&self.figure()),
        }
    }

    fn label(&self) -> Option<&str> {
        match &self.value {
            Value::Text(text) | Value::Branch(text, ..) => Some(text),
            _ => None,
        }
    }

    fn figure(&self) -> f64 {
        match &self.value {
            Value::Rate(n) | Value::Share(n) | Value::Fill(n) => *n,
            Value::Count(n) => *n as f64,
            Value::Mean(n) => n.unwrap_or(-1.0),
            Value::Spark(ring, _) => ring.last(1).next().map_or(0.0, f64::from),
            Value::Text(_) | Value::Branch(..) | Value::Nothing => 0.0,
        }
    }

    fn is_left(&self) -> bool {
        matches!(self.value, Value::Text(_) | Value::Branch(..) | Value::Fill(_) | Value::Spark(..))
    }

    /// Whether more of it is seen in a wider column.
    fn is_long(&self) -> bool {
        matches!(self.value, Value::Spark(..))
    }

    /// How long the name of a row is.
    fn length(&self) -> usize {
        match &self.value {
            Value::Text(text) => text.chars().count(),
            Value::Branch(text, depth, folded) => {
                text.chars().count() + 2 * (*depth).min(DEEPEST) + 2 * usize::from(folded.is_some())
            }
            _ => 0,
        }
    }

    /// Whether it is a figure, which is aligned at the right.
    pub(crate) fn is_figure(&self) -> bool {
        !self.is_left() && !matches!(self.value, Value::Nothing)
    }
}

/// No row is indented further than so many steps.
const DEEPEST: usize = 8;

/// A row.
#[derive(Clone, Debug)]
pub(crate) struct Row<'a> {
    /// What the row is about, by which it is found again after it has moved.
    pub(crate) key: String,
    /// What a key opens.
    pub(crate) target: Target,
    pub(crate) cells: Vec<Cell<'a>>,
}

/// What a row stands for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Target {
    Nothing,
    /// An element, by its name.
    Element(String),
    /// A compound element or another group.
    Group {
        name: String,
        folded: bool,
    },
}

/// A table.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing<'a> {
    pub(crate) columns: &'static [Column],
    /// The column by which it is sorted, and whether the highest value is last.
    pub(crate) sorted: Option<(usize, bool)>,
    pub(crate) rows: Vec<Row<'a>>,
    /// What is said if there is no row.
    pub(crate) empty: &'static str,
}

/// Which row is chosen, and which one is the first on the screen.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cursor {
    pub(crate) row: usize,
    key: Option<String>,
    offset: Place<usize>,
    page: Place<usize>,
}

impl Cursor {
    /// The place of the chosen row in a list that may have changed.
    pub(crate) fn find(&mut self, rows: &[Row<'_>]) {
        if let Some(key) = &self.key
            && rows.get(self.row).is_none_or(|row| row.key != *key)
        {
            self.row = rows.iter().position(|row| row.key == *key).unwrap_or(self.row);
        }
        self.row = self.row.min(rows.len().saturating_sub(1));
    }

    /// Chooses a row so many rows on.
    pub(crate) fn go(&mut self, rows: &[Row<'_>], by: isize) {
        self.find(rows);
        self.row = self.row.saturating_add_signed(by).min(rows.len().saturating_sub(1));
        // At the top one sees what comes to the top.
        let chosen = rows.get(self.row).filter(|_| self.row > 0);
        self.key = chosen.map(|row| row.key.clone());
    }

    /// Chooses this row.
    pub(crate) fn choose(&mut self, key: &str) {
        self.key = Some(key.to_owned());
    }

    /// As many rows as the screen has.
    pub(crate) fn page(&self) -> isize {
        self.page.get().max(2) as isize - 1
    }

    /// The first row to show of `rows`, on a screen of `height`.
    pub(crate) fn scroll(&self, rows: usize, height: usize) -> usize {
        let lowest = self.row.saturating_sub(height.saturating_sub(1));
        let offset = self.offset.get().clamp(lowest, self.row.max(lowest));
        let offset = offset.min(rows.saturating_sub(height).max(lowest));
        self.offset.set(offset);
        self.page.set(height);
        offset
    }
}

impl Listing<'_> {
    /// The columns that have room, with their widths.
    pub(crate) fn room(&self, width: usize) -> Vec<(usize, usize)> {
        let sorted = self.sorted.map(|(column, _)| column);
        let own = |at: usize| self.columns.get(at).map_or(0, |column| column.width);
        let mut chosen: Vec<usize> = (0..self.columns.len()).collect();
        let others = |chosen: &[usize]| chosen.iter().skip(1).map(|&at| own(at) + 1).sum::<usize>();
        while others(&chosen) + own(0) > width && chosen.len() > 1 {
            let rank = |at: &usize| self.columns.get(*at).map_or(0, |column| column.rank);
            // The column by which it is sorted goes last.
            let rest = chosen.iter().skip(1).copied().filter(|&at| Some(at) != sorted);
            match rest.max_by_key(rank) {
                Some(worst) => chosen.retain(|&at| at != worst),
                None => chosen.truncate(1),
            }
        }
        let mut widths: Vec<(usize, usize)> = chosen.iter().map(|&at| (at, own(at))).collect();
        let mut spare = width.saturating_sub(others(&chosen));
        // What the names do not need, the last column may have, if more of it is seen then.
        if let [(_, first), .., (last, drawing)] = &mut widths[..]
            && self.rows.iter().any(|row| row.cells.get(*last).is_some_and(Cell::is_long))
        {
            let names = self.rows.iter().filter_map(|row| row.cells.first());
            let longest = names.map(Cell::length).max().unwrap_or(0).max(*first);
            let more = spare.saturating_sub(longest).min(KEPT.saturating_sub(*drawing));
            *drawing += more;
            spare -= more;
        }
        widths.iter_mut().take(1).for_each(|(_, first)| *first = spare);
        widths
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const COLUMNS: &[Column] = &[
        Column { title: "NAME", width: 6, rank: 0 },
        Column { title: "A", width: 4, rank: 2 },
        Column { title: "B", width: 4, rank: 1 },
    ];

    fn listing(sorted: Option<(usize, bool)>) -> Listing<'static> {
        Listing { columns: COLUMNS, sorted, rows: Vec::new(), empty: "" }
    }

    #[test]
    fn columns_leave_by_rank_and_the_sorted_one_last() {
        let cases: [(usize, &[(usize, usize)]); 4] = [
            (16, &[(0, 6), (1, 4), (2, 4)]),
            (15, &[(0, 10), (2, 4)]),
            (11, &[(0, 6), (2, 4)]),
            (10, &[(0, 10)]),
        ];
        for (width, columns) in cases {
            assert_eq!(listing(None).room(width), columns, "{width}");
        }
        assert_eq!(listing(Some((1, false))).room(15), [(0, 10), (1, 4)]);
        assert_eq!(listing(Some((1, false))).room(3), [(0, 3)]);
        assert_eq!(listing(Some((0, false))).room(0), [(0, 0)]);
    }

    #[test]
    fn the_cursor_stays_with_its_row() {
        let rows = |names: &[&str]| -> Vec<Row<'_>> {
            let row = |name: &&str| Row {
                key: (*name).to_owned(),
                target: Target::Nothing,
                cells: Vec::new(),
            };
            names.iter().map(row).collect()
        };
        let mut cursor = Cursor::default();
        cursor.go(&rows(&["a", "b", "c"]), 1);
        cursor.find(&rows(&["c", "a", "b"]));
        assert_eq!(cursor.row, 2);
        cursor.find(&rows(&["c", "a"]));
        assert_eq!(cursor.row, 1);
        cursor.go(&rows(&["c", "a"]), -9);
        cursor.find(&rows(&["b", "c"]));
        assert_eq!(cursor.row, 0, "at the top the cursor stays at the top");
        cursor.find(&[]);
        assert_eq!(cursor.row, 0);
    }

    #[test]
    fn the_chosen_row_is_on_the_screen() {
        let mut cursor = Cursor::default();
        assert_eq!(cursor.scroll(100, 10), 0);
        cursor.row = 9;
        assert_eq!(cursor.scroll(100, 10), 0);
        cursor.row = 10;
        assert_eq!(cursor.scroll(100, 10), 1);
        cursor.row = 5;
        assert_eq!(cursor.scroll(100, 10), 1);
        cursor.row = 0;
        assert_eq!(cursor.scroll(100, 10), 0);
        cursor.row = 99;
        assert_eq!(cursor.scroll(100, 0), 99);
        assert_eq!(cursor.scroll(100, 10), 90);
    }
}
