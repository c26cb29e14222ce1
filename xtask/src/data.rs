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
    let sources = work.join("sources.list");
    let release = fs::read_to_string("/etc/os-release").unwrap_or_default();
    fs::write(
        &sources,
        format!("deb-src http://deb.debian.org/debian {} main\n", suite(&release)),
    )?;
    println!("fetching the captures of Debian's tcpdump source package (10 MB of lists, 2 MB)");
    // Source packages are seldom in a machine's own lists, so apt gets lists of its own here; it
    // needs no root for that, and verifies signatures with the machine's keys all the same.
    let apt = || {
        let mut command = Command::new("apt-get");
        command.current_dir(work).arg("-qq");
        for (name, value) in [
            ("Dir::Etc::SourceList", sources.as_path()),
            ("Dir::Etc::SourceParts", Path::new("-")),
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

/// The suite of this machine, or of the stable release where it is no Debian.
fn suite(os_release: &str) -> String {
    let value = |key: &str| {
        let line = os_release.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix('='));
        line.map(|value| value.trim_matches('"').to_string())
    };
    match value("ID").as_deref() {
        Some("debian") => value("VERSION_CODENAME").unwrap_or_else(|| "stable".into()),
        _ => "stable".into(),
    }
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
    fn the_suite_is_that_of_the_machine() {
        let debian = "PRETTY_NAME=\"Debian\"\nID=debian\nVERSION_CODENAME=bookworm\n";
        let ubuntu = "ID=ubuntu\nVERSION_CODENAME=noble\nID_LIKE=debian\n";
        assert_eq!(suite(debian), "bookworm");
        assert_eq!(suite("VERSION_CODENAME=\"trixie\"\nID=\"debian\"\n"), "trixie");
        assert_eq!(suite(ubuntu), "stable");
        assert_eq!(suite(""), "stable");
    }
}
