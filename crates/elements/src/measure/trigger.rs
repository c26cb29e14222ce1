//! A number, and the write handler to call when a count reaches it: COUNT_CALL, AGGREGATE_CALL.

use millrace_core::args::{ArgError, ArgText, Scope};
use millrace_core::element::HandlerCall;
use millrace_core::{Arg, Context, Init, Refused};

/// `N HANDLER [VALUE]`.
#[derive(Clone, Debug)]
pub(crate) struct Trigger {
    pub(crate) at: u64,
    call: HandlerCall,
    text: String,
}

impl Trigger {
    /// The text as configured.
    pub(crate) fn text(&self) -> &str {
        &self.text
    }

    /// Checks, while the router starts, that the handler exists and can be written.
    pub(crate) fn check(&self, init: &Init<'_>) -> Result<(), Refused> {
        let checked = self.call.check_write(init.router(), init.id());
        checked.map_err(|error| Refused(error.to_string()))
    }

    /// Calls the write handler, and prints an error if it fails.
    pub(crate) fn pull(&self, cx: &Context) {
        let router = cx.router();
        if let Err(error) = self.call.write(router, cx.element()) {
            router.chatter(&format!("{}: {error}", router.name_of(cx.element())));
        }
    }
}

impl Arg for Trigger {
    const EXPECTS: &'static str = "a count and a handler, such as ‘100 source.active false’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let (first, rest) = text.split_first_word();
        let at = u64::parse(&first, scope)
            .map_err(|_| ArgError::new("first word should be unsigned (count)"))?;
        let call = HandlerCall::parse(&rest, scope)?;
        Ok(Self { at, call, text: text.as_str().to_owned() })
    }

    fn placeholder() -> Self {
        Self { at: 0, call: HandlerCall::placeholder(), text: String::new() }
    }
}
