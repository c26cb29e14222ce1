//! Arguments: lists, rules and scripts.

use super::*;

pub(super) const SHAPES: &[Shape] = &[
    limited("patterns", LOAD, PORTS, |n| {
        let patterns = list(n, |i| format!("0/{i:08x}"));
        format!("Idle -> c :: Classifier({patterns});\n")
            + &each(n, |i| format!("c[{i}] -> Discard;\n"))
    }),
    limited("rules of IPClassifier", LOAD, PORTS, |n| {
        let rules = list(n, |i| format!("src host {} and dst port {}", address(i), i % 60_000));
        format!("Idle -> c :: IPClassifier({rules});\n")
            + &each(n, |i| format!("c[{i}] -> Discard;\n"))
    }),
    valid("rules of IPFilter", LOAD, |n| {
        let rules = list(n, |i| {
            let net = address(i * 256);
            let action = if i % 3 == 0 { "deny" } else { "allow" };
            format!("{action} src net {net}/24 or udp dst port {}", i % 60_000)
        });
        format!("Idle -> IPFilter({rules}) -> Discard;")
    }),
    valid("hosts in one rule", LOAD, |n| {
        let hosts =
            (0..n).map(|i| format!("src host {}", address(i))).collect::<Vec<_>>().join(" or ");
        format!("Idle -> IPFilter(allow {hosts}) -> Discard;")
    }),
    valid("negations in one rule", LOAD, |n| {
        let hosts =
            (0..n).map(|i| format!("! src host {}", address(i))).collect::<Vec<_>>().join(" and ");
        format!("Idle -> IPFilter(allow {hosts}) -> Discard;")
    }),
    wrong("parentheses in a rule", |n| {
        format!("Idle -> IPFilter(allow {}tcp{}) -> Discard;", "(".repeat(n), ")".repeat(n))
    }),
    valid("entries of ARPResponder", LOAD, |n| {
        let entries = list(n, |i| format!("{}/{} 1:2:3:4:5:6", address(i << 8), 24 + i % 9));
        format!("Idle -> ARPResponder({entries}) -> Discard;")
    }),
    valid("routes of RadixIPLookup", LOAD, |n| lookup("RadixIPLookup", n)),
    valid("routes of DirectIPLookup", LOAD, |n| lookup("DirectIPLookup", n)),
    valid("routes of RangeIPLookup", LOAD, |n| lookup("RangeIPLookup", n)),
    valid("routes of StaticIPLookup", LOAD, |n| lookup("StaticIPLookup", n)),
    valid("routes of LookupIP6Route", LOAD, |n| {
        let routes = list(n, |i| format!("2001:db8:{:x}:{:x}::/64 :: 0", i >> 16, i & 0xffff));
        format!("Idle -> LookupIP6Route({routes}) -> Discard;")
    }),
    valid("addresses by name", LOAD, |n| {
        let names = list(n, |i| format!("name{i} {}/24 1:2:3:4:5:6", address(i << 8)));
        format!("AddressInfo({names});\nIdle -> ARPResponder(name1) -> Discard;")
    }),
    valid("pins", LOAD, |n| {
        let n = n / 4;
        each(n, |i| format!("Idle -> Queue -> u{i} :: Unqueue -> Discard;\n"))
            + &format!("StaticThreadSched({});", list(n, |i| format!("u{i} 0")))
    }),
    valid("instructions of a script", LOAD, |n| {
        format!("Script({}, stop);", list(n, |i| format!("set x{i} $(add {i} 1)")))
    }),
    limited("patterns of a rewriter", LOAD, PORTS, |n| {
        let inputs = list(n, |i| format!("pattern {} 1024-65535 - - 0 0", address(i)));
        format!("rw :: IPRewriter({inputs});\nrw -> Discard;\n")
            + &each(n, |i| format!("Idle -> [{i}] rw;\n"))
    }),
    valid("handlers that a script names", LOAD, |n| {
        let n = n / 4;
        let counters = each(n, |i| format!("Idle -> c{i} :: Counter -> Discard;\n"));
        let reads = list(n, |i| format!("read c{i}.count"));
        counters + &format!("Script(TYPE PASSIVE, {reads});")
    }),
    valid("a long pattern", LOAD, |n| {
        format!("Idle -> c :: Classifier(0/{}, -);\nc -> Discard; c[1] -> Discard;", "a5".repeat(n))
    }),
    valid("tests in one pattern", LOAD, |n| {
        let tests: Vec<String> = (0..n).map(|i| format!("{}/{:02x}", 2 * i, i & 255)).collect();
        format!("Idle -> c :: Classifier({}, -);\nc -> Discard; c[1] -> Discard;", tests.join(" "))
    }),
    valid("patterns of different places", LOAD, |n| {
        let n = n / 4;
        let patterns = list(n, |i| format!("{}/{:02x}", i, i & 255));
        format!("Idle -> c :: Classifier({patterns}, -);\n")
            + &each(n + 1, |i| format!("c[{i}] -> Discard;\n"))
    }),
    valid("alternatives joined by and", LOAD, |n| {
        let tests: Vec<String> = (0..n / 2)
            .map(|i| format!("(src host {} or dst port {})", address(i), i % 60_000))
            .collect();
        format!("Idle -> IPFilter(allow {}) -> Discard;", tests.join(" and "))
    }),
    valid("rules of IPFilter that overlap", LOAD, |n| {
        let rules = list(n, |i| {
            let action = if i % 2 == 0 { "deny" } else { "allow" };
            let net = address(i << 10 & 0xff_ff00);
            format!("{action} src net {net}/{} and dst port > {}", 16 + i % 9, i % 30_000)
        });
        format!("Idle -> IPFilter({rules}) -> Discard;")
    }),
    valid("rules of SDNClassifier", LOAD, |n| {
        let rules = list(n, |i| {
            format!("RULE @{}/32 0.0.0.0/0 0 : 65535 {1} : {1} 0x06/0xff 0", address(i), i % 60_000)
        });
        format!("Idle -> SDNClassifier({rules}) -> Discard;")
    }),
    valid("routes of SortedIPLookup", LOAD, |n| lookup("SortedIPLookup", n)),
    valid("routes of LinearIPLookup", LOAD, |n| lookup("LinearIPLookup", n)),
    valid("routes of LookupIPRoute", LOAD, |n| lookup("LookupIPRoute", n)),
    valid("routes inside routes", LOAD, |n| {
        let routes = list(n, |i| format!("{}/{} 0", address(i << 12 & 0xff_ffff), 8 + i % 25));
        format!("Idle -> LinearIPLookup({routes}) -> Discard;")
    }),
    valid("pokes", LOAD, |n| {
        format!(
            "Idle -> s :: Switch -> Discard; PokeHandlers({});",
            list(n, |_| "write s.switch 0".to_owned())
        )
    }),
    valid("patterns by name", LOAD, |n| {
        format!(
            "IPRewriterPatterns({});\n",
            list(n, |i| format!("p{i} {} 1024-65535 - -", address(i)))
        ) + "Idle -> rw :: IPRewriter(pattern p1 0 0, drop); rw -> Discard; Idle -> [1] rw;"
    }),
    valid("mappers", LOAD, |n| {
        format!(
            "m :: RoundRobinIPMapper({});\n",
            list(n, |i| format!("{} 1024-65535 - - 0 0", address(i)))
        ) + "Idle -> rw :: IPRewriter(m) -> Discard;"
    }),
    valid("ports by name", LOAD, |n| {
        format!("PortInfo({});\nIdle -> Discard;", list(n, |i| format!("name{i} {}", i % 65_536)))
    }),
    valid("annotations by name", LOAD, |n| {
        format!("AnnotationInfo({});\nIdle -> Discard;", list(n, |i| format!("NAME{i} {}", i % 48)))
    }),
    valid("addresses named after one another", LOAD, |n| {
        format!(
            "AddressInfo(name0 10.0.0.1, {});\nIdle -> Discard;",
            list(n, |i| format!("name{} name{i}", i + 1))
        )
    }),
    valid("labels of a script", LOAD, |n| {
        let steps = list(n, |i| format!("goto end false, goto l{i} false, label l{i}"));
        format!("Script({steps}, stop);")
    }),
    valid("variables of a script", LOAD, |n| {
        format!(
            "Script({}, set y \"{}\", stop);",
            list(n, |i| format!("set x{i} {i}")),
            each(n, |i| format!("$x{i} "))
        )
    }),
    // A script expands a few dozen of them.
    at_most(32, "an instruction failed", "calls inside calls", LOAD, |n| {
        format!("Script(set x {}1{});", "$(add 1 ".repeat(n), ")".repeat(n))
    }),
    valid("weights", LOAD, |n| {
        let n = n / 2;
        format!("Idle -> s :: StrideSwitch({});\n", list(n, |i| (i % 100 + 1).to_string()))
            + &each(n, |i| format!("s[{i}] -> Discard;\n"))
    }),
    valid("elements of a HandlerAggregate", LOAD, |n| {
        let n = n / 2;
        each(n, |i| format!("Idle -> c{i} :: Counter -> Discard;\n"))
            + &format!("HandlerAggregate({});", list(n, |i| format!("ELEMENT c{i}")))
    }),
];
