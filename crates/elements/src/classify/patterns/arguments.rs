//! The arguments of classifiers, and reports of errors in them.

use millrace_core::args::{ArgText, Args};

use crate::classify::program::Finding;
use crate::per_port::one_per_port;

/// The patterns or rules of a classifier.
pub(crate) struct Patterns {
    texts: Vec<ArgText>,
    /// The texts without quotes.
    pub(crate) plain: Vec<String>,
}

impl Patterns {
    /// Reads all remaining arguments.
    pub(crate) fn take(args: &mut Args<'_>) -> Self {
        let texts = args.rest();
        let plain = texts.iter().map(|text| String::from_utf8_lossy(&text.unquote()).into_owned());
        Self { plain: plain.collect(), texts }
    }

    /// Reports an error unless there are as many patterns as outputs.
    pub(crate) fn expect(&self, outputs: usize, args: &mut Args<'_>) {
        one_per_port(args, &self.texts, outputs, "output", "pattern");
    }

    /// Reports the findings about patterns at their positions.
    pub(crate) fn report(&self, findings: &[Finding], args: &mut Args<'_>) {
        for finding in findings {
            let text = self.texts.get(finding.argument);
            let unchanged = |text: &&ArgText| {
                self.plain.get(finding.argument).is_some_and(|plain| plain == text.as_str())
            };
            let exact = text.filter(unchanged).and_then(|text| text.place(finding.range.clone()));
            let message = finding.to_string();
            let help = finding.help.as_str();
            match (exact, text, finding.is_error) {
                (Some(place), _, true) => args.error_with_help(place, message, help),
                (Some(place), _, false) => args.warn(place, message),
                (None, Some(text), true) => args.error_with_help(text, message, help),
                (None, Some(text), false) => args.warn(text, message),
                (None, None, true) => args.error_with_help((), message, help),
                (None, None, false) => args.warn((), message),
            }
        }
    }

    /// Warns of patterns whose output no packet can reach.
    pub(crate) fn warn_of_unused(&self, reaches: impl Fn(usize) -> bool, args: &mut Args<'_>) {
        for (output, text) in self.texts.iter().enumerate() {
            if !reaches(output) {
                args.warn(text, format!("output {output} matches no packets"));
            }
        }
    }
}
