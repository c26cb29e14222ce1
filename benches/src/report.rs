//! The common parts of all reports: the machine, the sources, the options; and the format of figures.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Context;
use serde_json::{Value, json};

use crate::machine::Machine;

/// Writes the JSON report to a file, if one is given.
///
/// # Errors
/// The file cannot be written.
pub(crate) fn write(
    path: Option<&Path>,
    machine: &Machine,
    options: Value,
    rows: Vec<Value>,
) -> anyhow::Result<()> {
    let Some(path) = path else { return Ok(()) };
    let report = json!({
        "commit": machine.commit,
        "date": humantime::format_rfc3339_seconds(SystemTime::now()).to_string(),
        "cpu": machine.cpu,
        "hertz": machine.hertz.round(),
        "options": options,
        "rows": rows,
    });
    std::fs::write(path, format!("{report:#}\n")).with_context(|| path.display().to_string())
}

/// The median of the values; `None` if there are none.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let above = *values.get(values.len() / 2)?;
    match values.len() % 2 {
        1 => Some(above),
        _ => Some((values.get(values.len() / 2 - 1)? + above) / 2.0),
    }
}

/// With two decimal places.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}

/// A short form of a number, as on an axis: 512, 10K, 1M, 0.25.
pub(crate) fn short(value: f64) -> String {
    let (scaled, unit) = match value.abs() {
        size if size >= 1e6 && value % 1e5 == 0.0 => (value / 1e6, "M"),
        size if size >= 1e4 && value % 1e2 == 0.0 => (value / 1e3, "K"),
        _ => (value, ""),
    };
    // As few digits as identify it.
    let digits = (0..3).find(|&digits| {
        let power = 10f64.powi(digits);
        ((scaled * power).round() / power - scaled).abs() < 1e-9
    });
    format!("{scaled:.*}{unit}", digits.unwrap_or(3) as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn marks_are_short() {
        let cases = [
            (0.0, "0"),
            (1.0, "1"),
            (512.0, "512"),
            (1000.0, "1000"),
            (10_000.0, "10K"),
            (130_000.0, "130K"),
            (512_000.0, "512K"),
            (1_000_000.0, "1M"),
            (0.25, "0.25"),
            (2.5, "2.5"),
        ];
        for (value, text) in cases {
            assert_eq!(short(value), text);
        }
    }
}
