//! Why a packet was dropped.

macro_rules! reasons {
    ($($(#[doc = $doc:literal])+ $name:ident = $word:literal,)+) => {
        /// Why a packet was dropped: a fixed list, counted per element and thread.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(u8)]
        pub enum Reason {
            $($(#[doc = $doc])+ $name,)+
        }

        impl Reason {
            /// Every reason, in the order of their discriminants.
            pub const ALL: &[Reason] = &[$(Reason::$name,)+];

            /// How many reasons there are.
            pub const COUNT: usize = Self::ALL.len();

            /// The reason as reports print it.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Reason::$name => $word,)+
                }
            }
        }
    };
}

reasons! {
    /// The configuration throws the packet away: Discard, Idle, a filter's deny, an unused output.
    Discarded = "discarded",
    /// A pattern or rule refused it.
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
    /// A source address that must not be one.
    BadSource = "bad source address",
    /// A field or option that the protocol forbids.
    BadProtocol = "bad protocol field",
    /// An IP option is malformed.
    BadOption = "bad option",
    /// It is a fragment, where only a whole datagram will do.
    Fragment = "fragment",
    /// The time to live ran out.
    TtlExpired = "ttl expired",
    /// No route to the destination.
    NoRoute = "no route",
    /// It is too big for the way and must not be fragmented.
    TooBig = "too big",
    /// A queue was full.
    QueueFull = "queue full",
    /// The device took no more.
    TransmitFull = "transmit full",
    /// The device reported an error.
    DeviceError = "device error",
    /// The packet's next hop has not answered.
    Unresolved = "unresolved address",
    /// It was meant for another host.
    OtherHost = "other host",
    /// It answers nothing that was asked.
    Unexpected = "unexpected",
    /// A rate or other limit.
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
    /// It was seen before, and is not taken twice.
    Replayed = "replayed",
    /// The output port is not connected.
    Unconnected = "port not connected",
    /// The program stopped while the packet was on its way.
    Stopped = "stopped",
    /// An element let go of it without a word.
    Unclaimed = "unclaimed",
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
