//! The file of budgets, and the comparison of counts with budgets.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context, ensure};
use serde_json::{Map, Value, json};

use super::table::{self, Line};
use crate::report::rounded;

/// The fraction by which a loop may exceed its budget.
const TOLERANCE: f64 = 0.03;

/// Counts are written with two decimal places.
const ROUNDED: f64 = 0.005;

/// The budget: instructions per packet by loop, and the build that they belong to.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Budget {
    /// The build of the loops.
    pub(super) build: Build,
    /// The allowance of each loop.
    pub(super) loops: BTreeMap<String, Allowance>,
}

/// The properties of a build, besides the sources, that determine its instructions.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Build {
    /// The compiler's version; `None` if it is not known.
    pub(super) compiler: Option<String>,
    /// Cargo's profile.
    pub(super) profile: Option<String>,
}

/// The number of instructions per packet that a loop may take.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Allowance {
    pub(super) instructions: f64,
    /// Why it is higher than before, if it is.
    pub(super) rise: Option<Rise>,
}

/// A rise of an allowance that was accepted.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Rise {
    /// Instructions per packet before.
    pub(super) before: f64,
    /// The reason.
    pub(super) reason: String,
}

/// Counts of loops, by name.
pub(super) type Counts = BTreeMap<String, f64>;

impl Budget {
    /// Reads the file; an empty budget if there is none.
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
        let word = |key: &str| Some(value.get(key)?.as_str()?.to_owned());
        let loops = value.get("instructions")?.as_object()?.iter();
        Some(Self {
            build: Build { compiler: Some(word("compiler")?), profile: Some(word("profile")?) },
            loops: loops
                .map(|(name, allowance)| Some((name.clone(), Allowance::parse(allowance)?)))
                .collect::<Option<_>>()?,
        })
    }

    /// Writes the file: one line per loop, and more for a loop whose allowance has risen.
    ///
    /// # Errors
    /// It cannot be written.
    pub(super) fn write(&self, path: &Path) -> anyhow::Result<()> {
        let loops: Map<String, Value> =
            self.loops.iter().map(|(name, allowance)| (name.clone(), allowance.json())).collect();
        let Build { compiler, profile } = &self.build;
        let value = json!({ "compiler": compiler, "profile": profile, "instructions": loops });
        std::fs::write(path, format!("{value:#}\n")).with_context(|| path.display().to_string())
    }

    /// Checks that counts of this build can be compared with the budget.
    ///
    /// # Errors
    /// The budget belongs to another build; the message says what to do.
    pub(super) fn admit(&self, build: &Build) -> anyhow::Result<()> {
        let known = |value: &Option<String>| value.as_deref().unwrap_or("unknown").to_owned();
        ensure!(
            self.loops.is_empty() || build.compiler == self.build.compiler,
            "the budget belongs to {}, but the compiler is {}, which makes other instructions. rustup uses the \
             compiler in rust-toolchain.toml, unless `cargo +...`, RUSTUP_TOOLCHAIN or RUSTC name another one. If the \
             project moves to a new compiler, `cargo xtask bench gate --bless` makes its counts the budget",
            known(&self.build.compiler),
            known(&build.compiler)
        );
        ensure!(
            self.loops.is_empty() || build.profile == self.build.profile,
            "the budget belongs to Cargo's profile {}, but this program was built with {}: run `cargo xtask bench gate`",
            known(&self.build.profile),
            known(&build.profile)
        );
        Ok(())
    }

    /// Compares counts with this budget. Also names loops of the budget that were `expected` and not counted.
    pub(super) fn compare(&self, now: &Counts, expected: impl Fn(&str) -> bool) -> Vec<Line> {
        let line = |name: &str| Line {
            name: name.to_owned(),
            budget: self.loops.get(name).cloned(),
            now: now.get(name).copied(),
        };
        let counted = now.keys().map(|name| line(name));
        let is_gone = |name: &&String| expected(name) && !now.contains_key(*name);
        counted.chain(self.loops.keys().filter(is_gone).map(|name| line(name))).collect()
    }

    /// The new budget for these counts. An allowance rises only with a reason, and only if the count is beyond the
    /// tolerance, because many small rises would add up. Loops that are `expected` and not counted are removed.
    ///
    /// # Errors
    /// A loop exceeds the tolerance and there is no reason, or the compiler is not known.
    pub(super) fn bless(
        &self,
        build: Build,
        now: &Counts,
        expected: impl Fn(&str) -> bool,
        reason: Option<&str>,
    ) -> anyhow::Result<Self> {
        ensure!(build.compiler.is_some(), "the compiler does not say its version");
        let risen: Vec<&str> = now
            .iter()
            .filter(|(name, count)| {
                self.loops.get(*name).is_some_and(|old| old.is_missed_by(**count))
            })
            .map(|(name, _)| name.as_str())
            .collect();
        ensure!(
            reason.is_some() || risen.is_empty(),
            "loops that need more instructions than before, and no reason is given: {}. Reduce them, or give the \
             reason: --bless --reason \"...\"",
            table::some(&risen)
        );
        let mut loops = self.loops.clone();
        loops.retain(|name, _| now.contains_key(name) || !expected(name));
        for (name, &count) in now {
            let allowance = match self.loops.get(name) {
                None => Allowance { instructions: count, rise: None },
                Some(old) => old.follow(count, reason),
            };
            loops.insert(name.clone(), allowance);
        }
        Ok(Self { build, loops })
    }
}

impl Allowance {
    fn parse(value: &Value) -> Option<Self> {
        if let Some(instructions) = value.as_f64() {
            return Some(Self { instructions, rise: None });
        }
        let before = value.get("before")?.as_f64()?;
        let reason = value.get("reason")?.as_str().filter(|reason| !reason.trim().is_empty())?;
        Some(Self {
            instructions: value.get("instructions")?.as_f64()?,
            rise: Some(Rise { before, reason: reason.to_owned() }),
        })
    }

    fn json(&self) -> Value {
        let instructions = rounded(self.instructions);
        match &self.rise {
            None => instructions.into(),
            Some(Rise { before, reason }) => json!({
                "instructions": instructions,
                "before": rounded(*before),
                "reason": reason,
            }),
        }
    }

    /// True if a loop with this count takes too much.
    pub(super) fn is_missed_by(&self, count: f64) -> bool {
        count > self.instructions * (1.0 + TOLERANCE) + ROUNDED
    }

    /// True if a loop with this count takes so much less that the budget should be reduced.
    pub(super) fn is_undercut_by(&self, count: f64) -> bool {
        count < self.instructions * (1.0 - TOLERANCE)
    }

    /// The new allowance of a loop with this count.
    fn follow(&self, count: f64, reason: Option<&str>) -> Self {
        let rise = self.rise.as_ref();
        // The start of a rise stays the same as long as the allowance is above it.
        let before = rise.map_or(self.instructions, |rise| rise.before);
        match reason {
            Some(reason) if self.is_missed_by(count) => {
                let earlier = rise.map(|rise| rise.reason.as_str()).filter(|one| *one != reason);
                let reason = earlier.map_or(reason.to_owned(), |one| format!("{one}; {reason}"));
                Self { instructions: count, rise: Some(Rise { before, reason }) }
            }
            _ => {
                let instructions = count.min(self.instructions);
                let lasts = instructions > before + ROUNDED;
                Self { instructions, rise: self.rise.clone().filter(|_| lasts) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(loops: &[(&str, f64)]) -> Counts {
        loops.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
    }

    fn build() -> Build {
        Build { compiler: Some("rustc 1".to_owned()), profile: Some("dist".to_owned()) }
    }

    fn budget(loops: &[(&str, f64)]) -> Budget {
        let nothing = Budget::default();
        nothing.bless(build(), &counts(loops), |_| true, None).unwrap()
    }

    #[test]
    fn three_percent_more_are_let_pass_and_no_more() {
        let before = budget(&[("a", 100.0), ("b", 100.0), ("c", 100.0)]);
        let now = counts(&[("a", 102.99), ("b", 103.1), ("c", 10.0)]);
        let fails: Vec<bool> = before.compare(&now, |_| true).iter().map(Line::fails).collect();
        assert_eq!(fails, [false, true, false]);
    }

    #[test]
    fn what_has_no_budget_or_is_gone_fails() {
        let before = budget(&[("a", 1.0), ("gone", 1.0)]);
        let now = counts(&[("a", 1.0), ("new", 1.0)]);
        let failing = |part: bool| {
            let lines = before.compare(&now, |_| !part);
            let failing = lines.iter().filter(|line| line.fails());
            failing.map(|line| line.name.clone()).collect::<Vec<_>>()
        };
        assert_eq!(failing(false), ["new", "gone"]);
        assert_eq!(failing(true), ["new"]);
    }

    #[test]
    fn another_compiler_or_profile_is_refused_and_told_what_to_do() {
        let budget = budget(&[("a", 1.0)]);
        budget.admit(&build()).unwrap();
        for compiler in [Some("rustc 2".to_owned()), None] {
            let error = budget.admit(&Build { compiler, ..build() }).unwrap_err().to_string();
            assert!(error.contains("rust-toolchain.toml") && error.contains("rustc 1"), "{error}");
        }
        let release = Build { profile: Some("release".to_owned()), ..build() };
        let error = budget.admit(&release).unwrap_err().to_string();
        assert!(
            error.contains("profile dist") && error.contains("cargo xtask bench gate"),
            "{error}"
        );
        // There is nothing to compare with.
        Budget::default().admit(&release).unwrap();
    }

    #[test]
    fn a_rise_needs_a_reason_which_is_written_beside_the_loop() {
        let before = budget(&[("a", 100.0), ("b", 100.0), ("c", 100.0)]);
        let now = counts(&[("a", 110.0), ("b", 102.0), ("c", 90.0)]);
        let error = before.bless(build(), &now, |_| true, None).unwrap_err().to_string();
        assert!(error.contains("--reason") && error.contains(": a."), "{error}");

        let after = before.bless(build(), &now, |_| true, Some("it does more")).unwrap();
        let rise = Rise { before: 100.0, reason: "it does more".to_owned() };
        assert_eq!(after.loops["a"], Allowance { instructions: 110.0, rise: Some(rise) });
        // Within the tolerance nothing rises, with a reason or without.
        assert_eq!(after.loops["b"], Allowance { instructions: 100.0, rise: None });
        assert_eq!(after.loops["c"], Allowance { instructions: 90.0, rise: None });
    }

    #[test]
    fn little_rises_do_not_add_up() {
        let mut budget = budget(&[("a", 100.0)]);
        for count in [102.0, 103.0] {
            budget = budget.bless(build(), &counts(&[("a", count)]), |_| true, None).unwrap();
        }
        budget.bless(build(), &counts(&[("a", 104.0)]), |_| true, None).unwrap_err();
    }

    #[test]
    fn reasons_last_as_long_as_the_rise() {
        let bless = |budget: &Budget, count: f64, reason: Option<&str>| {
            budget.bless(build(), &counts(&[("a", count)]), |_| true, reason).unwrap()
        };
        let mut budget = budget(&[("a", 100.0)]);
        budget = bless(&budget, 110.0, Some("one"));
        budget = bless(&budget, 120.0, Some("two"));
        let rise = |budget: &Budget| budget.loops["a"].rise.clone();
        assert_eq!(rise(&budget), Some(Rise { before: 100.0, reason: "one; two".to_owned() }));
        budget = bless(&budget, 105.0, None);
        assert_eq!(rise(&budget).map(|rise| rise.before), Some(100.0));
        budget = bless(&budget, 99.0, None);
        assert_eq!(rise(&budget), None);
    }

    #[test]
    fn a_compiler_that_says_nothing_makes_no_budget() {
        let unknown = Build { compiler: None, ..build() };
        Budget::default().bless(unknown, &counts(&[("a", 1.0)]), |_| true, None).unwrap_err();
    }

    #[test]
    fn a_budget_is_read_as_it_was_written() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("budget.json");
        assert_eq!(Budget::read(&path).unwrap(), Budget::default());
        let before = budget(&[("a", 1.25), ("b", 100.0)]);
        let now = counts(&[("a", 1.25), ("b", 200.0)]);
        let written = before.bless(build(), &now, |_| true, Some("why not")).unwrap();
        written.write(&path).unwrap();
        assert_eq!(Budget::read(&path).unwrap(), written);
        for text in [
            "{}",
            r#"{"compiler": "c", "profile": "p", "instructions": {"a":
            {"instructions": 2, "before": 1, "reason": " "}}}"#,
        ] {
            std::fs::write(&path, text).unwrap();
            assert!(Budget::read(&path).unwrap_err().to_string().ends_with("is not a budget"));
        }
    }

    #[test]
    fn blessing_a_part_keeps_the_rest_and_blessing_all_drops_what_is_gone() {
        let before = budget(&[("a", 3.0), ("b", 3.0)]);
        let now = counts(&[("a", 2.0)]);
        let part = before.bless(build(), &now, |_| false, None).unwrap();
        assert_eq!(part, budget(&[("a", 2.0), ("b", 3.0)]));
        let all = before.bless(build(), &now, |_| true, None).unwrap();
        assert_eq!(all, budget(&[("a", 2.0)]));
    }
}
