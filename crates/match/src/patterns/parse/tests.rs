//! Tests of what is accepted, and of the positions of errors.

use super::*;
use crate::patterns::{Content, Kind, Kinds, Rule};

fn plain(text: &str) -> Result<PatternSet, ParseError> {
    PatternSet::parse(text.as_bytes(), Format::Plain, PlainOptions::default())
}

fn snort(text: &str) -> Result<PatternSet, ParseError> {
    PatternSet::parse(text.as_bytes(), Format::Snort, PlainOptions::default())
}

/// The rule of a file with one.
fn only(set: Result<PatternSet, ParseError>) -> Rule {
    let set = set.unwrap();
    assert_eq!(set.len(), 1);
    set.rules()[0].clone()
}

/// The contents of the options of a rule.
fn contents(options: &str) -> Vec<Content> {
    only(snort(&format!("alert ip any any -> any any ({options})"))).contents
}

#[test]
fn plain_patterns() {
    let cases: &[(&str, &[u8])] = &[
        ("abc", b"abc"),
        ("  a b \t", b"a b"),
        ("a\\ ", b"a "),
        ("|0d 0A|x|00|", b"\r\nx\0"),
        ("|0d0a|", b"\r\n"),
        (r"\x41\n\t\0\101\\\|\#", b"A\n\t\0A\\|#"),
        (r"\0001", b"\x001"),
        ("a # b", b"a # b"),
        ("alerts", b"alerts"),
        ("win\r", b"win"),
    ];
    for (text, bytes) in cases {
        assert_eq!(only(plain(text)), Rule::of(Content::of(*bytes)), "{text:?}");
    }
    let set = plain("# first\n\na\n  \n#b\nc").unwrap();
    let found: Vec<_> = set.rules().iter().map(|rule| &*rule.contents[0].bytes).collect();
    assert_eq!(found, [b"a", b"c"]);
    let nocase = PatternSet::parse(b"a", Format::Auto, PlainOptions { nocase: true });
    assert!(nocase.unwrap().rules()[0].contents[0].nocase);
    // Bytes that are not UTF-8.
    let set = PatternSet::parse(b"\xff\xfe", Format::Auto, PlainOptions::default()).unwrap();
    assert_eq!(set.rules()[0].contents[0].bytes, b"\xff\xfe");
}

#[test]
fn the_format_follows_from_the_first_line() {
    let auto =
        |text: &str| PatternSet::parse(text.as_bytes(), Format::Auto, PlainOptions::default());
    let drop = "# ours\ndrop tcp any any -> any any (content:\"a\"; sid:1;)";
    assert_eq!(
        auto(drop).unwrap_err().to_string(),
        "line 2, column 1: action 'drop': only 'alert' is supported"
    );
    for text in ["drop", "drop table users", "reject", "a -> b"] {
        assert_eq!(only(auto(text)), Rule::of(Content::of(text.as_bytes())));
    }
    // A byte order mark is part of neither the first pattern nor the first word.
    assert_eq!(only(auto("\u{feff}abc")), Rule::of(Content::of(*b"abc")));
    assert_eq!(
        only(auto("\u{feff}alert ip any any -> any any (content:\"a\";)")).contents.len(),
        1
    );
    assert_eq!(only(plain("|ef bb bf|a")), Rule::of(Content::of(*b"\xef\xbb\xbfa")));
}

#[test]
fn snort_rules() {
    let rule = only(snort(
        "# comment\nalert tcp any any -> any any ( \\\n  msg:\"a \\\"b\\\"; c\"; content:\"x|0D 0a|\\;\\\"y\"; nocase;\n \
         offset:3; depth:10; classtype:web-app; reference:url,a.b/c\\;d; metadata:a b, c d; rev:2; sid:77;)\n",
    ));
    let content = Content { nocase: true, offset: 3, depth: Some(10), ..Content::of(b"x\r\n;\"y") };
    let expected = Rule {
        contents: vec![content],
        kinds: Kinds::only(Kind::Tcp),
        msg: Some("a \"b\"; c".to_owned()),
        sid: Some(77),
    };
    assert_eq!(rule, expected);
    let nocase = |content: Content| Content { nocase: true, ..content };
    assert_eq!(
        contents("content:\"a\"; content:\"b\"; nocase; content:\"c\";"),
        [Content::of("a"), nocase(Content::of("b")), Content::of("c")]
    );
    assert_eq!(
        contents("content:\"ab\", nocase, offset 4, depth 2, fast_pattern; fast_pattern:only;"),
        [Content { nocase: true, offset: 4, depth: Some(2), ..Content::of("ab") }]
    );
    for (word, kinds) in
        [("ip", Kinds::ALL), ("udp", Kinds::only(Kind::Udp)), ("icmp", Kinds::only(Kind::Icmp))]
    {
        let text = format!("alert {word} any any <> any any(content:\"a\";)");
        assert_eq!(only(snort(&text)).kinds, kinds);
    }
    assert_eq!(snort("").unwrap(), PatternSet::new());
}

#[test]
fn the_format_is_seen_by_the_first_word() {
    let auto = |text: &[u8]| PatternSet::parse(text, Format::Auto, PlainOptions::default());
    let rule = b"# x\n\n alert ip any any -> any any (content:\"q\";)";
    assert_eq!(auto(rule).unwrap().rules()[0].contents[0].bytes, b"q");
    assert_eq!(auto(b"alert(1)\nx").unwrap().len(), 2);
    assert_eq!(auto(b"").unwrap().len(), 0);
}

#[test]
fn errors_in_plain_patterns() {
    let cases = [
        ("ok\nab||", "line 2, column 4: no bytes between the bars '||'"),
        ("|0d", "line 1, column 1: the bar '|' is not closed"),
        ("|0d\n0a|", "line 1, column 1: the bar '|' is not closed"),
        ("a|0|", "line 1, column 3: two hexadecimal digits are expected, not '|'"),
        ("|xyz|", "line 1, column 2: two hexadecimal digits are expected, not 'xyz'"),
        ("a\\q", "line 1, column 3: unknown escape '\\q'"),
        ("\\400", "line 1, column 2: '\\400' is no byte"),
        ("\\x1", "line 1, column 3: two hexadecimal digits are expected, not ''"),
    ];
    for (text, message) in cases {
        assert_eq!(plain(text).unwrap_err().to_string(), message, "{text:?}");
    }
    let long = "a".repeat(65536);
    assert!(plain(&long).unwrap_err().message.contains("at most 65535 bytes"));
}

#[test]
fn errors_in_snort_rules() {
    let cases = [
        ("drop ip", "1, column 1: action 'drop': only 'alert' is supported"),
        ("alert http any", "1, column 7: unknown protocol 'http': ip, tcp, udp or icmp"),
        (
            "\nalert tcp any any -> any 80 (",
            "2, column 26: destination port '80': only 'any' is supported; use a classifier \
             before the matcher",
        ),
        (
            "alert tcp $HOME_NET any",
            "1, column 11: source address '$HOME_NET': only 'any' is supported; use a classifier \
             before the matcher",
        ),
        ("alert ip any any = any", "1, column 18: '->' is expected, not '='"),
        ("alert ip any", "1, column 13: the header of the rule is not complete"),
        ("alert ip any any -> any any content", "1, column 29: '(' is expected before the options"),
        ("alert ip any any -> any any (msg:\"x\";)", "1, column 1: a rule must have a content"),
    ];
    for (text, message) in cases {
        assert_eq!(snort(text).unwrap_err().to_string(), format!("line {message}"), "{text:?}");
    }
    let cases = [
        ("content:!\"a\";", "9: a negated content ('!') is not supported"),
        ("content:\"\";", "1: empty pattern"),
        ("content:a;", "9: a string in quotes is expected"),
        ("content:\"a;", "11: ';' in a string is written '\\;'"),
        ("content:\"a", "9: the string is not closed"),
        ("content:\"|0|\";", "11: two hexadecimal digits are expected, not '|'"),
        ("content:\"\\n\";", "10: unknown escape '\\n'"),
        (
            "content:\"a\"; pcre:\"/x/\";",
            "14: option 'pcre' changes what matches, and is not supported",
        ),
        (
            "content:\"a\"; distance:4;",
            "14: option 'distance' changes what matches, and is not supported",
        ),
        (
            "content:\"a\", within 4;",
            "14: option 'within' changes what matches, and is not supported",
        ),
        ("flow:established;", "1: option 'flow' changes what matches, and is not supported"),
        (
            "content:\"a\"; within:4;",
            "14: option 'within' changes what matches, and is not supported",
        ),
        ("nocase;", "1: 'nocase' before any content"),
        ("offset:4;", "1: 'offset' before any content"),
        ("content:\"a\"; offset:-4;", "21: 'offset' takes a number from 0 to 4294967295, not '-4'"),
        ("content:\"a\"; offset:x;", "21: 'offset' takes a number from 0 to 4294967295, not 'x'"),
        ("content:\"a\"; depth:;", "20: 'depth' takes a number from 0 to 4294967295, not ''"),
        ("content:\"a\"; depth:1; depth:2;", "23: 'depth' is given twice"),
        ("content:\"abc\"; depth:2;)", "1: depth 2 is less than the 3 bytes of the content"),
        ("sid:1; sid:2;", "8: 'sid' is given twice"),
        ("content:\"a\"", "1: no ';' after option 'content'"),
        ("content:\"a\" nocase;", "13: ';' is expected after option 'content'"),
        ("content:\"a\"; nocase:yes;", "21: ';' is expected after option 'nocase'"),
        ("content:\"a\"; ", "14: an option is expected at the end of the file"),
        ("content:\"a\"; ;", "14: an option is expected, not ';'"),
        ("content:\"a\";) x", "15: 'x' after the end of the rule"),
    ];
    let header = "alert ip any any -> any any (\\\n";
    for (text, message) in cases {
        let error = snort(&format!("{header}{text}")).unwrap_err();
        assert_eq!(error.to_string(), format!("line 2, column {message}"), "{text:?}");
    }
}

proptest::proptest! {
    #[test]
    fn no_text_makes_it_panic(text in "[a\"|\\\\();:,0 \n!x]{0,40}", options: bool) {
        let text = if options { format!("alert ip any any -> any any ({text}") } else { text };
        for format in [Format::Auto, Format::Plain, Format::Snort] {
            drop(PatternSet::parse(text.as_bytes(), format, PlainOptions::default()));
        }
    }
}
