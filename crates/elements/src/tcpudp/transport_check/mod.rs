//! Code shared by CheckTCPHeader, CheckUDPHeader and CheckICMPHeader: arguments, counts, handlers, and the
//! rejection of bad packets.

use std::marker::PhantomData;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::headers::Ipv4Header;
use millrace_core::{
    Batch, Class, Context, Count, Element, Failed, HandlerError, Handlers, Packet, PerThread,
    Reason, Setup,
};

use crate::ip::network_header;

/// A class of elements that check the headers of a protocol.
pub(crate) trait CheckClass: Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;
    /// The protocol.
    const PROTOCOL: u8;
    /// The name of the protocol.
    const NAME: &'static str;
    /// Whether messages begin with the element's name.
    const SAYS_WHO: bool = true;
    /// Whether there is an argument CHECKSUM.
    const HAS_CHECKSUM_ARGUMENT: bool = true;

    /// Checks a packet of the protocol, and its checksum if `checksum`.
    ///
    /// # Errors
    /// What is wrong with it.
    fn check(ip: &Ipv4Header, packet: &Packet, checksum: bool) -> Result<(), Fault>;
}

/// An element of such a class.
pub(crate) struct TransportCheck<C> {
    class: PhantomData<C>,
    /// The prefix of messages.
    speaker: String,
    checksum: bool,
    verbose: bool,
    details: bool,
    counts: PerThread<Counts>,
    reported: AtomicBool,
}

#[derive(Default)]
struct Counts {
    good: Count,
    faults: [Count; Fault::ALL.len()],
}

/// What may be wrong, in the order of the checks.
#[derive(Clone, Copy)]
pub(crate) enum Fault {
    Protocol,
    Length,
    Checksum,
}

impl Fault {
    const ALL: [Self; 3] = [Self::Protocol, Self::Length, Self::Checksum];

    /// Click's text for the fault, which programs that read `drop_details` expect.
    fn text(self, protocol: &str) -> String {
        match self {
            Self::Protocol => format!("not {protocol}"),
            Self::Length => "bad packet length".into(),
            Self::Checksum => format!("bad {protocol} checksum"),
        }
    }

    fn reason(self) -> Reason {
        match self {
            Self::Protocol => Reason::BadProtocol,
            Self::Length => Reason::BadLength,
            Self::Checksum => Reason::BadChecksum,
        }
    }
}

impl<C: CheckClass> Element for TransportCheck<C> {
    const CLASS: Class = C::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let speaker = match C::SAYS_WHO {
            true => format!("{} :: {}: ", setup.name(), C::CLASS.name),
            false => String::new(),
        };
        let args = &mut setup.args;
        let verbose = args.keyword("VERBOSE", false);
        let details = args.keyword("DETAILS", false);
        let checksum = !C::HAS_CHECKSUM_ARGUMENT || args.keyword("CHECKSUM", true);
        args.complete()?;
        let (counts, reported) = (PerThread::default(), AtomicBool::new(false));
        Ok(Self { class: PhantomData, speaker, checksum, verbose, details, counts, reported })
    }

    fn process(&self, cx: &mut Context, (): &mut (), batch: &mut Batch) {
        batch.map_filter(|packet| {
            let checked = match network_header(&packet) {
                Some(ip) if ip.protocol == C::PROTOCOL => C::check(ip, &packet, self.checksum),
                _ => Err(Fault::Protocol),
            };
            match checked {
                Ok(()) => Some(packet),
                Err(fault) => self.reject(cx, packet, fault),
            }
        });
        self.counts.mine(cx).good.add(batch.len() as u64);
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.read("count", |check, _| check.good());
        handlers.read("drops", |check, _| {
            Fault::ALL.iter().map(|&fault| check.faults(fault)).sum::<u64>()
        });
        handlers.try_read("drop_details", |check, call| {
            if !check.details {
                return Err(HandlerError::NoHandler(call.handler().to_owned()));
            }
            let line = |fault: Fault| format!("{}\t{}\n", check.faults(fault), fault.text(C::NAME));
            Ok(Fault::ALL.map(line).concat())
        });
    }
}

impl<C: CheckClass> TransportCheck<C> {
    #[cold]
    fn reject(&self, cx: &mut Context, packet: Packet, fault: Fault) -> Option<Packet> {
        if self.verbose || !self.reported.swap(true, Relaxed) {
            let (speaker, name, text) = (&self.speaker, C::NAME, fault.text(C::NAME));
            cx.router().chatter(&format!("{speaker}{name} header check failed: {text}"));
        }
        if let Some(count) = self.counts.mine(cx).faults.get(fault as usize) {
            count.add(1);
        }
        cx.push_or_drop(1, packet, fault.reason());
        None
    }

    fn good(&self) -> u64 {
        self.counts.iter().map(|counts| counts.good.get()).sum()
    }

    fn faults(&self, fault: Fault) -> u64 {
        let counts = self.counts.iter().filter_map(|counts| counts.faults.get(fault as usize));
        counts.map(Count::get).sum()
    }
}
