//! A part of the screen.

use ratatui_core::buffer::Buffer;
use ratatui_core::layout::Rect;

use crate::top::text::{Ink, Theme};

/// A part of the screen. What would be outside of it is left out.
pub(super) struct Pane<'b> {
    buffer: &'b mut Buffer,
    area: Rect,
    pub(super) theme: Theme,
}

impl<'b> Pane<'b> {
    pub(super) fn new(buffer: &'b mut Buffer, area: Rect, theme: Theme) -> Self {
        let area = area.intersection(buffer.area);
        Self { buffer, area, theme }
    }

    pub(super) fn width(&self) -> usize {
        self.area.width.into()
    }

    pub(super) fn height(&self) -> usize {
        self.area.height.into()
    }

    /// The rows from `top` on, at most `height`.
    pub(super) fn part(&mut self, top: usize, height: usize) -> Pane<'_> {
        let top = top.min(self.height()) as u16;
        let height = height.min(usize::from(self.area.height - top)) as u16;
        let area = Rect { y: self.area.y + top, height, ..self.area };
        Pane { buffer: self.buffer, area, theme: self.theme }
    }

    /// Puts text at a place; returns the column after it. Characters that would control the terminal are left out.
    pub(super) fn put(&mut self, x: usize, y: usize, text: &str, ink: Ink) -> usize {
        if x >= self.width() || y >= self.height() {
            return x;
        }
        let (column, row) = (self.area.x + x as u16, self.area.y + y as u16);
        let room = self.width() - x;
        let style = self.theme.style(ink);
        let (next, _) = self.buffer.set_stringn(column, row, text, room, style);
        usize::from(next.saturating_sub(self.area.x))
    }

    /// Puts pieces of text in a row, from `x` on; returns the column after them.
    pub(super) fn pieces(&mut self, x: usize, y: usize, pieces: &[(&str, Ink)]) -> usize {
        pieces.iter().fold(x, |x, (text, ink)| self.put(x, y, text, *ink))
    }

    /// Puts text at the right end of a row, if it has room beside what ends at `taken`.
    pub(super) fn put_right(&mut self, taken: usize, y: usize, text: &str, ink: Ink) {
        let length = text.chars().count();
        if let Some(x) = self.width().checked_sub(length)
            && x > taken
        {
            self.put(x, y, text, ink);
        }
    }

    /// Shows a row in another style; its text stays.
    pub(super) fn mark(&mut self, y: usize, ink: Ink) {
        if y < self.height() {
            let row = Rect { y: self.area.y + y as u16, height: 1, ..self.area };
            self.buffer.set_style(row, self.theme.style(ink));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_text_controls_the_terminal() {
        let mut buffer = Buffer::empty(Rect::new(0, 0, 20, 1));
        let area = buffer.area;
        Pane::new(&mut buffer, area, Theme { coloured: false, unicode: false }).put(
            0,
            0,
            "a\x1b[2J\u{9b}\rb\n",
            Ink::Plain,
        );
        let cells: String = buffer.content.iter().map(|cell| cell.symbol()).collect();
        assert_eq!(cells.trim_end(), "a[2Jb");
    }
}
