//! The table that the gate prints.

use serde_json::{Value, json};

use super::budget::Allowance;
use crate::report::rounded;

/// A line of the table: the allowance of a loop in instructions per packet, and its present count.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Line {
    pub(super) name: String,
    pub(super) budget: Option<Allowance>,
    pub(super) now: Option<f64>,
}

impl Line {
    /// The relative difference from the budget.
    fn change(&self) -> Option<f64> {
        Some(self.now? / self.budget.as_ref()?.instructions - 1.0)
    }

    /// True if it takes too much, has no budget, or has a budget and was not found.
    pub(super) fn fails(&self) -> bool {
        let both = self.budget.as_ref().zip(self.now);
        both.is_none_or(|(budget, now)| budget.is_missed_by(now))
    }

    /// The row of the report for programs.
    pub(super) fn json(&self) -> Value {
        let rise = self.budget.as_ref().and_then(|budget| budget.rise.as_ref());
        json!({
            "name": self.name,
            "budget": self.budget.as_ref().map(|budget| rounded(budget.instructions)),
            "before": rise.map(|rise| rounded(rise.before)),
            "reason": rise.map(|rise| rise.reason.as_str()),
            "now": self.now.map(rounded),
            "fails": self.fails(),
        })
    }

    fn verdict(&self) -> &'static str {
        match (&self.budget, self.now) {
            (None, _) => "  has no budget",
            (_, None) => "  no longer exists",
            (Some(budget), Some(now)) if budget.is_missed_by(now) => "  TOO MUCH",
            (Some(budget), Some(now)) if budget.is_undercut_by(now) => {
                "  less: update it with --bless"
            }
            _ => "",
        }
    }
}

/// The table as text. After a loop whose allowance has risen, it shows the earlier count and the reason.
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
        let budget = number(line.budget.as_ref().map(|budget| budget.instructions));
        let (now, verdict) = (number(line.now), line.verdict());
        text.push_str(&format!("{:<42}{budget:>10}{now:>10}{change:>9}{verdict}\n", line.name));
        if let Some(rise) = line.budget.as_ref().and_then(|budget| budget.rise.as_ref()) {
            text.push_str(&format!("    {:.2} before it rose: {}\n", rise.before, rise.reason));
        }
    }
    text
}

/// The first of these names, and the number of the others.
pub(super) fn some(names: &[&str]) -> String {
    const SHOWN: usize = 6;
    let more = names.len().saturating_sub(SHOWN);
    let first = names.iter().take(SHOWN).copied().collect::<Vec<_>>().join(" | ");
    if more == 0 { first } else { format!("{first} | {more} more") }
}

#[cfg(test)]
mod tests {
    use super::super::budget::Rise;
    use super::*;

    fn line(budget: Option<f64>, now: Option<f64>) -> Line {
        let budget = budget.map(|instructions| Allowance { instructions, rise: None });
        Line { name: "a loop".to_owned(), budget, now }
    }

    #[test]
    fn the_table_says_what_is_wrong_with_a_loop() {
        let cases = [
            (line(Some(100.0), Some(110.0)), "+10.0 %  TOO MUCH"),
            (line(Some(100.0), Some(90.0)), "-10.0 %  less: update it with --bless"),
            (line(None, Some(1.0)), "has no budget"),
            (line(Some(1.0), None), "no longer exists"),
        ];
        for (line, verdict) in cases {
            let text = table(std::slice::from_ref(&line));
            assert!(text.contains(verdict), "{text}");
        }
        assert!(table(&[line(Some(100.0), Some(101.0))]).ends_with("+1.0 %\n"));
    }

    #[test]
    fn the_reason_of_a_rise_stands_below_its_loop() {
        let rise = Rise { before: 90.0, reason: "it does more".to_owned() };
        let budget = Some(Allowance { instructions: 100.0, rise: Some(rise) });
        let line = Line { name: "a loop".to_owned(), budget, now: Some(100.0) };
        let text = table(std::slice::from_ref(&line));
        assert!(text.ends_with("\n    90.00 before it rose: it does more\n"), "{text}");
        assert_eq!(line.json()["reason"], "it does more");
    }

    #[test]
    fn many_names_are_cut_short() {
        assert_eq!(some(&["a", "b"]), "a | b");
        assert!(some(&["a"; 9]).ends_with("a | 3 more"));
    }
}
