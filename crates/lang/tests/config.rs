//! Configuration strings and variables: tables, and properties against simple models.

use std::borrow::Cow;

use millrace_lang::config::{
    is_identifier, is_word, keyword, quote, shift_word, split_args, split_words, uncomment, unquote,
};
use millrace_lang::variables::{Reference, TooLong, expand, expand_quoted};
use proptest::prelude::*;

#[test]
fn arguments() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        ("  ", &[]),
        ("a", &["a"]),
        ("a, b ,c", &["a", "b", "c"]),
        ("a,", &["a"]),
        ("a,,", &["a", ""]),
        (",a", &["", "a"]),
        (" /* x, y */ ", &[]),
        ("1, /* none */", &["1"]),
        ("a /*?*/ b,  c, ", &["a b", "c"]),
        ("a/**/b", &["a b"]),
        ("a  b", &["a  b"]),
        ("\"x, y\" // ?", &["\"x, y\""]),
        ("'a, \"b', \"c, 'd\"", &["'a, \"b'", "\"c, 'd\""]),
        ("\"a\\\", b\", c", &["\"a\\\", b\"", "c"]),
        ("\\<2c, /* > */ 2c>, b", &["\\<2c, /* > */ 2c>", "b"]),
        ("f(a, b)", &["f(a", "b)"]),
        ("a // one, two\n, b", &["a", "b"]),
        ("a // one\r\nb", &["a b"]),
        ("'open, a", &["'open, a"]),
        ("\"open, a", &["\"open, a"]),
        ("/* open, a", &[]),
        ("é, ü", &["é", "ü"]),
    ];
    for (text, expected) in cases {
        let args = split_args(text);
        let found: Vec<&str> = args.iter().map(|arg| &*arg.text).collect();
        assert_eq!(&found, expected, "{text:?}");
        for arg in &args {
            let slice = &text[arg.start..arg.end];
            assert_eq!(uncomment(slice), arg.text, "{text:?}");
        }
    }
}

#[test]
fn words() {
    let cases: &[(&str, &[&str])] = &[
        ("", &[]),
        (" a  b,\tc\n", &["a", "b,", "c"]),
        ("  'a /*?*/ b'c ", &["'a /*?*/ b'c"]),
        ("a/*x*/b", &["a", "b"]),
        ("a //x\nb", &["a", "b"]),
        ("\"a b\"\\<20 20>c d", &["\"a b\"\\<20 20>c", "d"]),
        ("a/b", &["a/b"]),
    ];
    for (text, expected) in cases {
        let words = split_words(text);
        let found: Vec<&str> = words.iter().map(|word| word.text).collect();
        assert_eq!(&found, expected, "{text:?}");
        for word in words {
            assert!(text[word.start..].starts_with(word.text), "{text:?}");
        }
    }
    assert_eq!(shift_word(" a  b c "), ("a", "b c "));
    assert_eq!(shift_word("a"), ("a", ""));
    assert_eq!(shift_word(""), ("", ""));
}

#[test]
fn keywords() {
    assert_eq!(keyword("LIMIT 10"), Some(("LIMIT", "10")));
    assert_eq!(keyword("STOP"), Some(("STOP", "")));
    assert_eq!(keyword("a.b:c?! \t x y"), Some(("a.b:c?!", "x y")));
    for arg in ["", " A 1", "\"A\" 1", "A-B 1", "A=1", "é 1"] {
        assert_eq!(keyword(arg), None, "{arg:?}");
    }
}

#[test]
fn quotes_and_escapes() {
    let cases: &[(&str, &[u8])] = &[
        ("plain", b"plain"),
        ("a\"b\"c", b"abc"),
        ("a'b\"'c", b"ab\"c"),
        ("\"\\a\\b\\t\\n\\v\\f\\r\\\\\\\"\\$\\,\\q\"", b"\x07\x08\t\n\x0b\x0c\r\\\"$,q"),
        ("\"\\0\\12\\1011\\x41\\x141g\"", b"\0\nA1A\x41g"),
        ("\"a\\\nb\\\r\nc\\\rd\"", b"abcd"),
        ("'a\\n'", b"a\\n"),
        ("a\\n", b"a\\n"),
        ("\\<48656c6C 6f 2 /* and 33 */ 1>", b"Hello!"),
        ("\"\\<4>\\<zz41\"", b"A"),
        ("'\\<41>'", b"\\<41>"),
        ("\\", b"\\"),
        ("\"\\", b"\\"),
        ("a /* x */ \"b /* y */\"", b"a b /* y */"),
        ("\"\\xff\\377\"", b"\xff\xff"),
        ("é", "é".as_bytes()),
    ];
    for (text, expected) in cases {
        assert_eq!(&unquote(text), expected, "{text:?}");
    }
    assert_eq!(quote(b""), "\"\"");
    assert_eq!(quote("é\0~ \x7f".as_bytes()), "\"\\303\\251\\000~ \\177\"");
}

#[test]
fn identifiers_and_words() {
    for text in ["a", "1", "a/b", "@1/_", "A@1/b@2"] {
        assert!(is_identifier(text), "{text}");
    }
    for text in ["", "/", "a/", "/a", "a//b", "a b", "a-b", "é"] {
        assert!(!is_identifier(text), "{text}");
    }
    assert!(is_word("a-b:c$") && !is_word("") && !is_word("a b") && !is_word("a,b"));
    assert!(!is_word("a\"") && !is_word("a\\") && !is_word("é"));
}

/// `$x` is `1`, `$list` is `a 'b c' d`, `$q` has quotes, and `$(now)` is `12`.
fn lookup(reference: Reference<'_>) -> Option<Cow<'static, str>> {
    match reference {
        Reference::Name("x") => Some(Cow::from("1")),
        Reference::Name("list") => Some(Cow::from("a 'b c' d")),
        Reference::Name("q") => Some(Cow::from("say \"hi\" $x")),
        Reference::Name("empty") => Some(Cow::from("")),
        Reference::Name("?") => Some(Cow::from("status")),
        Reference::Call("now") => Some(Cow::from("12")),
        Reference::Call("id 1") => Some(Cow::from("one")),
        _ => None,
    }
}

#[test]
fn variables() {
    let cases = [
        ("", ""),
        ("$x", "1"),
        ("a$x$x/b", "a11/b"),
        ("$xy ${x}y", "$xy 1y"),
        ("$", "$"),
        ("$$x", "$$x"),
        ("$ x", "$ x"),
        ("'$x' \"$x\" '\"$x'", "'$x' \"1\" '\"$x'"),
        ("\\$x \"\\$x\" \"\\\\$x\"", "\\1 \"\\$x\" \"\\\\1\""),
        ("$q \"$q\"", "say \"hi\" $x \"say \\\"hi\\\" \\$x\""),
        ("// $x\n$x /* $x */ $x", "// $x\n1 /* $x */ 1"),
        ("${no} ${no-} ${no-d} ${x-d} ${empty-d}", "${no}  d 1 "),
        ("${no-$x} ${no-${x}}", "1 1"),
        ("${list[0]}${list[1]} ${list[3]} ${list[$x]}", "a'b c'  'b c'"),
        ("${list[z]} ${no[0]} ${no[0]-d}", "${list[z]} ${no[0]} d"),
        ("$(now) $(other) $(other $x) $(id $x)", "12 $(other) $(other 1) one"),
        ("$(a (b) \")\" $x)", "$(a (b) \")\" 1)"),
        ("$? $#", "status $#"),
        ("$x ${x $x", "1 ${x $x"),
        ("$x $(x $x", "1 $(x $x"),
    ];
    for (text, expected) in cases {
        assert_eq!(expand(text, 1000, lookup).unwrap(), expected, "{text:?}");
    }
    assert_eq!(
        expand_quoted("$q \"$x\" $no", 99, lookup).unwrap(),
        "\"say \\\"hi\\\" \\$x\" \"1\" $no"
    );
    assert!(matches!(expand("no dollar", 0, lookup), Ok(Cow::Borrowed(_))));
    assert_eq!(expand("$x$x$x$x", 3, lookup), Err(TooLong));
}

proptest! {
    #[test]
    fn quoting_is_undone(bytes: Vec<u8>) {
        let quoted = quote(&bytes);
        prop_assert_eq!(unquote(&quoted), bytes);
        prop_assert!(quoted.bytes().all(|b| (b' '..=b'~').contains(&b)));
        // It is one argument and one word, and no variable is replaced in it.
        prop_assert_eq!(split_args(&quoted).len(), 1);
        prop_assert_eq!(split_words(&quoted).len(), 1);
        let all = |_: Reference<'_>| Some(Cow::from("X"));
        prop_assert_eq!(expand(&quoted, 10_000, all).unwrap(), quoted.as_str());
    }

    #[test]
    fn arguments_are_joined_by_commas(parts in proptest::collection::vec("[a-z]( ?[a-z\"']){0,4}", 0..5)) {
        let even = |part: &str, c: char| part.matches(c).count().is_multiple_of(2);
        let whole = |part: &String| even(part, '"') && even(part, '\'')
            && !(part.contains('"') && part.contains('\''));
        prop_assume!(parts.iter().all(whole));
        let text = parts.join(" , ");
        let args = split_args(&text);
        let found: Vec<&str> = args.iter().map(|arg| &*arg.text).collect();
        prop_assert_eq!(found, parts);
    }

    /// Whatever the text, its arguments come in order, inside it and apart.
    #[test]
    fn arguments_have_their_places(text in "[a, '\"/*\\\\<>\n\u{e9}$(){}]{0,30}") {
        let mut end = 0;
        for arg in split_args(&text) {
            prop_assert!(end <= arg.start && arg.start <= arg.end, "{:?}", arg);
            prop_assert!(text.get(arg.start..arg.end).is_some());
            prop_assert!(arg.text.len() <= arg.end - arg.start);
            end = arg.end;
        }
        for word in split_words(&text) {
            prop_assert!(!word.text.is_empty());
        }
        unquote(&text);
        let all = |_: Reference<'_>| Some(Cow::from("value"));
        let _ = expand(&text, 1000, all);
        // What nobody knows stays, up to a reference that nothing closes.
        prop_assert_eq!(expand(&text, 1000, |_| None).unwrap(), text.as_str());
    }
}
