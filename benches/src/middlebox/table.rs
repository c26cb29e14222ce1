//! What was measured, as a table and as JSON: rows that took turns, with the medians of their rounds.

use anyhow::Context;
use serde_json::{Value, json};

use crate::report::{median, rounded};

/// A table of one kind of measurement.
pub(crate) struct Table {
    title: &'static str,
    /// The figures of each row. The first is the one that rows are compared by.
    columns: &'static [&'static str],
    rows: Vec<Row>,
}

struct Row {
    /// Rows of the same group are compared with its first one.
    group: String,
    name: String,
    rounds: Vec<Vec<Option<f64>>>,
}

impl Table {
    pub(crate) fn new(title: &'static str, columns: &'static [&'static str]) -> Self {
        Self { title, columns, rows: Vec::new() }
    }

    /// Adds the figures of a round to the row of this group and name.
    pub(crate) fn add(&mut self, group: &str, name: &str, figures: Vec<Option<f64>>) {
        match self.rows.iter_mut().find(|row| row.group == group && row.name == name) {
            Some(row) => row.rounds.push(figures),
            None => {
                let rounds = vec![figures];
                self.rows.push(Row { group: group.to_owned(), name: name.to_owned(), rounds });
            }
        }
    }

    /// The table for people.
    pub(crate) fn tell(&self) -> String {
        if self.rows.is_empty() {
            return String::new();
        }
        let mut text = format!("\n{:<38}", self.title);
        for (at, column) in self.columns.iter().enumerate() {
            text.push_str(&format!("{column:>16}"));
            if at == 0 {
                text.push_str(&format!("{:>8}", "ratio"));
            }
        }
        text.push('\n');
        for row in self.sorted() {
            text.push_str(&format!("{:<38}", format!("{} {}", row.group, row.name)));
            for at in 0..self.columns.len() {
                text.push_str(&format!("{:>16}", number(row.figure(at))));
                if at == 0 {
                    text.push_str(&format!("{:>8}", number(self.ratio(row))));
                }
            }
            text.push('\n');
        }
        text
    }

    /// The rows for programs.
    pub(crate) fn json(&self) -> Vec<Value> {
        let row = |row: &Row| {
            let figures = self.columns.iter().enumerate();
            let figures: serde_json::Map<String, Value> = figures
                .map(|(at, column)| ((*column).to_owned(), json!(row.figure(at).map(rounded))))
                .collect();
            json!({
                "table": self.title,
                "group": row.group,
                "name": row.name,
                "ratio": self.ratio(row).map(rounded),
                "figures": figures,
            })
        };
        self.rows.iter().map(row).collect()
    }

    /// The rows, those of a group together, in the order in which they were first measured.
    fn sorted(&self) -> Vec<&Row> {
        let mut groups: Vec<&str> = Vec::new();
        for row in &self.rows {
            if !groups.contains(&row.group.as_str()) {
                groups.push(&row.group);
            }
        }
        let of = |group: &&str| self.rows.iter().filter(|row| row.group == *group).collect();
        groups.iter().flat_map(|group| -> Vec<&Row> { of(group) }).collect()
    }

    /// The first figure relative to that of the group's first row: the median of the rounds' ratios.
    fn ratio(&self, row: &Row) -> Option<f64> {
        let base = self.rows.iter().find(|other| other.group == row.group)?;
        let pairs = row.rounds.iter().zip(&base.rounds);
        let ratios = pairs.filter_map(|(own, base)| {
            let (own, base) = (*own.first()?).zip(*base.first()?)?;
            Some(own / base)
        });
        median(ratios.collect())
    }
}

impl Row {
    /// The median of a column.
    fn figure(&self, at: usize) -> Option<f64> {
        median(self.rounds.iter().filter_map(|figures| *figures.get(at)?).collect())
    }
}

/// With three digits that say something.
fn number(value: Option<f64>) -> String {
    match value {
        None => "-".to_owned(),
        Some(value) if value.abs() >= 100.0 => format!("{value:.0}"),
        Some(value) if value.abs() >= 10.0 => format!("{value:.1}"),
        Some(value) => format!("{value:.2}"),
    }
}

/// The value of a field of JSON that a program said.
///
/// # Errors
/// There is none.
pub(crate) fn field(said: &Value, pointer: &str) -> anyhow::Result<f64> {
    said.pointer(pointer).and_then(Value::as_f64).with_context(|| format!("{pointer}: {said}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_compared_round_by_round_within_their_group() {
        let mut table = Table::new("rates", &["Mpps", "ns"]);
        for round in 1..=3 {
            let speed = f64::from(round);
            table.add("IPv4", "kernel", vec![Some(speed), None]);
            table.add("IPv6", "kernel", vec![Some(speed * 10.0), None]);
            table.add("IPv4", "millrace", vec![Some(speed * 2.0), Some(100.0)]);
        }
        let rows = table.json();
        assert_eq!(rows[2]["ratio"], 2.0);
        assert_eq!(rows[1]["ratio"], 1.0);
        assert_eq!(rows[2]["figures"]["ns"], 100.0);
        let text = table.tell();
        let names: Vec<&str> = text.lines().skip(2).map(|line| line[..16].trim()).collect();
        assert_eq!(names, ["IPv4 kernel", "IPv4 millrace", "IPv6 kernel"]);
    }
}
