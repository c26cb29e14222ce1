//! The counts of functions in a record of callgrind (Valgrind's manual, "Callgrind Format Specification").

use std::collections::HashMap;

/// Instructions by function.
#[derive(Debug, Default)]
pub(super) struct Profile {
    functions: Vec<Function>,
    /// The index of each function by its number in the record.
    numbers: HashMap<String, usize>,
}

#[derive(Debug, Default)]
struct Function {
    name: String,
    /// In the function itself.
    own: u64,
    /// In calls by others, including the functions that it calls.
    called: u64,
}

impl Profile {
    /// Parses a record with one event, instructions. `None` if it has another format.
    pub(super) fn parse(record: &str) -> Option<Self> {
        let mut profile = Self::default();
        let (mut current, mut called, mut is_call) = (None, None, false);
        for line in record.lines() {
            if let Some(name) = line.strip_prefix("fn=") {
                current = Some(profile.function(name)?);
            } else if let Some(name) = line.strip_prefix("cfn=") {
                called = Some(profile.function(name)?);
            } else if line.starts_with("calls=") {
                is_call = true;
            } else if line.starts_with(|c: char| c.is_ascii_digit() || "+-*".contains(c)) {
                let count: u64 = line.split_whitespace().nth(1).unwrap_or("0").parse().ok()?;
                let function = if is_call { called } else { current };
                let function = profile.functions.get_mut(function?)?;
                match is_call {
                    true => function.called += count,
                    false => function.own += count,
                }
                is_call = false;
            }
        }
        (!profile.functions.is_empty()).then_some(profile)
    }

    /// Instructions in calls of these functions.
    pub(super) fn within(&self, wanted: impl Fn(&str) -> bool) -> u64 {
        let functions = self.functions.iter().filter(|function| wanted(&function.name));
        functions.map(|function| function.called).sum()
    }

    /// The functions with the most instructions of their own, until they contain `share` instructions.
    pub(super) fn heaviest(&self, share: u64) -> Vec<(&str, u64)> {
        let mut functions: Vec<&Function> = self.functions.iter().collect();
        functions.sort_by_key(|function| std::cmp::Reverse(function.own));
        let mut before = 0;
        let functions = functions.into_iter().take_while(|function| {
            let is_in = before < share;
            before += function.own;
            is_in
        });
        functions.map(|function| (function.name.as_str(), function.own)).collect()
    }

    /// The index of a function, which is written `(NUMBER) NAME` the first time, and `(NUMBER)` afterwards.
    fn function(&mut self, written: &str) -> Option<usize> {
        let (number, name) = written.split_once(')')?;
        let next = self.functions.len();
        let place = *self.numbers.entry(number.to_owned()).or_insert(next);
        if place == next {
            let name = name.trim().to_owned();
            self.functions.push(Function { name, ..Function::default() });
        }
        Some(place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const RECORD: &str = "events: Ir\nfl=(1) a.rs\nfn=(1) main\n0 10\ncfi=(2) b.rs\ncfn=(2) work\n\
        calls=3 0\n0 70\n0 5\n\nfn=(2)\n0 40\ncfn=(3) deep\ncalls=1 0\n0 30\n\nfn=(3)\n0 30\n\ntotals: 85\n";

    #[test]
    fn functions_have_their_own_instructions_and_those_of_calls() {
        let profile = Profile::parse(RECORD).unwrap();
        assert_eq!(profile.within(|name| name == "work"), 70);
        assert_eq!(profile.within(|name| name == "deep"), 30);
        assert_eq!(profile.heaviest(85), [("work", 40), ("deep", 30), ("main", 15)]);
        assert_eq!(profile.heaviest(60), [("work", 40), ("deep", 30)]);
        assert!(Profile::parse("").is_none());
    }
}
