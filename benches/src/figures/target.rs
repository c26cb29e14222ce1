//! Targets: a floor, which must be reached, and an aim.

use serde_json::{Value, json};

use crate::report::{rounded, short};

/// A measured value and its target.
#[derive(Clone, Debug)]
pub(crate) struct Target {
    /// What was measured, with the unit.
    pub(crate) what: String,
    /// The value.
    pub(crate) value: f64,
    /// The target.
    pub(crate) bound: Bound,
    /// True if the machine is of the kind that the target is for; otherwise there is no verdict.
    pub(crate) judged: bool,
}

/// The limits of a value: first the floor, then the aim.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Bound {
    /// At least this value.
    AtLeast(f64, f64),
    /// At most this value.
    AtMost(f64, f64),
}

impl Target {
    /// The verdict on the value.
    fn verdict(&self) -> &'static str {
        let (floor, aim) = match self.bound {
            Bound::AtLeast(floor, aim) => (self.value >= floor, self.value >= aim),
            Bound::AtMost(floor, aim) => (self.value <= floor, self.value <= aim),
        };
        match (self.judged, floor, aim) {
            (false, ..) => "-",
            (true, _, true) => "pass, aim met",
            (true, true, false) => "pass",
            (true, false, false) => "FAIL",
        }
    }

    /// The floor and the aim as text.
    fn asked(&self) -> [String; 2] {
        let (sign, floor, aim) = match self.bound {
            Bound::AtLeast(floor, aim) => ("\u{2265}", floor, aim),
            Bound::AtMost(floor, aim) => ("\u{2264}", floor, aim),
        };
        [floor, aim].map(|value| format!("{sign} {}", short(value)))
    }

    /// The row of the JSON report.
    pub(super) fn row(&self, figure: &str) -> Value {
        let (bound, floor, aim) = match self.bound {
            Bound::AtLeast(floor, aim) => ("at least", floor, aim),
            Bound::AtMost(floor, aim) => ("at most", floor, aim),
        };
        json!({
            "figure": figure,
            "target": self.what,
            "bound": bound,
            "floor": floor,
            "aim": aim,
            "measured": rounded(self.value),
            "verdict": self.verdict(),
        })
    }
}

/// The table as text; empty if there are no targets.
pub(super) fn table(targets: &[Target]) -> String {
    if targets.is_empty() {
        return String::new();
    }
    let width = targets.iter().map(|target| target.what.chars().count()).max().unwrap_or(0);
    let line = |what: &str, [floor, aim]: [String; 2], measured: String, verdict: &str| {
        format!("  {what:<width$}  {floor:>9}  {aim:>9}  {measured:>10}  {verdict}\n")
    };
    let heads = ["floor".to_owned(), "aim".to_owned()];
    let mut text = format!("\n{}", line("target", heads, "measured".to_owned(), "verdict"));
    for target in targets {
        let measured = format!("{:.2}", target.value);
        text.push_str(&line(&target.what, target.asked(), measured, target.verdict()));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_are_held_against_floor_and_aim() {
        let (least, most) = (Bound::AtLeast(2.0, 4.0), Bound::AtMost(4.0, 2.0));
        let cases = [
            (least, 1.9, "FAIL"),
            (least, 2.0, "pass"),
            (least, 4.0, "pass, aim met"),
            (most, 4.1, "FAIL"),
            (most, 4.0, "pass"),
            (most, 2.0, "pass, aim met"),
        ];
        for (bound, value, verdict) in cases {
            let mut target = Target { what: "G/s".to_owned(), value, bound, judged: true };
            assert_eq!(target.verdict(), verdict, "{bound:?} {value}");
            assert_eq!(target.row("x")["verdict"], verdict);
            target.judged = false;
            assert_eq!(target.verdict(), "-");
        }
    }

    #[test]
    fn the_table_has_a_line_a_target() {
        let target = |value| Target {
            what: "C, G/s".into(),
            value,
            bound: Bound::AtLeast(8.0, 20.0),
            judged: true,
        };
        let text = table(&[target(7.0), target(21.5)]);
        let words: Vec<_> =
            text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>()).collect();
        assert_eq!(words[2], ["C,", "G/s", "\u{2265}", "8", "\u{2265}", "20", "7.00", "FAIL"]);
        assert_eq!(words[3][6..], ["21.50", "pass,", "aim", "met"]);
        assert_eq!(table(&[]), "");
    }
}
