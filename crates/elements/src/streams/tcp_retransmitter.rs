//! TCPRetransmitter - joins segments that are sent again with their stream
//!
//! # Synopsis
//! `TCPRetransmitter([keywords PROXY, VERBOSE])`
//!
//! # Description
//! Forwards packets from both inputs. In FastClick's files, output 1 of TCPIn leads to input 1, which gets segments whose
//! bytes have passed before, and the element answers them from packets that it keeps. Here TCPOut keeps the bytes and
//! answers, so this element only brings the segments there.
//!
//! # Arguments
//! - PROXY, VERBOSE: accepted without effect: TCPOut answers retransmissions.
//!
//! # Ports
//! One or two push inputs, one push output.
//!
//! # Handlers
//! None of its own.
//!
//! # Drops
//! None.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true) -> m1 :: CTXManager -> up :: TCPIn(down, OUTNAME out)
//!     -> r :: TCPRetransmitter -> out :: TCPOut -> Discard;
//! up [1] -> [1] r;
//! FromDump(trace.pcap, FORCE_IP true) -> m2 :: CTXManager -> down :: TCPIn(up) -> TCPOut -> Discard;
//! ```
//!
//! # See also
//! TCPIn, TCPOut

use millrace_core::args::Kind;
use millrace_core::{Class, Element, Failed, Moment, PerPacket, Setup, View, Way, register};

/// The element; its manual is at the top of the file.
pub struct TcpRetransmitter;

register!(TcpRetransmitter, "tcp_retransmitter.rs");

impl Element for TcpRetransmitter {
    const CLASS: Class =
        Class::new("TCPRetransmitter", "1-2/1", "h/h").aliases(&["SimpleTCPRetransmitter"]);
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        for name in ["PROXY", "VERBOSE"] {
            setup.args.ignored::<Vec<u8>>(name, Kind::Keyword, "TCPOut answers retransmissions");
        }
        setup.args.complete()?;
        Ok(Self)
    }
}

impl PerPacket for TcpRetransmitter {
    #[inline(always)]
    fn treat(&self, (): &mut (), _: &mut View, _: &mut Moment) -> Way {
        Way::ON
    }
}
