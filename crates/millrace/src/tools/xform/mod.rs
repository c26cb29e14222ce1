//! `click-xform`: replaces patterns of elements by other elements.

mod matcher;
mod subgraph;

use std::collections::HashMap;

use matcher::Matcher;
use millrace_lang::Variables;
use subgraph::Body;

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

/// A pattern and its replacement.
struct Rule {
    name: String,
    pattern: Router,
    replacement: Router,
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
    for rule in &mut rules {
        rule.pattern.flatten();
    }
    let replaced = replace_all(&mut input.router, &rules);
    if replaced > 0 {
        input.router.remove_dead();
    }
    session.write(&input.router, &input.archive)
}

/// Reads the patterns of a file that have replacements.
fn read_patterns(session: &Session, path: &str, rules: &mut Vec<Rule>) {
    let Ok(input) = session.read_from(&file(path), Variables::Keep, true) else { return };
    let classes = &input.assembly.classes;
    for (class, replacement) in classes {
        let Some(name) = class.strip_suffix(SUFFIX).filter(|name| !name.is_empty()) else {
            continue;
        };
        if let Some((_, pattern)) = classes.iter().rev().find(|(other, _)| other == name) {
            rules.push(Rule {
                name: name.to_owned(),
                pattern: Router::new(pattern),
                replacement: Router::new(replacement),
            });
        }
    }
}

/// Replaces the first pattern that matches, until none matches. Returns the number of replacements.
fn replace_all(router: &mut Router, rules: &[Rule]) -> usize {
    let mut replaced = 0;
    let mut body = Body::new(router);
    let mut counts: HashMap<&str, usize> = HashMap::new();
    while replaced < MOST {
        let found = rules.iter().enumerate().find_map(|(index, rule)| {
            let mut matcher = Matcher::new(&rule.pattern, router, &body, index + 1);
            matcher.next_match().then(|| (rule, matcher.into_found()))
        });
        let Some((rule, found)) = found else { break };
        let count = counts.entry(&rule.name).or_insert(1);
        let prefix = loop {
            let prefix = format!("{}@{count}", rule.name);
            *count += 1;
            let inside = format!("{prefix}/");
            if !router
                .iter()
                .any(|(_, e)| e.name.len() > inside.len() && e.name.starts_with(&inside))
            {
                break prefix;
            }
        };
        found.replace(router, &rule.pattern, &rule.replacement, &prefix);
        body.update(router);
        replaced += 1;
    }
    replaced
}
