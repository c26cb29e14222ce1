//! Control of a running router over sockets: the protocol, the server and a client.

mod client;
pub mod control_socket;
mod protocol;
mod server;

pub use client::{Client, ClientError};
pub use protocol::{Access, GREETING, LONGEST_COMMAND, Session, Target};
pub use server::{Address, Manners, Server};
pub(crate) use server::{SocketFile, bind_tcp, bind_unix, must_have_token};
