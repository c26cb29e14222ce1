//! Handler calls that elements make: `element.handler` and the text to write to it.

use super::Router;
use super::handlers::{HandlerError, Text};
use super::near::or_rather;
use crate::args::{Arg, ArgError, ArgText, HandlerRef, Scope};
use crate::needs::Need;

/// A handler and a text for it, as in `END_CALL "counter.reset"` or `COUNT_CALL "9 src.active no"`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HandlerCall {
    handler: HandlerRef,
    text: Text,
}

impl HandlerCall {
    /// A call of a global handler of the router.
    pub fn global(handler: &str) -> Self {
        Self { handler: HandlerRef::Global(handler.to_owned()), text: Text::new() }
    }

    /// The same call with `value` in place of every `$name` in its text.
    #[must_use]
    pub fn with_variable(&self, name: &str, value: &str) -> Self {
        let text = String::from_utf8_lossy(&self.text).replace(&format!("${name}"), value);
        Self { handler: self.handler.clone(), text: text.into_bytes() }
    }

    /// Writes the text to the handler, for element `caller`.
    ///
    /// # Errors
    /// See [`Router::write`].
    pub fn write(&self, router: &Router, caller: usize) -> Result<(), HandlerError> {
        router.write_to(caller, &self.handler, &self.text)
    }

    /// Reads the handler with the text as its parameter, for element `caller`.
    ///
    /// # Errors
    /// See [`Router::read`].
    pub fn read(&self, router: &Router, caller: usize) -> Result<Text, HandlerError> {
        router.read_from(caller, &self.handler, &self.text)
    }

    /// Checks that the handler exists and can be written.
    ///
    /// # Errors
    /// It does not exist, or cannot be written.
    pub fn check_write(&self, router: &Router, caller: usize) -> Result<(), HandlerError> {
        match router.access_from(caller, &self.handler) {
            Ok((_, true)) => Ok(()),
            Ok(_) => Err(HandlerError::ReadOnly(self.handler.handler().to_owned())),
            Err(error) => {
                let (element, name) = router.locate(caller, &self.handler);
                let near = or_rather(router.near_handler(element, name, true));
                Err(HandlerError::Refused(format!("{error}{near}")))
            }
        }
    }
}

impl Arg for HandlerCall {
    const EXPECTS: &'static str = "a handler and a value, such as ‘source.active false’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let (handler, rest) = text.split_first_word();
        let text = rest.as_str().trim().as_bytes().to_vec();
        let handler = HandlerRef::parse(&handler, scope)?;
        scope.calls(Need::of_call(handler.handler(), &text));
        Ok(Self { handler, text })
    }

    fn placeholder() -> Self {
        Self::default()
    }
}
