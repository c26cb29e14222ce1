//! The pretty printer: what it prints means the same, and printing it again changes nothing.

mod support;

use millrace_lang::{Diagnostic, Graph, Options, SourceMap, compile, format};
use proptest::prelude::*;

fn pretty(text: &str) -> Result<String, Vec<Diagnostic>> {
    let mut map = SourceMap::default();
    let source = map.add("a.click", text);
    format(&mut map, source)
}

/// What a text means: the graph without places, and the messages without lines.
fn meaning(text: &str) -> (String, Vec<String>) {
    let mut map = SourceMap::default();
    let source = map.add("a.click", text);
    let (Graph { elements, connections, requirements, provisions }, diagnostics) =
        compile(&mut map, source, &Options::default());
    let mut out = String::new();
    for element in elements {
        out += &format!("{} :: {}({})\n", element.name, element.class, element.config.text);
    }
    for connection in connections {
        out += &format!("{:?} -> {:?}\n", connection.from, connection.to);
    }
    for word in requirements.into_iter().chain(provisions) {
        out += &format!("{}\n", word.text);
    }
    let mut messages: Vec<String> = diagnostics.into_iter().map(|d| d.message).collect();
    messages.sort();
    (out, messages)
}

#[test]
fn layout() {
    let text = r#"

// The first line.


require(foo)
a,b::Queue( 5 );c :: Classifier(12/0806,  // ARP
    -);  /* after */
FromDevice(eth0)[0]->[1,2-3]a[]=>c
x -> y // why
  -> z;

elementclass Empty{} elementclass Alias Queue
elementclass Two{$a,LIMIT $b|
  // inside
  input->Queue($b)->(->Paint($a)->;[1]->Discard)->output

  || ...}
g -> (
   input -> output; // one
   input [1] -> output
) -> { -> X -> } -> h // last"#;
    insta::assert_snapshot!(pretty(text).unwrap(), @r"
    // The first line.

    require(foo);
    a, b :: Queue( 5 );
    c :: Classifier(12/0806,  // ARP
        -); /* after */
    FromDevice(eth0) [0] -> [1, 2-3] a [] => c;
    x
        -> y // why
        -> z;

    elementclass Empty { }
    elementclass Alias Queue;
    elementclass Two { $a, LIMIT $b |
        // inside
        input -> Queue($b) -> (-> Paint($a) ->; [1] -> Discard) -> output;
    ||
        ...
    }
    g
        -> (
            input -> output; // one
            input [1] -> output;
        )
        -> { -> X -> }
        -> h; // last
    ");
}

#[test]
fn long_chains_are_broken() {
    let stage = " -> SomeElement(with, an, argument)";
    insta::assert_snapshot!(pretty(&format!("a{}", stage.repeat(4))).unwrap(), @r"
    a
        -> SomeElement(with, an, argument)
        -> SomeElement(with, an, argument)
        -> SomeElement(with, an, argument)
        -> SomeElement(with, an, argument);
    ");
}

#[test]
fn broken_texts_are_refused() {
    assert_eq!(pretty("a -> ]").unwrap_err()[0].message, "syntax error near ‘]’");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 500, ..ProptestConfig::default() })]

    #[test]
    fn printing_keeps_the_meaning(text in support::config()) {
        let Ok(printed) = pretty(&text) else { return Ok(()) };
        prop_assert_eq!(meaning(&text), meaning(&printed), "{}\n----\n{}", text, printed);
        let again = pretty(&printed).unwrap();
        prop_assert_eq!(&again, &printed, "{}", text);
    }

    #[test]
    fn printing_keeps_comments(text in support::config()) {
        let Ok(printed) = pretty(&text) else { return Ok(()) };
        for comment in ["// c", "/* c */", "// own", "/* a\n b */", "// end", "# 20 \"gap\""] {
            let count = |text: &str| text.matches(comment).count();
            prop_assert_eq!(count(&text), count(&printed), "{}: {}\n----\n{}", comment, text, printed);
        }
    }

    #[test]
    fn soups_print_or_not(text in support::token_soup()) {
        let Ok(printed) = pretty(&text) else { return Ok(()) };
        prop_assert_eq!(meaning(&text), meaning(&printed), "{}\n----\n{}", text, printed);
    }
}

/// The properties above say something only if most texts can be printed.
#[test]
fn most_random_configurations_are_well_formed() {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut sample = || support::config().new_tree(&mut runner).unwrap().current();
    let texts: Vec<String> = (0..200).map(|_| sample()).collect();
    let printable = texts.iter().filter(|text| pretty(text).is_ok()).count();
    let meaningful = texts.iter().filter(|text| meaning(text).0.contains("->")).count();
    assert!(printable > 120, "{printable} of 200 can be printed");
    assert!(meaningful > 60, "{meaningful} of 200 connect something");
}
