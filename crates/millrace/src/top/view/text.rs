//! Pages of text.

use super::pane::Pane;
use crate::top::pages::{Scroll, TextPage};
use crate::top::text::Ink;

pub(super) fn draw_page(page: &TextPage, pane: &mut Pane<'_>) {
    pane.put(0, 0, &page.title, Ink::Heading);
    let height = pane.height().saturating_sub(1);
    draw(&page.lines, &page.scroll, &mut pane.part(1, height));
}

/// Lines, cut at the right; one that is too long goes on in the next row.
pub(super) fn draw(lines: &[String], scroll: &Scroll, pane: &mut Pane<'_>) {
    let width = pane.width().max(1);
    let rows: Vec<&str> = lines.iter().flat_map(|line| wrapped(line, width)).collect();
    let top = scroll.fit(rows.len(), pane.height());
    for (y, row) in rows.iter().skip(top).take(pane.height()).enumerate() {
        // The headings of a manual.
        let is_heading = !row.is_empty()
            && !row.starts_with(' ')
            && row.chars().all(|c| c.is_uppercase() || c == ' ');
        pane.put(0, y, row, if is_heading { Ink::Strong } else { Ink::Plain });
    }
}

/// A line in pieces of at most so many characters.
fn wrapped(line: &str, width: usize) -> Vec<&str> {
    let mut pieces = Vec::new();
    let mut rest = line;
    while let Some((at, _)) = rest.char_indices().nth(width) {
        let (piece, next) = rest.split_at(at);
        pieces.push(piece);
        rest = next;
    }
    pieces.push(rest);
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lines_go_on_in_the_next_row() {
        assert_eq!(wrapped("abcdefg", 3), ["abc", "def", "g"]);
        assert_eq!(wrapped("abc", 3), ["abc"]);
        assert_eq!(wrapped("", 3), [""]);
        assert_eq!(wrapped("\u{fc}\u{fc}\u{fc}", 2), ["\u{fc}\u{fc}", "\u{fc}"]);
    }
}
