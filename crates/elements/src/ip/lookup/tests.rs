//! What all routing elements do alike.

use millrace_core::testing::Rig;
use millrace_core::{Packet, Reason};

const DYNAMIC: [&str; 5] =
    ["RadixIPLookup", "DirectIPLookup", "RangeIPLookup", "LinearIPLookup", "SortedIPLookup"];
const ALL: [&str; 7] = [
    "RadixIPLookup",
    "DirectIPLookup",
    "RangeIPLookup",
    "LinearIPLookup",
    "SortedIPLookup",
    "StaticIPLookup",
    "LookupIPRoute",
];

fn packet(destination: [u8; 4]) -> Packet {
    let mut packet = Packet::from_bytes(b"x").unwrap();
    packet.set_dst_ip(destination.into());
    packet
}

#[test]
fn packets_use_the_longest_matching_prefix() {
    for class in ALL {
        let routes = "10/8 1, 10.1/16 192.168.0.1 0, 10.1.2.3 2, 11/8 - 2";
        let mut rig = Rig::new(&format!("{class}({routes})"), 1, 3).unwrap();
        let destinations = [
            [10, 1, 2, 3],
            [10, 2, 0, 0],
            [12, 0, 0, 1],
            [10, 1, 0, 9],
            [11, 0, 0, 0],
            [10, 9, 9, 9],
        ];
        let out = rig.push_packets(0, destinations.map(packet).into());
        let destinations: Vec<Vec<String>> = out
            .iter()
            .map(|port| port.iter().map(|packet| packet.dst_ip().to_string()).collect())
            .collect();
        assert_eq!(
            destinations,
            [vec!["192.168.0.1"], vec!["10.2.0.0", "10.9.9.9"], vec!["10.1.2.3", "11.0.0.0"]],
            "{class}"
        );
        assert_eq!(rig.stats().drops, [(Reason::NoRoute, 1)]);
        assert!(rig.stats().balanced());
    }
}

#[test]
fn packets_keep_their_order_at_each_output() {
    for class in ALL {
        let routes = "1/8 0, 2/8 10.0.0.1 1, 3/8 2, 4/8 0";
        let mut rig = Rig::new(&format!("{class}({routes})"), 1, 3).unwrap();
        // First alternating networks, then runs of the same network.
        let networks = (0..150).map(|n| n % 4).chain((0..100).map(|n| n / 25));
        let packets = networks.zip(0u8..).map(|(network, number)| {
            let mut packet = packet([network + 1, 0, 0, 1]);
            packet.set_paint(number);
            packet
        });
        let out = rig.push_packets(0, packets.collect());
        let lengths: Vec<usize> = out.iter().map(Vec::len).collect();
        assert_eq!(lengths, [38 + 37 + 50, 38 + 25, 37 + 25], "{class}");
        for port in &out {
            assert!(port.is_sorted_by_key(|packet| packet.paint()), "{class}");
        }
        assert!(rig.stats().balanced());
    }
}

#[test]
fn routes_are_added_set_and_removed() {
    for class in DYNAMIC {
        let mut rig = Rig::new(class, 1, 3).unwrap();
        let steps = [
            ("add", "18.26/16 1.0.0.1 0", "0 1.0.0.1"),
            ("add", "18.26.0/18 2.0.0.2 1", "1 2.0.0.2"),
            ("add", "18.26.0/17 2", "1 2.0.0.2"),
            ("remove", "18.26.0/18 2.0.0.2 1", "2"),
            ("remove", "18.26.0/16", "2"),
            ("set", "18.26.0/17 - 1", "1"),
            ("ctrl", "remove 18.26.0/17\nadd 0/0 9.9.9.9 2\nset 0/0 9.9.9.8 2", "2 9.9.9.8"),
            ("remove", "0.0.0.0/0", "-1"),
        ];
        for (handler, text, found) in steps {
            rig.write(handler, text).unwrap();
            let read = rig.router().read("x.lookup", b"18.26.4.9").unwrap();
            assert_eq!(String::from_utf8_lossy(&read), found, "{class}: {handler} {text}");
        }
    }
}

#[test]
fn failed_commands_are_reported_and_change_nothing() {
    for class in DYNAMIC {
        let mut rig = Rig::new(&format!("{class}(18.16/12 4.0.0.4 0)"), 1, 1).unwrap();
        for (handler, text, message) in [
            ("add", "18.16/12 0", "conflict with existing route ‘18.16.0.0/12 4.0.0.4 0’"),
            ("remove", "18.16/12 0", "route ‘18.16.0.0/12 - 0’ not found"),
            ("remove", "18.16/13", "route ‘18.16.0.0/13 - -1’ not found"),
            ("add", "18.16/12 1", "bad OUTPUT"),
            ("set", "18.16/12", "expected ‘ADDR/MASK [GATEWAY] OUTPUT’"),
            ("remove", "", "expected ‘ADDR/MASK [GATEWAY OUTPUT]’"),
            ("ctrl", "flush", "bad command ‘flush’"),
            (
                "ctrl",
                "add 1/8 0\nremove 18.16/12\nremove 18.16/12",
                "route ‘18.16.0.0/12 - -1’ not found",
            ),
        ] {
            let error = rig.write(handler, text).unwrap_err();
            assert_eq!(error.to_string(), message, "{class}: {handler} {text}");
            assert_eq!(rig.read("table").unwrap(), "18.16.0.0/12\t\t4.0.0.4\t\t0\n");
        }
        let error = rig.router().read("x.lookup", b"everywhere").unwrap_err();
        assert_eq!(error.to_string(), "expected IP address");
    }
}

#[test]
fn errors_name_the_number_of_the_wrong_argument() {
    let errors = Rig::new("RadixIPLookup(1/8 0, 2/8 1, hello, 3.0.0.0/255.0.255.0 0)", 1, 1);
    let errors: Vec<String> =
        errors.err().unwrap().iter().map(|error| error.message.clone()).collect();
    assert_eq!(
        errors,
        [
            "argument 2 bad OUTPUT",
            "argument 3 should be ‘ADDR/MASK [GATEWAY] OUTPUT’",
            "argument 4: mask 255.0.255.0 is not that of a prefix",
        ]
    );
}

#[test]
fn each_class_lists_its_routes_in_its_own_order() {
    let routes = "0/0 0, 18/8 0, 10.1/16 0, 10/8 0";
    for (class, listed) in [
        ("RadixIPLookup", ["0.0.0.0/0", "18.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8"]),
        ("LinearIPLookup", ["0.0.0.0/0", "18.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8"]),
        ("SortedIPLookup", ["18.0.0.0/8", "10.1.0.0/16", "10.0.0.0/8", "0.0.0.0/0"]),
        ("DirectIPLookup", ["0.0.0.0/0", "10.0.0.0/8", "18.0.0.0/8", "10.1.0.0/16"]),
        ("RangeIPLookup", ["0.0.0.0/0", "10.0.0.0/8", "18.0.0.0/8", "10.1.0.0/16"]),
    ] {
        let rig = Rig::new(&format!("{class}({routes})"), 1, 1).unwrap();
        let table = rig.read("table").unwrap();
        let networks: Vec<&str> =
            table.lines().filter_map(|line| line.split('\t').next()).collect();
        assert_eq!(networks, listed, "{class}");
    }
}

#[test]
fn flush_exists_in_the_same_classes_as_in_click() {
    for class in ["DirectIPLookup", "RangeIPLookup", "RadixIPLookup"] {
        let mut rig = Rig::new(&format!("{class}(0/0 0, 10.0.0.1/32 0)"), 1, 1).unwrap();
        rig.write("flush", "").unwrap();
        assert_eq!(rig.read("table").unwrap(), "");
    }
    assert!(Rig::new("LinearIPLookup", 1, 1).unwrap().write("flush", "").is_err());
}

#[test]
fn static_tables_have_no_handlers_to_change_them() {
    for class in ["StaticIPLookup", "LookupIPRoute", "LookupIPRouteMP"] {
        let mut rig = Rig::new(&format!("{class}(0/0 0)"), 1, 1).unwrap();
        for handler in ["add", "set", "remove", "ctrl", "flush"] {
            assert!(rig.write(handler, "1/8 0").is_err(), "{class}.{handler}");
        }
        assert_eq!(rig.read("table").unwrap(), "0.0.0.0/0\t\t-\t\t0\n");
    }
}
