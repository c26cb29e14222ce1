//! GPU sections beside their elements: what is found in the graph, planned, and run.
//!
//! From the ground up, each knowing only what stands before it:
//!
//! | | |
//! |---|---|
//! | [`layout`] | which elements a section has, and the ways between them |
//! | [`arguments`], [`predicate`] | what several elements are told, such as CHK_ANNO |
//! | [`role`] | what an element says of itself when it is configured |
//! | [`walk`] | graph and roles to layouts, or what is wrong with the graph |
//! | [`runtime`] | the device that all sections of a router share |
//! | [`news`] | when people are told that the device has failed, or works again |
//! | [`unit`] | a section that runs: packets in, packets out, and who counts them |
//! | [`planning`], [`notes`] | layout and roles to a unit, or what is wrong with the roles |
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
