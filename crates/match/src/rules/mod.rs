//! Rules over seven fields of a packet, and the classifier that finds the first one that holds.
