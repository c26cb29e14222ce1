//! Compound elements.

use std::fmt::Write as _;

use super::*;

pub(super) const SHAPES: &[Shape] = &[
    valid("classes", LANGUAGE, |n| {
        each(n, |i| format!("elementclass C{i} {{ input -> Null -> output }}\n"))
            + "Idle "
            + &each(n, |i| format!("-> C{i} "))
            + "-> Discard;"
    }),
    valid("instances", &[RUN, "flatten"], |n| {
        let inside = "-> Null ".repeat(8);
        format!("elementclass C {{ $a | input {inside}-> Paint($a) -> output }}\nIdle ")
            + &each(n / 10, |i| format!("-> C({}) ", i % 256))
            + "-> Discard;"
    }),
    valid("classes that double", LANGUAGE, |n| {
        let mut text = "elementclass C0 { input -> Null -> output }\n".to_owned();
        let levels = (n / 4).ilog2();
        for i in 1..=levels {
            let _ =
                writeln!(text, "elementclass C{i} {{ input -> C{0} -> C{0} -> output }}", i - 1);
        }
        text + &format!("Idle -> C{levels} -> Discard;")
    }),
    at_most(66_048, "more than 256 definitions", "overloads", LOAD, |n| {
        let parameters = |k: usize| (0..k).map(|i| format!("$v{i}")).collect::<Vec<_>>().join(", ");
        let one = |k: usize| format!("{} | input -> Null -> output", parameters(k));
        let all: Vec<String> = (0..n.isqrt()).map(one).collect();
        format!("elementclass C {{ {} }}\nIdle -> C -> Discard;", all.join("\n|| "))
    }),
    wrong("classes inside classes", |n| {
        each(n, |i| format!("elementclass C{i} {{\n")) + &each(n, |_| "}\n".to_owned())
    }),
    wrong("classes that hold each other", |n| {
        each(n, |i| format!("elementclass C{i} {{ input -> C{} -> output }}\n", (i + 1) % n))
            + "Idle -> C0 -> Discard;"
    }),
    at_most(9_999, "expansion depth exceeded", "classes that hold the one before", LOAD, |n| {
        "elementclass C0 { $a | input -> Paint($a) -> output }\n".to_owned()
            + &each(n / 100, |i| {
                format!("elementclass C{0} {{ $a | input -> C{i}($a) -> output }}\n", i + 1)
            })
            + &format!("Idle -> C{}(1) -> Discard;", n / 100)
    }),
    valid("a class declared again", LANGUAGE, |n| {
        each(n, |_| "elementclass C { input -> Null -> output }\n".to_owned())
            + "Idle -> C -> Discard;"
    }),
    valid("other names of a class", LANGUAGE, |n| {
        "elementclass C0 { input -> Null -> output }\n".to_owned()
            + &each(n, |i| format!("elementclass C{} C{i};\n", i + 1))
            + &format!("Idle -> C{n} -> Discard;")
    }),
    valid("compounds without a name", &[RUN], |n| {
        format!("Idle {} -> Discard;", "-> { input -> Null -> output } ".repeat(n))
    }),
    valid("parameters", LANGUAGE, |n| {
        format!(
            "elementclass C {{ {} | input -> Paint($v0) -> output }}\n",
            list(n, |i| format!("$v{i}"))
        ) + &format!("Idle -> C({}) -> Discard;", list(n, |i| (i % 256).to_string()))
    }),
    limited("ports of a compound", LANGUAGE, PORTS, |n| {
        let inside = each(n, |i| format!("input[{i}] -> [{i}] output;\n"));
        format!("elementclass C {{ {inside} }}\nc :: C;\n")
            + &each(n, |i| format!("Idle -> [{i}] c [{i}] -> Discard;\n"))
    }),
    wrong("a mistake in each instance", |n| {
        "elementclass C { $a | input -> Paint($a) -> output }\nIdle ".to_owned()
            + &each(n, |i| format!("-> C(x{i}) "))
            + "-> Discard;"
    }),
    wrong("mistakes deep inside", |n| {
        "elementclass C0 { $a | input -> Paint($a) -> output }\n".to_owned()
            + &each(50, |i| {
                format!("elementclass C{0} {{ $a | input -> C{i}($a) -> output }}\n", i + 1)
            })
            + &each(n / 50, |i| format!("Idle -> C50(x{i}) -> Discard;\n"))
    }),
];
