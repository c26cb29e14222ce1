//! The texts that the rules read.

use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result};

/// A Rust file or manifest of the repository.
pub(super) struct Text {
    /// Path from the root, with slashes.
    pub(super) path: String,
    pub(super) content: String,
}

impl Text {
    /// A finding on a line, counted from 0.
    pub(super) fn finding(&self, line: usize, message: &str) -> String {
        format!("{}:{}: {message}", self.path, line + 1)
    }
}

/// Adds the texts below a directory, in order.
pub(super) fn collect(root: &Path, directory: &Path, files: &mut Vec<Text>) -> Result<()> {
    let mut entries: Vec<PathBuf> = match fs::read_dir(directory) {
        Ok(entries) => entries.map(|entry| Ok(entry?.path())).collect::<Result<_>>()?,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(error).context(directory.display().to_string()),
    };
    entries.sort();
    for path in entries {
        if path.is_dir() {
            if path.file_name().is_some_and(|name| name != "target") {
                collect(root, &path, files)?;
            }
        } else if path.extension().is_some_and(|end| end == "rs") || path.ends_with("Cargo.toml") {
            let content = fs::read_to_string(&path).context(path.display().to_string())?;
            let relative = path.strip_prefix(root).unwrap_or(&path);
            files.push(Text { path: relative.to_string_lossy().into_owned(), content });
        }
    }
    Ok(())
}

#[cfg(test)]
pub(super) fn text(path: &str, content: &str) -> Text {
    Text { path: path.into(), content: content.into() }
}
