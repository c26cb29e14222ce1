//! Batches on their way to a device: packets gathered into the columns of a slot, and back.
