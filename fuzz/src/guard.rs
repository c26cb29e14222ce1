//! Keeps the machine from harm: elements write files, start processes, open sockets and change their user.
//!
//! The kernel enforces it, whatever an element tries: the sandbox of the program itself
//! ([`confine`](millrace::sandbox::confine)), for a configuration that needs nothing but a temporary folder. An element
//! that is denied something refuses to start, as it would for any user without rights. So no list of dangerous classes
//! can be out of date, and what the sandbox forbids is what the fuzzer is forbidden.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::OnceLock;

static FOLDER: OnceLock<PathBuf> = OnceLock::new();

/// The folder in which files may be written, of this process alone.
///
/// # Errors
/// The folder cannot be made.
pub fn folder() -> io::Result<&'static Path> {
    if let Some(folder) = FOLDER.get() {
        return Ok(folder);
    }
    let made = tempfile::Builder::new().prefix("millrace-fuzz-").tempdir()?;
    Ok(FOLDER.get_or_init(|| made.keep()))
}

/// How the names of files begin that stay.
const HISTORY: &str = "history-";

/// A file of the folder that is not swept away, in which a target notes which inputs have led to the state that it keeps:
/// `cargo xtask fuzz` looks there when an input finds something that it does not find by itself.
///
/// # Errors
/// It cannot be made.
pub fn history(name: &str) -> io::Result<fs::File> {
    fs::File::create(folder()?.join(format!("{HISTORY}{name}")))
}

/// Removes what a run has left in the folder.
pub fn sweep() {
    let Some(folder) = FOLDER.get() else { return };
    for file in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = file.path();
        if file.file_name().as_encoded_bytes().starts_with(HISTORY.as_bytes()) {
            continue;
        }
        let _ = fs::remove_file(&path).or_else(|_| fs::remove_dir_all(&path));
    }
}

/// Forbids the calling thread, and those that it starts, to reach beyond the [`folder`] and the folders named here, which
/// it may write to. Once for a process, before there are other threads and before anything is drawn.
///
/// # Errors
/// The kernel cannot, or the folder cannot be made.
pub fn enter(writable: &[PathBuf]) -> Result<(), String> {
    let folder = folder().map_err(|error| error.to_string())?;
    let own = [folder.to_path_buf()];
    let write: Vec<PathBuf> = own.iter().chain(writable).cloned().collect();
    millrace::sandbox::confine(&[env!("CARGO_MANIFEST_DIR").into()], &write)
}
