//! The configurations that are measured: whole routers, and chains of one element.

use millrace_elements::ip::lookup::Route;

use super::case::Configuration;
use crate::graph::Graph;
use crate::traffic;

/// The forwarder and the routers, with `routes` in their tables.
pub(crate) fn routers(routes: &[Route]) -> Vec<Configuration> {
    let table = ("route.ctrl".to_owned(), traffic::commands(routes));
    let neighbours = traffic::neighbours()
        .into_iter()
        .map(|(network, entry)| (format!("eth{network}/arp.insert"), entry));
    let router = |name: &str, text: &str, writes| Configuration {
        graph: Graph { writes, ..Graph::new(name, text) },
        class: None,
    };
    let full = std::iter::once(table.clone()).chain(neighbours).collect();
    vec![
        router("forward", include_str!("../../configs/forward.click"), Vec::new()),
        router("minimal-router", include_str!("../../configs/minimal-router.click"), vec![table]),
        router("full-router", include_str!("../../configs/full-router.click"), full),
    ]
}

/// The number of elements in a chain. It is so large that the cost of entering the chain does not matter.
const LINKS: usize = 8;

/// A class, the elements that prepare packets for it, and a link of the chain.
type Chain = (&'static str, &'static str, &'static str);

/// Sets the header positions where IP elements expect them.
const MARK: &str = "MarkIPHeader(14) -> GetIPAddress(30)";

/// The chains. A link undoes its changes, or the next link can repeat them.
const CHAINS: &[Chain] = &[
    ("Null", "", "Null"),
    ("Counter", "", "Counter"),
    ("AverageCounter", "", "AverageCounter"),
    ("Paint", "", "Paint(1)"),
    ("CheckPaint", "Paint(1)", "CheckPaint(1)"),
    ("PaintSwitch", "", "PaintSwitch"),
    ("Switch", "", "Switch"),
    ("Tee", "", "Tee"),
    ("Strip", "", "Strip(14) -> Unstrip(14)"),
    ("Unstrip", "", "Strip(14) -> Unstrip(14)"),
    ("Queue", "", "Queue -> Unqueue(BURST $burst)"),
    ("Unqueue", "", "Queue -> Unqueue(BURST $burst)"),
    ("Classifier", "", "Classifier(12/0800)"),
    ("IPClassifier", MARK, "IPClassifier(udp)"),
    ("IPFilter", MARK, "IPFilter(allow udp)"),
    ("MarkMACHeader", "", "MarkMACHeader"),
    ("HostEtherFilter", "", "HostEtherFilter(02:00:0a:00:00:01)"),
    ("EtherMirror", "", "EtherMirror"),
    ("EtherRewrite", "", "EtherRewrite(02:00:0a:00:01:01, 02:00:0a:00:01:02)"),
    ("EtherEncap", "", "Strip(14) -> EtherEncap(0x0800, 02:00:0a:00:01:01, 02:00:0a:00:01:02)"),
    ("MarkIPHeader", "", "MarkIPHeader(14)"),
    ("CheckIPHeader", "", "CheckIPHeader(OFFSET 14)"),
    ("CheckIPHeader2", "", "CheckIPHeader2(OFFSET 14)"),
    ("GetIPAddress", MARK, "GetIPAddress(30)"),
    ("SetIPAddress", MARK, "SetIPAddress(10.0.1.2)"),
    ("DropBroadcasts", MARK, "DropBroadcasts"),
    ("IPGWOptions", MARK, "IPGWOptions(10.0.0.1)"),
    ("FixIPSrc", MARK, "FixIPSrc(10.0.0.1)"),
    ("DecIPTTL", MARK, "DecIPTTL"),
    ("IPFragmenter", "Strip(14) -> MarkIPHeader", "IPFragmenter(1500)"),
    ("SetIPChecksum", MARK, "SetIPChecksum"),
    ("SetUDPChecksum", MARK, "SetUDPChecksum"),
    ("IPEncap", "Strip(14) -> MarkIPHeader", "Strip(20) -> IPEncap(udp, 10.0.0.2, 10.0.1.2)"),
    (
        "UDPIPEncap",
        "Strip(14) -> MarkIPHeader",
        "Strip(28) -> UDPIPEncap(10.0.0.2, 1234, 10.0.1.2, 5678)",
    ),
];

/// Lookup elements whose tables can hold the Internet's routes.
const LOOKUPS: &[&str] = &["DirectIPLookup", "RangeIPLookup", "RadixIPLookup"];

/// A chain for each element, and the lookup elements with `routes` in their tables.
pub(crate) fn elements(routes: &[Route]) -> Vec<Configuration> {
    let lookup = |class: &'static str| Configuration {
        graph: Graph {
            writes: vec![("route.ctrl".to_owned(), traffic::commands(routes))],
            ..Graph::new(
                class,
                format!(
                    "FromDevice(eth0, BURST $burst) -> {MARK} -> route :: {class};\n\
                     out :: ToDevice(eth1);\n\
                     route[0] -> out; route[1] -> out; route[2] -> out; route[3] -> out;\n"
                ),
            )
        },
        class: Some(class),
    };
    CHAINS.iter().map(chain).chain(LOOKUPS.iter().map(|class| lookup(class))).collect()
}

fn chain(&(class, before, link): &Chain) -> Configuration {
    let mut text = "FromDevice(eth0, BURST $burst)".to_owned();
    let links = std::iter::repeat_n(link, LINKS);
    for part in std::iter::once(before).filter(|before| !before.is_empty()).chain(links) {
        text.push_str("\n  -> ");
        text.push_str(part);
    }
    text.push_str("\n  -> ToDevice(eth1);\n");
    let graph = Graph::new(class, text);
    Configuration { graph, class: Some(class) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cycles::devices::{Length, Trace};

    /// Runs configurations with few routes, to check what they do, not how fast.
    fn try_all(configurations: impl Fn(&[Route]) -> Vec<Configuration>) {
        let routes = traffic::routes(500);
        let trace: Trace = traffic::trace(&routes).unwrap().into();
        let core = crate::machine::last_core().unwrap();
        for configuration in configurations(&routes) {
            configuration.gate(32, core, &trace).unwrap();
            let length = Length { warm_up: 256, slice: 512, slices: 2, keep: false };
            let run = configuration.run(256, core, &trace, length).unwrap();
            assert_eq!(run.slices.len(), 2, "{}", configuration.graph.name);
            for slice in &run.slices {
                assert_eq!(slice.packets, 512);
                let inside: u64 = slice.elements.iter().sum();
                assert!(inside > 0, "{}", configuration.graph.name);
            }
            if let Some(class) = configuration.class {
                assert!(run.classes.contains(&class), "{class}");
            }
        }
    }

    #[test]
    fn routers_do_with_bursts_what_they_do_without() {
        try_all(routers);
    }

    #[test]
    fn elements_do_with_bursts_what_they_do_without() {
        try_all(elements);
    }
}
