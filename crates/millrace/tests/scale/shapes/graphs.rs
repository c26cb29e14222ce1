//! Graphs: elements, ports and connections.

use super::*;

pub(super) const SHAPES: &[Shape] = &[
    valid("a chain", ALL, |n| format!("Idle {} -> Discard;", "-> Null ".repeat(n))),
    valid("declarations, then connections", &[RUN, "graph"], |n| {
        let declared = each(n, |i| format!("a{i} :: Null;\n"));
        declared
            + &each(n - 1, |i| format!("a{i} -> a{};\n", i + 1))
            + "Idle -> a0;"
            + &format!("a{} -> Discard;", n - 1)
    }),
    limited("outputs of one element", &[RUN, "graph"], PORTS, |n| {
        "Idle -> t :: Tee;\n".to_owned() + &each(n, |i| format!("t[{i}] -> Discard;\n"))
    }),
    valid("inputs of one element", &[RUN, "graph"], |n| {
        "d :: Discard;\n".to_owned() + &each(n, |_| "Idle -> d;\n".to_owned())
    }),
    valid("tasks", &[RUN, "graph"], |n| {
        each(n / 4, |_| "Idle -> Queue -> Unqueue -> Discard;\n".to_owned())
    }),
    valid("sources before one chain", &["plan"], |n| {
        let chain = format!("c :: Null {}-> Discard;\n", "-> Null ".repeat(n / 2));
        chain + &"InfiniteSource(LIMIT 1) -> c;\n".repeat(n / 2)
    }),
    valid(
        "threads in a chain",
        &["run --threads 4 --simtime --for 1ms", "plan --threads 4"],
        |n| format!("Idle {} -> Discard;", "-> Pipeliner ".repeat(n)),
    ),
    valid("queues in a ring", &[RUN, "plan"], |n| {
        "u0 :: Null;\nu0 ".to_owned() + &"-> Queue -> Unqueue ".repeat(n / 2) + "-> u0; Idle -> u0;"
    }),
    limited("notifiers before one task", LOAD, PORTS, |n| {
        let queues = each(n, |i| format!("Idle -> Queue -> [{i}] s;\n"));
        "s :: RoundRobinSched -> Unqueue -> Discard;\n".to_owned() + &queues
    }),
    limited("a range of ports", LANGUAGE, PORTS, |n| {
        format!("Idle -> t :: Tee({n});\nt[0-{}] -> Discard;", n - 1)
    }),
    valid("elements in a group", LANGUAGE, |n| {
        let names = list(n, |i| format!("a{i}"));
        format!("{names} :: Null;\nIdle -> t :: Tee({n}) => {names} -> Discard;")
    }),
    valid("a packet through a chain", LOAD, |n| {
        format!("InfiniteSource(LIMIT 1) {} -> Discard;", "-> Tee ".repeat(n))
    }),
    deep("a packet pulled through a chain", LOAD, 1_000, |n| {
        format!(
            "InfiniteSource(LIMIT 1) -> Queue {} -> Unqueue -> Discard;",
            "-> RandomSample(1) ".repeat(n)
        )
    }),
    valid("paths that part and join", &[RUN, "plan"], |n| {
        "Idle -> t0 :: Tee;\n".to_owned()
            + &each(n / 2, |i| format!("t{i} -> t{0} :: Tee; t{i}[1] -> t{0};\n", i + 1))
            + &format!("t{} -> Discard;", n / 2)
    }),
    deep("pulled paths that part and join", &[RUN, "plan"], 2_000, |n| {
        "Idle -> Queue -> s0 :: RoundRobinSched;\n".to_owned()
            + &each(n / 4, |i| {
                let next = i + 1;
                format!(
                    "s{i} -> t{i} :: PullTee -> s{next} :: RoundRobinSched; Idle -> Queue -> [1] s{next};\n"
                ) + &format!("t{i}[1] -> Discard;\n")
            })
            + &format!("s{} -> Unqueue -> Discard;", n / 4)
    }),
    deep("schedulers in a chain", &[RUN, "plan"], 3_996, |n| {
        "Idle -> Queue -> s0 :: PrioSched;\n".to_owned()
            + &each(n / 4, |i| {
                format!("s{i} -> s{0} :: PrioSched; Idle -> Queue -> [1] s{0};\n", i + 1)
            })
            + &format!("s{} -> Unqueue -> Discard;", n / 4)
    }),
    valid("sources before one queue", &[RUN, "plan"], |n| {
        "q :: Queue -> Unqueue -> Discard;\n".to_owned()
            + &each(n, |_| "RatedSource(RATE 1, LIMIT 1) -> q;\n".to_owned())
    }),
    valid("queues behind one source", &[RUN, "plan"], |n| {
        "RatedSource(RATE 1, LIMIT 1) -> t :: Tee;\n".to_owned()
            + &each(n / 2, |i| format!("t[{i}] -> Queue -> Unqueue -> Discard;\n"))
    }),
    valid("timers", LOAD, |n| each(n, |_| "TimedSource(INTERVAL 0.0001) -> Discard;\n".to_owned())),
    limited("outputs of a switch", &[RUN, "graph"], PORTS, |n| {
        "Idle -> s :: RoundRobinSwitch;\n".to_owned()
            + &each(n, |i| format!("s[{i}] -> Discard;\n"))
    }),
    limited("outputs of HashSwitch", LOAD, PORTS, |n| {
        "Idle -> s :: HashSwitch(0, 4);\n".to_owned()
            + &each(n, |i| format!("s[{i}] -> Discard;\n"))
    }),
    valid("groups of elements", LANGUAGE, |n| {
        each(n / 4, |i| {
            format!("a{i}, b{i} :: Null;\nIdle => a{i}, b{i} => Discard, Discard;\n")
                .replace("Idle =>", "Idle, Idle =>")
        })
    }),
];
