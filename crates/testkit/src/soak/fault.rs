//! What is done to a router and its surroundings.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A kind of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Fault {
    /// The configuration is replaced, every second.
    Swap,
    /// An interface is deleted and made again.
    Recreate,
    /// An interface gets another name, and its old one back.
    Rename,
    /// An interface accepts longer packets for a while.
    Mtu,
    /// An interface is down for a while.
    Down,
    /// Another program takes an interface's packets by XDP for a while.
    Taken,
    /// The router's control group gets no more memory for a while.
    Memory,
    /// The router is stopped for up to half a second (SIGSTOP, SIGCONT).
    Stop,
    /// The router's clock (`CLOCK_REALTIME`) is stepped forth or back.
    Clock,
    /// The file system that the router writes packets to is full for a while.
    Disk,
    /// The router is killed (SIGKILL), and started again.
    Kill,
    /// The router is told to end (SIGTERM), and started again.
    Term,
}

impl Fault {
    /// All of them.
    pub const ALL: [Self; 12] = [
        Self::Swap,
        Self::Recreate,
        Self::Rename,
        Self::Mtu,
        Self::Down,
        Self::Taken,
        Self::Memory,
        Self::Stop,
        Self::Clock,
        Self::Disk,
        Self::Kill,
        Self::Term,
    ];

    /// Its name.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Swap => "swap",
            Self::Recreate => "recreate",
            Self::Rename => "rename",
            Self::Mtu => "mtu",
            Self::Down => "down",
            Self::Taken => "taken",
            Self::Memory => "memory",
            Self::Stop => "stop",
            Self::Clock => "clock",
            Self::Disk => "disk",
            Self::Kill => "kill",
            Self::Term => "term",
        }
    }

    /// Whether packets may be lost while it lasts.
    pub(super) fn loses(self) -> bool {
        match self {
            Self::Recreate | Self::Down | Self::Taken | Self::Kill | Self::Term => true,
            // Packet rings last for 64 ms at least, and not for long with few packets.
            Self::Memory | Self::Stop => true,
            Self::Swap | Self::Rename | Self::Mtu | Self::Clock | Self::Disk => false,
        }
    }

    /// How long it may be felt after it has ended: interfaces are looked for every second, and an address that
    /// could not be resolved is asked for again after a second.
    pub(super) fn recovery(self) -> Duration {
        match self {
            Self::Recreate | Self::Down | Self::Taken => Duration::from_secs(4),
            Self::Kill | Self::Term | Self::Memory => Duration::from_secs(3),
            Self::Stop => Duration::from_millis(100),
            _ => Duration::from_millis(500),
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(name: &str) -> Result<Self, String> {
        let found = Self::ALL.into_iter().find(|fault| fault.name() == name);
        found.ok_or_else(|| {
            let names = Self::ALL.map(Self::name).join(", ");
            format!("expected one of {names}")
        })
    }
}
