//! No text of any size or content makes the compiler panic, hang or overflow its stack.

#![allow(clippy::unwrap_used, reason = "tests, in functions of their own")]

mod support;

use std::time::Duration;

use millrace_lang::{Options, SourceMap, Style, compile, format, print_flat, render_all};
use proptest::prelude::*;

/// Everything that can be done with a text.
fn everything(text: &str) {
    let mut map = SourceMap::default();
    let source = map.add("random", text);
    let (graph, diagnostics) = compile(&mut map, source, &Options::default());
    print_flat(&graph);
    render_all(&diagnostics, &map, Style::Snippet { color: true });
    render_all(&diagnostics, &map, Style::Click);
    if let Ok(printed) = format(&mut map, source) {
        assert!(printed.len() <= 40 * text.len() + 100, "{} bytes", printed.len());
    }
}

proptest! {
    #[test]
    fn random_characters(text in "\\PC{0,200}") {
        everything(&text);
    }

    #[test]
    fn random_bytes(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        everything(&String::from_utf8_lossy(&bytes));
    }

    #[test]
    fn random_tokens(text in support::token_soup()) {
        everything(&text);
    }

    #[test]
    fn mutated_configurations(text in support::config().prop_flat_map(support::mutated)) {
        everything(&text);
    }

    #[test]
    fn mutated_seeds(text in support::seed().prop_flat_map(support::mutated)) {
        everything(&text);
    }
}

/// Unoptimised code takes some six times longer; there the texts are smaller.
const SCALE: usize = if cfg!(debug_assertions) { 8 } else { 1 };

/// The time this thread has run: other tests and other programs do not count.
fn cpu_time() -> Duration {
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap();
    Duration::from_nanos(stat.split(' ').next().unwrap().parse().unwrap())
}

/// Compiles so many bytes of `unit` over and over; says how long that took.
fn timed(unit: &str, len: usize) -> Duration {
    let mut map = SourceMap::default();
    let source = map.add("repeated", unit.repeat(len / unit.len()));
    let start = cpu_time();
    let (graph, diagnostics) = compile(&mut map, source, &Options::default());
    let time = cpu_time().saturating_sub(start);
    let (elements, messages) = (graph.elements.len(), diagnostics.len());
    eprintln!("{unit:?}: {time:?}, {elements} elements, {messages} messages");
    time
}

#[test]
fn ten_megabytes() {
    let units = [
        "(",
        "[",
        "{",
        "->",
        "a->",
        "a(\n",
        "a(\n\n\n \n",
        "\"",
        "a :: B -> ",
        "{}",
        "a()",
        "](",
        "#\n",
    ];
    for unit in units {
        let time = timed(unit, (10 << 20) / SCALE);
        assert!(time < Duration::from_secs(2), "{unit:?} takes {time:?}");
    }
}

/// A tenth of that, of everything else: what is not linear shows here, too.
#[test]
fn a_megabyte_of_anything() {
    let units = [
        ")",
        "]",
        "}",
        "=>",
        ",",
        ";",
        ":",
        "::",
        "|",
        "||",
        "...",
        "$",
        "$x",
        "a",
        "a ",
        "a;",
        "a,",
        "a=>",
        "a[",
        "a(",
        "a{",
        "0",
        "-",
        "'",
        "\\",
        "\\<",
        "/",
        "//",
        "//\n",
        "/*",
        "/**/",
        "#",
        "# 1\n",
        "#1 \"f\"\n",
        "\n",
        "\r",
        " ",
        "\u{0}",
        "é",
        "a::b;",
        "a::b",
        "{};",
        "()",
        "();",
        "(->)",
        "(->)->",
        "{->}->",
        "a[0]->",
        "[0-65535]",
        "a->b[0-65535]=>[0-65535]c;",
        "elementclass ",
        "elementclass a",
        "elementclass a{",
        "elementclass a{}",
        "elementclass a{a}",
        "elementclass a{||...}",
        "require",
        "require(",
        "require(a)",
        "require(library a)",
        "define($a 1)",
        "define($a $a$a)",
        "a($",
        "a(${",
        "a($a)",
        "a(${a-",
        "a($(",
        "a(${a[",
        "a(\"",
        "a(/*",
        "{a]",
        "(a]",
        "input->",
        "{input[65535]->a}",
        "{$a|",
        "{$a,",
        "{a $a,",
        "{||",
        "{...",
        "$($(",
        "a($a,$a)",
        "a@1;",
        "a@1::b;a;",
        "(->a=>(->b",
        "[[",
        "a[]=>",
        "a,a[0-9]=>[0-9]a,a->",
    ];
    for unit in units {
        let time = timed(unit, (1 << 20) / SCALE);
        assert!(time < Duration::from_millis(600), "{unit:?} takes {time:?}");
    }
}

/// Texts whose parts refer to each other, where looking things up could take its time.
#[test]
fn many_of_each() {
    let many = |count: usize, line: &dyn Fn(usize) -> String| -> String {
        (0..count).map(line).collect::<String>()
    };
    let texts = [
        ("aliases", many(20_000, &|i| format!("elementclass A{} A{i}\n", i + 1)) + "A20000"),
        ("nesting", many(2_000, &|i| format!("elementclass A{} {{ A{i} }}\n", i + 1)) + "A2000"),
        ("names taken", many(10_000, &|i| format!("A@{}::B;A;", i + 9_000))),
        ("parameters", {
            let formals = many(5_000, &|i| format!("K{i} $v{i},"));
            let args = many(5_000, &|i| format!("K{} {i},", 4_999 - i));
            let formals = formals.trim_end_matches(',');
            format!("elementclass A {{ {formals} | B($v1) }}") + &format!("A({args});").repeat(20)
        }),
        ("defines", {
            let defines = many(20_000, &|i| format!("define($a{i} $a{});", i + 1));
            defines + &many(20_000, &|i| format!("A($a{i});"))
        }),
        ("alternatives", {
            let alternatives = many(250, &|i| format!("$a{i}, K{i} $b | ||"));
            format!("elementclass A {{ {alternatives} $x | }}") + &"A(1);".repeat(20_000)
        }),
        ("tunnels", {
            let row = many(10_000, &|_| "(->)->".to_owned());
            many(2_000, &|i| format!("a{i}::A;"))
                + &many(2_000, &|i| format!("a{i},"))
                + "->"
                + &row
                + "b"
        }),
        ("maze", {
            let both = "([0]->[0];[0]->[1];[1]->[0];[1]->[1])=>";
            format!("{}a::A=>{}b::B", many(100, &|i| format!("a{i}::A=>")), both.repeat(1_000))
        }),
        ("hub", {
            let ends =
                |c: char| many(5_000, &|i| format!("{c}{i}::X,")).trim_end_matches(',').to_owned();
            format!("{}->{{->}}->{}", ends('a'), ends('b'))
        }),
        ("circles", many(20_000, &|i| format!("a{i}::A->a{i};"))),
        ("undeclared", many(20_000, &|i| format!("elementname{i}::A(x);elementname{i}(y);"))),
    ];
    for (name, text) in texts {
        let mut map = SourceMap::default();
        let source = map.add(name, text);
        let classes = [String::from("A"), String::from("B")];
        for classes in [None, Some(&classes[..])] {
            let start = cpu_time();
            let options = Options { classes, ..Options::default() };
            let (graph, diagnostics) = compile(&mut map, source, &options);
            let flat = print_flat(&graph);
            let time = cpu_time().saturating_sub(start);
            eprintln!("{name}: {time:?}, {} messages, {} bytes", diagnostics.len(), flat.len());
            assert!(time < Duration::from_secs(4), "{name} takes {time:?}");
        }
    }
}
