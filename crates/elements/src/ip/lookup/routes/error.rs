//! Why a routing table refused a change.

use std::net::Ipv4Addr;

use super::address::Address;
use super::route::{Hop, Prefix, Route};

/// Why a routing table refused a change. The messages are Click's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error<A: Address = Ipv4Addr> {
    /// The text is not a route.
    #[error("expected ‘ADDR/MASK [GATEWAY{}’", if *.remove { " OUTPUT]" } else { "] OUTPUT" })]
    Syntax {
        /// Whether the command was to remove a route, which needs less text.
        remove: bool,
    },
    /// The element has no such output.
    #[error("bad OUTPUT")]
    Output,
    /// The command is not `add`, `set` or `remove`.
    #[error("bad command ‘{0}’")]
    Command(String),
    /// The network already has a route.
    #[error("conflict with existing route ‘{0}’")]
    Exists(Route<A>),
    /// There is no such route.
    #[error("route ‘{prefix} {}’ not found", missing(.hop))]
    NotFound {
        /// The network.
        prefix: Prefix<A>,
        /// The hop that had to match, if any.
        hop: Option<Hop<A>>,
    },
    /// The mask of a network has one bits after a zero.
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
    /// The message for a configuration argument; arguments are counted from 1.
    pub(crate) fn of_argument(&self, number: usize) -> String {
        match self {
            Error::Syntax { .. } => {
                format!("argument {number} should be ‘ADDR/MASK [GATEWAY] OUTPUT’")
            }
            Error::Output => format!("argument {number} bad OUTPUT"),
            error => format!("argument {number}: {error}"),
        }
    }
}

impl<A: Address> Error<A> {
    /// What to do, in an element with so many outputs; empty if the message says it.
    pub(crate) fn help(&self, outputs: usize) -> String {
        match (self, outputs) {
            (Error::Output, 0 | 1) => {
                "only output 0 is connected: connect the others, as in ‘table[1] -> ...’".to_owned()
            }
            (Error::Output, _) => format!(
                "outputs 0 to {} are connected: connect the others, as in ‘table[{outputs}] -> ...’",
                outputs - 1
            ),
            _ => String::new(),
        }
    }
}

/// How Click prints the hop of a route to remove: -1 stands for an output that was not given.
fn missing<A: Address>(hop: &Option<Hop<A>>) -> String {
    hop.map_or_else(|| "- -1".to_owned(), |hop| hop.to_string())
}
