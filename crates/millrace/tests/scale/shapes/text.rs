//! Text: tokens, variables, strings and comments.

use super::*;

pub(super) const SHAPES: &[Shape] = &[
    valid("variables", LANGUAGE, |n| {
        format!("define({});\nIdle ", list(n, |i| format!("$v{i} {}", i % 256)))
            + &each(n, |i| format!("-> Paint($v{i}) "))
            + "-> Discard;"
    }),
    valid("comments and line marks", LANGUAGE, |n| {
        each(n, |i| format!("// a comment\n# {i} \"file{i}.click\"\n/* another */\n"))
            + "Idle -> Discard;"
    }),
    valid("a long string", LANGUAGE, |n| {
        format!("Script(TYPE PASSIVE, set x \"{}\");", "a\\\"b\\n".repeat(n))
    }),
    wrong("requirements", |n| each(n, |i| format!("require(package{i});\n"))),
    valid("a long name", LANGUAGE, |n| format!("{} :: Idle -> Discard;", "a".repeat(10 * n))),
    valid("a long comment", LANGUAGE, |n| format!("/* {} */ Idle -> Discard;", "* / ".repeat(n))),
    valid("empty statements", LANGUAGE, |n| format!("Idle -> Discard{}", ";\n".repeat(10 * n))),
    valid("blank lines", LANGUAGE, |n| format!("Idle -> Discard;{}", " \n".repeat(10 * n))),
    valid("empty arguments", LANGUAGE, |n| format!("Script(TYPE PASSIVE{});", ",".repeat(n))),
    valid("definitions", LANGUAGE, |n| {
        each(n, |i| format!("define($v{i} {i});\n")) + "Idle -> Discard;"
    }),
    valid("requirements that hold", LANGUAGE, |n| {
        each(n, |_| "require(compact_config);\n".to_owned()) + "Idle -> Discard;"
    }),
    valid("variables in one string", LANGUAGE, |n| {
        "define($v 1);\n".to_owned()
            + &format!("Script(TYPE PASSIVE, set x \"{}\");", "$v ${v}".repeat(n))
    }),
    wrong("variables that double", |n| {
        "define($v0 aaaaaaaa);\n".to_owned()
            + &each(n, |i| format!("define($v{} $v{i}$v{i});\n", i + 1))
            + &format!("Idle -> Paint($v{n}) -> Discard;")
    }),
    wrong("a large number", |n| format!("Idle -> Paint({}) -> Discard;", "1".repeat(10 * n))),
    wrong("a large port", |n| format!("Idle -> t :: Tee; t[{}] -> Discard;", "1".repeat(10 * n))),
    wrong("a string without end", |n| format!("Idle -> Print(\"{}) -> Discard;", "a\n".repeat(n))),
    valid("a comment without end", CHECK, |n| format!("Idle -> Discard; /* {}", "a\n".repeat(n))),
    wrong("closing parentheses", |n| format!("Idle -> Print({} -> Discard;", ")".repeat(n))),
];
