//! The engine: threads that push and pull batches through the graph.
//!
//! The way of a packet: a task ([`Element::run_task`](crate::Element::run_task)) makes or receives a batch
//! and passes it to an output ([`Context::push_batch`]). The batch waits in the frame of the input that the
//! output leads to. When the task returns, the thread runs the inputs that have packets, upstream ones first,
//! until none has any. So an input that several paths reach runs once, on the packets that all of them left
//! for it. There are no recursive calls on the push side; a pull ([`Context::pull`]) calls upstream
//! immediately.
//!
//! A router that stops in an orderly way ([`Phase::Draining`](crate::Phase::Draining)) ends its round on every
//! thread, and runs no more tasks and timers. Then elements finish their packets in flight
//! ([`Element::drain`](crate::Element::drain)), which continue through the graph as usual. After that each
//! element is cleaned up.
//!
//! Elements that process packets one by one ([`PerPacket`](crate::PerPacket)) need no frames between them.
//! The part of the graph that consists of them is a program with one step per element (`engine/program`).
//! Packets that enter it go from step to step, across branches and joins, until they leave for an element
//! that processes batches.

mod biased;
mod context;
mod dispatch;
mod node;
mod published;
mod round;
mod taps;

pub use biased::{BiasedGuard, BiasedMutex, Identified, Identity};
pub use context::Context;
pub(crate) use context::Parts;
pub(crate) use node::{Node, Nodes};
pub use published::Published;
pub(crate) use taps::Taps;
