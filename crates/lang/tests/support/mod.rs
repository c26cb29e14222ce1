//! Random texts for the property tests: configurations, near configurations and rubbish.

#![allow(dead_code, reason = "no test file uses all of it")]

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::sample::select;

/// Configurations that people might write, as fragments joined by random space and comments.
pub(crate) fn config() -> impl Strategy<Value = String> {
    statements(3).prop_map(|tokens| tokens.concat())
}

/// The seeds of the fuzz target: whole configurations.
pub(crate) fn seed() -> impl Strategy<Value = String> {
    let seeds: &'static [&str] = &[
        include_str!("../../../../fuzz/corpus/parse/broken.click"),
        include_str!("../../../../fuzz/corpus/parse/groups.click"),
        include_str!("../../../../fuzz/corpus/parse/nested.click"),
        include_str!("../../../../fuzz/corpus/parse/overloads.click"),
        include_str!("../../../../fuzz/corpus/parse/router.click"),
        include_str!("../../../../fuzz/corpus/parse/strings.click"),
    ];
    select(seeds).prop_map(str::to_owned)
}

/// Anything made of the language's tokens.
pub(crate) fn token_soup() -> impl Strategy<Value = String> {
    let tokens: &'static [&str] = &[
        "a",
        "b",
        "Queue",
        "input",
        "output",
        "->",
        "=>",
        "::",
        ";",
        ",",
        "(",
        ")",
        "[",
        "]",
        "{",
        "}",
        "|",
        "||",
        "...",
        "$x",
        "elementclass",
        "require",
        "provide",
        "define",
        "0",
        "1-2",
        "-",
        "/",
        "//",
        "/*",
        "*/",
        "\n",
        " ",
        "#",
        "# 3 \"f\"\n",
        "\"",
        "'",
        "\\",
        "\\<",
        ">",
        "$",
        "${",
        "${x-",
        "$(",
        "é",
        "\u{0}",
        "\r\n",
        "define($x 1)",
        "x :: { -> }",
        "(->)",
        "@",
        "__REST__ $r |",
        "library",
    ];
    vec(select(tokens), 0..60).prop_map(|tokens| tokens.concat())
}

/// A text with a few bytes taken out, put in or doubled.
pub(crate) fn mutated(text: String) -> impl Strategy<Value = String> {
    let edit = (any::<prop::sample::Index>(), any::<prop::sample::Index>(), 0..4u8, any::<char>());
    vec(edit, 1..4).prop_map(move |edits| {
        let mut chars: Vec<char> = text.chars().collect();
        for (at, to, kind, c) in edits {
            let (at, to) = (at.index(chars.len() + 1), to.index(chars.len() + 1));
            let (at, to) = (at.min(to), at.max(to).min(at.min(to) + 200));
            match kind {
                0 => drop(chars.drain(at..to)),
                1 => chars.insert(at, c),
                2 => {
                    chars.insert(at, *b"(){}[]->|;,:$\"'\\/#".get(to % 17).unwrap_or(&b'(') as char)
                }
                _ => {
                    let copy: Vec<char> = chars[at..to].to_vec();
                    chars.splice(at..at, copy);
                }
            }
        }
        chars.into_iter().collect()
    })
}

type Tokens = Vec<String>;

fn statements(depth: u32) -> BoxedStrategy<Tokens> {
    vec(statement(depth), 0..5).prop_map(|list| list.concat()).boxed()
}

fn statement(depth: u32) -> BoxedStrategy<Tokens> {
    let end = select(&[";", ";\n", "\n;", ";;\n\n", " ; // end\n", ";/* x\n y */\n"][..]);
    let chain = (chain(depth), end).prop_map(|(mut chain, end)| {
        chain.push(end.to_owned());
        chain
    });
    let directive = select(
        &[
            "require(foo, package bar);",
            "define($x 1, $y $x);\n",
            "provide(p)\n",
            "require ( compact_config )",
            "# 7 \"other.click\"\n",
            "// a line\n",
            "\n\n/* a block */\n",
        ][..],
    );
    // A mark has to start its line.
    let directive = directive.prop_map(|text| vec!["\n".to_owned(), text.to_owned()]);
    if depth == 0 {
        return prop_oneof![4 => chain, 1 => directive].boxed();
    }
    let class = (name("CDE"), class(depth - 1)).prop_map(|(name, class)| {
        let mut tokens = vec!["elementclass ".to_owned(), name, " ".to_owned()];
        tokens.extend(class);
        tokens.push("\n".to_owned());
        tokens
    });
    prop_oneof![6 => chain, 1 => directive, 2 => class].boxed()
}

fn chain(depth: u32) -> BoxedStrategy<Tokens> {
    let arrow = select(&["->", "->", "=>", ","][..]);
    let implicit = (any::<bool>(), any::<bool>());
    (vec((element(depth), gap(), arrow, gap()), 1..5), implicit)
        .prop_map(move |(parts, (first, last))| {
            let mut tokens = Vec::new();
            // Only inside brackets may the ends be missing; elsewhere that is an error.
            if depth < 3 && first {
                tokens.push("-> ".to_owned());
            }
            let count = parts.len();
            for (index, (element, before, arrow, after)) in parts.into_iter().enumerate() {
                tokens.extend(element);
                if index + 1 < count || (depth < 3 && last && arrow != ",") {
                    tokens.extend([before, arrow.to_owned(), after]);
                }
            }
            tokens
        })
        .boxed()
}

fn element(depth: u32) -> BoxedStrategy<Tokens> {
    let config = select(
        &[
            "",
            "",
            "",
            "()",
            "(1, $x)",
            "( a ) ",
            "(\n  1, // )\n  \"))\" )",
            "(x, y, \"a\\\"b\")",
            " (A 1)",
            "(\\<29 /* ) */>)",
            "(${x[0]-z}, '$x')",
            "(\n# 9 \"m\"\nv)",
        ][..],
    );
    let ports = select(&["", "", "", "", "[0]", " [ 1 ] ", "[0,1]", "[0-2]", "[]", "[1,]"][..]);
    let plain = prop_oneof![
        3 => name("abcd").prop_map(|name| vec![name]),
        2 => (name("abcd"), gap(), name("ABCD"), config.clone())
            .prop_map(|(name, gap, class, config)| vec![name, gap, "::".into(), class, config.into()]),
        2 => (name("ABCD"), config.clone()).prop_map(|(class, config)| vec![class, config.into()]),
    ];
    let body = if depth == 0 {
        plain.boxed()
    } else {
        let group = (gap(), statements(depth - 1), gap()).prop_map(|(open, inner, close)| {
            let mut tokens = vec!["(".to_owned(), open];
            tokens.extend(inner);
            tokens.extend([close, ")".to_owned()]);
            tokens
        });
        let compound = (class(depth - 1), config).prop_map(|(mut class, config)| {
            class.push(config.to_owned());
            class
        });
        prop_oneof![6 => plain, 1 => group, 1 => compound].boxed()
    };
    (ports.clone(), body, ports)
        .prop_map(|(before, body, after)| {
            let mut tokens = vec![before.to_owned()];
            tokens.extend(body);
            tokens.push(after.to_owned());
            tokens
        })
        .boxed()
}

fn class(depth: u32) -> BoxedStrategy<Tokens> {
    let formals = select(&["", "", "$x |", "\n$x, K $y |\n", "| ", "__REST__ $x // r\n|"][..]);
    let body = (gap(), formals, statements(depth)).prop_map(|(gap, formals, items)| {
        let mut tokens = vec![gap, formals.to_owned()];
        tokens.extend(items);
        tokens
    });
    let end = select(&["", "", "|| ...", "||\n// none\n..."][..]);
    let compound = (vec(body, 1..3), end).prop_map(|(bodies, end)| {
        let mut tokens = vec!["{".to_owned()];
        for (index, body) in bodies.into_iter().enumerate() {
            if index > 0 {
                tokens.push("||".to_owned());
            }
            tokens.extend(body);
        }
        tokens.extend([end.to_owned(), "}".to_owned()]);
        tokens
    });
    compound.boxed()
}

fn gap() -> impl Strategy<Value = String> {
    let gaps: &'static [&str] = &[
        "",
        " ",
        " ",
        " ",
        "\n",
        "\n  ",
        " // c\n",
        " /* c */ ",
        "\n  // own\n  ",
        "/* a\n b */",
        "\n\n",
        "\n# 20 \"gap\"\n",
    ];
    select(gaps).prop_map(str::to_owned)
}

fn name(letters: &'static str) -> impl Strategy<Value = String> {
    select(letters.as_bytes()).prop_map(|letter| char::from(letter).to_string())
}
