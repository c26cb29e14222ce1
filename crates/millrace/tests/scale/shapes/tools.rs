//! Click's tools, other outputs, and commands that read several files.
//!
//! One is missing, for it takes the square of the number of elements: click-xform, which searches anew after each
//! replacement.

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
