//! Which devices a configuration has, and which networks they are on.

use std::net::Ipv4Addr;

use millrace_core::Args;
use millrace_core::args::address_info;
use millrace_core::args::{Ipv4Network, Scope, parse};
use millrace_core::names::NameTable;
use millrace_core::net::Ipv4Prefix;
use millrace_elements::devices::interface::netmap;
use millrace_lang::Graph;
use millrace_lang::config::{keyword, shift_word, split_args, unquote};

/// A device of the configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Device {
    pub(super) name: String,
    /// The router's address on it and the network, when the configuration says so.
    pub(super) router: Option<Ipv4Prefix>,
}

/// Classes of elements that stand for devices; the first argument is the device.
const DEVICE_CLASSES: &[&str] = &[
    "FromDevice",
    "ToDevice",
    "PollDevice",
    "FromXDPDevice",
    "ToXDPDevice",
    "XDPFromDevice",
    "XDPToDevice",
    "FromDPDKDevice",
    "ToDPDKDevice",
    "FromDPDKRing",
    "ToDPDKRing",
    "FromNetmapDevice",
    "ToNetmapDevice",
];

/// The devices that elements of the configuration name, in order. Their addresses are those that
/// AddressInfo gives to a name which is the device's; of a lone device without any, the one that
/// an ARP element answers for.
pub(super) fn of(graph: &Graph) -> Vec<Device> {
    let names = names(graph);
    let mut devices = named_devices(graph, &names);
    if let [Device { router: router @ None, .. }] = devices.as_mut_slice() {
        *router = arp_address(graph, &names);
    }
    devices
}

/// Whether the configuration has an element that looks for attacks.
pub(super) fn looks_for_attacks(graph: &Graph) -> bool {
    let matchers = ["IDSMatcher", "GPUIDSMatcher"];
    graph.elements.iter().any(|element| matchers.contains(&element.class.as_str()))
}

/// The address, with its network, of the first ARP element that has one.
fn arp_address(graph: &Graph, names: &NameTable) -> Option<Ipv4Prefix> {
    let arp = |class: &str| class == "ARPResponder" || class == "ARPQuerier";
    graph.elements.iter().filter(|element| arp(&element.class)).find_map(|element| {
        let no_elements = |_: &str| None;
        let scope = Scope::new(&element.name, names, &no_elements);
        let args = split_args(&element.config.text);
        let first = shift_word(args.first()?.text.as_ref()).0.to_owned();
        let address = parse::<Ipv4Addr>(&first, &scope).ok()?;
        let network = parse::<Ipv4Network>(&first, &scope).ok()?.0;
        let named = scope.ipv4_prefix_named(&first).and_then(|prefix| prefix.length());
        let length = named.or(network.length()).filter(|length| *length < 30).unwrap_or(24);
        Ipv4Prefix::new(address, length)
    })
}

fn named_devices(graph: &Graph, names: &NameTable) -> Vec<Device> {
    let mut devices: Vec<Device> = Vec::new();
    for element in &graph.elements {
        if !DEVICE_CLASSES.contains(&element.class.as_str()) {
            continue;
        }
        let name = match element.class.as_str() {
            "FromDPDKRing" => ring_name(&element.config.text, "TO_PROC", "FROM_PROC"),
            "ToDPDKRing" => ring_name(&element.config.text, "FROM_PROC", "TO_PROC"),
            _ => device_name(&element.config.text),
        };
        let Some(name) = name else { continue };
        let netmap = element.class.contains("Netmap").then(|| netmap::parse(&name).ok()).flatten();
        let name = netmap.map_or(name, |port| port.interface);
        if devices.iter().any(|device| device.name == name) {
            continue;
        }
        let no_elements = |_: &str| None;
        let scope = Scope::new(&element.name, names, &no_elements);
        let prefix = scope.ipv4_prefix_named(&name).filter(|prefix| prefix.length().is_some());
        let address = scope.ipv4_named(&name);
        let router = prefix.zip(address).and_then(|(prefix, address)| {
            Ipv4Prefix::new(address, prefix.length()?).filter(|prefix| hosts(*prefix).count() > 3)
        });
        devices.push(Device { name, router });
    }
    devices
}

/// Addresses of a network that hosts can have, without those of the router, the network and
/// broadcast.
pub(super) fn hosts(network: Ipv4Prefix) -> impl Iterator<Item = Ipv4Addr> {
    let first = u32::from(network.network()).saturating_add(1);
    let last = u32::from(network.broadcast());
    (first..last).map(Ipv4Addr::from).filter(move |ip| *ip != network.address())
}

fn names(graph: &Graph) -> NameTable {
    let mut names = NameTable::new();
    for element in graph.elements.iter().filter(|element| element.class == "AddressInfo") {
        let no_elements = |_: &str| None;
        let known = names.clone();
        let mut args = Args::new(&element.config, Scope::new(&element.name, &known, &no_elements));
        names.extend(address_info(&mut args));
    }
    names
}

/// The device that a ring is, given the arguments that name who sends and who receives.
fn ring_name(config: &str, from: &str, to: &str) -> Option<String> {
    let args = split_args(config);
    let value = |wanted: &str| {
        let values = args.iter().filter_map(|arg| keyword(arg.text.as_ref()));
        let mut named = values.filter(|(name, _)| *name == wanted);
        named.next().map(|(_, value)| value.trim().to_owned())
    };
    Some(format!("ring:{}-{}", value(from)?, value(to)?))
}

fn device_name(config: &str) -> Option<String> {
    let args = split_args(config);
    let named = args.iter().find_map(|arg| match keyword(arg.text.as_ref()) {
        Some(("DEVNAME", value)) => Some(value.to_owned()),
        _ => None,
    });
    let name = named.or_else(|| args.first().map(|arg| arg.text.to_string()))?;
    let name = String::from_utf8_lossy(&unquote(&name)).into_owned();
    (!name.is_empty()).then_some(name)
}
