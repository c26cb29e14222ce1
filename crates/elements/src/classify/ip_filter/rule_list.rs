//! The current rules of an IPFilter, with their texts.

use std::sync::Arc;

use millrace_core::args::Scope;
use millrace_core::element::HandlerError;

use crate::classify::program::{FilterProgram, Finding};

/// Rules in order, and their compiled form.
#[derive(Clone)]
pub(super) struct RuleList {
    pub(super) program: FilterProgram,
    texts: Vec<Arc<str>>,
    outputs: usize,
    /// Whether rules have been added or removed since they were configured.
    has_changed: bool,
}

impl RuleList {
    /// Rules and their compiled program, for an element with `outputs` outputs.
    pub(super) fn new<S: AsRef<str>>(texts: &[S], program: FilterProgram, outputs: usize) -> Self {
        let texts = texts.iter().map(|text| text.as_ref().into()).collect();
        Self { program, texts, outputs, has_changed: false }
    }

    /// The same with a rule before the one at `place`, or at the end.
    ///
    /// # Errors
    /// The errors in the rule.
    pub(super) fn with(
        &self,
        place: usize,
        text: &str,
        scope: &Scope<'_>,
    ) -> Result<Self, HandlerError> {
        let place = place.min(self.texts.len());
        let program = self.program.with_rule(place, text, scope).map_err(messages)?;
        let mut texts = self.texts.clone();
        texts.insert(place, text.into());
        self.changed(texts, program, scope)
    }

    /// The same without the rule at `place`.
    ///
    /// # Errors
    /// There is no such rule.
    pub(super) fn without(&self, place: usize, scope: &Scope<'_>) -> Result<Self, HandlerError> {
        if place >= self.texts.len() {
            return Err(HandlerError::from(format!(
                "there is no rule {place}; the number of rules is {}",
                self.texts.len()
            )));
        }
        let mut texts = self.texts.clone();
        texts.remove(place);
        self.changed(texts, self.program.without_rule(place), scope)
    }

    fn changed(
        &self,
        texts: Vec<Arc<str>>,
        program: Option<FilterProgram>,
        scope: &Scope<'_>,
    ) -> Result<Self, HandlerError> {
        let program = match program {
            Some(program) => program,
            None => FilterProgram::compile_rules(&texts, self.outputs, scope).map_err(messages)?.0,
        };
        Ok(Self { program, texts, outputs: self.outputs, has_changed: true })
    }

    /// The same rules in a program that was rebuilt from their state at `before`; `None` if that is not possible.
    pub(super) fn moved_to(&self, renewed: FilterProgram, before: &FilterProgram) -> Option<Self> {
        let program = self.program.moved_to(renewed, before)?;
        Some(Self { program, ..self.clone() })
    }

    /// True if there is no rule.
    pub(super) fn is_empty(&self) -> bool {
        self.texts.is_empty()
    }

    /// The rules with their numbers, one per line.
    pub(super) fn lines(&self) -> String {
        self.texts.iter().enumerate().map(|(at, text)| format!("{at} {text}\n")).collect()
    }

    /// The rules as arguments, if they differ from those that were configured.
    pub(super) fn config(&self) -> Option<String> {
        self.has_changed.then(|| self.texts.join(", "))
    }
}

fn messages(findings: Vec<Finding>) -> HandlerError {
    let errors = findings.iter().filter(|finding| finding.is_error);
    HandlerError::from(errors.map(|it| it.message.clone()).collect::<Vec<_>>().join("\n"))
}
