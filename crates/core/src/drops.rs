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

            /// The number of reasons.
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
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.name())
    }
}
