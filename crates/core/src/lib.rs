//! The engine of Millrace: packets, batches, elements, the graph and the threads that run it.
//!
//! Read [`element`] to write an element, [`engine`] to see how packets travel, and [`router`] to see how a
//! configuration becomes a running router.

pub mod args;
pub mod checksum;
pub mod clock;
pub mod cycles;
pub mod drops;
pub mod element;
pub mod engine;
pub mod headers;
pub mod isa;
pub mod memory;
pub mod names;
pub mod net;
mod os_error;
pub mod router;
pub mod services;
pub mod stats;
mod sync;
pub mod testing;
pub mod time;
pub mod topology;

#[doc(hidden)]
pub use linkme;

pub use args::{Arg, Args};
pub use drops::Reason;
pub use element::{
    CLASSES, Call, Class, ClassInfo, Element, Failed, HandlerError, Handlers, Init, Inspection,
    PerPacket, Refused, Registry, Setup, Way,
};
pub use engine::{
    BiasedGuard, BiasedMutex, Context, Engine, Identity, Moment, Notifier, Published, Task, Timer,
};
pub use memory::{Arena, Batch, Packet, PacketType, View};
pub use os_error::os_error_text;
pub use router::Router;
pub use stats::{Count, PerThread};
pub use sync::Lock;
pub use time::Timestamp;
