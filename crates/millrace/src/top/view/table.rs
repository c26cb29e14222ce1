//! Draws a table.

use super::pane::Pane;
use crate::top::listing::{Cell, Cursor, Listing};
use crate::top::text::{Ink, cut};

/// Draws the heading and the rows around the cursor.
pub(super) fn draw(list: &Listing<'_>, pane: &mut Pane<'_>, cursor: Option<&Cursor>) {
    let columns = list.room(pane.width());
    let theme = pane.theme;
    let marks = theme.marks();
    let height = pane.height().saturating_sub(1);
    let offset = cursor.map_or(0, |cursor| cursor.scroll(list.rows.len(), height));
    let shown = list.rows.iter().enumerate().skip(offset).take(height);
    let mut x = 0;
    for &(at, width) in &columns {
        let Some(column) = list.columns.get(at) else { continue };
        let mut title = column.title.to_owned();
        if let Some((sorted, reversed)) = list.sorted
            && sorted == at
        {
            title.push(if reversed { marks.up } else { marks.down });
        }
        let title = cut(&title, width, marks.more);
        // As the figures below.
        let is_figure =
            list.rows.first().and_then(|row| row.cells.get(at)).is_some_and(Cell::is_figure);
        let title = if is_figure { format!("{title:>width$}") } else { title };
        pane.put(x, 0, &title, Ink::Heading);
        x += width + 1;
    }
    if list.rows.is_empty() {
        pane.put(0, 1, list.empty, Ink::Faint);
    }
    for (y, (number, row)) in shown.enumerate() {
        let mut x = 0;
        for &(at, width) in &columns {
            if let Some(cell) = row.cells.get(at) {
                let text = cut(&cell.shown(width, theme), width, marks.more);
                let text = if cell.is_figure() { format!("{text:>width$}") } else { text };
                pane.put(x, y + 1, &text, cell.ink);
            }
            x += width + 1;
        }
        if cursor.is_some_and(|cursor| cursor.row == number) {
            pane.mark(y + 1, Ink::Chosen);
        }
    }
}
