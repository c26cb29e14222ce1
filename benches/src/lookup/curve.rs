//! The cost of a lookup by the number of routes, from one to a million.

use serde_json::{Value, json};

use super::measure::{self, Destinations, Lookups};
use super::oracle::Oracle;
use super::subject::Structure;
use super::table;
use crate::{report, traffic};

/// Numbers of routes.
const ROUTES: [usize; 7] = [1, 10, 100, 1000, 10_000, 100_000, 1_000_000];

/// Measures each structure with each number of routes; prints the curve.
///
/// # Errors
/// A structure finds a wrong route.
pub(crate) fn measure(structures: &[&Structure], rounds: u32) -> anyhow::Result<Vec<Value>> {
    let all = traffic::routes(*ROUTES.last().unwrap_or(&1));
    let mut rows = Vec::new();
    let mut lines = Vec::new();
    for count in ROUTES {
        let routes = all.get(..count).unwrap_or(&all);
        let oracle = Oracle::new(routes);
        let kinds =
            [Destinations::few("1,024", 1024, routes), Destinations::few("1M", 1 << 20, routes)];
        for structure in structures {
            let built = measure::build(structure, routes, 1)?;
            oracle.compare(&*built.subject, structure.name)?;
            let mut found = [Lookups::default(), Lookups::default()];
            for _ in 0..rounds {
                for (kind, found) in kinds.iter().zip(&mut found) {
                    found.add_round(&*built.subject, &kind.addresses);
                }
            }
            for (kind, found) in kinds.iter().zip(&found) {
                rows.push(json!({
                    "kind": "curve",
                    "routes": count,
                    "structure": structure.name,
                    "destinations": kind.name,
                    "single_ns": report::rounded(found.single()),
                    "batched_ns": report::rounded(found.batched()),
                    "build_ms": report::rounded(built.milliseconds),
                    "memory": built.memory.1,
                }));
            }
            let [few, many] = &found;
            lines.push((count, structure.name, few.batched(), many.batched()));
        }
    }
    print!("{}", table::of_curve(&lines));
    Ok(rows)
}
