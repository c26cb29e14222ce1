//! Click's tools, other outputs, and commands that read several files.

use super::*;

const TOOLS: &[&str] = &[
    "click-flatten",
    "click-undead",
    "click-align",
    "click-check",
    "click-pretty",
    "click-pretty --dot",
    "click-combine other=scale.click",
];

const XFORM: &[&str] = &["click-xform -p scale.click"];

/// Elements to replace, and one to put in their place.
fn pattern(elements: &str) -> String {
    format!(
        "elementclass P {{ input -> {elements} -> output }}
         elementclass P_Replacement {{ input -> Paint(1) -> output }}\n"
    )
}

pub(super) const SHAPES: &[Shape] = &[
    valid("a chain to the tools", TOOLS, |n| {
        format!("RatedSource {}-> Discard;", "-> Counter ".repeat(n))
    }),
    valid("paths to the tools", TOOLS, |n| {
        each(n / 4, |i| format!("RatedSource -> q{i} :: Queue -> Unqueue -> Discard;\n"))
    }),
    limited("outputs to the tools", TOOLS, PORTS, |n| {
        "RatedSource -> t :: Tee;\n".to_owned() + &each(n, |i| format!("t[{i}] -> Discard;\n"))
    }),
    valid("replacements", XFORM, |n| {
        format!("{} RatedSource {}-> Discard;", pattern("Counter"), "-> Counter ".repeat(n))
    }),
    valid("replacements on paths", XFORM, |n| {
        pattern("Null -> Counter")
            + &each(n / 4, |i| {
                format!("RatedSource -> Counter -> n{i} :: Null -> Counter -> Discard;\n")
            })
    }),
    valid("a pattern that is nearly there", XFORM, |n| {
        format!("{} RatedSource {}-> Discard;", pattern("Null -> Counter"), "-> Null ".repeat(n))
    }),
    limited("replacements behind a hub", XFORM, PORTS, |n| {
        pattern("Counter")
            + "RatedSource -> t :: Tee;\n"
            + &each(n, |i| format!("t[{i}] -> Counter -> Discard;\n"))
    }),
    valid("dead paths", &["click-undead"], |n| {
        "RatedSource -> Discard;\n".to_owned()
            + &each(n / 4, |_| "Idle -> Null -> Null -> Discard;\n".to_owned())
    }),
    valid("a dead chain", &["click-undead"], |n| {
        format!(
            "RatedSource -> s :: StaticSwitch(0) -> Discard; s[1] {}-> Discard;",
            "-> Null ".repeat(n)
        )
    }),
    valid(
        "other formats",
        &[
            "graph --format svg",
            "graph --format mermaid",
            "plan --json",
            "run --json --simtime --for 1ms",
            "click -q -h list",
            "click -q -h flatconfig",
            "click -q -h *.class",
            "fmt --check",
            "check scale.click scale.click scale.click",
        ],
        |n| each(n / 4, |_| "Idle -> Queue -> Unqueue -> Discard;\n".to_owned()),
    ),
];
