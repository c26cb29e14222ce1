//! How long a packet counts.

use millrace_core::Args;

/// What of a packet's length counts: the arguments IP and EXTRA_LENGTH that several elements have.
#[derive(Clone, Copy, Debug)]
pub(super) struct Length {
    /// Not what stands in front of the IP header.
    ip: bool,
    /// With the bytes that were cut off when the packet was captured.
    extra: bool,
}

impl Length {
    /// Reads the arguments; `ip` is how the element calls the first.
    pub(super) fn configure(args: &mut Args<'_>, ip: &str) -> Self {
        Self { ip: args.keyword(ip, false), extra: args.keyword("EXTRA_LENGTH", true) }
    }

    /// Whether bytes count from the IP header on.
    pub(super) fn is_of_ip(self) -> bool {
        self.ip
    }

    /// Bytes of a packet that has `len` of them, had `extra` more, and whose IP header is at `network`. Wraps round
    /// at 2^32, as the annotation does.
    pub(super) fn of(self, len: usize, extra: u32, network: Option<usize>) -> u32 {
        let extra = if self.extra { extra } else { 0 };
        let link = network.filter(|_| self.ip).unwrap_or(0);
        (len as u32).wrapping_add(extra).wrapping_sub(link as u32)
    }
}
