use std::net::Ipv4Addr;

use millrace_lang::{Severity, SourceMap};
use proptest::prelude::*;

use super::*;
use crate::net::{EtherAddress, Ipv4Prefix};

/// The result of a reading: the value, and the diagnostics.
fn diagnose<T>(config: &str, read: impl FnOnce(&mut Args) -> T) -> (T, Vec<Diagnostic>) {
    let mut sources = SourceMap::default();
    // The configuration does not stand at the start of its source.
    let source = sources.add("config", format!("e :: E({config});"));
    let span = Span { source, start: 7, end: 7 + config.len() as u32 };
    let config = ConfigText { text: config.to_owned(), span, verbatim: true };
    let mut args = Args::new(&config, Scope::builtin());
    let value = read(&mut args);
    let completed = args.complete();
    assert_eq!(completed.is_err(), args.has_errors());
    (value, args.into_diagnostics())
}

/// The result of a reading: the value, and the messages.
fn read<T>(config: &str, read: impl FnOnce(&mut Args) -> T) -> (T, Vec<String>) {
    let (value, diagnostics) = diagnose(config, read);
    (value, diagnostics.into_iter().map(|diagnostic| diagnostic.message).collect())
}

/// The parts of the configuration string that the diagnostics point at.
fn pointed<T>(config: &str, read: impl FnOnce(&mut Args) -> T) -> Vec<String> {
    let part = |diagnostic: Diagnostic| {
        let span = diagnostic.span.unwrap();
        config.get(span.start as usize - 7..span.end as usize - 7).unwrap().to_owned()
    };
    diagnose(config, read).1.into_iter().map(part).collect()
}

fn queue(args: &mut Args) -> (u32, bool) {
    (args.positional("CAPACITY", 1000), args.keyword("ACTIVE", true))
}

fn encap(args: &mut Args) -> (u16, EtherAddress, EtherAddress) {
    (args.mandatory("ETHERTYPE"), args.mandatory("SRC"), args.mandatory("DST"))
}

#[test]
fn arguments_are_found_in_place_and_by_keyword() {
    for (config, value, messages) in [
        ("", (1000, true), vec![]),
        ("5", (5, true), vec![]),
        ("5, ", (5, true), vec![]),
        (" /* none */ ", (1000, true), vec![]),
        ("CAPACITY 5, ACTIVE no", (5, false), vec![]),
        ("ACTIVE no, CAPACITY 0x10", (16, false), vec![]),
        ("CAPACITY\n\t/* of */ 5", (5, true), vec![]),
        ("CAPACITY 5, CAPACITY 6", (6, true), vec![]),
        ("5, CAPACITY 6", (6, true), vec![]),
        ("CAPACITY 6, 5", (6, true), vec!["too many arguments"]),
        (", ACTIVE no", (1000, false), vec![]),
        ("5, 6", (5, true), vec!["too many arguments"]),
        ("5, 6, 7", (5, true), vec!["too many arguments"]),
        ("CAPACTY 6", (1000, true), vec!["CAPACTY: unknown argument"]),
        ("capacity 6", (1000, true), vec!["capacity: unknown argument"]),
        ("ACTIVE", (1000, true), vec!["CAPACITY: parse error"]),
        ("-1", (1000, true), vec!["CAPACITY: parse error"]),
        ("4294967296", (1000, true), vec!["CAPACITY: out of range, bound 4294967295"]),
    ] {
        let messages: Vec<String> = messages.into_iter().map(str::to_owned).collect();
        assert_eq!(read(config, queue), (value, messages), "{config}");
    }
}

#[test]
fn what_must_be_given_is_missed() {
    let missing = |name: &str| format!("{name}: required argument missing");
    let (_, messages) = read("0x800", encap);
    assert_eq!(messages, [missing("SRC"), missing("DST")]);
    let (_, messages) = read("0x800, , 1:1:1:1:1:1", encap);
    assert_eq!(messages, [missing("SRC")]);
    let (value, messages) = read("DST 2:2:2:2:2:2, SRC 1:1:1:1:1:1, ETHERTYPE 2048", encap);
    assert_eq!((value, messages.len()), ((2048, [1; 6].into(), [2; 6].into()), 0));
    let keyword = |args: &mut Args| args.mandatory_keyword::<u32>("RATE");
    assert_eq!(read("RATE 5", keyword), (5, vec![]));
    assert_eq!(read("5", keyword).1, [missing("RATE"), "too many arguments".to_owned()]);
}

#[test]
fn a_mandatory_argument_may_look_like_a_keyword() {
    let pattern = |args: &mut Args| args.mandatory::<Raw>("PATTERN").0;
    assert_eq!(read("tcp port 80", pattern), ("tcp port 80".to_owned(), vec![]));
    let optional = |args: &mut Args| args.positional("PATTERN", Raw::default()).0;
    assert_eq!(read("tcp port 80", optional).1, ["tcp: unknown argument"]);
}

#[test]
fn every_error_is_told_at_once() {
    let config = "0x10000, 1:2:3, SORCE 1, 5, 6:6:6:6:6:6";
    let (_, messages) = read(config, |args| {
        let value = encap(args);
        args.keyword("SOURCE", 0u8);
        args.error("SRC", "SRC must be unicast");
        value
    });
    assert_eq!(
        messages,
        [
            "ETHERTYPE: out of range, bound 65535",
            "SRC: parse error",
            "DST: parse error",
            "SRC must be unicast",
            "too many arguments"
        ]
    );
}

#[test]
fn findings_point_at_their_place() {
    for (config, places) in [
        ("  x ", vec!["x"]),
        ("CAPACITY  x, ACTIVE 7 ", vec!["x", "7"]),
        ("5, 6 , 7, ACTVE 1", vec!["ACTVE", "6 , 7"]),
        ("CAPACITY /* c */ x", vec!["CAPACITY /* c */ x"]),
        ("1 /* c */, x", vec!["x"]),
    ] {
        assert_eq!(pointed(config, queue), places, "{config}");
    }
    let list = |args: &mut Args| args.mandatory::<Vec<Ipv4Addr>>("HOSTS");
    assert_eq!(pointed("HOSTS 1.1.1.1  2.2.2 3.3.3.3", list), ["2.2.2"]);
    assert_eq!(pointed("5", |args| args.mandatory::<Ipv4Prefix>("NET")), ["5"]);
    assert_eq!(pointed(" ", |args| args.mandatory::<Ipv4Prefix>("NET")), [" "]);
    let own = |args: &mut Args| {
        queue(args);
        args.error("ACTIVE", "not now");
        args.error("BURST", "nor ever");
        args.warn((), "beware");
    };
    assert_eq!(pointed("4, ACTIVE no", own), ["no", "4, ACTIVE no", "4, ACTIVE no"]);
}

#[test]
fn a_text_that_is_not_verbatim_points_as_a_whole() {
    let mut sources = SourceMap::default();
    let source = sources.add("config", "e :: E($x, $y);");
    let span = Span { source, start: 7, end: 13 };
    let config = ConfigText { text: "some thing, else".to_owned(), span, verbatim: false };
    let mut args = Args::new(&config, Scope::builtin());
    args.mandatory::<u8>("N");
    assert_eq!(args.into_diagnostics()[0].span, Some(span));
}

#[test]
fn help_says_what_was_meant() {
    let help = |config: &str| {
        let found = diagnose(config, queue).1.remove(0);
        found.help.or(found.label).unwrap()
    };
    assert_eq!(help("CAPACTY 6"), "did you mean ‘CAPACITY’?");
    assert_eq!(help("active no"), "did you mean ‘ACTIVE’?");
    assert_eq!(help("BURST 6"), "the arguments are [CAPACITY], [ACTIVE …]");
    let surplus = "‘2’ is the first surplus one; the arguments are [CAPACITY], [ACTIVE …]";
    assert_eq!(help("1, 2"), format!("1 is taken without a keyword, {surplus}"));
    let given = "CAPACITY is given by keyword already";
    assert_eq!(help("CAPACITY 1, 2"), format!("{given}, {surplus}"));
    assert_eq!(help("x"), "expected an unsigned integer");
    let (_, found) = diagnose("1", |_| ());
    let surplus = "none is taken without a keyword, ‘1’ is the first surplus one";
    let none = format!("{surplus}; this element takes no arguments");
    assert_eq!(found[0].help.as_deref(), Some(none.as_str()));
    let (_, found) = diagnose("", |args| args.mandatory::<Ipv4Addr>("IP"));
    assert_eq!(found[0].help.as_deref(), Some("expected an IP address"));
}

#[test]
fn keywords_may_repeat() {
    let all = |args: &mut Args| (args.repeated::<u8>("N"), args.optional::<u8>("M"));
    assert_eq!(read("N 1, M 5, N 2, N", all).0, (vec![1, 2], Some(5)));
    assert_eq!(read("N 1, N x, N 3", all), ((vec![1, 3], None), vec!["N: parse error".into()]));
}

#[test]
fn the_rest_may_be_taken() {
    let rest = |args: &mut Args| {
        let active = args.keyword("ACTIVE", true);
        let texts: Vec<String> = args.rest().iter().map(ArgText::to_string).collect();
        (active, texts)
    };
    let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect::<Vec<_>>();
    let config = "12/0800, ip proto tcp, , ACTIVE no, - /* all */,";
    let expected = ((false, texts(&["12/0800", "ip proto tcp", "", "-"])), vec![]);
    assert_eq!(read(config, rest), expected);
    let positional =
        |args: &mut Args| args.rest_positional().iter().map(ArgText::to_string).collect::<Vec<_>>();
    let expected = (texts(&["1/2"]), vec!["ip: unknown argument".to_owned()]);
    assert_eq!(read("1/2, ip proto tcp", positional), expected);
}

#[test]
fn parsers_of_ones_own_are_used() {
    let even = |args: &mut Args| {
        args.with("N", Kind::Positional, "an even number", |text, scope| {
            let n = u32::parse(text, scope)?;
            if n % 2 == 0 { Ok(n) } else { Err(ArgError::new(format!("{n} is odd"))) }
        })
    };
    assert_eq!(read("4", even), (Some(4), vec![]));
    assert_eq!(read("5", even), (None, vec!["N: 5 is odd".into()]));
    assert_eq!(read("", even), (None, vec![]));
    let simple = |args: &mut Args| {
        args.with("X", Kind::Mandatory, "x", |text, _| match text.as_str() {
            "x" => Ok('x'),
            other => Err(format!("no {other}")),
        })
    };
    assert_eq!(read("y", simple), (None, vec!["X: no y".into()]));
    let bounded = |args: &mut Args| args.in_range("N", Kind::Mandatory, 1..=10u8);
    assert_eq!(read("10", bounded), (Some(10), vec![]));
    assert_eq!(read("0", bounded).1, ["N: out of range, bound 1"]);
    assert_eq!(read("11", bounded).1, ["N: out of range, bound 10"]);
}

#[test]
fn handlers_read_without_a_source() {
    let mut args = Args::of_text("5, ACTIVE maybe, x", Scope::builtin());
    assert_eq!(queue(&mut args), (5, true));
    assert_eq!(args.complete(), Err(Failed));
    assert_eq!(args.messages(), "ACTIVE: parse error\ntoo many arguments");
    let mut args = Args::of_words(&"5 'a b'".into(), Scope::builtin());
    assert_eq!((args.mandatory::<u8>("N"), args.mandatory::<String>("S")), (5, "a b".into()));
    assert_eq!(args.complete(), Ok(()));
    assert_eq!(parse::<bool>(" yes\n", &Scope::builtin()), Ok(true));
    assert_eq!(parse::<bool>("oui", &Scope::builtin()), Err("expected true or false".into()));
    assert_eq!(parse::<u8>("256", &Scope::builtin()), Err("out of range, bound 255".into()));
}

#[test]
fn what_was_given_is_known() {
    read("5, ACTIVE no", |args| {
        queue(args);
        args.keyword("BURST", 0u8);
        assert!(args.is_given("CAPACITY") && args.is_given("ACTIVE"));
        assert!(!args.is_given("BURST") && !args.is_given("OTHER"));
        assert_eq!(args.text_of("ACTIVE").map(ArgText::as_str), Some("no"));
        assert_eq!((args.len(), args.is_empty()), (2, false));
    });
}

#[test]
fn what_has_no_effect_is_checked_and_said() {
    let ignored = |args: &mut Args| args.ignored::<bool>("COUNT", Kind::Keyword, "all are counted");
    let said = "COUNT is accepted without effect: all are counted";
    assert_eq!(read("COUNT false", ignored).1, [said]);
    assert_eq!(pointed("COUNT false", ignored), ["false"]);
    assert_eq!(diagnose("COUNT false", ignored).1[0].severity, Severity::Advice);
    assert!(read("", ignored).1.is_empty());
    assert_eq!(read("COUNT maybe", ignored).1, ["COUNT: parse error", said]);
}

proptest! {
    #[test]
    fn no_text_panics_and_places_lie_within(config in r#"[ a-zA-Z0-9,"'\\<>/*é\n.:-]{0,40}"#) {
        let found = diagnose(&config, |args| {
            let _ = args.optional::<String>("A");
            let _ = args.optional::<Vec<Ipv4Addr>>("B");
            let _ = args.repeated::<Seconds>("C");
            let _ = args.optional::<HandlerRef>("D");
        });
        for diagnostic in found.1 {
            let span = diagnostic.span.unwrap();
            prop_assert!(span.start >= 7 && span.start <= span.end);
            prop_assert!(span.end as usize <= 7 + config.len());
            let part = config.get(span.start as usize - 7..span.end as usize - 7);
            prop_assert!(part.is_some(), "{:?} splits a character", span);
        }
    }

    #[test]
    fn words_and_arguments_stand_where_they_say(config in r#"[ ab,"'\\<>/*é\n]{0,40}"#) {
        let texts = Args::of_text(&config, Scope::builtin()).rest();
        for text in texts {
            for word in text.words() {
                prop_assert!(text.as_str().contains(word.as_str()));
                prop_assert!(!word.is_empty());
            }
            let (first, rest) = text.split_first_word();
            prop_assert!(text.as_str().starts_with(first.as_str()));
            prop_assert!(text.as_str().ends_with(rest.as_str()));
        }
    }
}
