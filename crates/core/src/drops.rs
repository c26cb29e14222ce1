//! Why a packet was dropped.
//!
//! The reasons are a list, so that counting one is an addition to a number of the thread. A crate of elements may add
//! its own:
//!
//! ```
//! use millrace_core::drops::Reason;
//!
//! millrace_core::drop_reason! {
//!     /// The subscriber has used up the month's volume.
//!     pub VOLUME_USED = "volume used"
//! }
//!
//! let reason: Reason = VOLUME_USED.reason();
//! assert_eq!(reason.name(), "volume used");
//! ```

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use linkme::distributed_slice;

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal,)+ own: $($own:ident)+) => {
        /// Why a packet was dropped, counted per element and thread.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
            $(#[doc(hidden)] $own,)+
        }

        impl Reason {
            /// The reasons that every program has, in the order of their discriminants.
            pub const BUILT_IN: &[Reason] = &[$(Reason::$name,)+];

            /// These, and the places for those that crates add.
            pub const ALL: &[Reason] = &[$(Reason::$name,)+ $(Reason::$own,)+];

            /// The number of reasons.
            pub const COUNT: usize = Self::ALL.len();

            /// The reason as reports print it.
            pub fn name(self) -> &'static str {
                match self {
                    $(Reason::$name => $word,)+
                    own => {
                        let at = (own as usize).checked_sub(Self::BUILT_IN.len());
                        let found = at.and_then(|at| OWN_REASONS.get(at));
                        found.map_or("not registered", |own| own.name)
                    }
                }
            }
        }
    };
}

/// The reasons that crates have added with [`drop_reason!`](crate::drop_reason).
#[distributed_slice]
pub static OWN_REASONS: [OwnReason];

/// A reason that a crate adds with [`drop_reason!`](crate::drop_reason).
#[derive(Debug)]
pub struct OwnReason {
    name: &'static str,
    /// Its place in [`Reason::ALL`]; 0 until it is looked up.
    place: AtomicUsize,
}

impl OwnReason {
    #[doc(hidden)]
    pub const fn new(name: &'static str) -> Self {
        Self { name, place: AtomicUsize::new(0) }
    }

    /// The reason, to drop packets for. A program has room for sixteen such reasons; packets dropped for any further one
    /// count as discarded.
    #[inline]
    pub fn reason(&'static self) -> Reason {
        match self.place.load(Relaxed) {
            0 => self.look_up(),
            place => Reason::ALL.get(place).copied().unwrap_or(Reason::Discarded),
        }
    }

    #[cold]
    fn look_up(&'static self) -> Reason {
        let at = OWN_REASONS.iter().position(|own| std::ptr::eq(own, self));
        let place = at.map_or(usize::MAX, |at| Reason::BUILT_IN.len() + at);
        self.place.store(place, Relaxed);
        Reason::ALL.get(place).copied().unwrap_or(Reason::Discarded)
    }
}

/// Adds a reason to drop packets for, under the name that reports print:
/// `drop_reason! { /// Why. pub NAME = "name in reports" }`. `NAME.reason()` is the [`Reason`](crate::Reason).
#[macro_export]
macro_rules! drop_reason {
    ($(#[doc = $doc:literal])+ $vis:vis $name:ident = $word:literal) => {
        $(#[doc = $doc])+
        #[$crate::linkme::distributed_slice($crate::drops::OWN_REASONS)]
        #[linkme(crate = $crate::linkme)]
        $vis static $name: $crate::drops::OwnReason = $crate::drops::OwnReason::new($word);
    };
}

reasons! {
    /// The configuration drops the packet: Discard, Idle, a filter's deny, an unused output.
    Discarded = "discarded",
    /// A pattern or rule rejected it.
    Filtered = "filtered",
    /// No pattern or rule matched it.
    NoMatch = "no match",
    /// It is shorter than a header in it needs.
    Truncated = "truncated",
    /// A version field does not fit the element.
    BadVersion = "bad version",
    /// A header length field is wrong.
    BadHeaderLength = "bad header length",
    /// A length field exceeds the packet.
    BadLength = "bad length",
    /// A checksum is wrong.
    BadChecksum = "bad checksum",
    /// Its source address is not valid as a source.
    BadSource = "bad source address",
    /// A field or option that the protocol forbids.
    BadProtocol = "bad protocol field",
    /// An IP option is malformed.
    BadOption = "bad option",
    /// It is a fragment, and the element needs a whole datagram.
    Fragment = "fragment",
    /// Its time to live expired.
    TtlExpired = "ttl expired",
    /// No route to the destination.
    NoRoute = "no route",
    /// It is larger than the MTU and must not be fragmented.
    TooBig = "too big",
    /// A queue was full.
    QueueFull = "queue full",
    /// The device accepted no more packets.
    TransmitFull = "transmit full",
    /// The device reported an error.
    DeviceError = "device error",
    /// The packet's next hop has not answered.
    Unresolved = "unresolved address",
    /// It was meant for another host.
    OtherHost = "other host",
    /// It answers no request.
    Unexpected = "unexpected",
    /// It exceeded a rate or another limit.
    Limited = "limited",
    /// The arena has no free packet.
    NoBuffer = "no buffer",
    /// It lacks a header or annotation that the element needs.
    NoHeader = "header not set",
    /// A reply must not be sent to such a packet (RFC 1812, 4.3.2.7).
    NoReply = "no reply due",
    /// A table is full.
    TableFull = "table full",
    /// It is older than is useful.
    Expired = "expired",
    /// Its authentication tag is wrong.
    NotAuthentic = "not authentic",
    /// It was received before.
    Replayed = "replayed",
    /// The output port is not connected.
    Unconnected = "port not connected",
    /// The program stopped while the packet was in the graph.
    Stopped = "stopped",
    /// An element neither forwarded nor dropped it: a bug in the element.
    Unclaimed = "unclaimed",
    own: Own0 Own1 Own2 Own3 Own4 Own5 Own6 Own7 Own8 Own9 Own10 Own11 Own12 Own13 Own14 Own15
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
