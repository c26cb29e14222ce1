//! A match, and what stands in its place afterwards.

use std::collections::HashMap;

use millrace_lang::config::split_args;

use super::pattern::Rule;
use crate::tools::router::{Element, Port, Router};

/// A match.
#[derive(Default)]
pub(super) struct Found {
    /// The number of the pattern, from 1.
    pub(super) id: usize,
    /// The matching element for each element of the pattern.
    pub(super) elements: Vec<Option<usize>>,
    /// The values of variables; names include the `$`.
    pub(super) values: HashMap<String, String>,
    /// The ports outside that lead to an input of the pattern, with that input. The same for outputs.
    pub(super) into: Vec<(Port, usize)>,
    pub(super) out_of: Vec<(usize, Port)>,
}

impl Found {
    /// The element that matches the first one of the pattern.
    pub(super) fn begins(&self) -> Option<usize> {
        self.elements.iter().copied().flatten().next()
    }

    /// Replaces the match. The names of the new elements get `prefix`. Returns the indices of the elements that were
    /// replaced, and of those that are new or connected with new ones.
    pub(super) fn replace(self, router: &mut Router, rule: &Rule, prefix: &str) -> Vec<usize> {
        let Rule { pattern, replacement, .. } = rule;
        let mut old_names = HashMap::new();
        let mut changed: Vec<usize> = self.elements.iter().copied().flatten().collect();
        for (index, place) in self.elements.iter().enumerate() {
            let Some(place) = *place else { continue };
            if let Some(element) = router.elements.get(place) {
                old_names.insert(index, element.name.clone());
            }
            router.free(place);
        }
        router.added = Some(Vec::new());
        let tunnel = |name: String| Element { name, ..Element::default() };
        let outer = router.add(tunnel(prefix.to_owned()));
        let input = router.add(tunnel(format!("{prefix}/input")));
        let output = router.add(tunnel(format!("{prefix}/output")));
        for (place, leads_to, comes_from) in [
            (outer, Some(input), Some(output)),
            (input, None, Some(outer)),
            (output, Some(outer), None),
        ] {
            if let Some(element) = router.elements.get_mut(place) {
                (element.leads_to, element.comes_from) = (leads_to, comes_from);
            }
        }
        router.take_over(replacement, &format!("{prefix}/"));
        let added = router.added.take().unwrap_or_default();
        for &place in &added {
            if let Some(element) = router.elements.get_mut(place) {
                element.pattern = self.id;
                self.set_values(element);
            }
        }
        for (index, old) in old_names {
            let name = pattern.router.elements.get(index).map_or("", |element| &*element.name);
            if let Some(place) = router.find(&format!("{prefix}/{name}")) {
                router.rename(place, &old);
            }
        }
        for (from, input) in &self.into {
            router.connect(*from, (outer, *input));
        }
        for (out, to) in &self.out_of {
            router.connect((outer, *out), *to);
        }
        router.remove_tunnels_among(&added);
        changed.extend(added);
        changed.extend(self.into.iter().map(|(from, _)| from.0));
        changed.extend(self.out_of.iter().map(|(_, to)| to.0));
        changed
    }

    /// Replaces arguments that are variables by their values.
    fn set_values(&self, element: &mut Element) {
        let args = split_args(&element.config);
        if !args.iter().any(|arg| self.values.contains_key(&*arg.text)) {
            return;
        }
        let value = |text: &str| self.values.get(text).cloned().unwrap_or_else(|| text.to_owned());
        let args: Vec<String> = args.iter().map(|arg| value(&arg.text)).collect();
        element.config = args.join(", ");
    }
}
