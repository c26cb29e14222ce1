//! Makes an engine from the text of a configuration.

use std::collections::BTreeMap;

use anyhow::bail;
use millrace_core::run::{Options, check, initialize};
use millrace_core::{Engine, Registry, Router};
// Names the crate, so that its classes are linked.
use millrace_elements as _;
use millrace_lang::{Diagnostic, SourceMap, Style, compile, render_all};

/// A configuration, and what is done with it before it runs.
#[derive(Clone, Debug)]
pub(crate) struct Graph {
    /// Its name in reports.
    pub(crate) name: String,
    /// Its text.
    pub(crate) text: String,
    /// Values of its variables, besides those that [`engine`](Self::engine) gets.
    pub(crate) variables: Vec<(&'static str, String)>,
    /// Handlers and the texts that are written to them before the run.
    pub(crate) writes: Vec<(String, String)>,
}

impl Graph {
    /// A configuration without variables and writes to handlers.
    pub(crate) fn new(name: impl Into<String>, text: impl Into<String>) -> Self {
        let (name, text) = (name.into(), text.into());
        Self { name, text, variables: Vec::new(), writes: Vec::new() }
    }

    /// Gives a variable another value.
    pub(crate) fn set(&mut self, variable: &'static str, value: String) {
        self.variables.retain(|(name, _)| *name != variable);
        self.variables.push((variable, value));
    }

    /// An engine for the configuration, with values for its variables.
    ///
    /// # Errors
    /// The configuration is wrong, or a handler rejects a write.
    pub(crate) fn engine(
        &self,
        variables: &[(&'static str, String)],
        options: Options,
    ) -> anyhow::Result<Engine> {
        let mut map = SourceMap::default();
        let source = map.add(self.name.as_str(), self.text.as_str());
        let variables = self.variables.iter().chain(variables);
        let params: Vec<_> =
            variables.map(|(name, value)| ((*name).to_owned(), value.clone())).collect();
        let language =
            millrace_lang::Options { params: &params, ..millrace_lang::Options::default() };
        let (graph, found) = compile(&mut map, source, &language);
        refuse(&found, &map)?;
        let (router, found) = check(&graph, &Registry::linked(), options);
        refuse(&found, &map)?;
        let Some(router) = router else { bail!("{}: no router", self.name) };
        let engine = initialize(router, 1).map_err(|found| wrong(&found, &map))?;
        for (handler, text) in &self.writes {
            if let Err(error) = engine.router().write(handler, text.as_bytes()) {
                bail!("{}: {handler}: {error}", self.name);
            }
        }
        Ok(engine)
    }
}

fn refuse(found: &[Diagnostic], map: &SourceMap) -> anyhow::Result<()> {
    match found.iter().any(Diagnostic::is_error) {
        true => Err(wrong(found, map)),
        false => Ok(()),
    }
}

fn wrong(found: &[Diagnostic], map: &SourceMap) -> anyhow::Error {
    anyhow::anyhow!("{}", render_all(found, map, Style::Snippet { color: false }))
}

/// Drops by element and reason.
pub(crate) fn drops(router: &Router) -> BTreeMap<String, u64> {
    let dropped = |id| {
        let drops = router.stats_of(id).drops.into_iter();
        drops.map(move |(reason, n)| (format!("{}: {}", router.name_of(id), reason.name()), n))
    };
    (0..router.len()).flat_map(dropped).collect()
}
