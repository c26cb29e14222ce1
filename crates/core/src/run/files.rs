//! Elements of one router that spoil each other's files.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use millrace_lang::Diagnostic;

use crate::needs::Need;
use crate::router::Router;

/// Files that an element would spoil, by whatever name: those that it writes and another one reads, since to write them
/// would be to lose what is to be read, and those that it and another one write from their start.
pub(super) fn spoiled(router: &Router) -> Vec<Diagnostic> {
    let needs = &router.draft().needs;
    let mut read = HashMap::new();
    for (id, need) in needs {
        if let Need::Read(path) = need {
            read.extend(File::at(path).map(|file| (file, *id)));
        }
    }
    let mut replaced = HashMap::new();
    let mut found = Vec::new();
    for (writer, need) in needs {
        let (Need::Write(path) | Need::Replace(path)) = need else { continue };
        let Some(file) = File::at(path) else { continue };
        // An element may well write what it has read.
        if let Some(reader) = read.get(&file).filter(|reader| *reader != writer) {
            let who = named(router, *reader);
            let what = format!("would be overwritten, and is the file that ‘{who}’ reads");
            found.push(finding(router, *writer, path, &what));
        }
        if matches!(need, Need::Replace(_)) {
            let first = *replaced.entry(file).or_insert(*writer);
            if first != *writer {
                let what = format!("is the file that ‘{}’ writes, too", named(router, first));
                found.push(finding(router, *writer, path, &what));
            }
        }
    }
    found
}

fn finding(router: &Router, id: usize, path: &Path, what: &str) -> Diagnostic {
    Diagnostic::error(router.members()[id].span, format!("{} {what}", path.display()))
        .context(format!("While configuring ‘{}’", named(router, id)))
}

fn named(router: &Router, id: usize) -> String {
    format!("{} :: {}", router.name_of(id), router.class_of(id))
}

/// A file that keeps what is written.
#[derive(PartialEq, Eq, Hash)]
enum File {
    /// Its device and its inode.
    There(u64, u64),
    /// It is still to be made, in this folder.
    New(PathBuf, OsString),
}

impl File {
    fn at(path: &Path) -> Option<Self> {
        if let Ok(file) = path.metadata() {
            return file.is_file().then(|| Self::There(file.dev(), file.ino()));
        }
        let folder = path.parent().filter(|folder| *folder != Path::new(""));
        let folder = folder.unwrap_or(Path::new(".")).canonicalize().ok()?;
        Some(Self::New(folder, path.file_name()?.to_owned()))
    }
}
