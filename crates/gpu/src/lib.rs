//! GPU sections of a graph: devices, plans, batches with slices and predicates.
