//! Code shared by CheckTCPHeader, CheckUDPHeader and CheckICMPHeader: arguments, counts, handlers, and the
//! rejection of bad packets.

use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::headers::Ipv4Header;
use millrace_core::{
    Batch, Context, Count, Failed, HandlerError, Handlers, Packet, PerThread, Reason, Setup,
};

use crate::ip::network_header;

/// A configured check.
pub(crate) struct TransportCheck {
    kind: &'static Kind,
    /// The prefix of messages.
    speaker: String,
    checksum: bool,
    verbose: bool,
    details: bool,
    counts: PerThread<Counts>,
    reported: AtomicBool,
}

/// What differs between protocols.
pub(crate) struct Kind {
    pub(crate) class: &'static str,
    pub(crate) protocol: u8,
    /// The name of the protocol.
    pub(crate) name: &'static str,
    /// Whether messages begin with the element's name.
    pub(crate) says_who: bool,
    /// Whether there is an argument CHECKSUM.
    pub(crate) has_checksum_argument: bool,
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

impl TransportCheck {
    pub(crate) fn configure(setup: &mut Setup<'_>, kind: &'static Kind) -> Result<Self, Failed> {
        let speaker = match kind.says_who {
            true => format!("{} :: {}: ", setup.name(), kind.class),
            false => String::new(),
        };
        let args = &mut setup.args;
        let verbose = args.keyword("VERBOSE", false);
        let details = args.keyword("DETAILS", false);
        let checksum = !kind.has_checksum_argument || args.keyword("CHECKSUM", true);
        args.complete()?;
        let (counts, reported) = (PerThread::default(), AtomicBool::new(false));
        Ok(Self { kind, speaker, checksum, verbose, details, counts, reported })
    }

    /// Leaves in `batch` the packets of the protocol that `check` accepts. Its arguments are the IP header, the
    /// packet, and whether to verify the checksum.
    #[inline]
    pub(crate) fn process(
        &self,
        cx: &mut Context,
        batch: &mut Batch,
        check: impl Fn(&Ipv4Header, &Packet, bool) -> Result<(), Fault>,
    ) {
        batch.map_filter(|packet| {
            let checked = match network_header(&packet) {
                Some(ip) if ip.protocol == self.kind.protocol => check(ip, &packet, self.checksum),
                _ => Err(Fault::Protocol),
            };
            match checked {
                Ok(()) => Some(packet),
                Err(fault) => self.reject(cx, packet, fault),
            }
        });
        self.counts.mine(cx).good.add(batch.len() as u64);
    }

    #[cold]
    fn reject(&self, cx: &mut Context, packet: Packet, fault: Fault) -> Option<Packet> {
        if self.verbose || !self.reported.swap(true, Relaxed) {
            let name = self.kind.name;
            let (speaker, text) = (&self.speaker, fault.text(name));
            cx.router().chatter(&format!("{speaker}{name} header check failed: {text}"));
        }
        if let Some(count) = self.counts.mine(cx).faults.get(fault as usize) {
            count.add(1);
        }
        cx.push_or_drop(1, packet, fault.reason());
        None
    }

    /// Declares the handlers of class `E`, which holds a check.
    pub(crate) fn handlers<E: 'static>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("count", move |element, _| of(element).good());
        handlers.read("drops", move |element, _| {
            Fault::ALL.iter().map(|&fault| of(element).faults(fault)).sum::<u64>()
        });
        handlers.try_read("drop_details", move |element, call| {
            let check = of(element);
            if !check.details {
                return Err(HandlerError::NoHandler(call.handler().to_owned()));
            }
            let name = check.kind.name;
            let line = |fault: Fault| format!("{}\t{}\n", check.faults(fault), fault.text(name));
            Ok(Fault::ALL.map(line).concat())
        });
    }

    fn good(&self) -> u64 {
        self.counts.iter().map(|counts| counts.good.get()).sum()
    }

    fn faults(&self, fault: Fault) -> u64 {
        let counts = self.counts.iter().filter_map(|counts| counts.faults.get(fault as usize));
        counts.map(Count::get).sum()
    }
}

/// The methods of an element whose field is a [`TransportCheck`], by its [`Kind`] and the function that checks a packet.
macro_rules! methods {
    ($kind:expr, $check:expr) => {
        fn configure(
            setup: &mut ::millrace_core::Setup<'_>,
        ) -> Result<Self, ::millrace_core::Failed> {
            TransportCheck::configure(setup, $kind).map(Self)
        }

        fn process(
            &self,
            cx: &mut ::millrace_core::Context,
            (): &mut (),
            batch: &mut ::millrace_core::Batch,
        ) {
            self.0.process(cx, batch, $check);
        }

        fn handlers(handlers: &mut ::millrace_core::Handlers<Self>) {
            TransportCheck::handlers(handlers, |element| &element.0);
        }
    };
}

pub(crate) use methods;
