//! `define`, `require` and `provide`, whose arguments are in a configuration string.

use std::borrow::Cow;

use super::Resolver;
use crate::ast::{Directive, TextRange};
use crate::config::{self, split_args, split_words};
use crate::diagnostic::shorten;
use crate::graph::Requirement;

impl<'a, 't> Resolver<'a, 't, '_> {
    pub(super) fn define(&mut self, directive: &'t Directive) {
        for (arg, place) in args_of(directive, self.text) {
            let (variable, value) = match arg {
                Cow::Borrowed(text) => {
                    let (variable, value) = config::shift_word(text);
                    (Cow::from(variable), Cow::from(value))
                }
                Cow::Owned(text) => {
                    let (variable, value) = config::shift_word(&text);
                    (Cow::from(variable.to_owned()), Cow::from(value.to_owned()))
                }
            };
            if variable.is_empty() {
                continue;
            }
            let is_name = |b: u8| b.is_ascii_alphanumeric() || b == b'_';
            let name = match variable.strip_prefix('$') {
                Some(name) if !name.is_empty() && name.bytes().all(is_name) => name,
                _ => {
                    self.error(place, "bad ‘define’ declaration: not a variable");
                    continue;
                }
            };
            let name = match &variable {
                Cow::Borrowed(text) => Cow::from(text.get(1..).unwrap_or("")),
                Cow::Owned(_) => Cow::from(name.to_owned()),
            };
            if self.define_variable(name, place) {
                self.scope.compound.defines.push(value);
            }
        }
    }

    pub(super) fn define_variable(&mut self, name: Cow<'a, str>, place: TextRange) -> bool {
        let variables = &mut self.scope.compound.variables;
        let slot = variables.len();
        if variables.contains_key(&name) {
            let message = format!("parameter ‘${}’ multiply defined", shorten(&name));
            self.error(place, message);
            return false;
        }
        variables.insert(name, slot);
        true
    }

    pub(super) fn require(&mut self, directive: &'t Directive) {
        for (arg, place) in args_of(directive, self.text) {
            let words = split_words(&arg);
            let kind = words.first().map_or("", |word| word.text);
            let value = words.get(1).map(|word| config::unquote(word.text));
            let value = value.map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
            let span = place.span(self.file.source);
            match (kind, value, words.len()) {
                ("", ..) => {}
                ("library", Some(name), 2) => self.library(&name, place),
                ("package", Some(text), 2) => self.requirements.push(Requirement { text, span }),
                ("library" | "package", ..) => self.error(place, "syntax error at requirement"),
                (word, None, 1) => {
                    let bytes = config::unquote(word);
                    let text = String::from_utf8_lossy(&bytes).into_owned();
                    if config::is_word(&text) {
                        self.requirements.push(Requirement { text, span });
                    } else {
                        self.error(place, "syntax error at requirement");
                    }
                }
                _ => self.error(place, "syntax error at requirement"),
            }
        }
    }

    pub(super) fn provide(&mut self, directive: &'t Directive) {
        for (arg, place) in args_of(directive, self.text) {
            let text = String::from_utf8_lossy(&config::unquote(&arg)).into_owned();
            if config::is_word(&text) {
                let span = place.span(self.file.source);
                self.provisions.push(Requirement { text, span });
            } else if !arg.is_empty() {
                self.error(place, "syntax error at provision");
            }
        }
    }

    pub(super) fn library(&mut self, name: &str, place: TextRange) {
        if !self.open.is_empty() {
            return self.error(place, "‘require library’ must be used at file scope");
        }
        match self.libraries.find(self.file.source, name) {
            Ok(index) => {
                if self.included.insert(index)
                    && let Some(file) = self.libraries.get(index)
                {
                    self.file(file);
                }
            }
            Err(message) => self.error(place, message),
        }
    }
}

/// The arguments of a directive, with their positions. The text is not copied if it is contiguous.
fn args_of<'a>(
    directive: &Directive,
    text: &'a str,
) -> impl Iterator<Item = (Cow<'a, str>, TextRange)> {
    let base = directive.config.start;
    let args = split_args(directive.config.of(text)).into_iter();
    args.map(move |arg| {
        let place = |offset: usize| base.saturating_add(offset as u32);
        (arg.text, TextRange { start: place(arg.start), end: place(arg.end) })
    })
}
