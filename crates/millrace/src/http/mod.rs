//! `--http`: the model and the handlers of a running router over HTTP, on a thread of their own.
//!
//! The thread runs an event loop for all connections; what asks the router runs on a few threads beside it, because a handler
//! may take a while. Whoever is slow, asks for too much or sends nonsense is answered with an error, or closed: connections,
//! headers, bodies, answers that are not read and the time of a request have limits ([`limits`]). Who may do what, [`guard`]
//! decides.

mod answer;
mod console;
mod events;
mod guard;
mod limits;
mod metrics;
mod routes;
mod server;
mod site;

pub(crate) use server::{Server, address};
