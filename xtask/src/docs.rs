//! `cargo xtask docs`: builds the book, with a page for each element.
//!
//! The pages are made from the manuals in the elements' files. They are written to a copy of the book's source in
//! Cargo's target directory, so that the repository contains no generated files.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs;
use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use millrace_testkit::find_program;

use crate::manual::{self, ElementFile};
use crate::{figures, floors, shell};

/// The line of SUMMARY.md after which the pages of the elements are listed.
const LIST_AFTER: &str = "- [Elements](elements.md)";

/// Writes the generated figures and the source of the book. Builds the book if mdBook is installed; otherwise prints
/// how to install it.
///
/// # Errors
/// A file cannot be read or written, or mdBook reports an error.
pub(crate) fn run() -> Result<()> {
    let root = shell::root();
    figures::write(&root)?;
    floors::write(&root)?;
    let book = shell::target().join("book-source");
    if book.exists() {
        fs::remove_dir_all(&book).with_context(|| book.display().to_string())?;
    }
    copy(&root.join("docs"), &book)?;
    let elements = manual::elements(&root)?;
    write_pages(&book.join("src"), &elements)?;
    println!("{} with {} elements", book.display(), elements.len());

    if find_program("mdbook").is_none() {
        println!("mdbook is not installed: `cargo install mdbook` and run this again for HTML");
        return Ok(());
    }
    let html = shell::target().join("book");
    shell::run(Command::new("mdbook").arg("build").arg("--dest-dir").arg(&html).arg(&book))?;
    println!("{}", html.join("index.html").display());
    Ok(())
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    fs::create_dir_all(to).with_context(|| to.display().to_string())?;
    for entry in fs::read_dir(from).with_context(|| from.display().to_string())? {
        let entry = entry?;
        let target = to.join(entry.file_name());
        if entry.file_type()?.is_dir() {
            copy(&entry.path(), &target)?;
        } else {
            fs::copy(entry.path(), &target).with_context(|| target.display().to_string())?;
        }
    }
    Ok(())
}

/// Writes a page for each element, adds the list of elements to `elements.md`, and the pages to `SUMMARY.md`.
fn write_pages(src: &Path, elements: &[ElementFile]) -> Result<()> {
    let mut topics: BTreeMap<&str, Vec<&ElementFile>> = BTreeMap::new();
    for element in elements {
        topics.entry(&element.topic).or_default().push(element);
        let page = src.join(page_path(element));
        fs::create_dir_all(page.parent().unwrap_or(src))?;
        fs::write(&page, page_text(element)).with_context(|| page.display().to_string())?;
    }

    let index = src.join("elements.md");
    let mut text = fs::read_to_string(&index).with_context(|| index.display().to_string())?;
    text.push_str(&index_text(&topics));
    fs::write(&index, text)?;

    let summary = src.join("SUMMARY.md");
    let text = fs::read_to_string(&summary).with_context(|| summary.display().to_string())?;
    let (before, after) = text
        .split_once(LIST_AFTER)
        .with_context(|| format!("{} lacks the line `{LIST_AFTER}`", summary.display()))?;
    let lines = summary_lines(&topics);
    fs::write(&summary, format!("{before}{LIST_AFTER}\n{lines}{after}"))?;
    Ok(())
}

fn page_path(element: &ElementFile) -> String {
    format!("elements/{}/{}.md", element.topic, name(element))
}

/// The class that the file is named after, or else the file's own name.
fn name(element: &ElementFile) -> &str {
    element.classes.first().map_or(&element.path, String::as_str)
}

/// The manual as a page: its headings are one level lower, below the element's name.
fn page_text(element: &ElementFile) -> String {
    let mut text = format!("# {}\n\n{} {}.\n", name(element), name(element), element.summary());
    let mut fenced = false;
    for line in element.body().lines() {
        fenced ^= line.trim_start().starts_with("```");
        if line.starts_with('#') && !fenced {
            text.push('#');
        }
        text.push_str(line);
        text.push('\n');
    }
    let _ = writeln!(text, "\nSource: `{}`", element.path);
    text
}

fn index_text(topics: &BTreeMap<&str, Vec<&ElementFile>>) -> String {
    let mut text = String::new();
    for (topic, elements) in topics {
        let _ = writeln!(text, "\n## {topic}\n\n| class | |\n|---|---|");
        for element in elements {
            let path = page_path(element);
            let _ = writeln!(text, "| [{}]({path}) | {} |", name(element), element.summary());
        }
    }
    text
}

fn summary_lines(topics: &BTreeMap<&str, Vec<&ElementFile>>) -> String {
    let pages = topics.values().flatten();
    pages
        .map(|element| format!("  - [{}]({})", name(element), page_path(element)))
        .collect::<Vec<_>>()
        .join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_element_of_the_library_gets_a_page_and_a_line() {
        let root = shell::root();
        let elements = manual::elements(&root).unwrap();
        let book = std::env::temp_dir().join(format!("millrace-book-{}", std::process::id()));
        copy(&root.join("docs"), &book).unwrap();
        write_pages(&book.join("src"), &elements).unwrap();
        let summary = fs::read_to_string(book.join("src/SUMMARY.md")).unwrap();
        let index = fs::read_to_string(book.join("src/elements.md")).unwrap();
        for element in &elements {
            let path = page_path(element);
            assert!(book.join("src").join(&path).is_file(), "{path}");
            assert!(summary.contains(&format!("({path})")), "{path} is not in the summary");
            assert!(index.contains(&format!("({path})")), "{path} is not in the index");
        }
        fs::remove_dir_all(&book).unwrap();
    }

    /// A code block after `<!-- quote: PATH -->` is equal to the file with this path.
    #[test]
    fn quotations_in_the_book_equal_the_files() {
        let root = shell::root();
        let mut quotes = 0;
        for page in pages(&root) {
            let text = fs::read_to_string(&page).unwrap();
            for part in text.split("<!-- quote: ").skip(1) {
                let (path, rest) = part.split_once(" -->\n```").expect("a quote is a code block");
                let (_, rest) = rest.split_once('\n').unwrap();
                // A fence inside the quotation has a comment mark before it.
                let (quoted, _) = rest.split_once("\n```\n").expect("a code block has an end");
                let file = fs::read_to_string(root.join(path)).expect(path);
                assert!(file.contains(quoted), "{}: {path} does not say\n{quoted}", page.display());
                quotes += 1;
            }
        }
        assert!(quotes > 0);
    }

    /// Links between pages, and to files of the repository, have a target.
    #[test]
    fn links_have_a_target() {
        let root = shell::root();
        for page in pages(&root) {
            let text = fs::read_to_string(&page).unwrap();
            for part in text.split("](").skip(1) {
                let link = part.split([')', '#']).next().unwrap_or_default();
                if link.is_empty() || link.contains("://") {
                    continue;
                }
                let target = page.with_file_name(link);
                assert!(target.exists(), "{} links to {link}", page.display());
            }
        }
    }

    fn pages(root: &Path) -> Vec<std::path::PathBuf> {
        let folders = [root.to_path_buf(), root.join("docs"), root.join("docs/src")];
        let files = folders.iter().flat_map(|folder| fs::read_dir(folder).unwrap());
        let paths = files.map(|entry| entry.unwrap().path());
        paths.filter(|path| path.extension().is_some_and(|end| end == "md")).collect()
    }

    #[test]
    fn sections_stand_below_the_name_and_code_stays_as_it_is() {
        let element = ElementFile {
            path: "crates/elements/src/ip/turn_ip.rs".into(),
            classes: vec!["TurnIP".into()],
            topic: "ip".into(),
            manual: "TurnIP - turns packets\n\n# Example\n```sh\n# comment\n```".into(),
            source: String::new(),
        };
        let expected = "# TurnIP\n\nTurnIP turns packets.\n\n## Example\n```sh\n# comment\n```\n\n\
                        Source: `crates/elements/src/ip/turn_ip.rs`\n";
        assert_eq!(page_text(&element), expected);
    }
}
