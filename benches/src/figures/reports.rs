//! Plots results of other suites, from their JSON reports.

use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::figure::{Axis, Figure, Panel, Scale, Series};

/// The cost of lookups by structure and number of routes: the curve in a report of `bench lookup`.
///
/// # Errors
/// The file is not such a report.
pub(super) fn lookups(report: &Path) -> anyhow::Result<Figure> {
    let rows = rows(report)?;
    let curve: Vec<&Value> = rows.iter().filter(|row| row["kind"] == "curve").collect();
    let mut panels = Vec::new();
    for destinations in distinct(&curve, "destinations") {
        let here: Vec<&Value> =
            curve.iter().copied().filter(|row| row["destinations"] == *destinations).collect();
        for (how, key) in [("in batches", "batched_ns"), ("one by one", "single_ns")] {
            panels.push(Panel {
                title: format!("{destinations} destinations, {how}"),
                x: Axis::new("routes", Scale::Log10),
                y: Axis::new("ns a lookup", Scale::Log10),
                series: series(&here, "routes", &["structure"], |row| row[key].as_f64()),
            });
        }
    }
    figure("lookups", "What a route costs, by structure", panels, report)
}

/// The cost of classification by engine and number of rules, from a report of `bench rules`.
///
/// # Errors
/// The file is not such a report.
pub(super) fn rules(report: &Path) -> anyhow::Result<Figure> {
    let rows = rows(report)?;
    let rows: Vec<&Value> = rows.iter().collect();
    let mut panels = Vec::new();
    for kind in distinct(&rows, "kind") {
        let here: Vec<&Value> = rows.iter().copied().filter(|row| row["kind"] == *kind).collect();
        panels.push(Panel {
            title: format!("Rules of the kind {kind}, bursts of 32"),
            x: Axis::new("rules", Scale::Log10),
            y: Axis::new("cycles a packet", Scale::Log10),
            series: series(&here, "rules", &["element", "engine"], |row| {
                row["cycles"]["32"].as_f64()
            }),
        });
    }
    figure("rules", "What classification costs, by engine", panels, report)
}

fn figure(
    name: &'static str,
    title: &str,
    panels: Vec<Panel>,
    report: &Path,
) -> anyhow::Result<Figure> {
    let drawn = panels.iter().any(|panel| !panel.series.is_empty());
    ensure!(drawn, "{}: nothing in it is for the figure {name}", report.display());
    Ok(Figure { name, title: title.to_owned(), panels, targets: Vec::new(), notes: Vec::new() })
}

/// The rows of a report.
fn rows(report: &Path) -> anyhow::Result<Vec<Value>> {
    let text = std::fs::read_to_string(report).with_context(|| report.display().to_string())?;
    let mut value: Value =
        serde_json::from_str(&text).with_context(|| format!("{}: not JSON", report.display()))?;
    match value.get_mut("rows").map(Value::take).unwrap_or_default() {
        Value::Array(rows) => Ok(rows),
        _ => anyhow::bail!("{}: no report, for it has no rows", report.display()),
    }
}

/// The different values of a key, in the order of the rows.
fn distinct<'a>(rows: &[&'a Value], key: &str) -> Vec<&'a str> {
    let mut found: Vec<&str> = Vec::new();
    for word in rows.iter().filter_map(|row| row[key].as_str()) {
        if !found.contains(&word) {
            found.push(word);
        }
    }
    found
}

/// A series for each combination of the values of some keys.
fn series(
    rows: &[&Value],
    x: &str,
    keys: &[&str],
    y: impl Fn(&Value) -> Option<f64>,
) -> Vec<Series> {
    let mut found: Vec<Series> = Vec::new();
    for row in rows {
        let words: Vec<&str> = keys.iter().filter_map(|key| row[*key].as_str()).collect();
        let (label, Some(x), Some(y)) = (words.join(", "), row[x].as_f64(), y(row)) else {
            continue;
        };
        match found.iter_mut().find(|series| series.label == label) {
            Some(series) => series.points.push((x, y)),
            None => found.push(Series::new(label, vec![(x, y)])),
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(rows: Value) -> tempfile::NamedTempFile {
        let file = tempfile::NamedTempFile::new().unwrap();
        std::fs::write(file.path(), json!({ "rows": rows }).to_string()).unwrap();
        file
    }

    #[test]
    fn lookups_are_drawn_by_destinations_and_structure() {
        let row = |structure: &str, routes: u32, destinations: &str, ns: f64| {
            json!({
                "kind": "curve", "routes": routes, "structure": structure,
                "destinations": destinations, "single_ns": 10.0 * ns, "batched_ns": ns,
            })
        };
        let file = written(json!([
            row("DIR-24-8", 1, "1,024", 1.0),
            row("DIR-24-8", 1, "1M", 2.0),
            row("radix", 1, "1,024", 3.0),
            row("DIR-24-8", 10, "1,024", 4.0),
            {"kind": "table", "structure": "radix", "routes": 5},
        ]));
        let figure = lookups(file.path()).unwrap();
        let titles: Vec<&str> = figure.panels.iter().map(|panel| panel.title.as_str()).collect();
        assert_eq!(
            titles[..2],
            ["1,024 destinations, in batches", "1,024 destinations, one by one"]
        );
        assert_eq!(titles.len(), 4);
        let first = &figure.panels[0].series;
        assert_eq!((first.len(), first[0].label.as_str()), (2, "DIR-24-8"));
        assert_eq!(first[0].points, [(1.0, 1.0), (10.0, 4.0)]);
    }

    #[test]
    fn rules_are_drawn_by_kind_and_engine() {
        let file = written(json!([
            {"element": "IPFilter", "kind": "acl", "rules": 10, "engine": "index", "cycles": {"32": 9.0}},
            {"element": "IPFilter", "kind": "fw", "rules": 10, "engine": "program", "cycles": {"32": 8.0}},
        ]));
        let figure = rules(file.path()).unwrap();
        assert_eq!(figure.panels.len(), 2);
        assert_eq!(figure.panels[1].series[0].label, "IPFilter, program");
    }

    #[test]
    fn what_is_no_report_is_refused() {
        let file = written(json!([{"kind": "curve"}]));
        assert!(lookups(file.path()).unwrap_err().to_string().contains("nothing in it"));
        std::fs::write(file.path(), "[]").unwrap();
        assert!(rules(file.path()).unwrap_err().to_string().contains("no report"));
        assert!(rules(Path::new("/nonexistent")).is_err());
    }
}
