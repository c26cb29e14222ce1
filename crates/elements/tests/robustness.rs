//! Every element against random, truncated and malformed packets: nothing panics, every packet is
//! accounted for, and nothing stays in memory.

#![allow(clippy::unwrap_used, clippy::panic, reason = "helpers of tests")]

#[path = "support/hostile.rs"]
mod hostile;

use fastrand::Rng;
use millrace_core::testing::{Remains, Rig};
use millrace_core::{Packet, PacketType, Registry, Timestamp};
use millrace_elements as _;

/// Arguments for classes that must have some.
const ARGUMENTS: &[(&str, &str)] = &[
    ("AdjustTimestamp", "-1.5"),
    ("AggregateCounterVector", "MASK 255"),
    ("RegexMatcher", "a+b"),
    ("CTXDispatcher", "12/0800, -"),
    ("AggregateFilter", "allow 0-9 11, drop all"),
    ("AggregateIP", "ip dst & 0xffff00"),
    ("AggregatePaint", "3"),
    ("StoreTimestamp", "OFFSET 30"),
    ("Message", "hello"),
    ("MessageElement", "hello"),
    ("AddressTranslator", "0, true, true, false, 2001:db8::7 6000 6010"),
    ("ARPQuerier", "10.0.0.1/24, 2:0:0:0:0:1, CAPACITY 64"),
    ("ARPFaker", "10.0.0.1, 2:0:0:0:0:1, 10.0.0.2, 2:0:0:0:0:2"),
    ("CheckARPHeader", "14"),
    ("GetEtherAddress", "24, src"),
    ("SetEtherAddress", "2:0:0:0:0:1, 24"),
    ("StoreEtherAddress", "2:0:0:0:0:1, src"),
    ("IPMulticastEtherEncap", "0x0800, 2:0:0:0:0:1"),
    ("EtherPauseSource", "2:0:0:0:0:1, 5, LIMIT 10"),
    ("ARPResponder", "10.0.0.0/8 2:0:0:0:0:1"),
    ("AddressInfo", "a 10.0.0.1 2:0:0:0:0:1"),
    ("CheckPaint", "1"),
    ("Classifier", "12/0806 20/0001, 12/0800, -"),
    ("DirectIPLookup", "10.0.0.0/8 0, 0.0.0.0/0 1"),
    ("EtherVLANEncap", "0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2, 5"),
    ("EtherEncap", "0x0800, 2:0:0:0:0:1, 2:0:0:0:0:2"),
    ("EtherRewrite", "2:0:0:0:0:1, 2:0:0:0:0:2"),
    ("FixIPSrc", "10.0.0.1"),
    ("GetIP6Address", "24"),
    ("GetIPAddress", "16"),
    ("HostEtherFilter", "2:0:0:0:0:1"),
    ("ICMPError", "10.0.0.1, timeexceeded"),
    ("IPClassifier", "tcp syn, udp port 53, icmp type echo, ip frag, -"),
    (
        "SDNClassifier",
        "RULE \"@10.0.0.0/8 0.0.0.0/0 0:65535 80:90 6/255 eth_src=2:0:0:0:0:1 0\", \
         RULE \"@0.0.0.0/0 0.0.0.0/0 0:65535 0:65535 0/0 eth_type=0x86dd drop\", DEFAULT 0, CACHE 8",
    ),
    ("IDSMatcher", "PATTERN \"\\<00>\", PATTERN ab, FLOW true, ALL true"),
    ("InfiniteSource", "LIMIT 1000, BURST 7"),
    ("IPEncap", "udp, 10.0.0.1, 10.0.0.2"),
    ("IPFilter", "allow tcp && dst port 80, drop src net 10.0.0.0/8, allow all"),
    ("IPFragmenter", "100"),
    ("IPGWOptions", "10.0.0.1"),
    ("LinearIPLookup", "10.0.0.0/8 0, 0.0.0.0/0 1"),
    ("LookupIP6Route", "2001:db8::/32 0, ::/0 1"),
    ("LookupIPRoute", "10.0.0.0/8 0, 0.0.0.0/0 1"),
    ("LookupIPRouteMP", "10.0.0.0/8 0, 0.0.0.0/0 1"),
    ("ICMPIPEncap", "10.0.0.1, 10.0.0.2, unreachable, port"),
    ("ICMPPingEncap", "10.0.0.1, 10.0.0.2"),
    ("ICMPPingSource", "10.0.0.1, 10.0.0.2, INTERVAL 0.05, VERBOSE false"),
    ("IPInputCombo", "1, INTERFACES 10.0.0.1/8"),
    ("IPOutputCombo", "1, 10.0.0.1, 100"),
    ("ICMP6Error", "2001:db8::1, 3, 0"),
    ("IP6Encap", "41, 2001:db8::1, DST_ANNO"),
    ("IP6Fragmenter", "60"),
    ("IP6NDAdvertiser", "::/0 2:0:0:0:0:1"),
    ("IP6NDSolicitor", "2001:db8::1, 2:0:0:0:0:1"),
    ("IP6Print", "ACTIVE false"),
    ("UDPIP6Encap", "2001:db8::1, 1, 2001:db8::2, 2"),
    ("GREEncap", "0x0800, CHECKSUM true, KEY 5, SEQUENCE true"),
    ("VXLANEncap", "42"),
    ("GTPEncap", "0"),
    ("IPsecAES", "0"),
    ("IPsecAuthHMACSHA1", "1"),
    ("IPsecAuthSHA1", "1"),
    ("IPsecEncap", "50"),
    ("IPsecESPGCMDecap", "4096, \\<000102030405060708090a0b0c0d0e0f10111213>"),
    ("IPsecESPGCMEncap", "4096, \\<000102030405060708090a0b0c0d0e0f10111213>"),
    ("RadixIPsecLookup", "0.0.0.0/0 0, 10.0.0.0/8 1 234 ABCDEFFF001DEFD2 112233EE556677EE 1 64"),
    ("RIPSend", "10.0.0.1, 224.0.0.9, 10.0.0.0/8, 1"),
    ("SetIPDSCP", "46"),
    ("SetIPECN", "ce"),
    ("SetRandIPAddress", "10.0.0.0/8, 100"),
    ("StoreIPAddress", "10.0.0.1, src"),
    ("DynamicUDPIPEncap", "10.0.0.1, 1, 10.0.0.2, 2, true, 3"),
    ("FastUDPSource", "0, 100, 60, 2:0:0:0:0:1, 10.0.0.1, 1, 2:0:0:0:0:2, 10.0.0.2, 2"),
    ("FastUDPFlows", "0, 100, 60, 2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 10.0.0.2, 5, 3"),
    ("FastTCPFlows", "0, 100, 60, 2:0:0:0:0:1, 10.0.0.1, 2:0:0:0:0:2, 10.0.0.2, 5, 3"),
    ("TCPFragmenter", "MTU 100"),
    ("Paint", "1"),
    ("PaintTee", "1"),
    ("Print", "ACTIVE false"),
    ("ARPPrint", "ETHER true, OUTFILE /dev/null"),
    ("IPPrint", "CONTENTS HEX, OUTFILE /dev/null"),
    ("RadixIPLookup", "10.0.0.0/8 0, 0.0.0.0/0 1"),
    ("RangeIPLookup", "10.0.0.0/8 0, 0.0.0.0/0 1"),
    ("RatedUnqueue", "1000000"),
    ("BandwidthRatedUnqueue", "1MBps"),
    ("RatedSplitter", "1000"),
    ("BandwidthRatedSplitter", "1MBps"),
    ("Shaper", "1000"),
    ("BandwidthShaper", "1MBps"),
    ("DelayUnqueue", "10ms"),
    ("DelayShaper", "10ms"),
    ("LinkUnqueue", "1ms, 1MBps"),
    ("TimedUnqueue", "1ms, 5"),
    ("Burster", "1ms"),
    ("Meter", "10kBps"),
    ("BandwidthMeter", "10kBps"),
    ("StrideSched", "3"),
    ("Script", "TYPE PACKET, return 0"),
    ("SetIP6Address", "2001:db8::1"),
    ("SetIP6DSCP", "46"),
    ("SetIPAddress", "10.0.0.1"),
    ("SortedIPLookup", "10.0.0.0/8 0, 0.0.0.0/0 1"),
    ("StaticIPLookup", "10.0.0.0/8 0, 0.0.0.0/0 1"),
    ("StaticThreadSched", "x 0"),
    ("Strip", "14"),
    ("Tee", ""),
    ("ToDump", "/dev/null"),
    (
        "ToIPSummaryDump",
        "/dev/null, FIELDS ip_src ip_opt sport tcp_opt icmp_type payload, BAD_PACKETS true",
    ),
    ("FromIPSummaryDump", "DATA \"!data ip_src count\n10.0.0.1 3\n\", MULTIPACKET true"),
    ("ToIPFlowDumps", "/dev/null, ALL_TCP_OPT true, TCP_WINDOW true, IP_ID true"),
    ("StoreUDPTimeSeqRecord", "14"),
    ("UDPIPEncap", "10.0.0.1, 1, 10.0.0.2, 2"),
    ("IPRewriter", "pattern 10.0.0.1 1024-1100 - - 0 0, MAPPING_CAPACITY 100"),
    ("TCPRewriter", "pattern 10.0.0.1 1024-1100# - - 0 0"),
    ("UDPRewriter", "pattern 10.0.0.1 1024-1100? - - 0 0"),
    ("IPAddrRewriter", "pattern 10.0.0.0/24 - 0 0"),
    ("IPAddrPairRewriter", "pattern 10.0.0.0/24 - 0 0"),
    ("ICMPPingRewriter", "pattern 10.0.0.1 - 1-99 0 0"),
    ("IPRewriterPatterns", "p 10.0.0.1 1024-1100 - -"),
    ("RoundRobinIPMapper", "- - - 80 0 0, - - - 81 0 0"),
    ("SourceIPHashMapper", "3 7, - - - 80 0 0 1, - - - 81 0 0 2"),
    ("Unstrip", "14"),
    ("Align", "4, 2"),
    ("Block", "10"),
    ("CheckLength", "60"),
    ("Clipboard", "0/4, 30/8"),
    ("Dispatcher", "5, -"),
    ("CompareBlock", "5, 2, 3"),
    ("ExactPaintSwitch", "MAP 0, MAP 7"),
    ("HashSwitch", "12, 8"),
    ("MoveData", "3, 10, 30"),
    ("Paint2", "1"),
    ("ProbSplitter", "0.3"),
    ("RandomBitErrors", "0.01"),
    ("RandomSample", "0.5"),
    ("RandomSource", "64, LIMIT 500"),
    ("Resize", "-3, 200"),
    ("SetAnnoByte", "3, 4"),
    ("SetPacketType", "HOST"),
    ("StaticPullSwitch", "0"),
    ("StaticSwitch", "1"),
    ("StrideSwitch", "3, 1"),
    ("StoreAnno", "12"),
    ("StoreData", "10, abcd, GROW true"),
    ("Truncate", "40"),
    ("FlowIPManager", "64, VERBOSE 0"),
    ("FlowIPLoadBalancer", "10.0.0.1, DST 10.1.0.1, DST 10.1.0.2, MODE hash"),
    ("IPRateMonitor", "PACKETS, 1, 5, 100"),
    ("Search", "abc"),
    ("WordMatcher", "FULL, abc, WORD a, WORD \\<00>, ALL true"),
];

/// Classes that need a device or a file to read, and are tested elsewhere.
const ELSEWHERE: &[&str] = &[
    // Need others beside them.
    "FlowIPLoadBalancerReverse",
    "IPLoadBalancerReverse",
    "RED",
    "AdaptiveRED",
    "CoDel",
    "PI",
    "FTPPortMapper",
    "TimestampDiff",
    "ProgressBar",
    // Stand in a GPU section: gpu_sections.rs has the same packets for them.
    "Balancer",
    "Batcher",
    "Debatcher",
    "DeviceToHostMemcpy",
    "GPUCompletionQueue",
    "GPUIP6Lookup",
    "GPUIPLookup",
    "GPUIDSMatcher",
    "GPUSDNClassifier",
    "HostToDeviceMemcpy",
    // Stand between others: the tests of streams draw hostile segments for them.
    "HTTPIn",
    "HTTPOut",
    "TCPIn",
    "TCPOut",
    // Name a device, a process or a lock, which their own tests have.
    "DeviceBalancer",
    "FromDPDKRing",
    "ToDPDKRing",
    "SpinlockAcquire",
    "SpinlockRelease",
    // Stop what loads them.
    "Error",
    "ErrorElement",
    "KernelHandlerProxy",
    "ICMPRewriter",
    "EtherSpanTree",
    "KernelTap",
    "McastSocket",
    "RawSocket",
    "Socket",
    "FromSocket",
    "ToSocket",
    "KernelTun",
    "FromHost",
    "ToHost",
    "FromDevice",
    "ToDevice",
    "FromDump",
    "FromCapDump",
    "FromNetFlowSummaryDump",
    "FromTcpdump",
    "FromXDPDevice",
    "ToXDPDevice",
    "XDPFromDevice",
    "XDPToDevice",
    "FromNetmapDevice",
    "ToNetmapDevice",
    "FromDPDKDevice",
    "ToDPDKDevice",
];

#[test]
fn every_element_withstands_every_packet() {
    let registry = Registry::linked();
    let (mut tested, mut refused) = (0, Vec::new());
    for (name, info) in registry.iter().filter(|(name, _)| !ELSEWHERE.contains(name)) {
        let arguments = ARGUMENTS.iter().find(|(class, _)| class == &info.class.name);
        let element = format!("{name}({})", arguments.map_or("", |(_, text)| text));
        let (inputs, outputs) = ports(name, info.class);
        let mut rig = match Rig::new(&element, inputs, outputs) {
            Ok(rig) => rig,
            Err(errors) => {
                refused.extend(errors.iter().map(|error| format!("{element}: {}", error.message)));
                continue;
            }
        };
        let mut rng = Rng::with_seed(7);
        for round in 0..60 {
            for port in 0..inputs {
                let burst = rng.usize(0..40);
                let packets = (0..burst).filter_map(|_| hostile(&mut rng)).collect();
                rig.push_packets(port, packets);
            }
            if round % 20 == 0 {
                rig.pass(Timestamp::from_millis(300));
            }
        }
        let stats = rig.stats();
        assert!(stats.balanced(), "{element}: {stats:?}");
        let remains = Remains::of(rig.router());
        drop(rig);
        assert_eq!(remains.names(), [""; 0], "{element}");
        tested += 1;
    }
    assert!(refused.is_empty(), "{refused:#?}");
    // The linker leaves out a library that nobody names, without a word.
    assert!(tested >= 50, "only {tested} classes are linked");
}

/// Ports that let an element of the class do all it can.
fn ports(name: &str, class: millrace_core::Class) -> (usize, usize) {
    let (inputs, outputs) = class.port_counts();
    let (least_in, most_in) = inputs.bounds(0);
    let inputs = least_in.max(1).min(most_in.unwrap_or(2));
    let (least_out, most_out) = outputs.bounds(inputs);
    let outputs = match name {
        "Classifier" | "IPClassifier" => ARGUMENTS
            .iter()
            .find(|(class, _)| *class == name)
            .map_or(1, |(_, text)| text.split(',').count()),
        _ => least_out.max(2).min(most_out.unwrap_or(2)),
    };
    (inputs, outputs)
}

/// A packet that is random, or nearly right, or cut short, with annotations that may be wrong.
fn hostile(rng: &mut Rng) -> Option<Packet> {
    let bytes = hostile::frame(rng);
    let mut packet = Packet::from_bytes(&bytes)?;
    if rng.bool() {
        let offset = rng.usize(0..40);
        packet.set_network_header(offset as isize, rng.usize(0..64));
    }
    if rng.bool() {
        packet.set_mac_header(rng.usize(0..20) as isize);
    }
    packet.set_dst_ip([rng.u32(..), 0x0a00_0002, 0xffff_ffff, 0][rng.usize(0..4)].into());
    if rng.u8(0..4) == 0 {
        packet.set_dst_ip6([0x2001_0db8 << 96, rng.u128(..)][rng.usize(0..2)].into());
    }
    packet.set_paint(rng.u8(0..4));
    packet.set_packet_type(if rng.bool() { PacketType::Broadcast } else { PacketType::Host });
    packet.set_fix_ip_src(rng.bool());
    packet.set_icmp_param_prob(rng.u8(..));
    Some(packet)
}
