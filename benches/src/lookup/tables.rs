//! The routing tables that structures are measured on.

use std::fs;
use std::net::Ipv4Addr;
use std::path::Path;

use anyhow::{Context, ensure};
use millrace_core::net::Ipv4Prefix;
use millrace_elements::ip::lookup::{Hop, Prefix, Route};

use crate::traffic;

/// The variable by which `cargo xtask bench` says where the tables are that it has fetched.
pub(crate) const VARIABLE: &str = "MILLRACE_ROUTES";

/// The tables of a folder, the largest first; without one, tables that are made up.
///
/// # Errors
/// There is no table in the folder, or one that cannot be read.
pub(crate) fn all(folder: Option<&Path>) -> anyhow::Result<Vec<(String, Vec<Route>)>> {
    let Some(folder) = folder else {
        return Ok([512_000, 130_000]
            .map(|count| (format!("made up, {count}"), made_up(count)))
            .into());
    };
    let mut tables = Vec::new();
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.extension().is_some_and(|extension| extension == "dat") {
            let name = path.file_stem().unwrap_or_default().to_string_lossy().into_owned();
            tables.push((name, read(&path).with_context(|| path.display().to_string())?));
        }
    }
    ensure!(!tables.is_empty(), "{}: no file with routes, *.dat", folder.display());
    tables.sort_by_key(|(_, routes)| std::cmp::Reverse(routes.len()));
    Ok(tables)
}

/// Routes that are the same each time, with the Internet's mix of prefix lengths.
pub(crate) fn made_up(count: usize) -> Vec<Route> {
    let route = |route: traffic::Route| Route {
        prefix: Prefix::new(route.network, route.length),
        hop: Hop { gateway: route.gateway, port: route.output.into() },
    };
    traffic::routes(count).into_iter().map(route).collect()
}

/// Reads a table: a route a line, network and number of the neighbour's autonomous system, as pyasn makes them
/// from RouteViews; lines that start with `;` and routes of IPv6 do not count. Some thousand systems become 64 hops, as many as a
/// large router has neighbours, which the number alone decides.
fn read(path: &Path) -> anyhow::Result<Vec<Route>> {
    let text = fs::read_to_string(path)?;
    let lines = (1..).zip(text.lines());
    let lines = lines.filter(|(_, line)| !line.starts_with(';') && !line.contains(':'));
    lines.map(|(number, line)| parse(line).with_context(|| format!("line {number}"))).collect()
}

fn parse(line: &str) -> anyhow::Result<Route> {
    let (prefix, system) = line.trim().split_once(char::is_whitespace).context("no number")?;
    let prefix: Ipv4Prefix = prefix.parse().map_err(|_| anyhow::anyhow!("no network"))?;
    let system: u32 = system.trim().parse().context("no number")?;
    // The upper bits of a multiple of an odd number spread well (Knuth, The Art of Computer Programming, 6.4).
    let hop = system.wrapping_mul(2_654_435_761) >> 26;
    let gateway = Ipv4Addr::new(10, 0, (hop % 4) as u8, 1 + hop as u8);
    Ok(Route { prefix: Prefix::try_from(prefix)?, hop: Hop { gateway, port: hop % 4 } })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_line_is_a_route() {
        let route = parse("1.0.128.0/17\t9737").unwrap();
        assert_eq!(route.prefix.to_string(), "1.0.128.0/17");
        assert_eq!(route.hop, parse("8.0.0.0/8 9737").unwrap().hop);
        for line in ["1.0.128.0/17", "x 3", "1.0.0.0/8 x", ""] {
            assert!(parse(line).is_err(), "{line}");
        }
    }
}
