//! References to elements and their handlers.

use crate::args::{Arg, ArgError, ArgText, Scope, nearest};

/// The index of an element of the configuration. Its name is looked up in the compound of the
/// element whose argument it is, then in the compounds around that.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct ElementRef(pub usize);

impl Arg for ElementRef {
    const EXPECTS: &'static str = "the name of an element";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let index = scope.find_element(text.as_str());
        index
            .map(Self)
            .ok_or_else(|| meant(ArgError::new("does not name an element"), text.as_str(), scope))
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// A handler by name. Whether it exists is for the reader of the argument to find out.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HandlerRef {
    /// `element.handler`.
    Of {
        /// Index of the element.
        element: usize,
        /// Name of the handler.
        handler: String,
    },
    /// `.handler`: one of the global handlers.
    Global(String),
    /// `handler`: of the element whose argument it is, or a global one if that has none.
    Here(String),
}

/// No handler at all.
impl Default for HandlerRef {
    fn default() -> Self {
        Self::Global(String::new())
    }
}

impl HandlerRef {
    /// The name of the handler without its element.
    pub fn handler(&self) -> &str {
        match self {
            Self::Of { handler, .. } | Self::Global(handler) | Self::Here(handler) => handler,
        }
    }
}

impl Arg for HandlerRef {
    const EXPECTS: &'static str = "a handler, such as ‘counter.count’";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        let name = String::parse(text, scope).map_err(|_| ArgError::default())?;
        match name.split_once('.') {
            None if !name.is_empty() => Ok(Self::Here(name)),
            None | Some((_, "")) => Err(ArgError::default()),
            Some(("", handler)) => Ok(Self::Global(handler.to_owned())),
            Some((element, handler)) => match scope.find_element(element) {
                Some(element) => Ok(Self::Of { element, handler: handler.to_owned() }),
                None => {
                    let error = ArgError::new(format!("no element named ‘{element}’"));
                    Err(meant(error, element, scope))
                }
            },
        }
    }

    fn placeholder() -> Self {
        Self::default()
    }
}

/// Says which element was probably meant.
fn meant(error: ArgError, name: &str, scope: &Scope<'_>) -> ArgError {
    let names = scope.element_names();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(name) => error.help(format!("did you mean ‘{name}’?")),
        None => error,
    }
}
