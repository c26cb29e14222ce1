//! The house rules that the compiler does not check.
//!
//! Each rule examines files and returns findings, one line each, which begin with the file.

mod circles;
mod folders;
mod imports;
mod names;
mod text;
mod words;

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};

use crate::manual::{self, ElementFile};
use text::{Text, collect};

/// Where `unsafe` is allowed, each block with its reason: in the crates for memory and devices, in the file that calls
/// Hyperscan, and in the cells of the models of lock-free code.
const UNSAFE_ROOMS: &[&str] = &[
    "crates/core/",
    "crates/io/",
    "crates/dpdk/",
    "crates/gpu/",
    "crates/match/src/hyperscan.rs",
    "crates/models/src/sync/",
];

const UNSAFE_FINDING: &str =
    "`unsafe` is for core, io, dpdk, gpu, match/src/hyperscan.rs and models/src/sync";

/// A file with more lines than this must be split, or needs an entry in [`LONG_FILES`].
const MAX_LINES: usize = 700;

/// Files that may be longer: a path and the reason on each line.
const LONG_FILES: &str = "xtask/long-files.txt";

/// Checks every rule.
///
/// # Errors
/// A rule is broken, or a file cannot be read.
pub(crate) fn check(root: &Path) -> Result<String> {
    let mut files = Vec::new();
    for directory in ["benches", "crates", "fuzz", "xtask", "examples"] {
        collect(root, &root.join(directory), &mut files)?;
    }
    let mut findings = long_files(&files, &exceptions(root, LONG_FILES)?);
    findings.extend(circles::findings(&files, &exceptions(root, circles::ALLOWED)?));
    for file in &files {
        findings.extend(unsafe_outside_its_rooms(file));
        findings.extend(lints_not_inherited(file));
        findings.extend(ignored_tests(file));
        findings.extend(names::capitals(file));
    }
    let elements = manual::elements(root)?;
    findings.extend(elements.iter().flat_map(ElementFile::findings));
    findings.extend(folders::findings(&files, &elements));
    for finding in &findings {
        println!("{finding}");
    }
    match findings.len() {
        0 => Ok(format!("{} files, {} elements", files.len(), elements.len())),
        count => bail!("{count} house rules are broken"),
    }
}

/// `unsafe_code` is denied for the whole workspace, so `unsafe` is possible only where an attribute allows it. Such
/// attributes are not permitted outside the crates for memory and system calls.
fn unsafe_outside_its_rooms(file: &Text) -> Vec<String> {
    if UNSAFE_ROOMS.iter().any(|room| file.path.starts_with(room)) {
        return Vec::new();
    }
    let lines = file.content.lines().enumerate().filter(|(_, line)| allows_unsafe(line));
    lines.map(|(number, _)| file.finding(number, UNSAFE_FINDING)).collect()
}

/// True for an attribute that allows the lint, on one line or as rustfmt breaks a long one.
fn allows_unsafe(line: &str) -> bool {
    let line = line.trim_start();
    let lowers = ["allow(", "expect(", "warn("].iter().any(|word| line.contains(word));
    line.starts_with("unsafe_code")
        || line.starts_with('#') && lowers && line.contains("unsafe_code")
}

/// A crate that does not inherit the lints of the workspace is not checked by them.
fn lints_not_inherited(file: &Text) -> Vec<String> {
    if !file.path.ends_with("Cargo.toml") || !file.content.contains("[package]") {
        return Vec::new();
    }
    let mut lines = file.content.lines().skip_while(|line| line.trim() != "[lints]").skip(1);
    match lines.next().map(str::trim) {
        Some("workspace = true") => Vec::new(),
        _ => vec![format!("{}: [lints] workspace = true is missing", file.path)],
    }
}

/// A test that never runs finds nothing.
fn ignored_tests(file: &Text) -> Vec<String> {
    let lines = file.content.lines().enumerate();
    lines
        .filter(|(_, line)| line.trim_start().starts_with("#[ignore"))
        .map(|(number, _)| {
            file.finding(
                number,
                "skip tests with millrace_testkit, which reports \
                                                 them",
            )
        })
        .collect()
}

/// The paths in a file of exceptions.
fn exceptions(root: &Path, file: &str) -> Result<Vec<String>> {
    let text = fs::read_to_string(root.join(file)).context(file.to_owned())?;
    read_exceptions(&text).context(file.to_owned())
}

/// Reads lines of `path: reason`; `#` begins a comment.
fn read_exceptions(text: &str) -> Result<Vec<String>> {
    let lines =
        text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| match line.split_once(": ") {
            Some((path, reason)) if !reason.trim().is_empty() => Ok(path.to_string()),
            _ => bail!("`{line}` gives no reason"),
        })
        .collect()
}

fn long_files(files: &[Text], allowed: &[String]) -> Vec<String> {
    let is_long =
        |file: &&Text| file.path.ends_with(".rs") && file.content.lines().count() > MAX_LINES;
    let long: Vec<&Text> = files.iter().filter(is_long).collect();
    let mut findings: Vec<String> = long
        .iter()
        .filter(|file| !allowed.contains(&file.path))
        .map(|file| {
            let lines = file.content.lines().count();
            format!("{}: {lines} lines; split it, or give the reason in {LONG_FILES}", file.path)
        })
        .collect();
    let stale = allowed.iter().filter(|path| !long.iter().any(|file| file.path == **path));
    findings.extend(stale.map(|path| {
        format!(
            "{LONG_FILES}: {path} is not long; remove it from \
                                              the list"
        )
    }));
    findings
}

#[cfg(test)]
mod tests {
    use super::text::text;
    use super::*;

    #[test]
    fn unsafe_may_be_allowed_only_where_the_list_says() {
        let allow = "fn f() {}\n  #[allow(unsafe_code, reason = \"x\")]\n";
        let cases = [
            ("crates/core/src/arena.rs", allow, 0),
            ("crates/match/src/hyperscan.rs", allow, 0),
            ("crates/match/src/rules/tree.rs", allow, 1),
            ("crates/elements/src/ip/a.rs", allow, 1),
            ("crates/elements/src/lib.rs", "#![expect(unsafe_code)]\n", 1),
            ("crates/elements/src/lib.rs", "#[allow(\n    unsafe_code,\n)]\n", 1),
            ("crates/elements/src/lib.rs", "#![forbid(unsafe_code)]\n", 0),
            ("crates/elements/src/lib.rs", "// #[allow(unsafe_code)] would be wrong\n", 0),
            ("crates/elements/src/lib.rs", "//! # On unsafe_code, which we do not allow(\n", 0),
        ];
        for (path, content, expected) in cases {
            let findings = unsafe_outside_its_rooms(&text(path, content));
            assert_eq!(findings.len(), expected, "{path} {content:?}: {findings:?}");
        }
        let findings = unsafe_outside_its_rooms(&text("xtask/src/x.rs", allow));
        assert_eq!(findings, [format!("xtask/src/x.rs:2: {UNSAFE_FINDING}")]);
    }

    #[test]
    fn every_crate_inherits_the_lints() {
        let cases = [
            ("[package]\nname = \"a\"\n\n[lints]\nworkspace = true\n", 0),
            ("[package]\nname = \"a\"\n\n[lints.rust]\nunsafe_code = \"allow\"\n", 1),
            ("[package]\nname = \"a\"\n[dependencies]\nx.workspace = true\n", 1),
            ("[workspace]\nmembers = []\n", 0),
        ];
        for (content, expected) in cases {
            let findings = lints_not_inherited(&text("crates/a/Cargo.toml", content));
            assert_eq!(findings.len(), expected, "{content:?}");
        }
    }

    #[test]
    fn no_test_is_ignored() {
        let file = text("crates/a/src/lib.rs", "#[test]\n    #[ignore = \"slow\"]\nfn t() {}\n");
        assert_eq!(ignored_tests(&file).len(), 1);
        assert_eq!(ignored_tests(&text("crates/a/src/lib.rs", "fn ignore() {}\n")).len(), 0);
    }

    #[test]
    fn a_long_file_needs_a_reason_and_a_reason_needs_a_long_file() {
        let long = text("crates/a/src/long.rs", &"\n".repeat(MAX_LINES + 1));
        let short = text("crates/a/src/short.rs", &"\n".repeat(MAX_LINES));
        let files = [long, short];
        let allowed = |path: &str| vec![path.to_string()];
        assert_eq!(long_files(&files, &[]).len(), 1);
        assert_eq!(long_files(&files, &allowed("crates/a/src/long.rs")), [] as [String; 0]);
        assert_eq!(long_files(&files, &allowed("crates/a/src/short.rs")).len(), 2);
    }

    #[test]
    fn exceptions_give_reasons() {
        let list = "# comment\n\ncrates/a/src/b.rs: one table\n";
        assert_eq!(read_exceptions(list).unwrap(), ["crates/a/src/b.rs"]);
        assert!(read_exceptions("crates/a/src/b.rs:\n").is_err());
        assert!(read_exceptions("crates/a/src/b.rs\n").is_err());
    }
}
