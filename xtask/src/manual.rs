//! The manuals of elements: the `//!` lines at the start of an element's file.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// The folder of the element library.
pub(crate) const ELEMENTS: &str = "crates/elements/src";

/// The sections of a manual, in order.
pub(crate) const SECTIONS: &[&str] =
    &["Synopsis", "Description", "Arguments", "Ports", "Handlers", "Drops", "Example", "See also"];

/// The file of an element.
pub(crate) struct ElementFile {
    /// Path from the root, with slashes.
    pub(crate) path: String,
    /// The classes that the file registers, starting with the one that it is named after.
    pub(crate) classes: Vec<String>,
    /// The folder, such as `ip` or `standard`.
    pub(crate) topic: String,
    /// The manual in Markdown: the `//!` lines without their marks.
    pub(crate) manual: String,
    /// The whole file.
    pub(crate) source: String,
}

impl ElementFile {
    /// Parses the text of a file; `None` if it registers no class.
    fn parse(path: &str, source: String) -> Option<Self> {
        if !source.lines().any(|line| line.trim_start().starts_with("register!(")) {
            return None;
        }
        let classes = source.split("Class::new(").skip(1).filter_map(first_string).collect();
        let folder = Path::new(path).parent()?.file_name()?;
        let marks = source.lines().map_while(|line| line.strip_prefix("//!"));
        let manual = marks.map(|line| line.strip_prefix(' ').unwrap_or(line)).collect::<Vec<_>>();
        Some(Self {
            path: path.to_string(),
            classes,
            topic: folder.to_string_lossy().into_owned(),
            manual: manual.join("\n"),
            source,
        })
    }

    /// The class and its purpose, from the first line of the manual: `Strip - removes ...`.
    fn headline(&self) -> Option<(&str, &str)> {
        self.manual.lines().next()?.trim().split_once(" - ")
    }

    /// The purpose of the element, in a few words.
    pub(crate) fn summary(&self) -> &str {
        self.headline().unwrap_or_default().1
    }

    /// The manual without its first line.
    pub(crate) fn body(&self) -> &str {
        self.manual.split_once('\n').unwrap_or_default().1
    }

    /// The errors in the manual and in the file's name.
    pub(crate) fn findings(&self) -> Vec<String> {
        let mut findings = Vec::new();
        if self.headline().is_none_or(|(class, _)| !self.classes.iter().any(|name| name == class)) {
            findings.push("the first line is not `Class - purpose`".to_string());
        }
        let sections = sections(&self.manual);
        for wanted in SECTIONS {
            match sections.iter().find(|(title, _)| title == wanted) {
                None => findings.push(format!("the manual has no section `# {wanted}`")),
                Some((_, text)) if text.trim().is_empty() => {
                    findings.push(format!("section `{wanted}` is empty; write `None.` if it is"));
                }
                Some(_) => {}
            }
        }
        let known: Vec<&str> = sections.iter().map(|(title, _)| *title).collect();
        if !known.is_sorted_by_key(|title| SECTIONS.iter().position(|section| section == title)) {
            findings.push(format!("the order of the sections is {}", SECTIONS.join(", ")));
        }
        let stem = Path::new(&self.path).file_stem().unwrap_or_default().to_string_lossy();
        let named = |class: &String| class.to_lowercase() == stem.replace('_', "");
        if !self.classes.iter().any(named) {
            findings.push(format!("the file is not named after {}", self.classes.join(", ")));
        }
        if !self.source.contains(&format!("\"{stem}.rs\"")) {
            findings.push(format!("register! must name this file, \"{stem}.rs\""));
        }
        findings.iter().map(|finding| format!("{}: {finding}", self.path)).collect()
    }
}

/// The text between the first quotes.
fn first_string(text: &str) -> Option<String> {
    let (_, rest) = text.split_once('"')?;
    Some(rest.split_once('"')?.0.to_string())
}

/// The first-level sections of a Markdown text: title and body.
fn sections(markdown: &str) -> Vec<(&str, String)> {
    let mut sections: Vec<(&str, String)> = Vec::new();
    let mut fenced = false;
    for line in markdown.lines() {
        fenced ^= line.trim_start().starts_with("```");
        match line.strip_prefix("# ") {
            Some(title) if !fenced => sections.push((title.trim(), String::new())),
            _ => {
                if let Some((_, body)) = sections.last_mut() {
                    body.push_str(line);
                    body.push('\n');
                }
            }
        }
    }
    sections
}

/// All elements of the library, sorted by path.
///
/// # Errors
/// A file cannot be read.
pub(crate) fn elements(root: &Path) -> Result<Vec<ElementFile>> {
    let mut files = Vec::new();
    let mut folders = vec![root.join(ELEMENTS)];
    while let Some(folder) = folders.pop() {
        let entries = fs::read_dir(&folder).with_context(|| folder.display().to_string())?;
        for entry in entries {
            let path = entry?.path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|end| end == "rs") {
                files.extend(read(root, &path)?);
            }
        }
    }
    files.sort_by(|a, b| a.path.cmp(&b.path));
    Ok(files)
}

fn read(root: &Path, path: &PathBuf) -> Result<Option<ElementFile>> {
    let source = fs::read_to_string(path).with_context(|| path.display().to_string())?;
    let relative = path.strip_prefix(root).unwrap_or(path).to_string_lossy().into_owned();
    Ok(ElementFile::parse(&relative, source))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The file of an imaginary element whose manual has the given sections.
    fn element(path: &str, sections: &[(&str, &str)]) -> ElementFile {
        let mut source = String::from("//! TurnIP - turns packets around\n//!\n");
        for (title, text) in sections {
            source.push_str(&format!("//! # {title}\n//! {text}\n//!\n"));
        }
        source.push_str("\nconst CLASS: Class = Class::new(\"TurnIP\", \"1/1\", \"a/a\");\n");
        source.push_str("register!(TurnIp, \"turn_ip.rs\");\n");
        ElementFile::parse(path, source).expect("it registers a class")
    }

    fn complete() -> Vec<(&'static str, &'static str)> {
        SECTIONS.iter().map(|section| (*section, "Text.")).collect()
    }

    #[test]
    fn a_complete_manual_has_nothing_wrong() {
        let file = element("crates/elements/src/ip/turn_ip.rs", &complete());
        assert_eq!(file.findings(), [] as [String; 0]);
        assert_eq!(
            (file.classes.as_slice(), file.topic.as_str()),
            (&["TurnIP".to_string()][..], "ip")
        );
        assert_eq!(file.summary(), "turns packets around");
    }

    #[test]
    fn missing_sections_are_named() {
        let path = "crates/elements/src/ip/turn_ip.rs";
        let mut without = complete();
        without.remove(5);
        assert_eq!(
            element(path, &without).findings(),
            [format!("{path}: the manual has no section `# Drops`")]
        );

        let mut empty = complete();
        empty[2].1 = "";
        let finding = format!("{path}: section `Arguments` is empty; write `None.` if it is");
        assert_eq!(element(path, &empty).findings(), [finding]);

        let mut swapped = complete();
        swapped.swap(0, 1);
        let findings = element(path, &swapped).findings();
        assert!(findings.len() == 1 && findings[0].contains("order"), "{findings:?}");

        let elsewhere = element("crates/elements/src/ip/other.rs", &complete()).findings();
        assert!(
            elsewhere.len() == 2 && elsewhere[0].contains("not named after TurnIP"),
            "{elsewhere:?}"
        );
    }

    #[test]
    fn a_file_without_a_class_is_no_element() {
        let helper = "//! Helps.\npub fn help() {}\n".to_string();
        assert!(ElementFile::parse("crates/elements/src/ip/help.rs", helper).is_none());
    }

    #[test]
    fn a_hash_in_a_code_block_is_no_section() {
        let text = "# One\n```sh\n# comment\n```\n# Two\n";
        let titles: Vec<&str> = sections(text).iter().map(|(title, _)| *title).collect();
        assert_eq!(titles, ["One", "Two"]);
    }
}
