//! Gives the program the names of Click's tools in the target directory, as links: each as a program of
//! its own would be the whole program once more. `millrace install-links DIR` makes such links elsewhere.

use std::path::{Path, PathBuf};

/// The tools, as `crates/millrace/src/tools` has them; a test there compares the lists.
const TOOLS: &str = include_str!("src/tools/names.txt");

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed=src/tools/names.txt");
    let out = std::env::var_os("OUT_DIR").map(PathBuf::from).unwrap_or_default();
    // target/debug/build/millrace-0123/out
    let build = out.ancestors().nth(2).filter(|path| path.ends_with("build"));
    let Some(folder) = build.and_then(Path::parent) else { return };
    for tool in TOOLS.lines() {
        let link = folder.join(tool);
        if link.symlink_metadata().is_err() {
            // Without links the tools are still there, as sub-commands.
            #[cfg(unix)]
            let _ = std::os::unix::fs::symlink("millrace", link);
        }
    }
}
