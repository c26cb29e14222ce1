//! What every report has: the machine, the sources, the options; and how figures are told.

use std::path::Path;
use std::time::SystemTime;

use anyhow::Context;
use serde_json::{Value, json};

use crate::machine::Machine;

/// Writes the report for programs to a file, if one is wanted.
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

/// The middle of the values; none of none.
pub(crate) fn median(mut values: Vec<f64>) -> Option<f64> {
    values.sort_by(f64::total_cmp);
    let above = *values.get(values.len() / 2)?;
    match values.len() % 2 {
        1 => Some(above),
        _ => Some((values.get(values.len() / 2 - 1)? + above) / 2.0),
    }
}

/// With two digits behind the point.
pub(crate) fn rounded(value: f64) -> f64 {
    (value * 100.0).round() / 100.0
}
