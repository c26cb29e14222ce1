//! Draws the state on a screen of any size.

mod element;
mod foot;
mod head;
mod help;
mod pane;
mod table;
mod text;

use ratatui_core::buffer::Buffer;

use self::pane::Pane;
use super::pages::Page;
use super::state::{State, Tab};
use super::text::{Ink, Theme};

/// Draws all of it.
pub(crate) fn draw(state: &State, buffer: &mut Buffer, theme: Theme) {
    let area = buffer.area;
    let mut screen = Pane::new(buffer, area, theme);
    let height = screen.height();
    let head = head::height(state, height);
    let foot = usize::from(height > 2);
    head::draw(state, &mut screen.part(0, head));
    let mut body = screen.part(head, height - head - foot);
    match (state.pages.last(), state.tab) {
        (Some(Page::Element(page)), _) => element::draw(state, page, &mut body),
        (Some(Page::Text(page)), _) => text::draw_page(page, &mut body),
        (Some(Page::Help(scroll)), _) => help::draw(state, scroll, &mut body),
        (None, Tab::Messages) => {
            let lines = state.messages.as_deref().unwrap_or_default();
            text::draw(lines, &state.messages_scroll, &mut body);
        }
        (None, Tab::List(kind)) => match &state.data {
            Some(_) => {
                let cursor = state.lists.get(&kind).map(|shown| &shown.cursor);
                table::draw(&state.listing(kind), &mut body, cursor);
            }
            None => {
                body.put(0, 0, "Waiting for the router's figures.", Ink::Faint);
            }
        },
    }
    foot::draw(state, &mut screen.part(height - foot, foot));
}
