//! Links with the names of the tools that lead to the program.

use std::fs;
use std::io;
use std::os::unix::fs::symlink;
use std::path::Path;

use super::TOOLS;

/// Creates links from the names of `click` and of each tool to the running program. Existing links are replaced, and
/// other files are left alone. Returns the names.
///
/// # Errors
/// A link cannot be created.
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
            // The file is the program itself or another program.
            Ok(_) => continue,
            Err(_) => {}
        }
        symlink(&program, &link).map_err(|error| {
            io::Error::new(error.kind(), format!("{}: {error}", link.display()))
        })?;
    }
    Ok(names)
}
