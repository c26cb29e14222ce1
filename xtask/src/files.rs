//! `cargo xtask conform --files`: checks the configurations of a folder, such as another project's, one by one.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

use anyhow::{Context, Result};

use crate::shell;

/// Prints a table of all `.click` files below a folder: which load, and why others do not.
///
/// # Errors
/// The folder cannot be read, or the program cannot be built.
pub(crate) fn run(folder: &Path) -> Result<ExitCode> {
    let folder = folder.canonicalize().with_context(|| folder.display().to_string())?;
    let mut files = Vec::new();
    collect(&folder, &mut files)?;
    files.sort();
    shell::run(shell::cargo().args(["build", "--quiet", "--package", "millrace"]))?;
    let program = shell::target().join("debug/millrace");
    println!("| file | |\n|---|---|");
    let mut loaded = 0;
    for file in &files {
        let outcome = check(&program, file)?;
        loaded += usize::from(outcome.loads());
        let name = file.strip_prefix(&folder).unwrap_or(file);
        println!("| {} | {} |", name.display(), outcome.text());
    }
    println!("\n{loaded} of {} load", files.len());
    Ok(ExitCode::SUCCESS)
}

fn collect(folder: &Path, files: &mut Vec<PathBuf>) -> Result<()> {
    for entry in fs::read_dir(folder).with_context(|| folder.display().to_string())? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, files)?;
        } else if path.extension().is_some_and(|end| end == "click") {
            files.push(path);
        }
    }
    Ok(())
}

/// What came of a file.
#[derive(Debug, PartialEq, Eq)]
enum Outcome {
    /// It loads, if these variables are given values on the command line.
    Loads(BTreeSet<String>),
    /// The first errors, each with its help.
    Fails(Vec<String>),
}

impl Outcome {
    fn loads(&self) -> bool {
        matches!(self, Self::Loads(_))
    }

    fn text(&self) -> String {
        match self {
            Self::Loads(variables) if variables.is_empty() => "loads".to_owned(),
            Self::Loads(variables) => {
                let names: Vec<&str> = variables.iter().map(String::as_str).collect();
                format!("loads, with values for {}", names.join(", "))
            }
            Self::Fails(errors) => errors.join("; ").replace('|', "\\|"),
        }
    }
}

/// Checks a file in its folder. Variables without a value get one, so that nothing else stays hidden behind them.
fn check(program: &Path, file: &Path) -> Result<Outcome> {
    let mut given = BTreeSet::new();
    loop {
        let mut command = Command::new(program);
        command.arg("check").arg(file);
        command.args(given.iter().map(|name| format!("{name}=1")));
        command.current_dir(file.parent().unwrap_or(Path::new(".")));
        let output = command.output().with_context(|| program.display().to_string())?;
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.success() {
            return Ok(Outcome::Loads(given));
        }
        let missing: Vec<String> = missing_variables(&said).collect();
        let before = given.len();
        given.extend(missing);
        if given.len() == before {
            return Ok(Outcome::Fails(errors(&said)));
        }
    }
}

/// The variables that a message says have no value.
fn missing_variables(said: &str) -> impl Iterator<Item = String> {
    said.lines().filter_map(|line| {
        let rest = line.strip_prefix("error: variable ‘")?;
        let (name, rest) = rest.split_once('’')?;
        let plain = name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_');
        (plain && rest == " has no value").then(|| name.to_owned())
    })
}

/// The errors of a check, each once, with the help that follows it.
fn errors(said: &str) -> Vec<String> {
    let mut errors: Vec<String> = Vec::new();
    let mut last = None;
    for line in said.lines() {
        if let Some(error) = line.strip_prefix("error: ") {
            last = (!errors.iter().any(|known| known.starts_with(error))).then(|| {
                errors.push(error.to_owned());
                errors.len() - 1
            });
        } else if let Some(help) = line.trim_start().strip_prefix("= help: ")
            && let Some(error) = last.and_then(|at: usize| errors.get_mut(at))
        {
            error.push_str(": ");
            error.push_str(help);
        }
    }
    errors
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_are_listed_once_with_their_help() {
        let said = "error: undeclared element ‘A’\n   --> x:1:2\n    |\n    = help: did you mean ‘B’?\n\n\
                    error: undeclared element ‘A’\n    = help: did you mean ‘B’?\nerror: other\n";
        assert_eq!(errors(said), ["undeclared element ‘A’: did you mean ‘B’?", "other"]);
    }

    #[test]
    fn variables_without_a_value_are_found() {
        let said =
            "error: variable ‘N’ has no value\n note\nerror: variable ‘self:$X’ has no value\n";
        assert_eq!(missing_variables(said).collect::<Vec<_>>(), ["N"]);
        let outcome = Outcome::Loads(["L".to_owned(), "N".to_owned()].into());
        assert_eq!(outcome.text(), "loads, with values for L, N");
    }
}
