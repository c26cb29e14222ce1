//! One run of a tool: its messages, its input and its output.

use std::cell::Cell;
use std::fmt::Display;

use millrace_core::os_error_text;
use millrace_lang::{
    Assembly, Diagnostic, Options, SourceId, SourceMap, Style, Variables, assemble,
    find_in_click_path, find_in_path, outline, render_all,
};

use super::clp::{self, Choice, Word};
use super::router::Router;
use super::tool::{Stop, Tool};
use crate::archive::{self, Member};
use crate::config::{self, Origin, Variable, variable};
use crate::messages::complain_as_click;
use crate::output;

/// One run of a tool.
pub(super) struct Session {
    tool: &'static Tool,
    errors: Cell<usize>,
    /// `NAME=VALUE` of the command line.
    variables: Vec<Variable>,
    click_path: Option<String>,
    origin: Option<Origin>,
    output: Option<String>,
}

/// The options that nearly every tool has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Common<I> {
    ClickPath,
    Expression,
    File,
    Help,
    Output,
    Version,
    Own(I),
}

/// A configuration as a tool reads it.
pub(super) struct Input {
    pub(super) router: Router,
    pub(super) assembly: Assembly,
    /// The other files of the archive.
    pub(super) archive: Vec<Member>,
}

impl Session {
    pub(super) fn new(tool: &'static Tool) -> Self {
        Self {
            tool,
            errors: Cell::new(0),
            variables: Vec::new(),
            click_path: None,
            origin: None,
            output: None,
        }
    }

    pub(super) fn errors(&self) -> usize {
        self.errors.get()
    }

    /// Prints a message.
    pub(super) fn say(&self, message: impl Display) {
        complain_as_click(message);
    }

    pub(super) fn warn(&self, message: impl Display) {
        self.say(format_args!("warning: {message}"));
    }

    /// Prints an error. The exit status will be 1.
    pub(super) fn error(&self, message: impl Display) {
        self.errors.set(self.errors.get() + 1);
        self.say(message);
    }

    /// Prints an error after the tool's name.
    pub(super) fn own_error(&self, message: impl Display) {
        self.error(format_args!("{}: {message}", self.tool.name));
    }

    /// Makes the exit status 0 in spite of errors.
    pub(super) fn forgive(&self) {
        self.errors.set(0);
    }

    /// Prints an error and ends the run.
    pub(super) fn fail<T>(&self, message: impl Display) -> Result<T, Stop> {
        self.error(message);
        Err(Stop::Failed)
    }

    pub(super) fn usage<T>(&self, message: impl Display) -> Result<T, Stop> {
        self.own_error(message);
        Err(Stop::Usage)
    }

    /// Splits the command line into words. Answers `--help` and `--version` at once.
    pub(super) fn words<I: Copy + PartialEq>(
        &self,
        choices: &[Choice<Common<I>>],
        args: &[String],
    ) -> Result<Vec<Word<Common<I>>>, Stop> {
        let words = match clp::parse(choices, args) {
            Ok(words) => words,
            Err(message) => return self.usage(message),
        };
        for word in &words {
            match word {
                Word::Option { id: Common::Help, .. } => {
                    let Tool { name, about, options, .. } = self.tool;
                    self.print(format!(
                        "{about}.\n\nUsage: {name} [OPTION]... [ROUTERFILE]\n\nOptions:\n{options}\
                         \x20     --help                  Print this message and exit.\n  \
                         -v, --version               Print version number and exit.\n"
                    ));
                    return Err(Stop::Answered);
                }
                Word::Option { id: Common::Version, .. } => {
                    let version = env!("CARGO_PKG_VERSION");
                    self.print(format!("{} (Millrace) {version}\n", self.tool.name));
                    return Err(Stop::Answered);
                }
                _ => {}
            }
        }
        Ok(words)
    }

    /// Reads a command line with the usual options. The tool's own options are passed to `own`.
    pub(super) fn command_line<I: Copy + PartialEq>(
        &mut self,
        choices: &[Choice<Common<I>>],
        args: &[String],
        mut own: impl FnMut(&mut Self, I, String, bool) -> Result<(), Stop>,
    ) -> Result<(), Stop> {
        for word in self.words(choices, args)? {
            match word {
                Word::Option { id: Common::Own(id), value, negated } => {
                    own(self, id, value, negated)?;
                }
                Word::Option { id, value, .. } => self.common(id, value)?,
                Word::Plain(word) => self.plain(&word)?,
            }
        }
        Ok(())
    }

    /// An option that most tools have.
    pub(super) fn common<I>(&mut self, id: Common<I>, value: String) -> Result<(), Stop> {
        match id {
            Common::ClickPath => self.click_path = Some(value),
            Common::Expression => return self.configuration(Origin::Expression(value)),
            Common::File => return self.configuration(file(&value)),
            Common::Output => return self.output(value),
            Common::Help | Common::Version | Common::Own(_) => {}
        }
        Ok(())
    }

    /// Takes `NAME=VALUE` or the configuration's file.
    fn plain(&mut self, word: &str) -> Result<(), Stop> {
        if self.define(word) { Ok(()) } else { self.configuration(file(word)) }
    }

    /// Takes `NAME=VALUE`; returns false if the word has another form.
    pub(super) fn define(&mut self, word: &str) -> bool {
        let Some((name, value)) = variable(word) else { return false };
        if self.variables.iter().any(|(known, _)| *known == name) {
            self.own_error(format_args!("parameter ‘{name}’ multiply defined"));
        } else {
            self.variables.push((name, value));
        }
        true
    }

    pub(super) fn has_configuration(&self) -> bool {
        self.origin.is_some()
    }

    pub(super) fn configuration(&mut self, origin: Origin) -> Result<(), Stop> {
        match self.origin.replace(origin) {
            None => Ok(()),
            Some(_) => self.usage("router configuration specified twice"),
        }
    }

    pub(super) fn output(&mut self, path: String) -> Result<(), Stop> {
        match self.output.replace(path) {
            None => Ok(()),
            Some(_) => self.usage("output file specified twice"),
        }
    }

    /// True if the command line names an output file.
    pub(super) fn writes(&self) -> bool {
        self.output.is_some()
    }

    /// The configuration's name in messages.
    pub(super) fn name(&self) -> String {
        match &self.origin {
            Some(Origin::File(path)) => path.display().to_string(),
            Some(Origin::Expression(_)) => "config".to_owned(),
            Some(Origin::Stdin) | None => "<stdin>".to_owned(),
        }
    }

    /// Reads the configuration that the command line names and flattens it.
    pub(super) fn read(&self) -> Result<Input, Stop> {
        self.read_with(Variables::Keep)
    }

    pub(super) fn read_with(&self, variables: Variables) -> Result<Input, Stop> {
        let origin = self.origin.clone().unwrap_or(Origin::Stdin);
        let mut input = self.read_from(&origin, variables, false)?;
        input.router.flatten();
        if self.errors() > 0 { Err(Stop::Failed) } else { Ok(input) }
    }

    /// Reads a configuration. Errors in its text are printed.
    pub(super) fn read_from(
        &self,
        origin: &Origin,
        variables: Variables,
        may_be_empty: bool,
    ) -> Result<Input, Stop> {
        let mut map = SourceMap::default();
        let (source, archive) = match config::read_into(&mut map, origin) {
            Ok(read) => read,
            Err(error) => return self.fail(format_args!("{error:#}")),
        };
        if map.get(source).is_none_or(|source| source.text.is_empty()) && !may_be_empty {
            let name = map.get(source).map_or("", |source| &source.name);
            self.say(format_args!("{name}: warning: empty configuration"));
        }
        let (assembly, diagnostics) =
            self.compile(|options| assemble(&mut map, source, options, variables));
        if !diagnostics.is_empty() {
            let errors = diagnostics.iter().filter(|found| found.is_error()).count();
            self.errors.set(self.errors.get() + errors);
            let text = render_all(&diagnostics, &map, Style::Click);
            self.say(text.trim_end_matches('\n'));
        }
        Ok(Input { router: Router::new(&assembly), assembly, archive })
    }

    /// Reads the configuration that the command line names, and keeps its compounds. The caller reports errors in the
    /// text.
    pub(super) fn outline(&self) -> Result<(SourceMap, SourceId, Assembly, Vec<Diagnostic>), Stop> {
        let mut map = SourceMap::default();
        let source =
            match config::read_into(&mut map, self.origin.as_ref().unwrap_or(&Origin::Stdin)) {
                Ok((source, _)) => source,
                Err(error) => return self.fail(format_args!("{error:#}")),
            };
        if map.get(source).is_none_or(|source| source.text.is_empty()) {
            self.warn(format_args!("{}: empty configuration", self.name()));
        }
        let (assembly, diagnostics) = self.compile(|options| outline(&mut map, source, options));
        Ok((map, source, assembly, diagnostics))
    }

    /// Compiles with the variables of the command line and its path for libraries.
    fn compile<T>(&self, with: impl FnOnce(&Options<'_>) -> T) -> T {
        let find = |name: &str, from: &str| match &self.click_path {
            Some(path) => find_in_path(path, name, from),
            None => find_in_click_path(name, from),
        };
        with(&Options { params: &self.variables, library: Some(&find), ..Options::default() })
    }

    /// Writes a configuration to the output of the command line; in an archive if it was read from one.
    pub(super) fn write(&self, router: &Router, archive: &[Member]) -> Result<(), Stop> {
        let text = router.text();
        let mut members =
            vec![Member { name: "config".to_owned(), data: text.clone().into_bytes() }];
        members.extend(archive.iter().filter(|member| member.name != "config").cloned());
        match members.len() {
            1 => self.write_text(text.as_bytes()),
            _ => self.write_text(&archive::build(&members)),
        }
    }

    /// Writes to the output of the command line.
    pub(super) fn write_text(&self, text: &[u8]) -> Result<(), Stop> {
        match self.output.as_deref() {
            None | Some("-") => self.print(text),
            Some(path) => {
                if let Err(error) = std::fs::write(path, text) {
                    return self.fail(format_args!("{path}: {}", os_error_text(&error)));
                }
            }
        }
        Ok(())
    }

    /// Writes to standard output. Like Click's tools, ignores errors.
    pub(super) fn print(&self, text: impl AsRef<[u8]>) {
        let _ = output::print(text);
    }
}

pub(super) fn file(path: &str) -> Origin {
    if path == "-" { Origin::Stdin } else { Origin::File(path.into()) }
}
