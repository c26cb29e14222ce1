//! GPU sections apart from their elements: finding them in the graph, planning and running them.
//!
//! The modules from the bottom up; each depends only on those before it:
//!
//! | | |
//! |---|---|
//! | [`layout`] | the elements of a section, and the connections between them |
//! | [`arguments`], [`predicate`] | arguments that several elements have, such as CHK_ANNO |
//! | [`role`] | an element's part in its section, from its arguments |
//! | [`walk`] | graph and roles to layouts, or errors in the graph |
//! | [`runtime`] | the device that all sections of a router share |
//! | [`news`] | when to report that the device has failed, or works again |
//! | [`unit`] | a section that runs: packets in, packets out, and their counts |
//! | [`planning`], [`notes`] | layout and roles to a unit, or errors in the roles |
//! | [`book`] | the roles and units of a router: where its elements find one another |

pub(super) mod arguments;
pub(super) mod book;
mod layout;
mod news;
mod notes;
mod planning;
pub(super) mod predicate;
pub(super) mod role;
pub(super) mod runtime;
pub(super) mod unit;
mod walk;
