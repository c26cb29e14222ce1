//! The addresses that decide whether a source is allowed, and the arguments that give them.

use std::net::Ipv4Addr;

use millrace_core::args::{self, Arg, ArgError, ArgText, Args, Ipv4Network, Scope};
use millrace_core::net::Ipv4Prefix;

/// Sources to refuse, and destinations that packets from anywhere may go to.
pub(super) struct Addresses {
    pub(super) bad_sources: Vec<Ipv4Addr>,
    pub(super) good_destinations: Vec<Ipv4Addr>,
}

impl Addresses {
    /// Reads the keywords.
    pub(super) fn read(args: &mut Args<'_>) -> Self {
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
pub(super) fn read_positional(
    args: &mut Args<'_>,
    offset: &mut u32,
    bad_sources: &mut Vec<Ipv4Addr>,
) {
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
pub(super) fn read_old_bad_sources(
    args: &mut Args<'_>,
    text: &ArgText,
    bad_sources: &mut Vec<Ipv4Addr>,
) {
    if !text.is_empty() {
        bad_sources.extend(args.parse_as::<Vec<Ipv4Addr>>("BADSRC", text).unwrap_or_default());
    }
    bad_sources.extend(NO_SOURCES);
}
