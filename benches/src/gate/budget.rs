//! The file of budgets, and how a count stands to its budget.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::Context;
use serde_json::{Map, Value, json};

use crate::report::rounded;

/// By how much of its budget a loop may exceed it.
const TOLERANCE: f64 = 0.03;

/// Instructions a packet, by loop, and whose they are.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Budget {
    /// The compiler's version.
    pub(super) compiler: String,
    /// Instructions a packet.
    pub(super) loops: BTreeMap<String, f64>,
}

impl Budget {
    /// Reads the file; a budget of nothing when there is none.
    ///
    /// # Errors
    /// The file cannot be read, or is not a budget.
    pub(super) fn read(path: &Path) -> anyhow::Result<Self> {
        let text = match std::fs::read_to_string(path) {
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
                return Ok(Self::default());
            }
            text => text.with_context(|| path.display().to_string())?,
        };
        Self::parse(&text).with_context(|| format!("{} is not a budget", path.display()))
    }

    fn parse(text: &str) -> Option<Self> {
        let value: Value = serde_json::from_str(text).ok()?;
        let loops = value.get("instructions")?.as_object()?.iter();
        Some(Self {
            compiler: value.get("compiler")?.as_str()?.to_owned(),
            loops: loops
                .map(|(name, count)| Some((name.clone(), count.as_f64()?)))
                .collect::<Option<_>>()?,
        })
    }

    /// Writes the file, a line a loop.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let loops: Map<String, Value> =
            self.loops.iter().map(|(name, count)| (name.clone(), rounded(*count).into())).collect();
        let value = json!({ "compiler": self.compiler, "instructions": loops });
        std::fs::write(path, format!("{value:#}\n")).with_context(|| path.display().to_string())
    }

    /// Takes over what the other one has of loops that are not here.
    pub(super) fn keep_others_of(&mut self, other: &Self) {
        for (name, count) in &other.loops {
            self.loops.entry(name.clone()).or_insert(*count);
        }
    }

    /// Holds counts against this budget. Loops of the budget that were `expected` and not counted are named too.
    pub(super) fn compare(&self, now: &Self, expected: impl Fn(&str) -> bool) -> Vec<Line> {
        let counted = now.loops.iter().map(|(name, count)| Line {
            name: name.clone(),
            budget: self.loops.get(name).copied(),
            now: Some(*count),
        });
        let is_gone = |name: &str| expected(name) && !now.loops.contains_key(name);
        let gone = self.loops.iter().filter(|(name, _)| is_gone(name));
        let gone = gone.map(|(name, budget)| Line {
            name: name.clone(),
            budget: Some(*budget),
            now: None,
        });
        counted.chain(gone).collect()
    }
}

/// A loop's line in the table: instructions a packet that it may take and that it takes.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    name: String,
    budget: Option<f64>,
    now: Option<f64>,
}

impl Line {
    /// By how much more than its budget the loop takes, as a fraction of it.
    fn change(&self) -> Option<f64> {
        let (budget, now) = self.budget.zip(self.now)?;
        Some(now / budget - 1.0)
    }

    /// Whether it takes too much, or has no budget, or has one and is not there.
    pub(super) fn fails(&self) -> bool {
        // A count is written down with two digits.
        const ROUNDED: f64 = 0.005;
        let over = |budget: f64, now: f64| now > budget * (1.0 + TOLERANCE) + ROUNDED;
        self.budget.zip(self.now).is_none_or(|(budget, now)| over(budget, now))
    }

    /// The row of the report for programs.
    pub(super) fn json(&self) -> Value {
        json!({
            "name": self.name,
            "budget": self.budget.map(rounded),
            "now": self.now.map(rounded),
            "fails": self.fails(),
        })
    }
}

/// The table for people.
pub(super) fn table(lines: &[Line]) -> String {
    let mut text = format!(
        "{:<42}{:>10}{:>10}{:>9}   instructions a packet\n",
        "loop", "budget", "now", "change"
    );
    let number = |value: Option<f64>| value.map_or("-".to_owned(), |value| format!("{value:.2}"));
    for line in lines {
        let change = match line.change() {
            Some(change) => format!("{:+.1} %", change * 100.0),
            None => "-".to_owned(),
        };
        let (budget, now) = (number(line.budget), number(line.now));
        let verdict = match (line.budget, line.now) {
            (None, _) => "  has no budget",
            (_, None) => "  is no more",
            _ if line.fails() => "  TOO MUCH",
            _ if line.change().is_some_and(|change| change < -TOLERANCE) => "  less: bless it",
            _ => "",
        };
        text.push_str(&format!("{:<42}{budget:>10}{now:>10}{change:>9}{verdict}\n", line.name));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn budget(loops: &[(&str, f64)]) -> Budget {
        let loops = loops.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect();
        Budget { compiler: "rustc 1".to_owned(), loops }
    }

    #[test]
    fn three_percent_more_are_let_pass_and_no_more() {
        let before = budget(&[("a", 100.0), ("b", 100.0), ("c", 100.0)]);
        let now = budget(&[("a", 102.99), ("b", 103.1), ("c", 10.0)]);
        let fails: Vec<bool> = before.compare(&now, |_| true).iter().map(Line::fails).collect();
        assert_eq!(fails, [false, true, false]);
    }

    #[test]
    fn what_has_no_budget_or_is_gone_fails() {
        let before = budget(&[("a", 1.0), ("gone", 1.0)]);
        let now = budget(&[("a", 1.0), ("new", 1.0)]);
        let failing = |part: bool| {
            let lines = before.compare(&now, |_| !part);
            lines
                .iter()
                .filter(|line| line.fails())
                .map(|line| line.name.clone())
                .collect::<Vec<_>>()
        };
        assert_eq!(failing(false), ["new", "gone"]);
        assert_eq!(failing(true), ["new"]);
        let text = table(&before.compare(&now, |_| true));
        assert!(text.contains("has no budget") && text.contains("is no more"), "{text}");
    }

    #[test]
    fn a_budget_is_read_as_it_was_written() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("budget.json");
        assert_eq!(Budget::read(&path).unwrap(), Budget::default());
        let written = budget(&[("a", 1.25), ("b", 100.0)]);
        written.write(&path).unwrap();
        assert_eq!(Budget::read(&path).unwrap(), written);
        std::fs::write(&path, "{}").unwrap();
        assert!(Budget::read(&path).unwrap_err().to_string().ends_with("is not a budget"));
    }

    #[test]
    fn blessing_a_part_keeps_the_rest() {
        let mut now = budget(&[("a", 2.0)]);
        now.keep_others_of(&budget(&[("a", 1.0), ("b", 3.0)]));
        assert_eq!(now, budget(&[("a", 2.0), ("b", 3.0)]));
    }
}
