//! Mistakes, each of which gets its message.

use super::*;

pub(super) const SHAPES: &[Shape] = &[
    wrong("unknown classes", |n| each(n, |i| format!("Idle -> Discrad{i};\n"))),
    wrong("undeclared names", |n| {
        each(n, |i| format!("a{i} :: Idle -> Discard;\n"))
            + &each(n, |i| format!("b{i} -> Discard;\n"))
    }),
    wrong("unknown elements in arguments", |n| {
        let n = n / 4;
        each(n, |i| format!("c{i} :: Counter;\n"))
            + &each(n, |i| {
                format!("Idle -> Queue -> s{i} :: Shaper(1) -> RED(1, 2, 1, d{i}) -> Discard;\n")
            })
    }),
    Shape {
        is_valid: false,
        ..valid("elements that offer nothing of the kind", LOAD, |n| {
            let reds = "Idle -> RED(1, 2, 1, QUEUES c) -> Queue -> Unqueue -> Discard;\n";
            "Idle -> c :: Counter -> Discard;\n".to_owned() + &reds.repeat(n / 4)
        })
    },
    wrong("unknown names of pins", |n| {
        each(n, |i| format!("a{i} :: Idle -> Discard;\n"))
            + &format!("StaticThreadSched({});", list(n, |i| format!("b{i} 0")))
    }),
    wrong("unknown keywords", |n| {
        format!("Idle -> Queue({}) -> Discard;", list(n, |i| format!("CAPCITY{i} 1")))
    }),
    wrong("too many arguments", |n| {
        format!("Idle -> Null({}) -> Discard;", list(n, |i| i.to_string()))
    }),
    wrong("names declared twice", |n| each(n, |_| "a :: Null;\n".to_owned())),
    wrong("ports without connection", |n| each(n, |i| format!("a{i} :: Null;\n"))),
    wrong("push to pull", |n| each(n, |_| "TimedSource -> Unqueue -> Discard;\n".to_owned())),
    wrong("outputs used twice", |n| {
        "a :: Null; Idle -> a;\n".to_owned() + &each(n, |_| "a -> Discard;\n".to_owned())
    }),
    wrong("syntax errors", |n| each(n, |_| "-> -> ;\n".to_owned())),
    wrong("open braces", |n| "Idle -> (".repeat(n)),
    wrong("open brackets", |n| "a[".repeat(n)),
    wrong("wrong values", |n| {
        format!("Idle -> RadixIPLookup({}) -> Discard;", list(n, |i| format!("1.2.3.{i}x 0")))
    }),
    wrong("wrong rules", |n| {
        format!(
            "Idle -> IPFilter({}) -> Discard;",
            list(n, |i| format!("allow scr host 1.2.3.{i}"))
        )
    }),
    wrong("unset variables", |n| {
        format!("Idle {}-> Discard;", each(n, |i| format!("-> Paint($v{i}) ")))
    }),
    wrong("variables that use each other", |n| {
        "define($v0 1);\n".to_owned()
            + &each(n, |i| format!("define($v{} $v{i});\n", i + 1))
            + &format!("Idle -> Paint($v{n}) -> Discard;")
    }),
    wrong("mistakes in one line", |n| each(n, |i| format!("Idle -> Discrad{i}; "))),
    wrong("long names nearly alike", |n| {
        let name = "a".repeat(n);
        format!("{name}b :: Idle -> Discard; {name}cd -> Discard;")
    }),
    wrong("a long class", |n| format!("Idle -> Discard{}a -> Discard;", "Discard".repeat(n))),
    wrong("a long keyword", |n| format!("Idle -> Queue({} 1) -> Discard;", "CAPACITY".repeat(n))),
    valid("keywords given twice", CHECK, |n| {
        format!("Idle -> Paint(1{}) -> Discard;", ", ANNO 1".repeat(n))
    }),
    wrong("unknown handlers", |n| {
        "c :: Counter; Idle -> c -> Discard;\n".to_owned()
            + &format!("Script(TYPE PASSIVE, {});\nFoo;", list(n, |i| format!("write d{i}.reset")))
    }),
    wrong("compounds with mistakes", |n| {
        each(n, |i| {
            format!(
                "elementclass C{i} {{ input -> Discrad -> output }}\nIdle -> C{i} -> Discard;\n"
            )
        })
    }),
    wrong("missing arguments", |n| each(n, |_| "Idle -> Paint -> Discard;\n".to_owned())),
    wrong("loops of pushes", |n| {
        each(n, |i| {
            format!("a{i} :: Tee -> b{i} :: Null -> a{i}; a{i}[1] -> Unqueue -> Discard;\n")
        })
    }),
    wrong("ports beyond", |n| each(n, |i| format!("Idle -> [{}] Discard;\n", i % 60_000 + 1))),
    Shape {
        is_valid: false,
        ..valid("files that are not there", LOAD, |n| {
            each(n, |i| format!("FromDump(/none/{i}) -> Discard;\n"))
        })
    },
];
