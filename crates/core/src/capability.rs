//! Capabilities: what an element offers other elements of its router.
//!
//! RED drops by the length of queues, an ARPQuerier may share another one's table. Neither knows the classes that have
//! these: a class offers a capability in [`Element::capabilities`](crate::Element::capabilities), and the element that wants one asks by type, for an
//! element that its configuration names ([`Init::require`](crate::Init::require)), for the nearest ones along the connections
//! ([`Init::offered_upstream`](crate::Init::offered_upstream)), or for all of the router ([`Router::all_offered`](crate::Router::all_offered)). So a class of any crate can stand
//! where the built-in ones can.
//!
//! A capability is a type, nearly always a trait object: the trait is what the two sides agree on.
//!
//! ```
//! use std::sync::Arc;
//! use millrace_core::{Capability, Class, Element, Failed, Offers, Setup};
//!
//! /// An element with a switch that others may turn.
//! trait Gate: Send + Sync {
//!     fn open(&self, open: bool);
//! }
//!
//! impl Capability for dyn Gate {
//!     const NAME: &'static str = "a gate";
//! }
//! # struct Door;
//! # impl Gate for Door { fn open(&self, _: bool) {} }
//!
//! impl Element for Door {
//!     const CLASS: Class = Class::new("Door", "1/1", "a/a");
//! #   type Local = ();
//! #   fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> { setup.args.complete().map(|()| Self) }
//!
//!     fn capabilities(self: &Arc<Self>, offers: &mut Offers<'_>) {
//!         offers.provide::<dyn Gate>(self.clone());
//!     }
//! }
//! ```
//!
//! Elements ask while they are initialised and keep the answer, so no packet pays for the search. What is offered exists
//! from configuration on: it may be asked for, and called, before the element that offers it is initialised.

use std::any::Any;
use std::sync::Arc;

/// Something that elements offer one another: implemented for a trait object, or for a shared structure.
pub trait Capability: Send + Sync + 'static {
    /// What it is, with its article, for messages: `a gate`.
    const NAME: &'static str;

    /// The message for a user who named an element that does not offer it.
    fn missing(element: &str) -> String {
        format!("‘{element}’ does not offer {}", Self::NAME)
    }
}

/// Where an element puts what it offers. One search looks for one type; everything else is ignored.
pub struct Offers<'a>(&'a mut dyn Any);

impl Offers<'_> {
    /// Offers a capability. `T` must be named: `offers.provide::<dyn Gate>(self.clone())`.
    pub fn provide<T: Capability + ?Sized>(&mut self, capability: Arc<T>) {
        if let Some(wanted) = self.0.downcast_mut() {
            *wanted = Some(capability);
        }
    }

    pub(crate) fn find<T: Capability + ?Sized>(
        ask: impl FnOnce(&mut Offers<'_>),
    ) -> Option<Arc<T>> {
        let mut found: Option<Arc<T>> = None;
        ask(&mut Offers(&mut found));
        found
    }
}
