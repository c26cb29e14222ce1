//! The elements of random configurations, and their arguments.
//!
//! Packets arrive at an element in one of four [stages](Stage), and leave it in one. Some classes are excluded: those
//! with effects outside of the graph, which would make every file go packet by packet; those whose packets leave
//! later or at random, because then two runs of a file differ; and those that need other traffic.

/// The state of packets at a place of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Stage {
    /// A frame as it arrived.
    Frame,
    /// A frame whose IP header has been found.
    Marked,
    /// An IP packet whose header is not marked.
    Bare,
    /// An IP packet whose header is marked.
    Packet,
}

use Stage::{Bare, Frame, Marked, Packet};

impl Stage {
    /// The elements that bring frames into this stage.
    pub(super) fn way(self) -> &'static str {
        match self {
            Frame => "",
            Marked => "CheckIPHeader(14) -> ",
            Bare => "Strip(14) -> ",
            Packet => "Strip(14) -> CheckIPHeader() -> ",
        }
    }
}

/// A kind of element.
#[derive(Debug)]
pub(super) struct Maker {
    /// The stages of packets that it accepts.
    pub(super) from: &'static [Stage],
    /// The stage of packets that it sends; by default the stage in which they arrived.
    pub(super) to: Option<Stage>,
    /// The number of outputs.
    pub(super) outputs: usize,
    /// True if all outputs but the first may be unconnected.
    pub(super) optional: bool,
    /// The element with its arguments; one of these texts is chosen.
    pub(super) texts: &'static [&'static str],
}

const ANY: &[Stage] = &[Frame, Marked, Bare, Packet];
const ETHER: &[Stage] = &[Frame, Marked];
const IP: &[Stage] = &[Marked, Packet];

/// An element with one output.
const fn one(from: &'static [Stage], texts: &'static [&'static str]) -> Maker {
    Maker { from, to: None, outputs: 1, optional: true, texts }
}

/// An element whose second output may be left out.
const fn two(from: &'static [Stage], texts: &'static [&'static str]) -> Maker {
    Maker { from, to: None, outputs: 2, optional: true, texts }
}

/// An element that chooses one of several outputs.
const fn many(from: &'static [Stage], outputs: usize, texts: &'static [&'static str]) -> Maker {
    Maker { from, to: None, outputs, optional: false, texts }
}

/// The same element, leaving packets in another stage.
const fn to(stage: Stage, maker: Maker) -> Maker {
    Maker { to: Some(stage), ..maker }
}

/// The elements.
pub(super) const MAKERS: &[Maker] = &[
    // Of any packets.
    one(ANY, &["Null"]),
    one(ANY, &["Counter"]),
    one(ANY, &["AverageCounter"]),
    one(ANY, &["Paint(1)", "Paint(2)", "Paint(3)"]),
    one(ANY, &["Paint2(2)"]),
    one(ANY, &["SetTimestamp", "SetTimestamp(PER_BATCH true)"]),
    one(ANY, &["SetPacketType(HOST)", "SetPacketType(OTHERHOST)"]),
    one(ANY, &["SetVLANAnno(5)", "SetVLANAnno(9, 3)"]),
    one(ANY, &["Truncate(1000)"]),
    one(ANY, &["EnsureHeadroom(32)"]),
    one(ANY, &["AggregateLength", "AggregatePaint"]),
    one(ANY, &["AggregatePacketCounter"]),
    one(ANY, &["{ input -> Queue(1000) -> Unqueue(BURST 256) -> output }"]),
    two(ANY, &["CheckLength(1500)"]),
    many(ANY, 2, &["CheckPaint(1)", "CheckPaint(2)", "CheckLength(50)"]),
    many(ANY, 2, &["PaintTee(99)"]),
    many(ANY, 2, &["Switch(0)", "Switch(1)", "StaticSwitch(1)"]),
    many(ANY, 4, &["PaintSwitch", "ExactPaintSwitch"]),
    // Of frames.
    one(ETHER, &["EtherMirror"]),
    one(
        ETHER,
        &["EtherRewrite(2:0:0:0:0:1, 2:0:0:0:0:2)", "EtherRewrite(2:0:0:0:0:3, 2:0:0:0:0:4)"],
    ),
    one(ETHER, &["MarkMACHeader"]),
    one(ETHER, &["StoreEtherAddress(2:0:0:0:0:5, src)", "StoreEtherAddress(2:0:0:0:0:6, dst)"]),
    one(ETHER, &["EnsureEther"]),
    one(ETHER, &["VLANEncap(VLAN_ID 7) -> VLANDecap", "VLANDecap"]),
    one(ETHER, &["StoreData(40, \"x\")"]),
    two(ETHER, &["HostEtherFilter(2:0:a:0:0:1)"]),
    many(ETHER, 2, &["HostEtherFilter(2:0:a:0:0:7)"]),
    many(ETHER, 2, &["Classifier(12/0800, -)", "Classifier(23/06, -)", "Classifier(33/01%01, -)"]),
    many(ETHER, 3, &["Classifier(23/11, 23/06, -)", "Classifier(33/00%03, 33/01%03, -)"]),
    many(ETHER, 3, &["HashSwitch(26, 8)"]),
    to(Marked, one(ETHER, &["MarkIPHeader(14)"])),
    to(Marked, two(ETHER, &["CheckIPHeader(14)", "CheckIPHeader2(14)"])),
    to(Bare, one(&[Frame], &["Strip(14)"])),
    to(Packet, one(&[Marked], &["Strip(14)", "StripToNetworkHeader"])),
    // Of what is behind the Ethernet header.
    to(Packet, two(&[Bare, Packet], &["CheckIPHeader()", "CheckIPHeader2()"])),
    to(Packet, one(&[Bare, Packet], &["MarkIPHeader()"])),
    to(Frame, one(&[Bare], &["Unstrip(14)", "EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)"])),
    to(
        Marked,
        one(
            &[Packet],
            &[
                "Unstrip(14)",
                "EtherEncap(0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2)",
                "EtherEncap(0x0800, 2:0:0:0:0:3, 2:0:0:0:0:4)",
            ],
        ),
    ),
    // Of IP packets.
    one(IP, &["FixIPSrc(10.0.0.1)"]),
    one(IP, &["SetIPAddress(10.0.0.9)"]),
    one(IP, &["SetIPChecksum"]),
    one(IP, &["SetIPDSCP(10)"]),
    one(IP, &["SetIPECN(ect1)"]),
    one(IP, &["IPMirror"]),
    one(IP, &["StoreIPAddress(1.2.3.4, src)"]),
    one(IP, &["AggregateIP(ip src)", "AggregateIP(ip dst/24)"]),
    one(&[Packet], &["GetIPAddress(16)"]),
    one(&[Marked], &["GetIPAddress(30)"]),
    two(IP, &["DecIPTTL"]),
    two(IP, &["IPGWOptions(10.0.0.1)"]),
    two(IP, &["DropBroadcasts"]),
    two(IP, &["SetUDPChecksum"]),
    many(IP, 2, &["CheckUDPHeader", "CheckTCPHeader", "CheckICMPHeader"]),
    two(&[Packet], &["IPFragmenter(1500)"]),
    many(
        IP,
        2,
        &[
            "IPClassifier(udp, -)",
            "IPClassifier(dst port < 4000, -)",
            "IPFilter(0 tcp, 1 all)",
            "IPFilter(0 dst net 64.0.0.0/3 and not icmp, 1 udp or icmp, deny all)",
        ],
    ),
    many(IP, 3, &["IPClassifier(tcp syn, src net 128.0.0.0/2 or dst port 80, -)"]),
    many(IP, 3, &["RadixIPLookup(0.0.0.0/1 0, 128.0.0.0/2 1, 0.0.0.0/0 2)"]),
    many(IP, 4, &["DirectIPLookup(0.0.0.0/2 0, 64.0.0.0/3 1, 96.0.0.0/3 2, 0.0.0.0/0 3)"]),
    many(
        IP,
        2,
        &["RangeIPLookup(0.0.0.0/2 0, 0.0.0.0/0 1)", "LinearIPLookup(0.0.0.0/2 0, 0.0.0.0/0 1)"],
    ),
    many(IP, 2, &["StaticIPLookup(0.0.0.0/2 0, 0.0.0.0/0 1)"]),
];

/// Elements that number flows in the order in which they begin. They are placed where all packets are still in their
/// original order.
pub(super) const TRANSLATORS: &[Maker] = &[
    one(&[Packet], &["IPRewriter(pattern 10.0.1.1 1024-65535# - - 0 0)"]),
    one(&[Packet], &["IPAddrRewriter(pattern 10.0.1.1-10.0.9.254 - 0 0)"]),
];

/// The kinds of elements of this class.
pub(super) fn of_class(class: &str) -> impl Iterator<Item = &'static Maker> {
    let makers = MAKERS.iter().chain(TRANSLATORS);
    makers.filter(move |maker| maker.texts.iter().any(|text| class_of(text) == class))
}

/// The class in an element's text.
pub(super) fn class_of(text: &str) -> &str {
    text.split(['(', ' ']).next().unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use millrace_core::Registry;
    use millrace_elements as _;

    use super::*;

    #[test]
    fn all_classes_are_registered() {
        let registry = Registry::linked();
        for text in MAKERS.iter().chain(TRANSLATORS).flat_map(|maker| maker.texts) {
            let class = class_of(text);
            assert!(class == "{" || registry.iter().any(|(name, _)| name == class), "{class}");
        }
    }
}
