//! Patterns of bytes, and the automaton that finds them in payloads.
