//! Configurations that are changed while packets run: the write handler `config`.

use super::{Element, Failed, HandlerError, Handlers, Setup};
use crate::args::Args;
use crate::names::NameTable;
use crate::plan::Draft;
use crate::router::Router;

impl<E: Element> Handlers<E> {
    /// Makes `config` writable: a new element is configured with the text that is written, as in a configuration file, and
    /// `adopt` takes over into the running one what may change while packets run. It refuses the rest. Tasks and timers
    /// that the new element asks for never run.
    pub fn reconfigure(
        &mut self,
        adopt: impl Fn(&E, E) -> Result<(), HandlerError> + Send + Sync + 'static,
    ) {
        self.write("config", move |element, call| {
            let text = call.text();
            adopt(element, configured(call.router(), call.element(), &text)?)?;
            call.router().set_config(call.element(), text.into_owned());
            Ok(())
        });
    }
}

/// An element that is configured as the one with this index would be, with another text.
fn configured<E: Element>(router: &Router, id: usize, text: &str) -> Result<E, HandlerError> {
    let member = router.member(id).ok_or("no such element")?;
    let (mut draft, mut definitions) = (Draft::default(), NameTable::default());
    let mut setup = Setup {
        args: Args::of_text(text, router.scope_of(id)),
        id,
        name: &member.name,
        inputs: member.inputs.len(),
        outputs: member.outputs.len(),
        services: router.services(),
        draft: &mut draft,
        definitions: &mut definitions,
    };
    match E::configure(&mut setup) {
        Ok(element) => Ok(element),
        Err(Failed) => Err(HandlerError::Refused(setup.args.messages())),
    }
}
