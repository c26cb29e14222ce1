//! Files that elements write.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Result};
use std::path::{Path, PathBuf};

/// A file that is to be written and is not changed yet: an element opens it when it is
/// [initialised](crate::Element::initialize), and empties it when it [starts](crate::Element::start).
#[derive(Debug)]
pub struct OutputFile {
    file: Option<File>,
    /// Whether there was none before.
    is_new: bool,
    path: PathBuf,
}

impl OutputFile {
    /// Opens a file, or creates it.
    ///
    /// # Errors
    /// It cannot be opened or created.
    pub fn open(path: &Path) -> Result<Self> {
        let mut options = OpenOptions::new();
        let (file, is_new) = match options.write(true).create_new(true).open(path) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                // The name may be a link to a file that does not exist.
                (OpenOptions::new().write(true).create(true).truncate(false).open(path)?, false)
            }
            created => (created?, true),
        };
        Ok(Self { file: Some(file), is_new, path: path.to_owned() })
    }

    /// Empties the file, to be written from its start. What is no file but a device or a pipe stays as it is.
    ///
    /// # Errors
    /// It cannot be emptied.
    pub fn begin(mut self) -> Result<File> {
        let file = self.file.take().ok_or(ErrorKind::NotFound)?;
        if !self.is_new && file.metadata()?.is_file() {
            file.set_len(0)?;
        }
        Ok(file)
    }
}

/// A file that was created, but never begun, is removed.
impl Drop for OutputFile {
    fn drop(&mut self) {
        if self.is_new && self.file.take().is_some() {
            // It may be gone already.
            let _ = std::fs::remove_file(&self.path);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_as_it_was_until_it_is_begun() {
        let folder = std::env::temp_dir().join(format!("millrace-output-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [old, new] = ["old", "new"].map(|name| folder.join(name));
        std::fs::write(&old, "kept").unwrap();
        for path in [&old, &new] {
            drop(OutputFile::open(path).unwrap());
        }
        assert_eq!(std::fs::read_to_string(&old).unwrap(), "kept");
        assert!(!new.exists());
        for path in [&old, &new] {
            OutputFile::open(path).unwrap().begin().unwrap();
            assert_eq!(std::fs::read_to_string(path).unwrap(), "");
        }
        assert!(OutputFile::open(&folder).is_err());
        // A link to nowhere: the file comes into being where it leads to.
        let link = folder.join("link");
        std::os::unix::fs::symlink(folder.join("target"), &link).unwrap();
        OutputFile::open(&link).unwrap().begin().unwrap();
        assert!(folder.join("target").exists());
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
