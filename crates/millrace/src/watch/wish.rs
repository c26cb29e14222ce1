//! What clients and a running router tell each other about captures.

use millrace_io::bpf::Instruction;
use serde::{Deserialize, Serialize};

/// What to capture.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct Wish {
    /// Who knows it reads the capture.
    pub(crate) key: String,
    /// Ports: `ELEMENT`, `ELEMENT[OUTPUT]`, `[INPUT]ELEMENT`.
    pub(crate) places: Vec<String>,
    /// Devices: what comes from them and what goes to them.
    pub(crate) devices: Vec<String>,
    /// All connections.
    pub(crate) all: bool,
    /// Dropped packets.
    pub(crate) drops: bool,
    /// A pattern in IPFilter's language that packets match; empty for all.
    pub(crate) filter: String,
    /// The same as a program for packets with an Ethernet header, and one for IP packets.
    pub(crate) program: Option<[Vec<Instruction>; 2]>,
    /// The most bytes of each packet; 0 for all.
    pub(crate) snap_len: u32,
    /// Whether packets begin with the link-layer header that was stripped from them, if it is still there.
    pub(crate) link_headers: bool,
    /// Bytes of memory on each thread for packets on their way to the reader; 0 for the usual.
    pub(crate) ring: usize,
}

/// What a capture has counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Stopped {
    /// Packets that matched.
    pub(crate) matched: u64,
    /// Those of them that are not in the file, because the reader was too slow.
    pub(crate) missed: u64,
    /// Drops that it only counted, because the element had freed the packets.
    pub(crate) unseen: u64,
}
