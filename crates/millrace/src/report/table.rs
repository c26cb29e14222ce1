//! Text in columns.

/// The alignment of a column.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Left,
    Right,
}

/// The most characters that a column is wide. A longer cell moves the rest of its own row.
const MAX_WIDTH: usize = 200;

/// Aligns rows of cells under a heading. The width of the last column is not limited.
pub(super) fn align(heading: &[(&str, Side)], rows: &[Vec<String>]) -> Vec<String> {
    let titles: Vec<String> = heading.iter().map(|(title, _)| (*title).to_owned()).collect();
    let width = |column: usize| {
        let cells = rows.iter().chain([&titles]).filter_map(|row| row.get(column));
        let lengths = cells.map(|cell| cell.chars().count());
        lengths.filter(|&length| length <= MAX_WIDTH).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heading.len()).map(width).collect();
    let line = |row: &Vec<String>| {
        let cells =
            row.iter().zip(&widths).zip(heading).map(|((cell, &width), (_, side))| match side {
                Side::Left => format!("{cell:width$}"),
                Side::Right => format!("{cell:>width$}"),
            });
        cells.collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    std::iter::once(&titles).chain(rows).map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_stand_under_their_titles() {
        let rows = vec![
            vec!["a".to_owned(), "1000".to_owned(), "x y".to_owned()],
            vec!["long".to_owned(), "1".to_owned(), String::new()],
        ];
        let heading = [("NAME", Side::Left), ("N", Side::Right), ("WHY", Side::Left)];
        assert_eq!(align(&heading, &rows), ["NAME     N  WHY", "a     1000  x y", "long     1"]);
    }

    #[test]
    fn a_cell_of_any_length_leaves_the_other_rows_as_they_are() {
        let long = "a".repeat(100_000);
        let rows = [&*long, "b"].map(|name| vec![name.to_owned(), "1".to_owned()]);
        let lines = align(&[("NAME", Side::Left), ("N", Side::Right)], &rows);
        assert_eq!(lines, ["NAME  N", &format!("{long}  1"), "b     1"]);
    }
}
