//! Every configuration that the documentation shows is checked: the examples, the ```click blocks
//! of the README and of the book, and the example in every element's manual.

#![allow(clippy::unwrap_used, reason = "a file that cannot be read fails the test")]

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use millrace_core::{CLASSES, Reason};
use millrace_lang::{Diagnostic, Options, SourceMap, compile, format};
// Names the crate so that its classes are linked.
use millrace_elements as _;

/// A configuration and where it stands.
struct Shown {
    place: String,
    text: String,
}

#[test]
fn every_configuration_that_is_shown_is_right() {
    let mut wrong = Vec::new();
    let shown = shown();
    for Shown { place, text } in &shown {
        let mut map = SourceMap::default();
        let source = map.add(place.as_str(), text.as_str());
        let (_, findings) = compile(&mut map, source, &Options::default());
        for finding in findings.iter().filter(|finding| finding.is_error()) {
            wrong.push(format!("{place}: {}", explain(&map, finding)));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(shown.len() >= 20, "only {} configurations found", shown.len());
}

#[test]
fn what_is_shown_is_laid_out_as_the_program_would() {
    for Shown { place, text } in examples().into_iter().chain(pages()) {
        let mut map = SourceMap::default();
        let source = map.add(place.as_str(), text.as_str());
        let laid_out = format(&mut map, source);
        assert_eq!(laid_out.as_ref(), Ok(&text), "`millrace fmt` would change {place}");
    }
}

#[test]
fn the_book_explains_every_reason_for_a_drop() {
    let page = root().join("docs/src/drops.md");
    let text = fs::read_to_string(page).unwrap();
    let listed: Vec<&str> = text
        .lines()
        .filter_map(|line| line.strip_prefix("| ")?.split_once(" | "))
        .map(|(reason, _)| reason)
        .filter(|reason| *reason != "reason")
        .collect();
    let reasons: Vec<&str> = Reason::ALL.iter().map(|reason| reason.name()).collect();
    assert_eq!(listed, reasons, "the table in docs/src/drops.md against `Reason`");
}

#[test]
fn the_book_has_every_command_and_option() {
    let page = root().join("docs/src/command-line.md");
    let page = fs::read_to_string(page).unwrap();
    let help = |args: &[&str]| {
        let output = Command::new(env!("CARGO_BIN_EXE_millrace")).args(args).output().unwrap();
        String::from_utf8(output.stdout).unwrap()
    };
    let listing = help(&["--help"]);
    let commands = listing.lines().skip_while(|line| *line != "Commands:").skip(1);
    let commands = commands.take_while(|line| !line.is_empty());
    let commands: Vec<&str> = commands.filter_map(|line| line.split_whitespace().next()).collect();
    assert!(commands.contains(&"run"), "{listing}");
    for command in commands.into_iter().filter(|command| *command != "help") {
        let heading = format!("\n## millrace {command}\n");
        assert!(page.contains(&heading), "the book has no section on `millrace {command}`");
        let options = help(&[command, "--help"]);
        for word in options.split(|c: char| !c.is_ascii_alphanumeric() && c != '-') {
            let is_option = word.starts_with("--") && word.len() > 2 && word != "--help";
            assert!(!is_option || page.contains(word), "the book lacks {word} of {command}");
        }
    }
}

fn explain(map: &SourceMap, finding: &Diagnostic) -> String {
    let text = finding
        .span
        .and_then(|span| map.get(span.source)?.text.get(span.start as usize..span.end as usize));
    format!("{}: {:?} {:?}", finding.message, text, finding.help)
}

fn shown() -> Vec<Shown> {
    let manuals = CLASSES.iter().flat_map(|info| blocks(info.class.name, &info.manual()));
    examples().into_iter().chain(pages()).chain(manuals).collect()
}

fn examples() -> Vec<Shown> {
    let files = files(&root().join("examples"), "click").into_iter();
    let read = |path: PathBuf| {
        let text = fs::read_to_string(&path).unwrap();
        Shown { place: path.display().to_string(), text }
    };
    files.map(read).collect()
}

fn pages() -> Vec<Shown> {
    let mut pages = files(&root().join("docs"), "md");
    pages.push(root().join("README.md"));
    let blocks_of = |page: PathBuf| {
        let text = fs::read_to_string(&page).unwrap();
        blocks(&page.display().to_string(), &text)
    };
    pages.into_iter().flat_map(blocks_of).collect()
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The files under a folder whose name ends so.
fn files(folder: &Path, end: &str) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            found.extend(files(&path, end));
        } else if path.extension().is_some_and(|extension| extension == end) {
            found.push(path);
        }
    }
    found
}

/// The ```click blocks of a Markdown text.
fn blocks(place: &str, markdown: &str) -> Vec<Shown> {
    let mut found = Vec::new();
    let mut open: Option<Shown> = None;
    for (number, line) in markdown.lines().enumerate() {
        match &mut open {
            Some(_) if line.trim() == "```" => found.extend(open.take()),
            Some(block) => {
                block.text.push_str(line);
                block.text.push('\n');
            }
            None if line.trim() == "```click" => {
                let place = format!("{place}:{}", number + 1);
                open = Some(Shown { place, text: String::new() });
            }
            None => {}
        }
    }
    found
}
