//! `millrace elements`: the element classes and their manuals.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::process::ExitCode;

use anyhow::bail;
use millrace_core::{ClassInfo, Registry};
use millrace_lang::nearest;
use serde_json::{Value, json};

use crate::output;

/// Lists the element classes, or prints the manual of one
#[derive(clap::Args)]
pub(crate) struct Elements {
    /// The class whose manual to print
    name: Option<String>,

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
        let text = match &self.name {
            Some(name) => self.manual(find(&registry, name)?),
            None => self.list(&registry),
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
            // The manual's sections stand below the title.
            return text.replace("\n# ", "\n## ");
        }
        plain(&manual)
    }

    fn list(&self, registry: &Registry) -> String {
        let mut topics: BTreeMap<&str, Vec<&ClassInfo>> = BTreeMap::new();
        for (name, info) in registry.iter() {
            // An alias is named with its class.
            if name == info.class.name {
                topics.entry(info.topic()).or_default().push(info);
            }
        }
        if self.json {
            let classes = topics.values().flatten().map(|info| described(info));
            return format!("{:#}\n", Value::Array(classes.collect()));
        }
        let names = topics.values().flatten().map(|info| info.class.name.len());
        let width = names.max().unwrap_or(0);
        let mut text = String::new();
        for (topic, classes) in &topics {
            let _ = match self.markdown {
                true => writeln!(text, "## {topic}\n"),
                false => writeln!(text, "{topic}"),
            };
            for info in classes {
                let summary = summary(info);
                let name = info.class.name;
                let _ = match self.markdown {
                    true => writeln!(text, "- **{name}**: {summary}"),
                    false => writeln!(text, "  {name:width$}  {summary}"),
                };
            }
            text.push('\n');
        }
        text
    }
}

fn find<'a>(registry: &'a Registry, name: &str) -> anyhow::Result<&'a ClassInfo> {
    if let Some(info) = registry.get(name) {
        return Ok(info);
    }
    match nearest(name, registry.iter().map(|(name, _)| name)) {
        Some(near) => bail!("there is no element class ‘{name}’; did you mean ‘{near}’?"),
        None => bail!("there is no element class ‘{name}’; `millrace elements` lists them"),
    }
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

/// The first line of the manual without the name of the class: `Name - what it is for`.
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

/// Markdown as a terminal shows it best: headings in capitals, text below them indented, no
/// fences.
fn plain(manual: &str) -> String {
    let mut text = String::new();
    let mut fenced = false;
    for line in manual.lines() {
        if line.starts_with("```") {
            fenced = !fenced;
        } else if let Some(heading) = line.strip_prefix("# ").filter(|_| !fenced) {
            let _ = writeln!(text, "{}", heading.to_uppercase());
        } else if line.is_empty() || text.is_empty() {
            let _ = writeln!(text, "{line}");
        } else {
            let indent = if fenced { "      " } else { "  " };
            let _ = writeln!(text, "{indent}{line}");
        }
    }
    text
}
