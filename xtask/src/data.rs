//! Data that tests use and the repository does not hold, fetched once into Cargo's target directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_testkit::find_program;

use crate::shell;

/// The folder with the captures of Debian's tcpdump source package: some hundreds of small files,
/// many of them malformed on purpose. Fetches them, saying so, when they are not there yet.
///
/// # Errors
/// They are not there and cannot be fetched.
pub(crate) fn tcpdump_captures() -> Result<PathBuf> {
    if let Some(folder) = fetched_captures() {
        return Ok(folder);
    }
    let folder = captures_folder();
    let work = shell::target().join(format!("xtask/fetch-{}", std::process::id()));
    let fetched = fetch_tcpdump(&work).and_then(|captures| {
        // Into place in one step, so that a run that is cut short leaves nothing half done.
        fs::rename(&captures, &folder).with_context(|| folder.display().to_string())
    });
    let removed = fs::remove_dir_all(&work);
    fetched?;
    removed.with_context(|| work.display().to_string())?;
    Ok(folder)
}

/// The folder of [`tcpdump_captures`] when it is there.
pub(crate) fn fetched_captures() -> Option<PathBuf> {
    Some(captures_folder()).filter(|folder| folder.is_dir())
}

fn captures_folder() -> PathBuf {
    shell::target().join("xtask/tcpdump-captures")
}

/// Downloads and unpacks the source package under `work`; gives the folder with the captures.
fn fetch_tcpdump(work: &Path) -> Result<PathBuf> {
    for program in ["apt-get", "tar"] {
        if find_program(program).is_none() {
            bail!("fetching the captures of Debian's tcpdump needs {program}");
        }
    }
    let lists = work.join("lists");
    fs::create_dir_all(lists.join("partial"))?;
    let parts = work.join("sources.list.d");
    if write_sources(Path::new("/etc/apt"), &parts)? == 0 {
        bail!("fetching the captures of Debian's tcpdump needs a package source in /etc/apt");
    }
    println!("fetching the captures of Debian's tcpdump source package (10 MB of lists, 2 MB)");
    // Source packages are seldom in a machine's own lists, so apt gets lists of its own here; it
    // needs no root for that, and verifies signatures with the machine's keys all the same.
    let apt = || {
        let mut command = Command::new("apt-get");
        command.current_dir(work).arg("-qq");
        for (name, value) in [
            ("Dir::Etc::SourceList", Path::new("/dev/null")),
            ("Dir::Etc::SourceParts", parts.as_path()),
            ("Dir::State::Lists", &lists),
            ("Dir::Cache", work),
            ("APT::Sandbox::User", Path::new("")),
        ] {
            command.arg("-o").arg(format!("{name}={}", value.display()));
        }
        command
    };
    shell::run(apt().arg("update"))?;
    shell::run(apt().args(["source", "--download-only", "tcpdump"]))?;

    let tree = work.join("tcpdump");
    fs::create_dir_all(&tree)?;
    let archive = find(work, |name| name.contains(".orig.tar.") && !name.ends_with(".asc"))?;
    let unpack = ["--extract", "--strip-components=1", "--file"];
    shell::run(Command::new("tar").current_dir(&tree).args(unpack).arg(archive))?;
    Ok(tree.join("tests"))
}

/// Writes the package sources of `apt`, a folder like `/etc/apt`, as sources of source packages to
/// files in `parts`. Returns how many files there are.
fn write_sources(apt: &Path, parts: &Path) -> Result<usize> {
    fs::create_dir_all(parts)?;
    let folder = apt.join("sources.list.d");
    let listed = fs::read_dir(&folder).map(|entries| entries.flatten().map(|entry| entry.path()));
    let files = listed.into_iter().flatten().chain([apt.join("sources.list")]);
    let mut written = 0;
    for file in files {
        let (Some(name), Ok(text)) = (file.file_name(), fs::read_to_string(&file)) else {
            continue;
        };
        let converted = match file.extension().and_then(|extension| extension.to_str()) {
            Some("sources") => converted(&text, "Types:", "Types: deb-src"),
            Some("list") => converted(&text, "deb ", "deb-src "),
            _ => continue,
        };
        fs::write(parts.join(name), converted)?;
        written += 1;
    }
    Ok(written)
}

/// A text in which each line that starts with `start` has `replacement` in its place: the start of
/// a line that goes on after a space, the whole of a field that ends in a colon.
fn converted(text: &str, start: &str, replacement: &str) -> String {
    let line = |line: &str| match line.strip_prefix(start) {
        Some(_) if start.ends_with(':') => format!("{replacement}\n"),
        Some(rest) => format!("{replacement}{rest}\n"),
        None => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

fn find(folder: &Path, wanted: impl Fn(&str) -> bool) -> Result<PathBuf> {
    for entry in fs::read_dir(folder)? {
        let entry = entry?;
        if wanted(&entry.file_name().to_string_lossy()) {
            return Ok(entry.path());
        }
    }
    bail!("{} does not hold what was downloaded", folder.display())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_sources_become_sources_of_source_packages() {
        let fields = "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm\n";
        let expected = "Types: deb-src\nURIs: http://mirror/debian\nSuites: bookworm\n";
        assert_eq!(converted(fields, "Types:", "Types: deb-src"), expected);
        let lines = "# comment\ndeb http://mirror/debian bookworm main\n";
        let expected = "# comment\ndeb-src http://mirror/debian bookworm main\n";
        assert_eq!(converted(lines, "deb ", "deb-src "), expected);
    }
}
