//! Why a routing table refused a change.

use std::net::Ipv4Addr;

use super::address::Address;
use super::route::{Hop, Prefix, Route};

/// Why a routing table refused a change. The messages are Click's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error<A: Address = Ipv4Addr> {
    /// The text is no route.
    #[error("expected ‘ADDR/MASK [GATEWAY{}’", if *.remove { " OUTPUT]" } else { "] OUTPUT" })]
    Syntax {
        /// Whether a route was to be removed, for which less will do.
        remove: bool,
    },
    /// The element has no such output.
    #[error("bad OUTPUT")]
    Output,
    /// A word that is none of `add`, `set` and `remove`.
    #[error("bad command ‘{0}’")]
    Command(String),
    /// The network has a route already.
    #[error("conflict with existing route ‘{0}’")]
    Exists(Route<A>),
    /// There is no such route.
    #[error("route ‘{prefix} {}’ not found", missing(.hop))]
    NotFound {
        /// The network.
        prefix: Prefix<A>,
        /// The hop, if it was to match.
        hop: Option<Hop<A>>,
    },
    /// The mask of a network has ones after a zero.
    #[error("{0}")]
    Mask(#[from] super::route::NotAPrefix),
    /// There are too many different next hops.
    #[error("too many different next hops")]
    Full,
    /// There is not enough memory.
    #[error("no memory to store the routes")]
    NoMemory,
}

impl<A: Address> Error<A> {
    /// The message for an argument of a configuration, counted from 1.
    pub(super) fn of_argument(&self, number: usize) -> String {
        match self {
            Error::Syntax { .. } => {
                format!("argument {number} should be ‘ADDR/MASK [GATEWAY] OUTPUT’")
            }
            Error::Output => format!("argument {number} bad OUTPUT"),
            error => format!("argument {number}: {error}"),
        }
    }
}

/// How Click prints the hop of a route to remove: an output that was not given is -1.
fn missing<A: Address>(hop: &Option<Hop<A>>) -> String {
    hop.map_or_else(|| "- -1".to_owned(), |hop| hop.to_string())
}
