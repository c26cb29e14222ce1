//! The engine: threads that push and pull batches through the graph.
//!
//! One packet's way: a task ([`Element::run_task`](crate::Element::run_task)) makes or receives a
//! batch and gives it to an output ([`Context::push_batch`]). The batch waits in the frame of the
//! input that the output leads to. When the task returns, the thread runs the inputs that have
//! packets, upstream ones first, until none has: so an input that several paths reach runs once,
//! on what all of them left for it. Nothing is called recursively on the push side; a pull
//! ([`Context::pull`]) calls upstream at once.
//!
//! A router that stops in good order ([`Phase::Draining`](crate::Phase::Draining)) ends its round on every thread and runs no
//! task and no timer any more. Then elements finish the packets that they have under way
//! ([`Element::drain`](crate::Element::drain)), which go on through the graph as ever, and after that each is cleaned up.
//!
//! Elements that treat packets one by one ([`PerPacket`](crate::PerPacket)) need no frames between them: the part of
//! the graph that they make up is a program of one step an element (`engine/program`), and the packets that enter it go
//! from step to step, over branches and joins, until they leave for an element that treats batches.

mod biased;
mod context;
mod dispatch;
mod node;
mod published;
mod round;

pub use biased::{BiasedGuard, BiasedMutex, Identified, Identity};
pub use context::Context;
pub(crate) use context::Parts;
pub(crate) use node::{Node, Nodes};
pub use published::Published;
