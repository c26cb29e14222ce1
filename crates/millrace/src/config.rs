//! Finds the configuration that the command line names, reads it and flattens it.

use std::fs::File;
use std::io::Read;
use std::path::{Path, PathBuf};

use anyhow::{Context, anyhow, bail};
use millrace_core::{Registry, os_error_text};
use millrace_lang::variables::names;
use millrace_lang::{
    Diagnostic, Graph, SourceId, SourceMap, find_in_click_path, find_in_path, nearest,
};

use crate::absent;
use crate::archive::{self, Member};

/// The source of a configuration's text.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Origin {
    /// A file.
    File(PathBuf),
    /// Standard input.
    Stdin,
    /// The argument of `-e`.
    Expression(String),
}

/// The name and the value of a variable of the configuration, from the command line.
pub(crate) type Variable = (String, String);

/// The arguments that name a configuration.
#[derive(Clone, Debug, clap::Args)]
pub(crate) struct Input {
    /// Takes EXPR itself as the configuration
    #[arg(short = 'e', long = "expression", value_name = "EXPR")]
    pub(crate) expression: Option<String>,

    /// The configuration: a file, or `-` for standard input; and values of its variables
    #[arg(value_name = "FILE|VAR=VALUE")]
    pub(crate) words: Vec<String>,
}

impl Input {
    /// The configuration and the variables, if the command line names exactly one configuration.
    pub(crate) fn resolve(&self) -> anyhow::Result<(Origin, Vec<Variable>)> {
        let (mut origins, variables) = self.resolve_all()?;
        match (origins.pop(), origins.is_empty()) {
            (Some(origin), true) => Ok((origin, variables)),
            (None, _) => bail!(
                "no configuration is given: name a file, `-` for standard input, \
                                or `-e EXPR`"
            ),
            (Some(_), false) => bail!("more than one configuration"),
        }
    }

    /// All configurations and variables that the command line names.
    pub(crate) fn resolve_all(&self) -> anyhow::Result<(Vec<Origin>, Vec<Variable>)> {
        let expression = self.expression.iter().cloned().map(Origin::Expression);
        let mut origins: Vec<Origin> = expression.collect();
        let mut variables = Vec::new();
        for word in &self.words {
            match variable(word) {
                Some((name, _)) if variables.iter().any(|(known, _)| *known == name) => {
                    bail!("variable ‘{name}’ is given two values")
                }
                Some(variable) => variables.push(variable),
                None if word == "-" => origins.push(Origin::Stdin),
                None => origins.push(Origin::File(word.into())),
            }
        }
        Ok((origins, variables))
    }
}

/// Reads `NAME=VALUE`; `None` if `NAME` cannot be the name of a variable.
pub(crate) fn variable(word: &str) -> Option<Variable> {
    let (name, value) = word.split_once('=')?;
    let proper =
        !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
    proper.then(|| (name.to_owned(), value.to_owned()))
}

/// A configuration as it was read.
pub(crate) struct Loaded {
    /// The texts of the configuration and its libraries.
    pub(crate) map: SourceMap,
    /// The text of the configuration itself.
    pub(crate) source: SourceId,
    /// The flat graph. If there are errors among the diagnostics, it is the part that could be understood.
    pub(crate) graph: Graph,
    /// Errors, warnings and advice.
    pub(crate) diagnostics: Vec<Diagnostic>,
}

impl Loaded {
    /// True when there is an error among the diagnostics.
    pub(crate) fn has_errors(&self) -> bool {
        self.diagnostics.iter().any(Diagnostic::is_error)
    }

    /// The name of the configuration in messages.
    pub(crate) fn name(&self) -> &str {
        self.map.get(self.source).map_or("", |source| &source.name)
    }
}

/// Reads and flattens a configuration. Libraries are searched for in `click_path`, or in the environment's
/// `CLICKPATH`.
///
/// # Errors
/// The text cannot be read. Errors in the text are among the diagnostics.
pub(crate) fn load(
    origin: &Origin,
    variables: &[Variable],
    click_path: Option<&str>,
) -> anyhow::Result<Loaded> {
    let (mut map, source) = read(origin)?;
    let classes: Vec<String> = Registry::linked().iter().map(|(name, _)| name.to_owned()).collect();
    let find = |name: &str, from: &str| match click_path {
        Some(path) => find_in_path(path, name, from),
        None => find_in_click_path(name, from),
    };
    let options = millrace_lang::Options {
        params: variables,
        classes: Some(&classes),
        absent: Some(&absent::why),
        library: Some(&find),
    };
    let (graph, diagnostics) = millrace_lang::compile(&mut map, source, &options);
    for (name, _) in variables {
        refuse_unknown(name, &map)?;
    }
    Ok(Loaded { map, source, graph, diagnostics })
}

/// Rejects a value for a variable that neither the configuration nor its libraries contain: the name is probably
/// misspelt.
fn refuse_unknown(name: &str, map: &SourceMap) -> anyhow::Result<()> {
    let known = || map.iter().flat_map(|source| names(&source.text));
    if known().any(|variable| variable == name) {
        return Ok(());
    }
    let mut all: Vec<&str> =
        known().filter(|name| !name.starts_with(|c: char| c.is_ascii_digit())).collect();
    all.sort_unstable();
    all.dedup();
    let is_start = |known: &&str| {
        let (known, name) = (known.to_ascii_lowercase(), name.to_ascii_lowercase());
        known.starts_with(&name) || name.starts_with(&known)
    };
    let near = nearest(name, all.iter().copied()).or(all.iter().copied().find(is_start));
    match (near, all.is_empty()) {
        (Some(near), _) => bail!("there is no variable ‘{name}’; did you mean ‘{near}’?"),
        (None, true) => bail!("there is no variable ‘{name}’: the configuration has no variables"),
        (None, false) => bail!("there is no variable ‘{name}’; there are: {}", all.join(", ")),
    }
}

/// Reads the text of a configuration.
///
/// # Errors
/// The text cannot be read; the message says why in one line.
pub(crate) fn read(origin: &Origin) -> anyhow::Result<(SourceMap, SourceId)> {
    let mut map = SourceMap::default();
    let (source, _) = read_into(&mut map, origin)?;
    Ok((map, source))
}

/// Reads the text of a configuration, which may be in an archive. Also returns the other files of the archive.
///
/// # Errors
/// As [`read`].
pub(crate) fn read_into(
    map: &mut SourceMap,
    origin: &Origin,
) -> anyhow::Result<(SourceId, Vec<Member>)> {
    let (name, mut bytes) = match origin {
        Origin::Expression(text) => ("config".to_owned(), text.clone().into_bytes()),
        Origin::File(path) => (path.display().to_string(), read_file(path)?),
        Origin::Stdin => {
            let bytes = read_bounded(std::io::stdin().lock()).context("<stdin>")?;
            ("<stdin>".to_owned(), bytes)
        }
    };
    let mut members = Vec::new();
    if archive::is_archive(&bytes) {
        members = archive::parse(&bytes).map_err(|error| anyhow!("{name}: {error}"))?;
        let config = members.iter().position(|member| member.name == "config");
        let Some(config) = config else { bail!("{name}: archive has no ‘config’ section") };
        bytes = members.remove(config).data;
    }
    if bytes.contains(&0) {
        bail!("{name}: this is not a text file");
    }
    let text = String::from_utf8_lossy(&bytes);
    // Some editors begin a text with the byte order mark of UTF-8.
    let text = text.strip_prefix('\u{feff}').unwrap_or(&text);
    Ok((map.add(name, text), members))
}

/// Reads a file. The error contains its name and the reason.
fn read_file(path: &Path) -> anyhow::Result<Vec<u8>> {
    let name = path.display();
    match File::open(path).and_then(read_bounded) {
        Ok(bytes) => Ok(bytes),
        Err(error) => bail!("{name}: {}", os_error_text(&error)),
    }
}

/// The maximum number of bytes of a configuration: a device or a pipe without end is none.
const LONGEST: u64 = 64 << 20;

fn read_bounded(source: impl Read) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    source.take(LONGEST + 1).read_to_end(&mut bytes)?;
    match bytes.len() as u64 > LONGEST {
        true => Err(std::io::Error::other("longer than 64 MiB, which no configuration is")),
        false => Ok(bytes),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn input(words: &[&str]) -> Input {
        Input { expression: None, words: words.iter().map(|&word| word.to_owned()).collect() }
    }

    #[test]
    fn files_and_variables_are_distinguished() {
        let (origin, variables) = input(&["A=1", "./x=y.click", "B_2=a=b"]).resolve().unwrap();
        assert_eq!(origin, Origin::File("./x=y.click".into()));
        let expected = [("A", "1"), ("B_2", "a=b")].map(|(n, v)| (n.to_owned(), v.to_owned()));
        assert_eq!(variables, expected);
        assert_eq!(input(&["-"]).resolve().unwrap().0, Origin::Stdin);
    }

    #[test]
    fn exactly_one_configuration_must_be_given() {
        assert!(input(&["A=1"]).resolve().is_err());
        assert!(input(&["a", "b"]).resolve().is_err());
        assert!(input(&["a", "A=1", "A=2"]).resolve().is_err());
        let both = Input { expression: Some("Idle".into()), words: vec!["a".into()] };
        assert!(both.resolve().is_err());
    }

    #[test]
    fn a_byte_order_mark_is_no_text() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("marked.click");
        std::fs::write(&path, "\u{feff}Idle -> Discard;").unwrap();
        let loaded = load(&Origin::File(path), &[], None).unwrap();
        assert!(!loaded.has_errors(), "{:?}", loaded.diagnostics);
        assert_eq!(loaded.map.get(loaded.source).unwrap().text, "Idle -> Discard;");
    }

    #[test]
    fn what_has_no_end_is_no_configuration() {
        let error = read(&Origin::File("/dev/zero".into())).unwrap_err();
        assert_eq!(error.to_string(), "/dev/zero: longer than 64 MiB, which no configuration is");
        // As it would come through a pipe.
        let endless = std::io::repeat(b' ');
        assert!(read_bounded(endless).is_err());
        assert_eq!(read_bounded(&b"Idle"[..]).unwrap(), b"Idle");
    }

    #[test]
    fn unreadable_input_is_reported_in_one_line() {
        let message = |path: &str| format!("{:#}", read(&Origin::File(path.into())).unwrap_err());
        assert_eq!(message("/no/such.click"), "/no/such.click: No such file or directory");
        assert_eq!(message("/"), "/: Is a directory");
        let folder = tempfile::tempdir().unwrap();
        let binary = folder.path().join("binary");
        std::fs::write(&binary, b"\x7fELF\0\0").unwrap();
        assert!(message(binary.to_str().unwrap()).ends_with("this is not a text file"));
    }
}
