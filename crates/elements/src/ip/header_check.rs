//! CheckIPHeader and CheckIPHeader2, which differ only in a default: the IP header checks that a router must make (RFC
//! 1812, 5.2.2), and their arguments and handlers.

use std::marker::PhantomData;
use std::net::Ipv4Addr;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};

use millrace_core::args::{self, Arg, ArgError, ArgText, Args, Ipv4Network, Scope};
use millrace_core::headers::{Header, Ipv4Header};
use millrace_core::net::Ipv4Prefix;
use millrace_core::{
    Call, Class, Context, Count, Element, Failed, HandlerError, Handlers, Moment, Packet,
    PerPacket, PerThread, Reason, Setup, View, Way, checksum,
};

/// A configured check.
pub(super) struct HeaderCheck {
    name: String,
    offset: usize,
    checksum: bool,
    /// Addresses in memory order.
    bad_sources: Vec<[u8; 4]>,
    /// A bit for the last octet, modulo 64, of each bad source. Most sources match none of the bits.
    bad_endings: u64,
    good_destinations: Vec<[u8; 4]>,
    verbose: bool,
    details: bool,
    counts: PerThread<Counts>,
    reported: AtomicBool,
    /// The message for a bad packet; if `None`, the message names the fault.
    message: Option<&'static str>,
}

#[derive(Default)]
struct Counts {
    faults: [Count; Fault::ALL.len()],
}

/// The possible faults of a header, in the order of the checks.
#[derive(Clone, Copy)]
enum Fault {
    Tiny,
    Version,
    HeaderLength,
    Length,
    Checksum,
    Source,
}

impl Fault {
    const ALL: [Self; 6] =
        [Self::Tiny, Self::Version, Self::HeaderLength, Self::Length, Self::Checksum, Self::Source];

    /// The fault in Click's wording, which programs that read `drop_details` expect.
    fn text(self) -> &'static str {
        match self {
            Self::Tiny => "tiny packet",
            Self::Version => "bad IP version",
            Self::HeaderLength => "bad IP header length",
            Self::Length => "bad IP length",
            Self::Checksum => "bad IP checksum",
            Self::Source => "bad source address",
        }
    }

    #[inline(always)]
    fn reason(self) -> Reason {
        match self {
            Self::Tiny => Reason::Truncated,
            Self::Version => Reason::BadVersion,
            Self::HeaderLength => Reason::BadHeaderLength,
            Self::Length => Reason::BadLength,
            Self::Checksum => Reason::BadChecksum,
            Self::Source => Reason::BadSource,
        }
    }
}

/// What distinguishes the two elements.
pub trait Kind: Send + Sync + 'static {
    /// Name, port counts and processing.
    const CLASS: Class;
    /// Whether the checksum is verified by default.
    const CHECKSUM: bool;
}

/// The element CheckIPHeader or CheckIPHeader2.
pub struct CheckIp<K: Kind>(HeaderCheck, PhantomData<K>);

impl<K: Kind> Element for CheckIp<K> {
    const CLASS: Class = K::CLASS;
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        Ok(Self(HeaderCheck::configure(setup, K::CHECKSUM)?, PhantomData))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        HeaderCheck::handlers(handlers, |element| &element.0);
    }
}

impl<K: Kind> PerPacket for CheckIp<K> {
    #[inline(always)]
    fn treat(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        self.0.treat(packet)
    }

    fn treat_more(&self, (): &mut (), packet: &mut View, _: &mut Moment) -> Way {
        self.0.treat_carefully(packet)
    }

    fn aside(&self, cx: &mut Context, (): &mut (), packet: Packet, way: Way) -> Option<Packet> {
        self.0.reject(cx, packet, way)
    }
}

/// The checks on packets.
impl HeaderCheck {
    /// Checks and marks a packet if it has the usual form. Other packets need a [careful check](Self::treat_carefully).
    #[inline(always)]
    pub(super) fn treat(&self, packet: &mut View) -> Way {
        let mut destination = [0; 4];
        let usual = packet.enter_ipv4(self.offset, |header| {
            let (words, _) = header.as_chunks();
            let &[.., source, to] = words else { return false };
            destination = to;
            (!self.checksum || checksum::verify_header(header))
                && self.bad_endings & ending(source) == 0
        });
        if !usual {
            return Way::MORE;
        }
        packet.set_dst_ip(destination.into());
        Way::ON
    }

    /// Checks and marks a packet that may have options, a suspicious source, or a fault.
    pub(super) fn treat_carefully(&self, packet: &mut View) -> Way {
        match self.check(packet) {
            Ok(()) => Way::ON,
            Err(fault) => Way::output_or_drop(1, fault.reason()),
        }
    }

    fn check(&self, packet: &mut View) -> Result<(), Fault> {
        let data = packet.data().get(self.offset..).unwrap_or_default();
        let Some((ip, _)) = Ipv4Header::view(data) else { return Err(Fault::Tiny) };
        if ip.version() != 4 {
            return Err(Fault::Version);
        }
        let header_len = ip.header_len();
        if header_len < Ipv4Header::LEN {
            return Err(Fault::HeaderLength);
        }
        let total_len = usize::from(ip.total_len.get());
        if total_len > data.len() || total_len < header_len {
            return Err(Fault::Length);
        }
        if self.checksum && !has_right_checksum(data, header_len) {
            return Err(Fault::Checksum);
        }
        // RFC 1812, 5.3.7 and 4.2.2.11.
        if self.bad_endings & ending(ip.src) != 0
            && self.bad_sources.contains(&ip.src)
            && !self.good_destinations.contains(&ip.dst)
        {
            return Err(Fault::Source);
        }
        let destination = ip.destination();
        packet.truncate(self.offset + total_len);
        packet.set_network_header(self.offset as isize, header_len);
        packet.set_dst_ip(destination);
        Ok(())
    }

    /// Reports and counts a packet that failed the check, then sends it to output 1 or drops it.
    pub(super) fn reject(&self, cx: &mut Context, packet: Packet, way: Way) -> Option<Packet> {
        let fault = Fault::ALL.into_iter().find(|fault| fault.reason() == way.reason());
        let fault = fault.unwrap_or(Fault::Tiny);
        if self.verbose || !self.reported.swap(true, Relaxed) {
            match self.message {
                Some(message) => cx.router().chatter(message),
                None => {
                    let message =
                        format!("{}: IP header check failed: {}", self.name, fault.text());
                    cx.router().chatter(&message);
                }
            }
        }
        if let Some(count) = self.counts.mine(cx).faults.get(fault as usize) {
            count.add(1);
        }
        cx.send_or_drop(packet, way)
    }
}

/// The bit of an address's last octet.
#[inline(always)]
fn ending([_, _, _, last]: [u8; 4]) -> u64 {
    1 << (last % 64)
}

/// Whether the checksum of the header of `header_len` bytes at the start of `data` is correct.
fn has_right_checksum(data: &[u8], header_len: usize) -> bool {
    data.get(..header_len).is_some_and(checksum::verify)
}

/// Arguments and handlers.
impl HeaderCheck {
    /// Reads the arguments; `checksum` is the default of CHECKSUM.
    pub(super) fn configure(setup: &mut Setup<'_>, checksum: bool) -> Result<Self, Failed> {
        let name = setup.name().to_owned();
        let args = &mut setup.args;
        let mut addresses = Addresses::read(args);
        let mut offset: u32 = args.keyword("OFFSET", 0);
        let verbose = args.keyword("VERBOSE", false);
        let details = args.keyword("DETAILS", false);
        let checksum = args.keyword("CHECKSUM", checksum);
        read_positional(args, &mut offset, &mut addresses.bad_sources);
        args.complete()?;
        Ok(Self {
            offset: offset as usize,
            checksum,
            verbose,
            details,
            ..Self::new(name, addresses, None)
        })
    }

    /// Reads the arguments of IPInputCombo that configure the check; no other arguments follow them.
    pub(super) fn configure_combo(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let args = &mut setup.args;
        let mut addresses = Addresses::read(args);
        if let Some(text) = args.rest_positional().first() {
            read_old_bad_sources(args, text, &mut addresses.bad_sources);
        }
        args.complete()?;
        Ok(Self::new(String::new(), addresses, Some("IP checksum failed")))
    }

    fn new(name: String, addresses: Addresses, message: Option<&'static str>) -> Self {
        let Addresses { bad_sources, good_destinations } = addresses;
        Self {
            name,
            offset: 0,
            checksum: true,
            bad_endings: bad_sources.iter().fold(0, |all, bad| all | ending(bad.octets())),
            bad_sources: octets(bad_sources),
            good_destinations: octets(good_destinations),
            verbose: false,
            details: false,
            counts: PerThread::default(),
            reported: AtomicBool::new(false),
            message,
        }
    }

    /// Declares the handlers of class `E`, which holds a check.
    pub(super) fn handlers<E: 'static>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("count", move |element, call| of(element).good(call));
        Self::drops_handler(handlers, of);
        handlers.try_read("drop_details", move |element, call| {
            let check = of(element);
            if !check.details {
                return Err(HandlerError::NoHandler(call.handler().to_owned()));
            }
            let line = |fault: Fault| format!("{}\t{}\n", check.faults(fault), fault.text());
            Ok(Fault::ALL.map(line).concat())
        });
    }

    /// Declares the handler `drops` alone.
    pub(super) fn drops_handler<E: 'static>(handlers: &mut Handlers<E>, of: fn(&E) -> &Self) {
        handlers.read("drops", move |element, _| of(element).bad());
    }

    /// Bad packets.
    fn bad(&self) -> u64 {
        Fault::ALL.map(|fault| self.faults(fault)).iter().sum()
    }

    /// Packets that arrived and were not bad.
    fn good(&self, call: &Call<'_>) -> u64 {
        call.router().stats_of(call.element()).received.saturating_sub(self.bad())
    }

    fn faults(&self, fault: Fault) -> u64 {
        self.counts
            .iter()
            .filter_map(|counts| counts.faults.get(fault as usize))
            .map(Count::get)
            .sum()
    }
}

/// The addresses that decide whether a source is allowed.
struct Addresses {
    bad_sources: Vec<Ipv4Addr>,
    good_destinations: Vec<Ipv4Addr>,
}

impl Addresses {
    /// Reads the keywords.
    fn read(args: &mut Args<'_>) -> Self {
        let interfaces =
            args.with("INTERFACES", args::Kind::Keyword, Networks::EXPECTS, Networks::parse);
        let mut bad_sources: Vec<Ipv4Addr> = args.keyword("BADSRC", Vec::new());
        let mut good_destinations: Vec<Ipv4Addr> = args.keyword("GOODDST", Vec::new());
        if let Some(Networks(interfaces)) = interfaces {
            bad_sources.extend(interfaces.iter().filter_map(|&network| broadcast_of(network)));
            bad_sources.extend(NO_SOURCES);
            good_destinations.extend(interfaces.iter().map(|network| network.address()));
        }
        Self { bad_sources, good_destinations }
    }
}

/// Addresses that no forwarded packet may have as its source (RFC 1122, 3.2.1.3).
const NO_SOURCES: [Ipv4Addr; 2] = [Ipv4Addr::UNSPECIFIED, Ipv4Addr::BROADCAST];

/// Networks separated by spaces, each with the interface's address in it.
struct Networks(Vec<Ipv4Prefix>);

impl Networks {
    const EXPECTS: &'static str = "IP addresses with prefixes, separated by spaces";

    fn parse(text: &ArgText, scope: &Scope<'_>) -> Result<Self, ArgError> {
        text.words().iter().map(|word| network(word, scope)).collect::<Result<_, _>>().map(Self)
    }
}

fn network(word: &ArgText, scope: &Scope<'_>) -> Result<Ipv4Prefix, ArgError> {
    // The name of a device stands for both an address and a network. Here it stands for the network.
    match Ipv4Prefix::parse(word, scope) {
        Ok(prefix) => Ok(prefix),
        Err(_) => Ipv4Network::parse(word, scope).map(|Ipv4Network(host)| host),
    }
}

/// The broadcast address of a network; networks of one or two addresses have none (RFC 3021).
fn broadcast_of(network: Ipv4Prefix) -> Option<Ipv4Addr> {
    (network.length().is_none_or(|length| length < 31)).then(|| network.broadcast())
}

/// Reads the positional arguments: `[OFFSET]`, or `[BADSRC, OFFSET]` in old configurations.
fn read_positional(args: &mut Args<'_>, offset: &mut u32, bad_sources: &mut Vec<Ipv4Addr>) {
    let given = args.rest_positional();
    let (addresses, place) = match given.as_slice() {
        [] => return,
        [only] if u32::parse(only, args.scope()).is_ok() => (None, Some(only)),
        [addresses] => (Some(addresses), None),
        [addresses, place] => (Some(addresses), Some(place)),
        [_, _, extra, ..] => return args.error(extra, "too many arguments"),
    };
    if let Some(addresses) = addresses {
        read_old_bad_sources(args, addresses, bad_sources);
    }
    if let Some(place) = place.filter(|place| !place.is_empty()) {
        *offset = args.parse_as("OFFSET", place).unwrap_or_default();
    }
}

/// Reads bad sources in the syntax of old configurations.
fn read_old_bad_sources(args: &mut Args<'_>, text: &ArgText, bad_sources: &mut Vec<Ipv4Addr>) {
    if !text.is_empty() {
        bad_sources.extend(args.parse_as::<Vec<Ipv4Addr>>("BADSRC", text).unwrap_or_default());
    }
    bad_sources.extend(NO_SOURCES);
}

fn octets(mut addresses: Vec<Ipv4Addr>) -> Vec<[u8; 4]> {
    addresses.sort_unstable();
    addresses.dedup();
    addresses.into_iter().map(|address| address.octets()).collect()
}
