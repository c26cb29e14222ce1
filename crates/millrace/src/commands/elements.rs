//! `millrace elements`: the element classes and their manuals.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::bail;
use millrace_core::{ClassInfo, Registry};
use millrace_lang::nearest;
use serde_json::{Value, json};

use crate::manual::plain;
use crate::messages::say;
use crate::output;

/// Lists the element classes, prints the manual of a class, or searches for classes
#[derive(clap::Args)]
pub(crate) struct Elements {
    /// A class, whose manual is printed; or words to search for in names and manuals
    words: Vec<String>,

    /// As JSON
    #[arg(long, conflicts_with = "markdown")]
    json: bool,

    /// As Markdown
    #[arg(long)]
    markdown: bool,
}

impl Elements {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let registry = Registry::linked();
        let text = match self.words.as_slice() {
            [] => self.list(&registry),
            words => match registry.get(&words.join(" ")) {
                Some(info) => self.manual(info),
                None => self.found(&registry, &words.join(" "))?,
            },
        };
        output::print(text)?;
        Ok(ExitCode::SUCCESS)
    }

    fn manual(&self, info: &ClassInfo) -> String {
        if self.json {
            return format!("{:#}\n", described(info));
        }
        let manual = info.manual();
        if self.markdown {
            let text = format!("# {}\n\n{}", info.class.name, below_title(&manual));
            // The sections of the manual are one level below the title.
            return text.replace("\n# ", "\n## ");
        }
        plain(&manual)
    }

    fn list(&self, registry: &Registry) -> String {
        let mut topics: BTreeMap<&str, Vec<&ClassInfo>> = BTreeMap::new();
        for info in classes(registry) {
            topics.entry(info.topic()).or_default().push(info);
        }
        if self.json {
            return array(topics.into_values().flatten());
        }
        let width = width(topics.values().flatten());
        let mut text = String::new();
        for (topic, classes) in &topics {
            let _ = match self.markdown {
                true => writeln!(text, "## {topic}\n"),
                false => writeln!(text, "{topic}"),
            };
            classes.iter().for_each(|info| text += &self.line(info, width));
            text.push('\n');
        }
        text
    }

    /// The classes that match `words`, best matches first.
    fn found(&self, registry: &Registry, words: &str) -> anyhow::Result<String> {
        let found = search(registry, words);
        let near = nearest(words, registry.iter().map(|(name, _)| name));
        let near = near.map(|near| format!("did you mean ‘{near}’?"));
        if found.is_empty() {
            let hint = near.unwrap_or_else(|| "`millrace elements` lists them".to_owned());
            bail!("there is no element class ‘{words}’; {hint}");
        }
        if let (Some(near), Some((Rank::Title | Rank::Text, _))) = (near, found.first()) {
            say(format_args!("There is no element class ‘{words}’; {near}"));
        }
        let found: Vec<&ClassInfo> = found.into_iter().map(|(_, info)| info).collect();
        if self.json {
            return Ok(array(found));
        }
        let width = width(&found);
        Ok(found.into_iter().map(|info| self.line(info, width)).collect())
    }

    fn line(&self, info: &ClassInfo, width: usize) -> String {
        let (name, summary) = (info.class.name, summary(info));
        match self.markdown {
            true => format!("- **{name}**: {summary}\n"),
            false => format!("  {name:width$}  {summary}\n"),
        }
    }
}

/// The classes sorted by name, without aliases.
fn classes(registry: &Registry) -> impl Iterator<Item = &'static ClassInfo> {
    registry.iter().filter(|(name, info)| *name == info.class.name).map(|(_, info)| info)
}

fn width<'a>(classes: impl IntoIterator<Item = &'a &'a ClassInfo>) -> usize {
    classes.into_iter().map(|info| info.class.name.len()).max().unwrap_or(0)
}

fn array<'a>(classes: impl IntoIterator<Item = &'a ClassInfo>) -> String {
    format!("{:#}\n", classes.into_iter().map(described).collect::<Value>())
}

/// Where a class contains a word; the best place first.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    IsName,
    Name,
    Title,
    Text,
}

/// The classes that contain all the words, ignoring case. Classes are sorted by the rank of their worst word, then by
/// name.
fn search(registry: &Registry, words: &str) -> Vec<(Rank, &'static ClassInfo)> {
    let words = words.to_lowercase();
    let ranked = classes(registry).filter_map(|info| {
        let names = info.class.aliases.iter().chain([&info.class.name]);
        let names: Vec<String> = names.map(|name| name.to_lowercase()).collect();
        let (title, text) = (summary(info).to_lowercase(), info.manual().to_lowercase());
        let rank = |word: &str| match () {
            () if names.iter().any(|name| name == word) => Some(Rank::IsName),
            () if names.iter().any(|name| name.contains(word)) => Some(Rank::Name),
            () if title.contains(word) => Some(Rank::Title),
            () => text.contains(word).then_some(Rank::Text),
        };
        let ranks: Option<Vec<Rank>> = words.split_whitespace().map(rank).collect();
        Some((ranks?.into_iter().max()?, info))
    });
    let mut found: Vec<_> = ranked.collect();
    // The classes are already sorted by name.
    found.sort_by_key(|(rank, _)| *rank);
    found
}

fn described(info: &ClassInfo) -> Value {
    let handlers: Vec<Value> = info
        .handler_names()
        .into_iter()
        .map(|(name, read, write)| json!({ "name": name, "read": read, "write": write }))
        .collect();
    json!({
        "name": info.class.name,
        "aliases": info.class.aliases,
        "topic": info.topic(),
        "summary": summary(info),
        "ports": info.class.ports,
        "processing": info.class.processing,
        "flow": info.class.flow,
        "per_packet": info.is_per_packet(),
        "handlers": handlers,
        "manual": info.manual(),
    })
}

/// The first line of the manual, without the name of the class and the dash.
fn summary(info: &ClassInfo) -> &'static str {
    let line = info.summary();
    let rest = line.strip_prefix(info.class.name).unwrap_or(line);
    rest.trim_start_matches([' ', '-', '–', ':'])
}

/// The manual without its first line.
fn below_title(manual: &str) -> String {
    let rest = manual.split_once('\n').map_or("", |(_, rest)| rest);
    format!("{}\n", rest.trim())
}
