//! The routing tables that structures are measured on.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, ensure};
use millrace_elements::ip::lookup::{Hop, Route};

use crate::{pyasn, traffic};

/// The variable by which `cargo xtask bench` passes the folder of the tables that it has fetched.
pub(crate) const VARIABLE: &str = "MILLRACE_ROUTES";

/// The tables of a folder, the largest first; without a folder, generated tables.
///
/// # Errors
/// There is no table in the folder, or a table cannot be read.
pub(crate) fn all(folder: Option<&Path>) -> anyhow::Result<Vec<(String, Vec<Route>)>> {
    let Some(folder) = folder else {
        return Ok([512_000, 130_000]
            .map(|count| (format!("made up, {count}"), traffic::routes(count)))
            .into());
    };
    let mut tables = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "dat") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            tables.push((name, read(&path)?));
        }
    }
    ensure!(!tables.is_empty(), "{}: no file with routes, *.dat", folder.display());
    tables.sort_by_key(|(_, routes)| std::cmp::Reverse(routes.len()));
    Ok(tables)
}

/// Reads a file of [`pyasn`]; some thousand systems are mapped to 64 hops.
///
/// # Errors
/// The file cannot be read, or has another format.
pub(crate) fn read(path: &Path) -> anyhow::Result<Vec<Route>> {
    let route = |(prefix, system)| {
        let hop = pyasn::neighbour(system);
        let gateway = Ipv4Addr::new(10, 0, (hop % 4) as u8, 1 + hop as u8);
        Route { prefix, hop: Hop { gateway, port: hop % 4 } }
    };
    Ok(pyasn::read(path)?.into_iter().map(route).collect())
}
