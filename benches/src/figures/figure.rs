//! A figure: panels with axes and series. Its table, its JSON and its plot are made from them.

use serde_json::{Value, json};

use super::target::{self, Target};
use crate::report::{rounded, short};

/// A figure.
#[derive(Clone, Debug)]
pub(crate) struct Figure {
    /// The name for `--only`, and of its files.
    pub(crate) name: &'static str,
    /// A title of one line.
    pub(crate) title: String,
    /// Its panels.
    pub(crate) panels: Vec<Panel>,
    /// Its targets.
    pub(crate) targets: Vec<Target>,
    /// Notes that are needed to read it correctly.
    pub(crate) notes: Vec<String>,
}

/// One pair of axes.
#[derive(Clone, Debug)]
pub(crate) struct Panel {
    /// Its title.
    pub(crate) title: String,
    /// The horizontal axis.
    pub(crate) x: Axis,
    /// The vertical axis.
    pub(crate) y: Axis,
    /// The series.
    pub(crate) series: Vec<Series>,
}

/// An axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Axis {
    /// The quantity, with the unit.
    pub(crate) label: String,
    /// How values are placed along it.
    pub(crate) scale: Scale,
}

/// How values are placed along an axis.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Scale {
    /// Evenly, from 0.
    Linear,
    /// By the logarithm, with a mark at each power of two.
    Log2,
    /// By the logarithm, with a mark at each power of ten.
    Log10,
    /// These names, at 0, 1, 2 and so on. The series on such an axis are bars.
    Names(Vec<String>),
}

impl Axis {
    pub(crate) fn new(label: impl Into<String>, scale: Scale) -> Self {
        Self { label: label.into(), scale }
    }

    /// A value in the format of tables.
    fn tell(&self, value: f64) -> String {
        match &self.scale {
            Scale::Names(names) => names.get(value as usize).cloned().unwrap_or_default(),
            _ => short(value),
        }
    }
}

/// Points that belong together.
#[derive(Clone, Debug)]
pub(crate) struct Series {
    /// The label.
    pub(crate) label: String,
    /// The points, from left to right.
    pub(crate) points: Vec<(f64, f64)>,
}

impl Series {
    pub(crate) fn new(label: impl Into<String>, points: Vec<(f64, f64)>) -> Self {
        Self { label: label.into(), points }
    }
}

impl Figure {
    /// The table as text.
    pub(crate) fn table(&self) -> String {
        let mut text = format!("{}: {}\n", self.name, self.title);
        for panel in &self.panels {
            text.push_str(&format!("\n  {}; {}\n", panel.title, panel.y.label));
            text.push_str(&panel.table());
        }
        text.push_str(&target::table(&self.targets));
        for note in &self.notes {
            text.push_str(&format!("\n  {note}\n"));
        }
        text
    }

    /// The rows of the JSON report: one per series.
    pub(crate) fn rows(&self) -> Vec<Value> {
        let rows = self.panels.iter().flat_map(|panel| {
            panel.series.iter().map(move |series| {
                let points = series.points.iter();
                let points = points.map(|(x, y)| match &panel.x.scale {
                    Scale::Names(_) => json!([panel.x.tell(*x), rounded(*y)]),
                    _ => json!([x, rounded(*y)]),
                });
                json!({
                    "figure": self.name,
                    "panel": panel.title,
                    "x": panel.x.label,
                    "y": panel.y.label,
                    "series": series.label,
                    "points": points.collect::<Vec<_>>(),
                })
            })
        });
        rows.chain(self.targets.iter().map(|target| target.row(self.name))).collect()
    }
}

impl Panel {
    /// A line for each value on the horizontal axis, a column for each series.
    fn table(&self) -> String {
        let mut places: Vec<f64> =
            self.series.iter().flat_map(|one| one.points.iter().map(|point| point.0)).collect();
        places.sort_by(f64::total_cmp);
        places.dedup();
        let first = places.iter().map(|&x| self.x.tell(x).chars().count());
        let first = first.chain([self.x.label.chars().count()]).max().unwrap_or(0);
        let widths: Vec<usize> =
            self.series.iter().map(|one| one.label.chars().count().max(9)).collect();
        let mut text = format!("  {:<first$}", self.x.label);
        for (series, &width) in self.series.iter().zip(&widths) {
            text.push_str(&format!("  {:>width$}", series.label));
        }
        text.push('\n');
        for x in places {
            text.push_str(&format!("  {:<first$}", self.x.tell(x)));
            for (series, &width) in self.series.iter().zip(&widths) {
                let y = series.points.iter().find(|point| point.0 == x).map(|point| point.1);
                let y = y.map_or("-".to_owned(), |y| format!("{y:.2}"));
                text.push_str(&format!("  {y:>width$}"));
            }
            text.push('\n');
        }
        text
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A figure with every kind of axis.
    pub(in crate::figures) fn example() -> Figure {
        let points = vec![(1.0, 0.5), (16.0, 4.0), (256.0, 12.25)];
        let names = Scale::Names(vec!["off".into(), "on & <on>".into()]);
        Figure {
            name: "example",
            title: "An example".into(),
            panels: vec![
                Panel {
                    title: "Speed".into(),
                    x: Axis::new("burst, packets", Scale::Log2),
                    y: Axis::new("Mpps", Scale::Linear),
                    series: vec![
                        Series::new("a", points.clone()),
                        Series::new("b", points.iter().take(2).copied().collect()),
                    ],
                },
                Panel {
                    title: "Latency".into(),
                    x: Axis::new("routes", Scale::Log10),
                    y: Axis::new("\u{b5}s", Scale::Log10),
                    series: vec![Series::new("p99", points)],
                },
                Panel {
                    title: "Steps".into(),
                    x: Axis::new("prefetch", names),
                    y: Axis::new("Mpps", Scale::Linear),
                    series: vec![Series::new("c", vec![(0.0, 1.0), (1.0, 2.0)])],
                },
            ],
            targets: Vec::new(),
            notes: vec!["Made up.".into()],
        }
    }

    #[test]
    fn the_table_has_a_line_a_place_and_a_column_a_series() {
        let text = example().table();
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let words = |line: &str| line.split_whitespace().collect::<Vec<_>>().join(" ");
        let lines: Vec<String> = lines.iter().map(|line| words(line)).collect();
        for line in
            ["burst, packets a b", "16 4.00 4.00", "256 12.25 -", "on & <on> 2.00", "Made up."]
        {
            assert!(lines.iter().any(|found| found == line), "{line}\n{text}");
        }
    }

    #[test]
    fn the_report_has_a_row_a_series() {
        let rows = example().rows();
        assert_eq!(rows.len(), 4);
        assert_eq!(rows[1]["points"], json!([[1.0, 0.5], [16.0, 4.0]]));
        assert_eq!(rows[3]["points"], json!([["off", 1.0], ["on & <on>", 2.0]]));
    }
}
