//! The common part of all lists of figures: the selection and the output.

use std::path::PathBuf;

use anyhow::{Context, ensure};
use serde_json::Value;

use super::figure::Figure;
use super::plot;
use crate::machine::{self, Machine};
use crate::report;

/// Which figures of a list to make, how often to measure, and where to write them.
#[derive(clap::Args)]
pub(crate) struct Choice {
    /// Makes only the figure of this name; may be given several times
    #[arg(long, value_name = "NAME")]
    pub(crate) only: Vec<String>,

    /// Writes each figure's plot to this directory, as NAME.svg
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) svg: Option<PathBuf>,

    /// Writes each figure's JSON report to this directory, as NAME.json
    #[arg(long, value_name = "DIRECTORY")]
    pub(crate) json: Option<PathBuf>,

    /// How often each case is measured; the figures show medians; by default 3, and 7 for GPU sections
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) rounds: Option<u32>,

    /// The core to run on; by default the last one
    #[arg(long, value_name = "N")]
    pub(crate) core: Option<usize>,
}

/// Figures by their names, in the order of the book's page.
pub(crate) type List<B> = [(&'static str, fn(&B) -> anyhow::Result<Figure>)];

impl Choice {
    /// The core to run on.
    ///
    /// # Errors
    /// The kernel does not say which there are.
    pub(crate) fn core(&self) -> anyhow::Result<usize> {
        self.core.map_or_else(machine::last_core, Ok)
    }

    /// Makes the selected figures of a list, or all if none is named. `options` describes in the reports how they
    /// were made.
    ///
    /// # Errors
    /// There is no figure with a given name, a figure cannot be made, or a file cannot be written.
    pub(crate) fn make<B>(
        &self,
        list: &List<B>,
        bench: &B,
        machine: &Machine,
        options: &Value,
    ) -> anyhow::Result<()> {
        self.check(list)?;
        println!("{}, commit {}\n", machine.cpu, machine.commit);
        for (name, make) in list {
            if self.only.is_empty() || self.only.iter().any(|only| only == name) {
                let figure = make(bench).with_context(|| format!("the figure {name}"))?;
                self.keep(&figure, machine, options)?;
            }
        }
        Ok(())
    }

    /// Rejects names that are in no list.
    ///
    /// # Errors
    /// A name is in no list.
    pub(crate) fn check<B>(&self, list: &List<B>) -> anyhow::Result<()> {
        for only in &self.only {
            let names: Vec<_> = list.iter().map(|(name, _)| *name).collect();
            let names = names.join(", ");
            ensure!(
                list.iter().any(|(name, _)| name == only),
                "--only: {names}, not \u{2018}{only}\u{2019}"
            );
        }
        Ok(())
    }

    /// Prints a figure's table, and writes its plot and its JSON report if requested.
    ///
    /// # Errors
    /// A file cannot be written.
    pub(crate) fn keep(
        &self,
        figure: &Figure,
        machine: &Machine,
        options: &Value,
    ) -> anyhow::Result<()> {
        println!("{}", figure.table());
        let file = |place: &Option<PathBuf>, end: &str| -> anyhow::Result<Option<PathBuf>> {
            let Some(place) = place else { return Ok(None) };
            std::fs::create_dir_all(place).with_context(|| place.display().to_string())?;
            Ok(Some(place.join(format!("{}.{end}", figure.name))))
        };
        if let Some(file) = file(&self.svg, "svg")? {
            std::fs::write(&file, plot::svg(figure)).with_context(|| file.display().to_string())?;
        }
        let mut options = options.clone();
        if let Some(options) = options.as_object_mut() {
            options.insert("notes".to_owned(), figure.notes.clone().into());
        }
        report::write(file(&self.json, "json")?.as_deref(), machine, options, figure.rows())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_are_in_no_list_are_refused() {
        let list: &List<()> = &[("one", |()| anyhow::bail!("not made here"))];
        let choice = |only: &str| Choice {
            only: vec![only.to_owned()],
            svg: None,
            json: None,
            rounds: None,
            core: None,
        };
        choice("one").check(list).unwrap();
        let refused = choice("two").check(list).unwrap_err().to_string();
        assert!(refused.contains("one") && refused.contains("two"), "{refused}");
    }
}
