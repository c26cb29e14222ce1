//! A configuration as text.

use std::collections::HashMap;
use std::fmt::Write;

use millrace_lang::config::quote;

use super::{Connection, Port, Router, set};

impl Router {
    /// The configuration as text, with line marks that name the origin of elements.
    pub(in crate::tools) fn text(&self) -> String {
        let mut out = String::new();
        if !self.requirements.is_empty() {
            let words = self.requirements.iter().map(|requirement| match &*requirement.text {
                "compact_config" => requirement.text.clone(),
                package => format!("package {}", quote(package.as_bytes())),
            });
            _ = writeln!(out, "require({});\n", words.collect::<Vec<_>>().join(", "));
        }
        if !self.variables.is_empty() {
            let words = self.variables.iter().map(|(name, value)| format!("${name} {value}"));
            _ = writeln!(out, "define({});\n", words.collect::<Vec<_>>().join(", "));
        }
        for (_, element) in self.iter().filter(|(_, element)| !element.is_tunnel()) {
            let landmark = &element.landmark;
            _ = match landmark.rsplit_once(':') {
                Some((file, line)) => writeln!(out, "# {line} \"{file}\""),
                None => writeln!(out, "# 0 \"{landmark}\""),
            };
            out += &element.declaration();
            if !element.config.is_empty() {
                _ = write!(out, "({})", element.config);
            }
            out.push_str(";\n");
        }
        self.print_connections(&mut out);
        out
    }

    fn print_connections(&self, out: &mut String) {
        let connections: Vec<Connection> = self.connections().collect();
        if connections.is_empty() {
            return;
        }
        let line = out.matches('\n').count() + 2;
        _ = writeln!(out, "# {line} \"\"");
        let mut by_origin: HashMap<Port, Vec<usize>> = HashMap::new();
        for (index, connection) in connections.iter().enumerate() {
            by_origin.entry(connection.from).or_default().push(index);
        }
        let mut start = vec![true; connections.len()];
        let mut next = vec![None; connections.len()];
        for (index, connection) in connections.iter().enumerate().filter(|(_, c)| c.to.1 == 0) {
            let others = by_origin.get(&connection.to).map_or(&[][..], Vec::as_slice);
            let mut others = others.iter().copied().filter(|&other| other != index);
            let enters_0 = |&other: &usize| connections.get(other).is_some_and(|c| c.to.1 == 0);
            let best = others.clone().find(enters_0).or_else(|| others.next_back());
            if let Some(best) = best {
                set(&mut start, best, false);
            }
            set(&mut next, index, best);
        }
        let mut used = vec![false; connections.len()];
        // Those that remain after the first time form cycles.
        for with_cycles in [false, true] {
            for first in 0..connections.len() {
                let starts = with_cycles || start.get(first) == Some(&true);
                if used.get(first) == Some(&false) && starts {
                    self.print_chain(first, &connections, &next, &mut used, out);
                }
            }
        }
    }

    fn print_chain(
        &self,
        first: usize,
        connections: &[Connection],
        next: &[Option<usize>],
        used: &mut [bool],
        out: &mut String,
    ) {
        let name = |port: Port| self.elements.get(port.0).map_or("", |element| &element.name);
        let mut at = Some(first);
        while let Some(index) = at
            && used.get(index) == Some(&false)
            && let Some(connection) = connections.get(index)
        {
            if index == first {
                out.push_str(name(connection.from));
                if connection.from.1 != 0 {
                    _ = write!(out, " [{}]", connection.from.1);
                }
                out.push_str(" -> ");
            } else {
                out.push_str("\n    -> ");
            }
            if connection.to.1 != 0 {
                _ = write!(out, "[{}] ", connection.to.1);
            }
            out.push_str(name(connection.to));
            set(used, index, true);
            at = next.get(index).copied().flatten();
        }
        out.push_str(";\n");
    }
}
