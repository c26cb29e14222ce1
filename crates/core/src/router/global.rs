//! Global handlers that the program adds to those of every router.

use super::Router;
use super::handlers::{HandlerError, IntoText, Text, no_parameters};

type Read = Box<dyn Fn(&Router, &[u8]) -> Result<Text, HandlerError> + Send + Sync>;
type Write = Box<dyn Fn(&Router, &[u8]) -> Result<(), HandlerError> + Send + Sync>;

/// A service ([`Services`](crate::services::Services)): global handlers of the program, beside those of the router. Scripts,
/// control sockets and lists of handlers have them alike. A router's own handler of the same name is hidden.
#[derive(Default)]
pub struct GlobalHandlers(Vec<GlobalHandler>);

/// A global handler of the program.
pub struct GlobalHandler {
    name: String,
    read: Option<Read>,
    write: Option<Write>,
}

impl GlobalHandlers {
    /// A handler that can be read, without a parameter.
    pub fn read<T: IntoText>(
        &mut self,
        name: &str,
        read: impl Fn(&Router) -> Result<T, HandlerError> + Send + Sync + 'static,
    ) {
        let own = name.to_owned();
        self.read_with(name, move |router, parameter| match parameter {
            [] => read(router),
            _ => Err(no_parameters(&own)),
        });
    }

    /// A handler that can be read, with a parameter, which is empty if none was given.
    pub fn read_with<T: IntoText>(
        &mut self,
        name: &str,
        read: impl Fn(&Router, &[u8]) -> Result<T, HandlerError> + Send + Sync + 'static,
    ) {
        self.entry(name).read = Some(Box::new(move |router, parameter| {
            read(router, parameter).map(IntoText::into_text)
        }));
    }

    /// A handler that can be written.
    pub fn write(
        &mut self,
        name: &str,
        write: impl Fn(&Router, &[u8]) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) {
        self.entry(name).write = Some(Box::new(write));
    }

    fn entry(&mut self, name: &str) -> &mut GlobalHandler {
        let at = self.0.iter().position(|handler| handler.name == name);
        let at = at.unwrap_or_else(|| {
            self.0.push(GlobalHandler { name: name.to_owned(), read: None, write: None });
            self.0.len() - 1
        });
        &mut self.0[at]
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = &GlobalHandler> {
        self.0.iter()
    }

    pub(super) fn find(&self, name: &str) -> Option<&GlobalHandler> {
        self.0.iter().find(|handler| handler.name == name)
    }
}

impl GlobalHandler {
    pub(super) fn name(&self) -> &str {
        &self.name
    }

    pub(super) fn is_readable(&self) -> bool {
        self.read.is_some()
    }

    pub(super) fn is_writable(&self) -> bool {
        self.write.is_some()
    }

    pub(super) fn call_read(
        &self,
        router: &Router,
        parameter: &[u8],
    ) -> Result<Text, HandlerError> {
        match &self.read {
            Some(read) => read(router, parameter),
            None => Err(HandlerError::WriteOnly(self.name.clone())),
        }
    }

    pub(super) fn call_write(&self, router: &Router, text: &[u8]) -> Result<(), HandlerError> {
        match &self.write {
            Some(write) => write(router, text),
            None => Err(HandlerError::ReadOnly(self.name.clone())),
        }
    }
}
