//! Names, scripts, threads: elements that see no packets.
