//! A figure as an SVG picture, for light and for dark pages.
//!
//! The colours are those of Okabe and Ito, which people with any colour vision can distinguish. In addition, each
//! series has its own mark. The picture has its own background, because it may be shown on any page.

use std::fmt::Write;

use super::figure::{Axis, Figure, Panel, Scale, Series};
use crate::report::short;

/// The picture.
pub(crate) fn svg(figure: &Figure) -> String {
    let columns = if figure.panels.len() > 1 { 2 } else { 1 };
    let rows = figure.panels.len().div_ceil(columns);
    let titled = 2.0 * MARGIN + figure.title.chars().count() as f64 * TITLE_LETTER;
    let width = titled.max(MARGIN + columns as f64 * (PANEL_WIDTH + MARGIN));
    let legends: Vec<usize> = figure.panels.iter().map(legend_lines).collect();
    let legend = legends.into_iter().max().unwrap_or(1) as f64 * LEGEND_LINE;
    let panel_height = PLOT_TOP + legend + PLOT_HEIGHT + PLOT_BOTTOM;
    let height = TITLE + rows as f64 * panel_height + MARGIN / 2.0;
    let mut text = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height:.0}\" \
         role=\"img\" aria-label=\"{title}\">\n<style>{STYLE}</style>\n\
         <rect class=\"paper\" width=\"100%\" height=\"100%\" rx=\"6\"/>\n\
         <text class=\"title\" x=\"{MARGIN}\" y=\"28\">{title}</text>\n",
        title = escape(&figure.title)
    );
    for (at, panel) in figure.panels.iter().enumerate() {
        let left = MARGIN + (at % columns) as f64 * (PANEL_WIDTH + MARGIN);
        let top = TITLE + (at / columns) as f64 * panel_height;
        // Writing to a String cannot fail, here and below.
        let _ = writeln!(text, "<g transform=\"translate({left} {top:.0})\">");
        text.push_str(&draw(panel, legend));
        text.push_str("</g>\n");
    }
    text.push_str("</svg>\n");
    text
}

const MARGIN: f64 = 20.0;
const TITLE: f64 = 44.0;
const PANEL_WIDTH: f64 = 400.0;
/// Room for the panel's title and the label of the y axis.
const PLOT_TOP: f64 = 52.0;
const PLOT_LEFT: f64 = 46.0;
const PLOT_WIDTH: f64 = PANEL_WIDTH - PLOT_LEFT - 10.0;
const PLOT_HEIGHT: f64 = 200.0;
/// Room for marks and the label of the x axis.
const PLOT_BOTTOM: f64 = 54.0;
const LEGEND_LINE: f64 = 18.0;
/// The approximate width of a letter, for placing texts side by side.
const LETTER: f64 = 6.4;
/// A letter of the picture's title.
const TITLE_LETTER: f64 = 9.8;

const STYLE: &str = "\
text{font:12px system-ui,-apple-system,'Segoe UI',Roboto,'DejaVu Sans',sans-serif;fill:#333}\
.title{font-size:16px;font-weight:600;fill:#111}.panel{font-size:13px;font-weight:600;fill:#111}\
.paper{fill:#fff;stroke:#ddd}.grid{stroke:#e6e6e6;stroke-width:1}.axis{stroke:#777;stroke-width:1}\
.line{fill:none;stroke-width:2;stroke-linejoin:round}.mark{stroke:#fff;stroke-width:1}\
.s0{stroke:#0072b2}.s1{stroke:#d55e00}.s2{stroke:#009e73}.s3{stroke:#aa4499}.s4{stroke:#b58900}.s5{stroke:#56b4e9}\
.f0{fill:#0072b2}.f1{fill:#d55e00}.f2{fill:#009e73}.f3{fill:#aa4499}.f4{fill:#b58900}.f5{fill:#56b4e9}\
@media(prefers-color-scheme:dark){text{fill:#c8ccd0}.title,.panel{fill:#f0f2f4}\
.paper{fill:#16191d;stroke:#333a42}.grid{stroke:#2a3037}.axis{stroke:#8a929a}.mark{stroke:#16191d}\
.s0{stroke:#4ea8e0}.s1{stroke:#ff8c42}.s2{stroke:#2fc79a}.s3{stroke:#d98fd0}.s4{stroke:#e6c34a}.s5{stroke:#9ad4f5}\
.f0{fill:#4ea8e0}.f1{fill:#ff8c42}.f2{fill:#2fc79a}.f3{fill:#d98fd0}.f4{fill:#e6c34a}.f5{fill:#9ad4f5}}";

/// The number of different lines and marks; further series repeat them.
const KINDS: usize = 6;

fn draw(panel: &Panel, legend: f64) -> String {
    let mut text =
        format!("<text class=\"panel\" x=\"0\" y=\"16\">{}</text>\n", escape(&panel.title));
    text.push_str(&draw_legend(panel));
    let top = PLOT_TOP + legend;
    let _ =
        writeln!(text, "<text x=\"0\" y=\"{:.0}\">{}</text>", top - 12.0, escape(&panel.y.label));
    let points = || panel.series.iter().flat_map(|series| &series.points);
    let x = Span::of(&panel.x, points().map(|point| point.0));
    let y = Span::of(&panel.y, points().map(|point| point.1));
    let at_x = |value: f64| PLOT_LEFT + x.place(value) * PLOT_WIDTH;
    let at_y = |value: f64| top + (1.0 - y.place(value)) * PLOT_HEIGHT;
    let right = PLOT_LEFT + PLOT_WIDTH;
    let bottom = top + PLOT_HEIGHT;
    for mark in y.marks() {
        let at = at_y(mark);
        let _ = writeln!(
            text,
            "<line class=\"grid\" x1=\"{PLOT_LEFT}\" x2=\"{right}\" y1=\"{at:.1}\" y2=\"{at:.1}\"/>\
             <text x=\"{:.0}\" y=\"{:.1}\" text-anchor=\"end\">{}</text>",
            PLOT_LEFT - 6.0,
            at + 4.0,
            short(mark)
        );
    }
    let _ = writeln!(
        text,
        "<line class=\"axis\" x1=\"{PLOT_LEFT}\" x2=\"{right}\" y1=\"{bottom:.0}\" y2=\"{bottom:.0}\"/>"
    );
    for (mark, name) in x.names() {
        let at = at_x(mark);
        let _ = writeln!(
            text,
            "<line class=\"axis\" x1=\"{at:.1}\" x2=\"{at:.1}\" y1=\"{bottom:.0}\" y2=\"{:.0}\"/>\
             <text x=\"{at:.1}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
            bottom + 4.0,
            bottom + 18.0,
            escape(&name)
        );
    }
    let _ = writeln!(
        text,
        "<text x=\"{:.0}\" y=\"{:.0}\" text-anchor=\"middle\">{}</text>",
        PLOT_LEFT + PLOT_WIDTH / 2.0,
        bottom + 38.0,
        escape(&panel.x.label)
    );
    for (kind, series) in panel.series.iter().enumerate() {
        let placed: Vec<(f64, f64)> =
            series.points.iter().map(|&(x, y)| (at_x(x), at_y(y))).collect();
        match &panel.x.scale {
            Scale::Names(names) => {
                let room = PLOT_WIDTH / names.len().max(1) as f64 * 0.7;
                let wide = room / panel.series.len().max(1) as f64;
                let shift = kind as f64 * wide - room / 2.0;
                text.push_str(&bars(series, &placed, kind, shift, wide, bottom));
            }
            _ => text.push_str(&line(series, &placed, kind)),
        }
    }
    text
}

fn line(series: &Series, placed: &[(f64, f64)], kind: usize) -> String {
    let path: Vec<String> = placed.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
    let mut text =
        format!("<polyline class=\"line s{}\" points=\"{}\"/>\n", kind % KINDS, path.join(" "));
    for ((x, y), point) in placed.iter().zip(&series.points) {
        let _ = writeln!(text, "<g>{}{}</g>", tip(&series.label, *point), mark(*x, *y, kind));
    }
    text
}

/// Bars with their values above.
fn bars(
    series: &Series,
    placed: &[(f64, f64)],
    kind: usize,
    shift: f64,
    wide: f64,
    bottom: f64,
) -> String {
    let mut text = String::new();
    for ((x, y), point) in placed.iter().zip(&series.points) {
        let (left, high) = (x + shift, bottom - y);
        let _ = writeln!(
            text,
            "<g>{}<rect class=\"f{}\" x=\"{:.1}\" y=\"{y:.1}\" width=\"{:.1}\" height=\"{high:.1}\"/>\
             <text x=\"{:.1}\" y=\"{:.1}\" text-anchor=\"middle\">{}</text></g>",
            tip(&series.label, *point),
            kind % KINDS,
            left + 1.0,
            wide - 2.0,
            left + wide / 2.0,
            y - 4.0,
            short((point.1 * 10.0).round() / 10.0)
        );
    }
    text
}

/// The tooltip of a point.
fn tip(label: &str, (x, y): (f64, f64)) -> String {
    format!("<title>{}: {}, {y:.2}</title>", escape(label), short(x))
}

/// The mark of a series: circle, square, triangle, diamond, and so on.
fn mark(x: f64, y: f64, kind: usize) -> String {
    let class = format!("mark f{}", kind % KINDS);
    let shape = |corners: &[(f64, f64)]| {
        let corners: Vec<String> =
            corners.iter().map(|(dx, dy)| format!("{:.1},{:.1}", x + dx, y + dy)).collect();
        format!("<polygon class=\"{class}\" points=\"{}\"/>", corners.join(" "))
    };
    match kind % 4 {
        0 => format!("<circle class=\"{class}\" cx=\"{x:.1}\" cy=\"{y:.1}\" r=\"4\"/>"),
        1 => shape(&[(-3.6, -3.6), (3.6, -3.6), (3.6, 3.6), (-3.6, 3.6)]),
        2 => shape(&[(0.0, -4.8), (4.6, 3.6), (-4.6, 3.6)]),
        _ => shape(&[(0.0, -5.0), (5.0, 0.0), (0.0, 5.0), (-5.0, 0.0)]),
    }
}

/// The place of each series' label in the legend: line, and distance from the left.
fn legend_places(panel: &Panel) -> Vec<(usize, f64)> {
    let (mut line, mut left) = (0, 0.0);
    let place = |series: &Series| {
        let wide = 26.0 + series.label.chars().count() as f64 * LETTER + 12.0;
        if left > 0.0 && left + wide > PANEL_WIDTH {
            (line, left) = (line + 1, 0.0);
        }
        let place = (line, left);
        left += wide;
        place
    };
    panel.series.iter().map(place).collect()
}

fn legend_lines(panel: &Panel) -> usize {
    legend_places(panel).last().map_or(1, |(line, _)| line + 1)
}

fn draw_legend(panel: &Panel) -> String {
    let mut text = String::new();
    for (kind, (series, (line, left))) in panel.series.iter().zip(legend_places(panel)).enumerate()
    {
        let y = 32.0 + line as f64 * LEGEND_LINE;
        let swatch = match panel.x.scale {
            Scale::Names(_) => format!(
                "<rect class=\"f{}\" x=\"{left:.0}\" y=\"{:.0}\" width=\"20\" height=\"10\"/>",
                kind % KINDS,
                y - 5.0
            ),
            _ => format!(
                "<line class=\"line s{}\" x1=\"{left:.0}\" x2=\"{:.0}\" y1=\"{y:.0}\" y2=\"{y:.0}\"/>{}",
                kind % KINDS,
                left + 20.0,
                mark(left + 10.0, y, kind)
            ),
        };
        let _ = writeln!(
            text,
            "{swatch}<text x=\"{:.0}\" y=\"{:.0}\">{}</text>",
            left + 26.0,
            y + 4.0,
            escape(&series.label)
        );
    }
    text
}

/// The range of an axis that is shown.
struct Span<'a> {
    axis: &'a Axis,
    from: f64,
    to: f64,
    /// The distance between marks of a linear axis.
    step: f64,
}

impl<'a> Span<'a> {
    fn of(axis: &'a Axis, values: impl Iterator<Item = f64>) -> Self {
        let values = values.filter(|value| value.is_finite());
        let (least, most) = values
            .fold((f64::INFINITY, f64::NEG_INFINITY), |(least, most), value| {
                (least.min(value), most.max(value))
            });
        let (from, to) = match &axis.scale {
            Scale::Names(names) => (-0.5, names.len() as f64 - 0.5),
            Scale::Linear => (0.0, most.max(0.0)),
            Scale::Log2 => (least, most),
            // Whole decades, so that there is a mark at either end.
            Scale::Log10 => (
                10f64.powf(least.max(1e-9).log10().floor()),
                10f64.powf(most.max(1e-9).log10().ceil()),
            ),
        };
        match axis.scale {
            Scale::Linear => {
                let step = step(to);
                Self { axis, from, to: (to / step).ceil().max(1.0) * step, step }
            }
            _ => Self { axis, from, to, step: 1.0 },
        }
    }

    /// The position of a value, from 0 to 1.
    fn place(&self, value: f64) -> f64 {
        let log = |value: f64| value.max(1e-9).ln();
        let place = match self.axis.scale {
            Scale::Log2 | Scale::Log10 => {
                (log(value) - log(self.from)) / (log(self.to) - log(self.from))
            }
            Scale::Linear | Scale::Names(_) => (value - self.from) / (self.to - self.from),
        };
        // All values are equal.
        if place.is_finite() { place } else { 0.5 }
    }

    fn marks(&self) -> Vec<f64> {
        let powers = |base: f64| {
            let first = (self.from.max(1e-9).ln() / base.ln() - 1e-9).ceil() as i32;
            let last = (self.to.max(1e-9).ln() / base.ln() + 1e-9).floor() as i32;
            (first..=last).map(|power| base.powi(power)).collect()
        };
        match &self.axis.scale {
            Scale::Linear => {
                let count = (self.to / self.step).round() as u32;
                (0..=count).map(|n| f64::from(n) * self.step).collect()
            }
            Scale::Log2 => powers(2.0),
            Scale::Log10 => powers(10.0),
            Scale::Names(names) => (0..names.len()).map(|at| at as f64).collect(),
        }
    }

    /// The marks with their labels.
    fn names(&self) -> Vec<(f64, String)> {
        let named = |mark: f64| match &self.axis.scale {
            Scale::Names(names) => names.get(mark as usize).cloned().unwrap_or_default(),
            _ => short(mark),
        };
        self.marks().into_iter().map(|mark| (mark, named(mark))).collect()
    }
}

/// The distance between marks up to `most`: 1, 2 or 5 times a power of ten, for about five to nine marks.
fn step(most: f64) -> f64 {
    let rough = most.max(1e-9) / 8.0;
    let power = 10f64.powf(rough.log10().floor());
    let steps = [1.0, 2.0, 5.0].map(|step| step * power);
    steps.into_iter().find(|step| *step >= rough * 0.9999).unwrap_or(power * 10.0)
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

#[cfg(test)]
mod tests {
    use super::super::figure::tests::example;
    use super::*;

    #[test]
    fn axes_have_marks_at_round_numbers_that_hold_all_values() {
        let marks = |scale: Scale, values: &[f64]| {
            let axis = Axis::new("x", scale);
            Span::of(&axis, values.iter().copied()).marks()
        };
        assert_eq!(marks(Scale::Linear, &[3.0, 9.3]), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(
            marks(Scale::Linear, &[1328.0]),
            [0.0, 200.0, 400.0, 600.0, 800.0, 1000.0, 1200.0, 1400.0]
        );
        assert_eq!(marks(Scale::Log2, &[1.0, 8.0]), [1.0, 2.0, 4.0, 8.0]);
        assert_eq!(marks(Scale::Log10, &[3.0, 40.0]), [1.0, 10.0, 100.0]);
        assert_eq!(marks(Scale::Names(vec!["a".into(), "b".into()]), &[]), [0.0, 1.0]);
    }

    #[test]
    fn values_lie_between_the_ends() {
        let axis = Axis::new("x", Scale::Log2);
        let span = Span::of(&axis, [1.0, 256.0].into_iter());
        assert_eq!((span.place(1.0), span.place(16.0), span.place(256.0)), (0.0, 0.5, 1.0));
        // One value, or none.
        assert_eq!(Span::of(&axis, [4.0].into_iter()).place(4.0), 0.5);
        assert!(Span::of(&axis, std::iter::empty()).marks().len() < 100);
    }

    #[test]
    fn the_picture_is_whole_and_names_what_it_shows() {
        let picture = svg(&example());
        for text in
            ["An example", "burst, packets", "Mpps", "on &amp; &lt;on&gt;", "prefers-color-scheme"]
        {
            assert!(picture.contains(text), "{text}\n{picture}");
        }
        assert!(!picture.contains("NaN") && !picture.contains("inf"), "{picture}");
        assert_eq!(picture.matches("<polyline").count(), 3);
        assert_eq!(picture.matches("<g").count(), picture.matches("</g>").count());
    }
}
