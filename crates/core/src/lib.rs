//! The engine of Millrace: packets, batches, elements, the graph and the threads that run it.
//!
//! Read [`element`] to write an element, [`engine`] to see how packets travel, [`run`] to see
//! how a configuration becomes something that runs. The modules are floors: one uses those that stand before it
//! in this list alone.
//!
//! | | |
//! |---|---|
//! | [`time`], [`clock`], [`net`], [`headers`], [`checksum`], [`topology`], [`Phase`], ... | plain values |
//! | [`memory`], [`stats`], [`moment`] | packets and batches; what is counted; where and when a packet is treated |
//! | [`names`], [`needs`], [`args`], [`services`] | what the words of a configuration mean; what elements need |
//! | [`schedule`] | tasks, timers, and what wakes a thread |
//! | [`observe`] | who watches packets, and where |
//! | [`graph`], [`plan`] | classes, ports, connections; which thread runs what |
//! | [`router`] | a configured router: elements by name, handlers, counts, phase |
//! | [`engine`] | what an element acts through: [`Context`] |
//! | [`element`] | what an element is: [`Element`] |
//! | [`program`] | elements that treat packets one by one, as steps |
//! | [`registry`] | which classes there are |
//! | [`run`] | from a graph to running threads, and to their end |
//! | [`testing`] | a bench for one element |

pub mod args;
pub mod capability;
pub mod checksum;
pub mod clock;
pub mod cycles;
pub mod drops;
pub mod element;
pub mod engine;
pub mod footprint;
pub mod graph;
pub mod headers;
pub mod isa;
pub mod memory;
pub mod moment;
pub mod names;
pub mod needs;
pub mod net;
pub mod observe;
mod os_error;
mod output_file;
mod phase;
pub mod plan;
pub mod program;
pub mod random;
pub mod registry;
pub mod router;
pub mod run;
pub mod schedule;
pub mod services;
pub mod standard_output;
pub mod stats;
pub mod sync;
pub mod testing;
pub mod time;
pub mod topology;

#[doc(hidden)]
pub use linkme;

pub use args::{Arg, Args};
pub use capability::{Capability, Offers};
pub use drops::Reason;
pub use element::{
    Call, Class, Element, Failed, HandlerError, Handlers, Init, Inspection, PerPacket, Refused,
    Setup, Way,
};
pub use engine::{BiasedGuard, BiasedMutex, Context, Identified, Identity, Published};
pub use footprint::Footprint;
pub use memory::{Arena, Batch, Packet, PacketType, View};
pub use moment::{InRound, Moment};
pub use needs::Need;
pub use os_error::{advise_on_refusals, os_error_text, refusal_advice};
pub use output_file::OutputFile;
pub use phase::Phase;
pub use random::Random;
pub use registry::{CLASSES, ClassInfo, Registry};
pub use router::{GlobalHandlers, Router};
pub use run::Engine;
pub use schedule::{Notifier, Task, Timer};
pub use stats::{Count, PerThread};
pub use sync::Lock;
pub use time::Timestamp;
