//! Finds and loads the plugin.

use std::ffi::{OsString, c_void};
use std::path::{Path, PathBuf};

use libloading::os::unix::{Library, RTLD_LOCAL, RTLD_NOW, Symbol};

use super::abi::{ABI, Layout, SYMBOL, Table};

/// The variable with the plugin's file name; if it is set, nothing else is tried.
const VARIABLE: &str = "MILLRACE_DPDK_PLUGIN";

const FILE: &str = "libmillrace_dpdk.so";

/// How to get the plugin.
const BUILD: &str = "cargo build --release -p millrace-dpdk";

/// Loads the plugin, for as long as the process runs.
///
/// # Errors
/// A sentence with advice.
pub(super) fn load() -> Result<&'static Table, String> {
    let path = match std::env::var_os(VARIABLE) {
        Some(path) if !path.is_empty() => PathBuf::from(path),
        _ => find(std::env::current_exe().ok().as_deref()).ok_or_else(|| {
            format!(
                "DPDK needs the plugin {FILE}, which is missing: build it with `{BUILD}` (this \
                 needs `apt-get install libdpdk-dev`), or set {VARIABLE} to its path"
            )
        })?,
    };
    // SAFETY: the library is the one that the user named or that was built with this program; loading it
    // runs the constructors of DPDK's libraries, which register drivers.
    let library = unsafe { Library::open(Some(&path), RTLD_NOW | RTLD_LOCAL) };
    let library = library.map_err(|error| format!("the plugin: {}", reason(&error)))?;
    // SAFETY: the plugin's function of this name has this type.
    let entry: Result<Symbol<unsafe extern "C" fn() -> *const c_void>, _> =
        unsafe { library.get(SYMBOL.as_bytes()) };
    let entry = entry.map_err(|_| format!("{}: this file is not the plugin", path.display()))?;
    // SAFETY: it takes nothing.
    let table = unsafe { entry() }.cast::<Table>();
    std::mem::forget(library);
    let (abi, layout) = match table.is_null() {
        true => (0, Layout::HOST),
        // SAFETY: every version's table begins with the ABI's number and the layout, and is never
        // unloaded.
        false => unsafe { ((&raw const (*table).abi).read(), (&raw const (*table).layout).read()) },
    };
    let table = match abi == ABI && layout == Layout::HOST {
        // SAFETY: it is the table that we know, and as long.
        true => unsafe { table.as_ref() },
        false => None,
    };
    table.ok_or_else(|| {
        format!("{} was built for another version of this program: `{BUILD}`", path.display())
    })
}

/// The first existing file among the places for the plugin.
fn find(program: Option<&Path>) -> Option<PathBuf> {
    places(program).into_iter().map(|place| place.join(FILE)).find(|path| path.is_file())
}

/// Next to the program; where Cargo puts it for a program or a test, whatever profile it was built with;
/// where packages put it.
fn places(program: Option<&Path>) -> Vec<PathBuf> {
    let mut places = Vec::new();
    if let Some(own) = program.and_then(Path::parent) {
        places.push(own.to_owned());
        let profile = if own.ends_with("deps") { own.parent() } else { Some(own) };
        places.extend(profile.map(Path::to_owned));
        if let Some(target) = profile.and_then(Path::parent) {
            places.extend(["dist", "release", "debug"].map(|profile| target.join(profile)));
        }
    }
    places.extend(["/usr/local/lib/millrace", "/usr/lib/millrace"].map(PathBuf::from));
    places
}

/// The loader's message, with advice for the usual ones.
fn reason(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error).map(ToString::to_string);
    let text = source.unwrap_or_else(|| error.to_string());
    match text.contains("librte_") {
        true => format!("{text} (DPDK itself is missing: `apt-get install dpdk`)"),
        false => text,
    }
}

/// The program's name in the environment.
pub(super) fn program() -> OsString {
    let path = std::env::args_os().next().map(PathBuf::from);
    let name = path.as_deref().and_then(Path::file_name);
    name.map_or_else(|| OsString::from("millrace"), ToOwned::to_owned)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_plugin_is_looked_for_where_cargo_puts_it() {
        let places = |program| places(Some(Path::new(program)));
        let of_program = places("/w/target/debug/millrace");
        assert_eq!(of_program[0], Path::new("/w/target/debug"));
        assert!(of_program.contains(&PathBuf::from("/w/target/release")));
        let of_test = places("/w/target/debug/deps/cli-0123");
        assert!(of_test.contains(&PathBuf::from("/w/target/debug")));
        let installed = places("/usr/bin/millrace");
        assert!(installed.contains(&PathBuf::from("/usr/lib/millrace")));
    }

    #[test]
    fn nothing_is_found_where_nothing_is() {
        let empty = tempfile::tempdir().unwrap();
        let program = empty.path().join("bin/millrace");
        let found = find(Some(&program));
        assert!(found.is_none_or(|path| path.starts_with("/usr")));
        std::fs::create_dir(empty.path().join("bin")).unwrap();
        std::fs::write(program.with_file_name(FILE), "").unwrap();
        assert_eq!(find(Some(&program)), Some(program.with_file_name(FILE)));
    }
}
