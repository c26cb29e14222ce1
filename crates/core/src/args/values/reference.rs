//! References to elements and their handlers.

use millrace_lang::nearest;

use crate::args::{Arg, ArgError, ArgText, Scope};

/// The index of an element of the configuration. Its name is looked up in the compound element of the element
/// that has the argument, then in the compound elements around that.
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

/// A handler by name. The code that reads the argument must check that the handler exists.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum HandlerRef {
    /// `element.handler`.
    Of {
        /// Index of the element.
        element: usize,
        /// Name of the handler.
        handler: String,
    },
    /// `.handler`: a global handler.
    Global(String),
    /// `handler`: of the element that has the argument, or a global one if it has none of that name.
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

/// Adds which element was probably meant.
fn meant(error: ArgError, name: &str, scope: &Scope<'_>) -> ArgError {
    let names = scope.element_names();
    match nearest(name, names.iter().map(String::as_str)) {
        Some(name) => error.help(format!("did you mean ‘{name}’?")),
        None => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::ElementLookup;
    use crate::names::NameTable;

    struct Elements;

    impl ElementLookup for Elements {
        fn find(&self, name: &str) -> Option<usize> {
            self.names().iter().position(|known| known == name)
        }

        fn names(&self) -> Vec<String> {
            ["q", "x/q", "x/y/counter", "x/me", "z/hidden"].map(str::to_owned).to_vec()
        }
    }

    fn read<T: Arg>(text: &str) -> Result<T, ArgError> {
        let names = NameTable::new();
        T::parse(&text.into(), &Scope::new("x/me", &names, &Elements))
    }

    #[test]
    fn elements_are_seen_from_inside_out() {
        assert_eq!(read("q"), Ok(ElementRef(1)));
        assert_eq!(read("x/q"), Ok(ElementRef(1)));
        assert_eq!(read("y/counter"), Ok(ElementRef(2)));
        assert_eq!(read("me"), Ok(ElementRef(3)));
        let missing = ArgError::new("does not name an element");
        assert_eq!(
            read::<ElementRef>("y/conter"),
            Err(missing.clone().help("did you mean ‘y/counter’?"))
        );
        assert_eq!(
            read::<ElementRef>("hidden"),
            Err(missing.clone().help("did you mean ‘z/hidden’?"))
        );
        assert_eq!(read::<ElementRef>("elsewhere"), Err(missing));
    }

    #[test]
    fn handlers_belong_to_elements() {
        let of = |element, handler: &str| HandlerRef::Of { element, handler: handler.into() };
        assert_eq!(read("q.length"), Ok(of(1, "length")));
        assert_eq!(read("\"q.a.b\""), Ok(of(1, "a.b")));
        assert_eq!(read(".stop"), Ok(HandlerRef::Global("stop".into())));
        assert_eq!(read("count"), Ok(HandlerRef::Here("count".into())));
        for wrong in ["q.", ".", "\"\"", "q.a b"] {
            assert_eq!(read::<HandlerRef>(wrong), Err(ArgError::default()), "{wrong}");
        }
        assert_eq!(
            read::<HandlerRef>("qq.length").map_err(|error| error.message().to_owned()),
            Err("no element named ‘qq’".to_owned())
        );
    }
}
