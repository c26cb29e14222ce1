//! Text, and what a terminal can show of it.

use ratatui_core::style::{Color, Modifier, Style};

use super::history::Ring;

/// What a piece of text is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ink {
    Plain,
    Strong,
    Faint,
    Good,
    Notable,
    Bad,
    Heading,
    /// The row or the tab that is chosen.
    Chosen,
}

/// What the terminal can show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Theme {
    pub(crate) coloured: bool,
    pub(crate) unicode: bool,
}

impl Theme {
    /// What the environment says: <https://no-color.org>, and the locale.
    pub(crate) fn of_environment() -> Self {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let locale = ["LC_ALL", "LC_CTYPE", "LANG"].into_iter().find_map(set);
        let locale = locale.unwrap_or_default().to_string_lossy().to_lowercase();
        Self {
            coloured: set("NO_COLOR").is_none(),
            unicode: locale.contains("utf-8") || locale.contains("utf8"),
        }
    }

    pub(crate) fn style(self, ink: Ink) -> Style {
        let style = Style::new();
        let colour = |style: Style, colour: Color| match self.coloured {
            true => style.fg(colour),
            false => style,
        };
        match ink {
            Ink::Plain => style,
            Ink::Strong => style.add_modifier(Modifier::BOLD),
            Ink::Faint => match self.coloured {
                true => style.fg(Color::DarkGray),
                false => style,
            },
            Ink::Good => colour(style, Color::Green),
            Ink::Notable => colour(style, Color::Yellow),
            Ink::Bad => colour(style, Color::Red).add_modifier(Modifier::BOLD),
            Ink::Heading => colour(style, Color::Cyan).add_modifier(Modifier::BOLD),
            Ink::Chosen => style.add_modifier(Modifier::REVERSED),
        }
    }

    /// The last samples as a line of little bars. The highest one is `most`; none for the highest of these samples.
    pub(crate) fn spark(self, ring: &Ring, width: usize, most: Option<f64>) -> String {
        const BLOCKS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
        const LETTERS: [char; 8] = ['_', '.', ':', '-', '=', '+', '*', '#'];
        let levels = if self.unicode { BLOCKS } else { LETTERS };
        let samples: Vec<f64> = ring.last(width).map(f64::from).collect();
        let most = most.unwrap_or_else(|| samples.iter().copied().fold(0.0, f64::max));
        let level = |value: f64| match value > 0.0 && most > 0.0 {
            // What is more than nothing looks like more than nothing.
            true => ((value / most * 7.0).round() as usize).clamp(1, 7),
            false => 0,
        };
        let bars = samples.iter().map(|&value| levels.get(level(value)).copied().unwrap_or(' '));
        let padding = std::iter::repeat_n(' ', width.saturating_sub(samples.len()));
        padding.chain(bars).collect()
    }

    /// A bar that is filled from 0 to 1.
    pub(crate) fn bar(self, fill: f64, width: usize) -> String {
        let (full, empty) = if self.unicode { ('█', '░') } else { ('#', '.') };
        let fill = if fill.is_finite() { fill.clamp(0.0, 1.0) } else { 0.0 };
        let mut filled = (fill * width as f64).round() as usize;
        // Only what is empty looks empty, only what is full looks full.
        if fill > 0.0 {
            filled = filled.max(1);
        }
        if fill < 1.0 {
            filled = filled.min(width.saturating_sub(1));
        }
        let bars = std::iter::repeat_n(full, filled);
        bars.chain(std::iter::repeat_n(empty, width.saturating_sub(filled))).collect()
    }

    /// The marks of a folded and of an unfolded row, and of a column sorted downwards and upwards.
    pub(crate) fn marks(self) -> Marks {
        match self.unicode {
            true => Marks { folded: '▸', unfolded: '▾', down: '▼', up: '▲', more: '…' },
            false => Marks { folded: '+', unfolded: '-', down: 'v', up: '^', more: '~' },
        }
    }
}

pub(crate) struct Marks {
    pub(crate) folded: char,
    pub(crate) unfolded: char,
    pub(crate) down: char,
    pub(crate) up: char,
    pub(crate) more: char,
}

/// Text cut to a width, with a mark where it was cut.
pub(crate) fn cut(text: &str, width: usize, more: char) -> String {
    if text.chars().count() <= width {
        return text.to_owned();
    }
    let mut cut: String = text.chars().take(width.saturating_sub(1)).collect();
    if width > 0 {
        cut.push(more);
    }
    cut
}

/// Text without what would control a terminal; tabs become spaces.
pub(crate) fn printable(text: &str) -> String {
    let mut clean = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '\t' => clean.push_str("  "),
            c if c.is_control() => {}
            c => clean.push(c),
        }
    }
    clean
}

#[cfg(test)]
mod tests {
    use super::*;

    const PLAIN: Theme = Theme { coloured: false, unicode: false };

    #[test]
    fn bars_are_full_or_empty_only_when_that_is_so() {
        for (fill, bar) in
            [(0.0, "...."), (0.01, "#..."), (0.5, "##.."), (0.99, "###."), (1.0, "####")]
        {
            assert_eq!(PLAIN.bar(fill, 4), bar, "{fill}");
        }
        assert_eq!(PLAIN.bar(f64::NAN, 2), "..");
        assert_eq!(PLAIN.bar(0.5, 0), "");
    }

    #[test]
    fn text_is_cut_where_it_has_no_room() {
        assert_eq!(cut("abcdef", 6, '~'), "abcdef");
        assert_eq!(cut("abcdef", 4, '~'), "abc~");
        assert_eq!(cut("abcdef", 0, '~'), "");
    }

    #[test]
    fn what_controls_terminals_is_left_out() {
        assert_eq!(printable("a\x1b\tb\u{9b}\n"), "a  b");
    }
}
