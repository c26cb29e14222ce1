//! Predicates as arguments: they select packets by an element's decision.

use millrace_core::Inspection;
use millrace_core::args::{Arg, ArgError, ArgText, Scope};
use millrace_lang::{Diagnostic, Span, nearest};

use super::layout::{Layout, Placed};

/// `element.output`: the packets for which a GPU element chose that output.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Predicate {
    /// The element's name in the configuration.
    pub(crate) element: String,
    pub(crate) output: u32,
    /// Its position in the configuration.
    pub(crate) span: Option<Span>,
}

impl Arg for Predicate {
    const EXPECTS: &'static str = "a GPU element and one of its outputs, such as ‘ids.1’";

    fn parse(text: &ArgText, _: &Scope<'_>) -> Result<Self, ArgError> {
        let (element, output) = text.as_str().rsplit_once('.').ok_or_else(ArgError::default)?;
        let output = output.parse().map_err(|_| ArgError::default())?;
        if element.is_empty() || element.contains(char::is_whitespace) {
            return Err(ArgError::default());
        }
        Ok(Self { element: element.to_owned(), output, span: text.span() })
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

impl Predicate {
    /// The stage that element `user` refers to, by its place in the section, and the output.
    ///
    /// # Errors
    /// There is none; the diagnostic suggests what may have been meant.
    pub(crate) fn resolve(
        &self,
        user: usize,
        layout: &Layout,
        inspection: &Inspection<'_>,
    ) -> Result<(usize, u32), Box<Diagnostic>> {
        let span = self.span.or_else(|| inspection.span_of(user));
        let element = inspection.resolve(user, &self.element);
        let place = element.and_then(|element| layout.place_of(element));
        if let (Some(element), Some(place)) = (element, place) {
            let outputs = layout.stages.get(place).map_or(0, |placed| placed.outputs);
            if self.output < outputs {
                return Ok((place, self.output));
            }
            let described = inspection.described(element);
            let message = match outputs {
                0 => format!("‘{described}’ decides nothing: it has no predicates"),
                n => {
                    format!("‘{described}’ has no output {}: they are 0 to {}", self.output, n - 1)
                }
            };
            return Err(Box::new(Diagnostic::error(span, message)));
        }
        // An element of the section itself can only refer to earlier ones.
        let place = layout.place_of(user);
        let decides = |&(at, placed): &(usize, &Placed)| {
            placed.outputs > 0 && place.is_none_or(|place| layout.is_passed(at, place))
        };
        let known = layout.stages.iter().enumerate().filter(decides);
        let known: Vec<String> =
            known.map(|(_, placed)| inspection.name_of(placed.element).to_owned()).collect();
        let message = match element {
            Some(element) => {
                format!("‘{}’ is not an element of this GPU section", inspection.described(element))
            }
            None => format!("no element named ‘{}’", self.element),
        };
        let error = Diagnostic::error(span, message);
        let meant = nearest(&self.element, known.iter().map(String::as_str));
        Err(Box::new(match (meant, known.as_slice()) {
            (Some(name), _) => error.help(format!("did you mean ‘{name}.{}’?", self.output)),
            (None, []) if place.is_some() => {
                error.help("no element before this one decides between outputs")
            }
            (None, []) => error.help("no element of the section decides between outputs"),
            (None, known) => {
                error.help(format!("elements with predicates here: {}", known.join(", ")))
            }
        }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn predicates_name_an_element_and_an_output() {
        let read = |text: &str| Predicate::parse(&text.into(), &Scope::builtin());
        let ids = read("router/ids.12").unwrap();
        assert_eq!((ids.element.as_str(), ids.output), ("router/ids", 12));
        for wrong in ["ids", "ids.", ".1", "ids.x", "ids.-1", "a b.1"] {
            assert!(read(wrong).is_err(), "{wrong}");
        }
    }
}
