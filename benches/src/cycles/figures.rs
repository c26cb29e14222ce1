//! Computes figures from slices. They are medians, so that short disturbances do not count.

use std::collections::BTreeMap;

use serde_json::{Value, json};

use super::case::{Configuration, Run};
use crate::report::{median, rounded};

/// The results of runs of one configuration with one length of bursts.
pub(crate) struct Figures {
    /// `router` or `element`.
    kind: &'static str,
    name: String,
    /// Most packets at a time.
    pub(crate) burst: usize,
    class: Option<&'static str>,
    /// Cycles per packet, one value per round: the median of its slices.
    cycles: Vec<f64>,
    /// Instructions per packet, computed in the same way.
    instructions: Vec<f64>,
    /// For each class, the number of its elements, and the cycles per packet in all of them.
    classes: BTreeMap<&'static str, (usize, Vec<f64>)>,
}

impl Figures {
    /// No figures yet.
    pub(crate) fn new(configuration: &Configuration, burst: usize) -> Self {
        Self {
            kind: if configuration.class.is_some() { "element" } else { "router" },
            name: configuration.graph.name.clone(),
            burst,
            class: configuration.class,
            cycles: Vec::new(),
            instructions: Vec::new(),
            classes: BTreeMap::new(),
        }
    }

    /// Adds a round.
    pub(crate) fn add(&mut self, run: &Run) {
        let per_packet = |cycles: u64, packets: u64| cycles as f64 / packets.max(1) as f64;
        let slices = run.slices.iter();
        let cycles = slices.clone().map(|slice| per_packet(slice.cycles, slice.packets));
        self.cycles.extend(median(cycles.collect()));
        let instructions = slices
            .clone()
            .filter_map(|slice| Some(per_packet(slice.counts.instructions?, slice.packets)));
        self.instructions.extend(median(instructions.collect()));

        let mut members: BTreeMap<&'static str, Vec<usize>> = BTreeMap::new();
        for (id, class) in run.classes.iter().enumerate() {
            members.entry(class).or_default().push(id);
        }
        for (class, ids) in members {
            let spent = slices.clone().map(|slice| {
                let cycles = ids.iter().filter_map(|&id| slice.elements.get(id)).sum();
                per_packet(cycles, slice.packets)
            });
            let (count, rounds) = self.classes.entry(class).or_default();
            *count = ids.len();
            rounds.extend(median(spent.collect()));
        }
    }

    /// Cycles per packet: of the whole configuration, or of one element of the measured class.
    fn cost(&self) -> f64 {
        let whole = || median(self.cycles.clone());
        let of_class = |class| {
            let (count, rounds) = self.classes.get(class)?;
            Some(median(rounds.clone())? / (*count).max(1) as f64)
        };
        self.class.map_or_else(whole, of_class).unwrap_or(f64::NAN)
    }

    /// The minimum and the maximum cycles per packet of the whole configuration in a round.
    fn spread(&self) -> (f64, f64) {
        let fold = |start, f: fn(f64, f64) -> f64| self.cycles.iter().copied().fold(start, f);
        (fold(f64::INFINITY, f64::min), fold(f64::NEG_INFINITY, f64::max))
    }

    /// The classes that need cycles, the most expensive first: class, number of elements, cycles per packet.
    fn parts(&self) -> Vec<(&'static str, usize, f64)> {
        let parts = self.classes.iter();
        let mut parts: Vec<_> = parts
            .filter_map(|(class, (count, rounds))| Some((*class, *count, median(rounds.clone())?)))
            .filter(|(_, _, cycles)| *cycles >= 0.05)
            .collect();
        parts.sort_by(|a, b| b.2.total_cmp(&a.2));
        parts
    }

    /// The row of the JSON report.
    pub(crate) fn json(&self, hertz: f64) -> Value {
        let (least, most) = self.spread();
        let parts = self.parts().into_iter();
        json!({
            "kind": self.kind,
            "name": self.name,
            "burst": self.burst,
            "cycles": rounded(self.cost()),
            "whole": {
                "cycles": median(self.cycles.clone()).map(rounded),
                "least": rounded(least),
                "most": rounded(most),
                "instructions": median(self.instructions.clone()).map(rounded),
                "mpps": median(self.cycles.clone()).map(|cycles| rounded(hertz / cycles / 1e6)),
            },
            "classes": parts
                .map(|(class, elements, cycles)| json!({
                    "class": class, "elements": elements, "cycles": rounded(cycles),
                }))
                .collect::<Vec<_>>(),
        })
    }
}

/// The tables as text.
pub(crate) fn tables(rows: &[Figures], hertz: f64) -> String {
    let mut text = String::new();
    let (routers, elements): (Vec<&Figures>, Vec<&Figures>) =
        rows.iter().partition(|row| row.class.is_none());
    if !routers.is_empty() {
        text.push_str(&router_table(&routers, hertz));
    }
    if !elements.is_empty() {
        text.push_str(&element_table(&elements));
    }
    text
}

fn router_table(rows: &[&Figures], hertz: f64) -> String {
    let counted = rows.iter().any(|row| !row.instructions.is_empty());
    let mut text = format!("{:<16}{:>6}{:>9}", "configuration", "burst", "cycles");
    text.push_str(&format!("{:>16}", "rounds"));
    if counted {
        text.push_str(&format!("{:>14}", "instructions"));
    }
    text.push_str(&format!("{:>9}\n", "Mpps"));
    for row in rows {
        let (least, most) = row.spread();
        let rounds = format!("{least:.1}-{most:.1}");
        let cost = row.cost();
        text.push_str(&format!("{:<16}{:>6}{cost:>9.1}{rounds:>16}", row.name, row.burst));
        if counted {
            let instructions = median(row.instructions.clone()).unwrap_or(f64::NAN);
            text.push_str(&format!("{instructions:>14.1}"));
        }
        text.push_str(&format!("{:>9.2}\n", hertz / cost / 1e6));
    }
    for row in rows {
        text.push_str(&format!("\n{}, bursts of {}, cycles a packet:\n", row.name, row.burst));
        for (class, elements, cycles) in row.parts() {
            text.push_str(&format!("{class:>22} x{elements:<3}{cycles:>8.1}\n"));
        }
    }
    text.push('\n');
    text
}

/// One line per element, one column per length of bursts.
fn element_table(rows: &[&Figures]) -> String {
    let mut bursts: Vec<usize> = rows.iter().map(|row| row.burst).collect();
    bursts.sort_unstable();
    bursts.dedup();
    let mut text = format!("{:<18}", "element");
    for burst in &bursts {
        text.push_str(&format!("{:>14}", format!("burst {burst}")));
    }
    text.push_str("   cycles a packet\n");
    let mut names: Vec<&str> = rows.iter().map(|row| row.name.as_str()).collect();
    names.dedup();
    for name in names {
        text.push_str(&format!("{name:<18}"));
        for burst in &bursts {
            let row = rows.iter().find(|row| row.name == name && row.burst == *burst);
            let cost = row.map_or(f64::NAN, |row| row.cost());
            text.push_str(&format!("{cost:>14.1}"));
        }
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::counters::Counts;
    use crate::cycles::devices::Slice;
    use crate::graph::Graph;

    #[test]
    fn medians() {
        for (values, middle) in [
            (vec![], None),
            (vec![3.0], Some(3.0)),
            (vec![9.0, 1.0], Some(5.0)),
            (vec![9.0, 1.0, 2.0], Some(2.0)),
        ] {
            assert_eq!(median(values), middle);
        }
    }

    /// Rounds of three slices, one of them disturbed.
    fn figures(class: Option<&'static str>) -> Figures {
        let graph = Graph::new("x", "");
        let configuration = Configuration { graph, class };
        let mut figures = Figures::new(&configuration, 32);
        for cycles in [1000, 1200, 1100] {
            let slice = |cycles| Slice {
                packets: 10,
                cycles,
                counts: Counts { instructions: Some(50), ..Counts::default() },
                elements: vec![cycles / 2, 40, 60],
            };
            let slices = vec![slice(cycles), slice(1_000_000), slice(cycles)];
            let classes = vec!["FromDevice", "Null", "Null"];
            figures.add(&Run { slices, classes, ..Run::default() });
        }
        figures
    }

    #[test]
    fn a_router_costs_the_median_of_rounds_and_an_element_its_share() {
        assert_eq!(figures(None).cost(), 110.0);
        assert_eq!(figures(Some("Null")).cost(), 5.0);
        let row = figures(None).json(1.1e9);
        let whole = json!({
            "cycles": 110.0, "least": 100.0, "most": 120.0, "instructions": 5.0, "mpps": 10.0
        });
        assert_eq!(row["whole"], whole);
        assert_eq!(row["classes"][1], json!({"class": "Null", "elements": 2, "cycles": 10.0}));
    }

    #[test]
    fn tables_have_a_line_for_each() {
        let text = tables(&[figures(None), figures(Some("Null"))], 1.1e9);
        let lines: Vec<String> = text
            .lines()
            .map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "))
            .collect();
        assert!(lines.contains(&"x 32 110.0 100.0-120.0 5.0 10.00".to_owned()), "{text}");
        assert!(lines.contains(&"x 5.0".to_owned()), "{text}");
    }
}
