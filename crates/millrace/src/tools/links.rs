//! The tools' names, as links to the program.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::TOOLS;

/// Links each tool's name, and `click`, to the program that runs. Links that are there are made
/// anew; other files are left alone. Returns the names.
///
/// # Errors
/// A link cannot be made.
pub(crate) fn install_links(folder: &Path) -> io::Result<Vec<&'static str>> {
    let program = std::env::current_exe()?;
    fs::create_dir_all(folder)?;
    let mut names: Vec<&'static str> = TOOLS.iter().map(|tool| tool.name).collect();
    names.push("click");
    names.sort_unstable();
    for name in &names {
        let link = folder.join(name);
        match link.symlink_metadata() {
            Ok(found) if found.is_symlink() => fs::remove_file(&link)?,
            // The program itself stands there, or another.
            Ok(_) => continue,
            Err(_) => {}
        }
        symlink(&program, &link).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", link.display()))
        })?;
    }
    Ok(names)
}
