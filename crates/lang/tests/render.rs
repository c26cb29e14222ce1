//! Diagnostics as people see them.

use millrace_lang::{
    Diagnostic, Excerpt, Options, SourceMap, Span, Style, compile, render, render_all,
};
use proptest::prelude::*;

const PLAIN: Style = Style::Snippet { color: false };

fn of_text(text: &str, style: Style) -> String {
    let mut map = SourceMap::default();
    let source = map.add("a.click", text);
    let (_, diagnostics) = compile(&mut map, source, &Options::default());
    render_all(&diagnostics, &map, style)
}

#[test]
fn a_line_of_another_file_is_shown() {
    let mut map = SourceMap::default();
    let source = map.add("a.click", "A(rules)");
    let span = Span { source, start: 0, end: 1 };
    let excerpt = |text: &str, at| {
        let file = "rules".to_owned();
        Excerpt { file, line: 7, text: text.to_owned(), at }
    };
    let finding = |excerpt| {
        let finding = Diagnostic::error(span, "no such word").landmark("rules:7:5");
        finding.context("While reading rules of ‘a :: A’").excerpt(excerpt)
    };
    insta::assert_snapshot!(render(&finding(excerpt("add wrod; x", 4)), &map, PLAIN), @r"
    error: no such word
     --> rules:7:5
      |
    7 | add wrod; x
      |     ^^^^
      |
      = note: While reading rules of ‘a :: A’
    ");
    assert_eq!(
        render(&finding(excerpt("add wrod; x", 4)), &map, Style::Click),
        "a.click:1: While reading rules of ‘a :: A’:\nrules:7:5:   no such word\n"
    );
    // Places that there are not, and long lines.
    for (text, at) in [("", 0), ("ä", 1), ("x", 9), (&*"x".repeat(9999), 5000)] {
        assert!(render(&finding(excerpt(text, at)), &map, PLAIN).contains("rules:7:"), "{at}");
    }
}

#[test]
fn places_and_notes_are_shown() {
    insta::assert_snapshot!(of_text("q :: Queue;\nd, q :: Discard(\n  1);\n", PLAIN), @r"
    error: redeclaration of element ‘q’
     --> a.click:2:4
      |
    2 | d, q :: Discard(
      |    ^
      |
    note: element ‘q’ previously declared here
     --> a.click:1:1
      |
    1 | q :: Queue;
      | ^
    ");
    insta::assert_snapshot!(of_text("# 70 \"b.click\"\n\na :: A ->\n  ] b", PLAIN), @r"
    error: syntax error near ‘]’
      --> b.click:72:3
       |
    72 |   ] b
       |   ^
    ");
    insta::assert_snapshot!(of_text("a :: {\n  -> A", PLAIN), @r"
    error: expected ‘}’
     --> a.click:2:7
      |
    2 |   -> A
      |       ^ found the end of the file
      |
    note: to close this bracket
     --> a.click:1:6
      |
    1 | a :: {
      |      ^
    ");
}

#[test]
fn click_prints_lines() {
    let text = "q :: Queue;\nd, q :: Discard(\n  1);\n";
    assert_eq!(
        of_text(text, Style::Click),
        "a.click:2: redeclaration of element ‘q’\n\
         a.click:1: element ‘q’ previously declared here\n"
    );
    let text = "elementclass F {\n$a |\n|| $a, K $b |\n}\nF";
    assert_eq!(
        of_text(text, Style::Click),
        "a.click:5: no match for ‘F[0 inputs, 0 outputs]’\n\
         a.click:1: candidates are:\n\
         a.click:1:   F(<arg>)[0 inputs, 0 outputs]\n\
         a.click:3:   F(<arg>, K)[0 inputs, 0 outputs]\n"
    );
}

#[test]
fn click_prints_a_context_once() {
    let mut map = SourceMap::default();
    let source = map.add("a.click", "q :: Queue(\n x,\n y);\n");
    let at = |start, end| Span { source, start, end };
    let context = "While configuring ‘q :: Queue’";
    let error = |start| {
        Diagnostic::error(at(start, start + 1), "bad").context_at(at(0, 1), context).help("none")
    };
    let warning = Diagnostic::warning(at(0, 1), "old").context(context);
    let all = [error(13), error(17), warning, Diagnostic::error(None, "two\nlines")];
    assert_eq!(
        render_all(&all, &map, Style::Click),
        "a.click:1: While configuring ‘q :: Queue’:\n  bad\n  bad\n  warning: old\ntwo\nlines\n"
    );
    insta::assert_snapshot!(render(&all[1], &map, PLAIN), @r"
    error: bad
     --> a.click:3:2
      |
    3 |  y);
      |  ^
      |
      = note: While configuring ‘q :: Queue’
      = help: none
    ");
}

#[test]
fn long_lines_are_cut() {
    for (before, after) in [(0, 1_000_000), (1_000_000, 0), (1_000_000, 1_000_000), (300, 300)] {
        let text = format!("/*{}*/ ] /*{}*/", "x".repeat(before), "y".repeat(after));
        let shown = of_text(&text, PLAIN);
        assert!(shown.len() < 2000, "{} bytes", shown.len());
        assert!(shown.contains(&format!("a.click:1:{}", before + 6)), "{shown}");
        assert!(shown.contains("syntax error near ‘]’") && shown.contains('^'), "{shown}");
    }
    let text = format!("a :: A({}", "x\n".repeat(100_000));
    assert!(of_text(&text, PLAIN).len() < 2000);
}

#[test]
fn terminals_are_safe() {
    let shown = of_text("\u{1b}[31m\u{7} -> \u{202e}b;", PLAIN);
    assert!(!shown.contains(['\u{1b}', '\u{7}', '\u{202e}']), "{shown:?}");
}

proptest! {
    /// Whatever the text and the place, there is something to show, and nothing panics.
    #[test]
    fn any_place_can_be_shown(text in "(\\PC|\n|\r|\t|é|\u{1f980}|\u{0}){0,60}", a: u8, b: u8) {
        let mut map = SourceMap::default();
        let source = map.add("x", text);
        let (start, end) = (u32::from(a) % 80, u32::from(b) % 80);
        let diagnostic = Diagnostic::error(Span { source, start, end }, "m").label("l");
        let diagnostic = diagnostic.note(Span { source, start: end, end: start }, "n");
        let shown = render(&diagnostic, &map, PLAIN);
        prop_assert!(shown.starts_with("error: m\n"), "{}", shown);
        prop_assert!(render(&diagnostic, &map, Style::Click).starts_with("x:"));
    }
}
