//! GPU sections of a graph: devices, plans, batches with slices and predicates.
//!
//! The part of a configuration between `Batcher` and `Debatcher` is a **section** (Sun and Ricci, "Fast and Flexible:
//! Parallel Packet Processing with GPUs and Click", ANCS'13). Its elements are [`Stage`]s. At initialisation they are
//! compiled to a [`Plan`](plan::Plan), a list of copies and kernel launches. A batch of up to some thousand packets
//! runs through the whole plan with one submission to a [`Device`].
//!
//! A batch is processed in these steps:
//!
//! 1. A thread's [lane](section) collects packets. When the batch ends, the bytes that the stages need ([`region`])
//!    are **gathered** into the columns of a slot ([`batch`]).
//! 2. The slot is **submitted**. The thread continues with other work, and polls.
//! 3. When this batch and all batches before it are done, the results are **delivered** to the packets, in order.
//! 4. If the device fails or hangs, the stages' CPU twins process the packets of every batch in flight instead.
//!    Packets belong to their lane until their batch is done, so none is lost.

pub mod batch;
pub mod cuda;
pub mod device;
pub mod host;
pub mod kernel;
pub mod plan;
pub mod region;
pub mod section;
mod stage;
pub mod table;

pub use device::{Caps, Device, DeviceError, DeviceLane, Poll, SlotId, Table, Ticket};
pub use stage::{Results, Rows, Snapshot, Stage, StageSpec, StageTable};
