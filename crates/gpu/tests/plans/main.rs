//! Plans as a whole: from packets to columns, through stages, and back.

mod devices;
mod graphs;
mod packets;
mod regions;
mod stages;
