//! Which bytes of a packet count.

use millrace_core::Args;

/// Which bytes of a packet's length count: the arguments IP and EXTRA_LENGTH of several elements.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    /// Whether to leave out what precedes the IP header.
    ip: bool,
    /// Whether to include the bytes that the capture cut off.
    extra: bool,
}

impl Length {
    /// Reads the arguments; `ip` is the element's name for the first.
    pub(super) fn configure(args: &mut Args<'_>, ip: &str) -> Self {
        Self { ip: args.keyword(ip, false), extra: args.keyword("EXTRA_LENGTH", true) }
    }

    /// Whether bytes count from the start of the IP header.
    pub(super) fn is_of_ip(self) -> bool {
        self.ip
    }

    /// The bytes counted for a packet that has `len` bytes, had `extra` more, and whose IP header is at `network`.
    /// Wraps around at 2^32, as the annotation does.
    pub(super) fn of(self, len: usize, extra: u32, network: Option<usize>) -> u32 {
        let extra = if self.extra { extra } else { 0 };
        let link = network.filter(|_| self.ip).unwrap_or(0);
        (len as u32).wrapping_add(extra).wrapping_sub(link as u32)
    }
}
