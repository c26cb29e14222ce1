//! The tables as text.

use super::measure::{Built, Destinations, Lookups};
use super::updates::Updates;

/// The results of a structure with a table.
pub(crate) struct Line<'a> {
    pub(crate) structure: &'a str,
    pub(crate) built: &'a Built,
    /// By kind of destinations.
    pub(crate) lookups: &'a [Lookups],
    pub(crate) updates: Updates,
}

/// One line per structure.
pub(crate) fn of_table(
    name: &str,
    routes: usize,
    kinds: &[Destinations],
    lines: &[Line<'_>],
) -> String {
    let mut text = format!(
        "{name}: {routes} routes; ns a lookup of a batch, and of one that waits for the one before\n{:<10}",
        "structure"
    );
    for kind in kinds {
        text.push_str(&format!("{:>16}", kind.name));
    }
    text.push_str(&format!(
        "{:>8}{:>8}{:>12}{:>12}{:>12}\n",
        "MB", "ms", "updates/s", "in groups", "with reader"
    ));
    for line in lines {
        text.push_str(&format!("{:<10}", line.structure));
        for lookups in line.lookups {
            let both = format!("{:.1} / {:.1}", lookups.batched(), lookups.single());
            text.push_str(&format!("{both:>16}"));
        }
        let Updates { single, together, beside_reader, .. } = line.updates;
        text.push_str(&format!(
            "{:>8.1}{:>8.0}{single:>12.0}{together:>12.0}{beside_reader:>12.0}\n",
            line.built.memory.1 as f64 / 1e6,
            line.built.milliseconds
        ));
    }
    text.push('\n');
    text
}

/// One line per number of routes and structure: nanoseconds per lookup in batches, to few destinations and to many.
pub(crate) fn of_curve(lines: &[(usize, &str, f64, f64)]) -> String {
    let mut text = format!(
        "ns a lookup of a batch\n{:>9} {:<10}{:>14}{:>14}\n",
        "routes", "structure", "to 1,024", "to 1M"
    );
    for (routes, structure, few, many) in lines {
        text.push_str(&format!("{routes:>9} {structure:<10}{few:>14.1}{many:>14.1}\n"));
    }
    text.push('\n');
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_curve_has_a_line_for_each() {
        let text = of_curve(&[(10, "dxr", 1.25, 3.0), (100, "dxr", 2.0, 4.0)]);
        assert!(text.ends_with("      100 dxr                  2.0           4.0\n\n"), "{text}");
        assert_eq!(text.lines().count(), 5);
    }
}
