//! `click-xform`: replaces patterns of elements by other elements.

mod matcher;
mod pattern;
mod places;
mod replacement;

use std::collections::HashMap;

use matcher::Matcher;
use millrace_lang::Variables;
use pattern::{Pattern, Rule};
use places::{Places, Searched};
use replacement::Found;

use super::clp::{Choice, Word, flag, switch, valued};
use super::router::Router;
use super::session::Common::{self, Expression, File, Help, Output, Own, Version};
use super::session::{Session, file};
use super::tool::{Stop, Tool};

pub(super) const TOOL: Tool = Tool {
    name: "click-xform",
    about: "Replaces patterns of elements in a configuration; the pattern files, named after it, \
            contain compounds NAME and NAME_Replacement",
    options: "\
  -p, --patterns FILE         Read patterns from FILE.
  -f, --file FILE             Read the configuration from FILE.
  -e, --expression EXPR       Take EXPR itself as the configuration.
  -o, --output FILE           Write to FILE.
  -r, --reverse               Replace replacements by patterns.
",
    run,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choose {
    Patterns,
    Reverse,
}

const CHOICES: &[Choice<Common<Choose>>] = &[
    valued("expression", Some('e'), Expression),
    valued("file", Some('f'), File),
    flag("help", None, Help),
    valued("output", Some('o'), Output),
    valued("patterns", Some('p'), Own(Choose::Patterns)),
    switch("reverse", Some('r'), Own(Choose::Reverse)),
    flag("version", Some('v'), Version),
];

/// The suffix of the name of a replacement, after the name of its pattern.
const SUFFIX: &str = "_Replacement";

/// The maximum number of replacements. If there are more, the patterns replace each other without end.
const MOST: usize = 100_000;

/// A pattern and its replacement as they were read.
struct Written {
    name: String,
    pattern: Router,
    replacement: Router,
}

impl Written {
    fn into_rule(mut self) -> Rule {
        self.pattern.flatten();
        let Self { name, pattern, replacement } = self;
        Rule { name, pattern: Pattern::new(pattern), replacement }
    }
}

fn run(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    let mut rules = Vec::new();
    let (mut reverse, mut files, mut words) = (false, 0, 0);
    for word in session.words(CHOICES, args)? {
        match word {
            Word::Option { id: Own(Choose::Patterns), value, .. } => {
                files += 1;
                read_patterns(session, &value, &mut rules);
            }
            Word::Option { id: Own(Choose::Reverse), negated, .. } => reverse = !negated,
            Word::Option { id, value, .. } => session.common(id, value)?,
            Word::Plain(word) => {
                if session.define(&word) {
                    continue;
                }
                if words == 0 {
                    session.configuration(file(&word))?;
                } else {
                    files += 1;
                    read_patterns(session, &word, &mut rules);
                }
                words += 1;
            }
        }
    }
    let mut input = session.read()?;
    if files == 0 {
        session.warn("no patterns read");
    }
    if reverse {
        rules.reverse();
        for rule in &mut rules {
            std::mem::swap(&mut rule.pattern, &mut rule.replacement);
        }
    }
    let rules: Vec<Rule> = rules.into_iter().map(Written::into_rule).collect();
    let replaced = replace_all(&mut input.router, &rules);
    if replaced > 0 {
        input.router.remove_dead();
    }
    session.write(&input.router, &input.archive)
}

/// Reads the patterns of a file that have replacements.
fn read_patterns(session: &Session, path: &str, rules: &mut Vec<Written>) {
    let Ok(input) = session.read_from(&file(path), Variables::Keep, true) else { return };
    let classes = &input.assembly.classes;
    for (class, replacement) in classes {
        let Some(name) = class.strip_suffix(SUFFIX).filter(|name| !name.is_empty()) else {
            continue;
        };
        if let Some((_, pattern)) = classes.iter().rev().find(|(other, _)| other == name) {
            rules.push(Written {
                name: name.to_owned(),
                pattern: Router::new(pattern),
                replacement: Router::new(replacement),
            });
        }
    }
}

/// Replaces the first pattern that matches, until none matches. Returns the number of replacements.
///
/// After a replacement, the search goes on where it was, or where the replacement can be part of a match.
fn replace_all(router: &mut Router, rules: &[Rule]) -> usize {
    let mut replaced = 0;
    let mut places = Places::new(router);
    let mut searched = Searched::new(rules);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    while replaced < MOST {
        let Some((rule, found)) = first_match(router, rules, &places, &mut searched) else { break };
        let count = counts.entry(&rule.name).or_insert(1);
        let prefix = loop {
            let prefix = format!("{}@{count}", rule.name);
            *count += 1;
            if !router.has_name_within(&format!("{prefix}/")) {
                break prefix;
            }
        };
        let changed = found.replace(router, rule, &prefix);
        match places.update(router, &changed) {
            true => searched.changed(router, rules, &changed),
            false => searched = Searched::new(rules),
        }
        replaced += 1;
    }
    replaced
}

/// The first match of the first rule that has one.
fn first_match<'r>(
    router: &Router,
    rules: &'r [Rule],
    places: &Places,
    searched: &mut Searched,
) -> Option<(&'r Rule, Found)> {
    rules.iter().enumerate().find_map(|(index, rule)| {
        let matcher = Matcher::new(&rule.pattern, router, places, index + 1);
        let found = matcher.find_from(searched.of(index));
        let begins = found.as_ref().and_then(Found::begins);
        searched.note(index, begins.unwrap_or(usize::MAX));
        found.map(|found| (rule, found))
    })
}
