//! Fetches Debian packages for their contents, without installing them.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};
use millrace_testkit::find_program;

use crate::shell;

/// The kind of packages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Source packages: the sources as their authors released them.
    Source,
    /// Binary packages.
    Binary,
}

/// `apt-get` with its own package lists. Source packages are usually not in a machine's own lists, and a fresh
/// machine has no lists at all. It needs no root, and verifies signatures with the machine's keys nevertheless.
pub(crate) struct Apt {
    work: PathBuf,
    kind: Kind,
}

impl Apt {
    /// Fetches the lists (10 MB) of the machine's package sources to `work`. `purpose` names what is fetched, for
    /// messages.
    ///
    /// # Errors
    /// The machine has no apt-get or no package sources, or they cannot be reached.
    pub(crate) fn new(work: &Path, kind: Kind, purpose: &str) -> Result<Self> {
        if find_program("apt-get").is_none() {
            bail!("fetching {purpose} needs apt-get");
        }
        let apt = Self { work: work.to_owned(), kind };
        fs::create_dir_all(apt.lists().join("partial"))?;
        if write_sources(Path::new("/etc/apt"), &apt.sources(), kind)? == 0 {
            bail!("fetching {purpose} needs a package source in /etc/apt");
        }
        shell::run(apt.command().arg("update"))?;
        Ok(apt)
    }

    /// Downloads a package. Returns the file; for a source package, the archive that its authors released.
    ///
    /// # Errors
    /// There is no such package, or it cannot be fetched.
    pub(crate) fn fetch(&self, package: &str) -> Result<PathBuf> {
        let mut command = self.command();
        match self.kind {
            Kind::Source => command.args(["source", "--download-only", package]),
            Kind::Binary => command.args(["download", package]),
        };
        shell::run(&mut command)?;
        let wanted = |name: &str| match self.kind {
            Kind::Source => name.contains(".orig.tar.") && !name.ends_with(".asc"),
            Kind::Binary => name.ends_with(".deb"),
        };
        for entry in fs::read_dir(&self.work)? {
            let entry = entry?;
            let name = entry.file_name();
            let name = name.to_string_lossy();
            // The folder may contain earlier downloads.
            if wanted(&name) && name.starts_with(&format!("{package}_")) {
                return Ok(entry.path());
            }
        }
        bail!("{} does not hold what was downloaded", self.work.display())
    }

    fn command(&self) -> Command {
        let mut command = Command::new("apt-get");
        command.current_dir(&self.work).arg("-qq");
        for (name, value) in [
            ("Dir::Etc::SourceList", Path::new("/dev/null")),
            ("Dir::Etc::SourceParts", &self.sources()),
            ("Dir::State::Lists", &self.lists()),
            ("Dir::Cache", &self.work),
            ("APT::Sandbox::User", Path::new("")),
        ] {
            command.arg("-o").arg(format!("{name}={}", value.display()));
        }
        command
    }

    fn lists(&self) -> PathBuf {
        self.work.join("lists")
    }

    fn sources(&self) -> PathBuf {
        self.work.join("sources.list.d")
    }
}

/// Writes the package sources of `apt`, a folder like `/etc/apt`, to files in `parts`; as sources of source packages
/// if those are wanted. Returns the number of files.
fn write_sources(apt: &Path, parts: &Path, kind: Kind) -> Result<usize> {
    fs::create_dir_all(parts)?;
    let folder = apt.join("sources.list.d");
    let listed = fs::read_dir(&folder).map(|entries| entries.flatten().map(|entry| entry.path()));
    let files = listed.into_iter().flatten().chain([apt.join("sources.list")]);
    let mut written = 0;
    for file in files {
        let (Some(name), Ok(text)) = (file.file_name(), fs::read_to_string(&file)) else {
            continue;
        };
        let converted = match (file.extension().and_then(|extension| extension.to_str()), kind) {
            (Some("sources" | "list"), Kind::Binary) => text,
            (Some("sources"), Kind::Source) => fields(&text),
            (Some("list"), Kind::Source) => lines(&text),
            _ => continue,
        };
        fs::write(parts.join(name), converted).with_context(|| parts.display().to_string())?;
        written += 1;
    }
    Ok(written)
}

/// A file in the deb822 format, converted to sources of source packages.
fn fields(text: &str) -> String {
    let line = |line: &str| match line.starts_with("Types:") {
        true => "Types: deb-src\n".to_owned(),
        false => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

/// A file in the one-line format, converted to sources of source packages.
fn lines(text: &str) -> String {
    let line = |line: &str| match line.split_once(char::is_whitespace) {
        Some(("deb", rest)) => format!("deb-src {rest}\n"),
        _ => format!("{line}\n"),
    };
    text.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn package_sources_become_sources_of_source_packages() {
        let text = "Types: deb\nURIs: http://mirror/debian\nSuites: bookworm\n";
        let source = "Types: deb-src\nURIs: http://mirror/debian\nSuites: bookworm\n";
        assert_eq!(fields(text), source);
        let text = "# comment\ndeb http://mirror/debian bookworm main\n";
        let source = "# comment\ndeb-src http://mirror/debian bookworm main\n";
        assert_eq!(lines(text), source);
    }
}
