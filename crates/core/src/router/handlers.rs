//! Handlers: values of a running element that can be read and written.

use std::any::Any;
use std::cell::Cell;
use std::marker::PhantomData;
use std::net::Ipv4Addr;

use super::{Router, warnings};
use crate::args::{Arg, Args, Scope};
use crate::time::Timestamp;

/// What a handler returns or accepts: bytes, mostly text.
pub type Text = Vec<u8>;

/// Why a handler call failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum HandlerError {
    /// There is no element with this name.
    #[error("no element named ‘{0}’")]
    NoElement(String),
    /// The element has no such handler.
    #[error("no handler named ‘{0}’")]
    NoHandler(String),
    /// The handler cannot be read.
    #[error("handler ‘{0}’ is write-only")]
    WriteOnly(String),
    /// The handler cannot be written.
    #[error("handler ‘{0}’ is read-only")]
    ReadOnly(String),
    /// The handler rejected the value, or could not answer.
    #[error("{0}")]
    Refused(String),
}

impl From<String> for HandlerError {
    fn from(message: String) -> Self {
        Self::Refused(message)
    }
}

impl From<&str> for HandlerError {
    fn from(message: &str) -> Self {
        Self::Refused(message.to_owned())
    }
}

/// The error for a read handler that got a parameter but accepts none.
pub(crate) fn no_parameters(name: &str) -> HandlerError {
    HandlerError::Refused(format!("read handler ‘{name}’ does not take parameters"))
}

/// One call of a handler.
pub struct Call<'a> {
    router: &'a Router,
    element: usize,
    handler: &'a str,
    text: &'a [u8],
    /// Whether the handler looked at the text.
    taken: Cell<bool>,
}

impl<'a> Call<'a> {
    pub(crate) fn new(
        router: &'a Router,
        element: usize,
        handler: &'a str,
        text: &'a [u8],
    ) -> Self {
        Self { router, element, handler, text, taken: Cell::new(false) }
    }

    /// The router that the element belongs to.
    pub fn router(&self) -> &'a Router {
        self.router
    }

    /// The index of the element.
    pub fn element(&self) -> usize {
        self.element
    }

    /// The name of the handler, as it was called.
    pub fn handler(&self) -> &'a str {
        self.handler
    }

    /// The value of a write, or the parameter of a read, as bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.taken.set(true);
        self.text
    }

    /// The value of a write, or the parameter of a read, as text without surrounding white space.
    pub fn text(&self) -> std::borrow::Cow<'a, str> {
        String::from_utf8_lossy(self.bytes().trim_ascii())
    }

    /// The text as a value.
    ///
    /// # Errors
    /// It is not a valid value; the message says what was expected.
    pub fn parse<T: Arg>(&self) -> Result<T, HandlerError> {
        crate::args::parse(&self.text(), &self.scope()).map_err(HandlerError::Refused)
    }

    /// The text as arguments, read as in a configuration.
    pub fn args(&self) -> Args<'_> {
        Args::of_text(&self.text(), self.scope())
    }

    /// Rejects the result of a read if the handler did not look at its parameter.
    pub(crate) fn with_parameter(&self, read: Text) -> Result<Text, HandlerError> {
        if self.text.is_empty() || self.taken.get() {
            return Ok(read);
        }
        let name = self.router.name_of(self.element);
        Err(no_parameters(&format!("{name}.{}", self.handler)))
    }

    /// The scope of the element, in which names are looked up.
    pub fn scope(&self) -> Scope<'_> {
        self.router.scope_of(self.element)
    }

    /// Warns whoever wrote the handler: a control socket answers with the warning, and it goes to standard error if nobody
    /// else listens.
    pub fn warn(&self, message: &str) {
        let name = self.router.name_of(self.element);
        warnings::tell(self.router, message, || format!("{name}.{}: {message}", self.handler));
    }

    /// The router's time.
    pub fn now(&self) -> Timestamp {
        self.router.clock().now()
    }
}

/// A type that a read handler can return.
pub trait IntoText {
    /// The bytes.
    fn into_text(self) -> Text;
}

impl IntoText for Text {
    fn into_text(self) -> Text {
        self
    }
}

impl IntoText for String {
    fn into_text(self) -> Text {
        self.into_bytes()
    }
}

impl IntoText for &str {
    fn into_text(self) -> Text {
        self.as_bytes().to_vec()
    }
}

macro_rules! text_by_display {
    ($($kind:ty),*) => {
        $(impl IntoText for $kind {
            fn into_text(self) -> Text {
                self.to_string().into_bytes()
            }
        })*
    };
}
text_by_display!(u8, u16, u32, u64, usize, i32, i64, bool, Ipv4Addr, Timestamp);

impl IntoText for f64 {
    /// At most 12 significant digits, as Click prints numbers (`%.12g`).
    fn into_text(self) -> Text {
        const DIGITS: i32 = 12;
        if self == 0.0 || !self.is_finite() {
            return self.to_string().into_bytes();
        }
        let scientific = format!("{self:.*e}", DIGITS as usize - 1);
        let (mantissa, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
        let exponent: i32 = exponent.parse().unwrap_or(0);
        let trim = |text: &str| match text.contains('.') {
            true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
            false => text.to_owned(),
        };
        let text = if (-4..DIGITS).contains(&exponent) {
            let decimals = usize::try_from(DIGITS - 1 - exponent).unwrap_or(0);
            trim(&format!("{self:.decimals$}"))
        } else {
            let sign = if exponent < 0 { '-' } else { '+' };
            format!("{}e{sign}{:02}", trim(mantissa), exponent.abs())
        };
        text.into_bytes()
    }
}

/// The name of the handler for a low-level call.
pub(crate) fn low_level_name(number: u8) -> String {
    format!("#{number}")
}

type Read = Box<dyn Fn(&dyn Any, &Call<'_>) -> Result<Text, HandlerError> + Send + Sync>;
type Write = Box<dyn Fn(&dyn Any, &Call<'_>) -> Result<(), HandlerError> + Send + Sync>;
type Answers = Box<dyn Fn(&dyn Any, &str) -> (bool, bool) + Send + Sync>;

/// A handler of a class.
pub struct Handler {
    /// Its name.
    pub name: String,
    read: Option<Read>,
    write: Option<Write>,
    hidden: bool,
    answers: Option<Answers>,
}

impl Handler {
    /// Whether control sockets and handler lists omit it.
    pub(crate) fn is_hidden(&self) -> bool {
        self.hidden
    }

    /// For [`ANY_HANDLER`]: whether it can be read and written with this name.
    pub(crate) fn answers(&self, element: &dyn Any, name: &str) -> (bool, bool) {
        match &self.answers {
            Some(answers) => answers(element, name),
            None => (self.readable(), self.writable()),
        }
    }

    /// True when it can be read.
    pub fn readable(&self) -> bool {
        self.read.is_some()
    }

    /// True when it can be written.
    pub fn writable(&self) -> bool {
        self.write.is_some()
    }

    pub(crate) fn call_read(
        &self,
        element: &dyn Any,
        call: &Call<'_>,
    ) -> Result<Text, HandlerError> {
        match &self.read {
            Some(read) => read(element, call),
            None => Err(HandlerError::WriteOnly(self.name.clone())),
        }
    }

    pub(crate) fn call_write(
        &self,
        element: &dyn Any,
        call: &Call<'_>,
    ) -> Result<(), HandlerError> {
        match &self.write {
            Some(write) => write(element, call),
            None => Err(HandlerError::ReadOnly(self.name.clone())),
        }
    }
}

/// The name of the handler that answers for every name that no other handler has. It is not listed.
pub const ANY_HANDLER: &str = "*";

/// The handlers of class `E`, as [`Element::handlers`](crate::Element::handlers) declares them.
pub struct Handlers<E> {
    list: Vec<Handler>,
    element: PhantomData<fn(&E)>,
}

impl<E> Default for Handlers<E> {
    fn default() -> Self {
        Self { list: Vec::new(), element: PhantomData }
    }
}

impl<E: 'static> Handlers<E> {
    /// A handler that can be read and cannot fail.
    pub fn read<T: IntoText>(
        &mut self,
        name: &str,
        read: impl Fn(&E, &Call<'_>) -> T + Send + Sync + 'static,
    ) {
        self.try_read(name, move |element, call| Ok(read(element, call)));
    }

    /// A handler that can be read and may fail.
    pub fn try_read<T: IntoText>(
        &mut self,
        name: &str,
        read: impl Fn(&E, &Call<'_>) -> Result<T, HandlerError> + Send + Sync + 'static,
    ) {
        self.entry(name).read = Some(Box::new(move |element, call| {
            let element = element.downcast_ref().ok_or("handler of another class")?;
            read(element, call).map(IntoText::into_text)
        }));
    }

    /// A handler that can be written.
    pub fn write(
        &mut self,
        name: &str,
        write: impl Fn(&E, &Call<'_>) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) {
        self.entry(name).write = Some(Box::new(move |element, call| {
            let element = element.downcast_ref().ok_or("handler of another class")?;
            write(element, call)
        }));
    }

    /// A low-level call (Click's LLRPC) with this number, without the bits for the sizes of its data: `call`
    /// gets and returns bytes. Apart from elements, only the control protocol reaches it.
    pub fn low_level(
        &mut self,
        number: u8,
        call: impl Fn(&E, &Call<'_>) -> Result<Text, HandlerError> + Send + Sync + 'static,
    ) {
        let name = low_level_name(number);
        self.try_read(&name, call);
        self.hide(&name);
    }

    /// Hides a handler from control sockets and from lists: only elements can use it.
    pub fn hide(&mut self, name: &str) {
        self.entry(name).hidden = true;
    }

    /// Sets which names [`ANY_HANDLER`] answers for: whether they can be read, and written.
    pub fn answers(&mut self, answers: impl Fn(&E, &str) -> (bool, bool) + Send + Sync + 'static) {
        self.entry(ANY_HANDLER).answers = Some(Box::new(move |element, name| {
            element.downcast_ref().map_or((false, false), |element| answers(element, name))
        }));
    }

    fn entry(&mut self, name: &str) -> &mut Handler {
        let at = self.list.iter().position(|handler| handler.name == name);
        let at = at.unwrap_or_else(|| {
            self.list.push(Handler {
                name: name.to_owned(),
                read: None,
                write: None,
                hidden: false,
                answers: None,
            });
            self.list.len() - 1
        });
        &mut self.list[at]
    }

    pub(crate) fn into_vec(self) -> Vec<Handler> {
        self.list
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_at_most_twelve_digits() {
        let text = |number: f64| String::from_utf8(number.into_text()).unwrap();
        assert_eq!(text(0.0), "0");
        assert_eq!(text(6.0), "6");
        assert_eq!(text(10.0 / 3.0), "3.33333333333");
        assert_eq!(text(0.1 + 0.2), "0.3");
        assert_eq!(text(-1250.5), "-1250.5");
        assert_eq!(text(1e12), "1e+12");
        assert_eq!(text(1.5e-7), "1.5e-07");
        assert_eq!(text(999_999_999_999.9), "1e+12");
    }
}
