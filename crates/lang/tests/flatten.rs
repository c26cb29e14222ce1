//! Texts and the flat configurations they mean.

use millrace_lang::{Diagnostic, Options, SourceMap, compile, print_flat};

fn flatten(text: &str, options: &Options<'_>) -> (String, Vec<Diagnostic>, SourceMap) {
    let mut map = SourceMap::default();
    let source = map.add("config", text);
    let (graph, diagnostics) = compile(&mut map, source, options);
    (print_flat(&graph), diagnostics, map)
}

/// Compares without empty lines and indentation; a chain stands on one line.
#[track_caller]
fn check(text: &str, expected: &str) {
    let (flat, diagnostics, _) = flatten(text, &Options::default());
    assert_eq!(diagnostics, [], "{text}");
    let squeeze = |text: &str| {
        let text = text.replace("\n    ->", " ->");
        let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    let mut lines = squeeze(&flat);
    let mut wanted = squeeze(expected);
    lines.sort();
    wanted.sort();
    assert_eq!(lines, wanted, "{text}\ngave\n{flat}");
}

/// The errors as `line: message`.
#[track_caller]
fn errors(text: &str, expected: &[&str]) {
    let (_, diagnostics, map) = flatten(text, &Options::default());
    compare_errors(text, &diagnostics, &map, expected);
}

#[track_caller]
fn compare_errors(text: &str, found: &[Diagnostic], map: &SourceMap, expected: &[&str]) {
    let found = found.iter().map(|d| {
        let line = d.span.and_then(|span| map.location(span)).map_or(0, |at| at.line);
        format!("{line}: {}", d.message)
    });
    assert_eq!(found.collect::<Vec<_>>(), expected, "{text}");
}

#[test]
fn declarations() {
    check("a :: Idle", "a :: Idle;");
    check("a :: Idle; b::Queue(10);c :: X()", "a :: Idle; \n b :: Queue(10);\n c :: X;");
    check("a, b, c :: Queue(5)", "a :: Queue(5);\nb :: Queue(5);\nc :: Queue(5);");
    check("Idle", "Idle@1 :: Idle;");
    check("a :: Idle\nb :: Idle\n", "a :: Idle;\nb :: Idle;");
}

#[test]
fn configuration_strings_are_raw() {
    check(
        "a :: M(x(y)z, \")\", ')', /* ) */ \\<20)>)",
        "a :: M(x(y)z, \")\", ')', /* ) */ \\<20)>);",
    );
    check("a :: M(// )\n)", "a :: M(// )\n);");
    check("a :: M(\"\\\\\")", "a :: M(\"\\\\\");");
    check("a :: M(\n# 100 \"foo\"\n1)", "a :: M(\n\n1);");
}

#[test]
fn chains() {
    check("a, b :: I; a -> b", "a :: I;\nb :: I;\na -> b;");
    check(
        "a :: A [1] -> [2] b :: B [3] -> Idle(x)",
        "a :: A;\nb :: B;\nIdle@3 :: Idle(x);\na [1] -> [2] b;\nb [3] -> Idle@3;",
    );
    check("a :: A; a -> a; a -> a", "a :: A;\na -> a;");
}

/// The cases of Click's manual page click(5), SHORTHAND.
#[test]
fn many_connections() {
    let ends = "n1, n2, n3, x :: I;";
    let flat = "n1 :: I;\nn2 :: I;\nn3 :: I;\nx :: I;\n";
    let case = |text: &str, connections: &str| {
        check(&format!("{ends}{text}"), &format!("{flat}{connections}"));
    };
    case("n1, n2, n3 -> x", "n1 -> x;\nn2 -> x;\nn3 -> x;");
    case("n1[1], n2[2] -> [3]x", "n1 [1] -> [3] x;\nn2 [2] -> [3] x;");
    case("x -> n1, n2, n3", "x -> n1;\nx -> n2;\nx -> n3;");
    let all = "x -> n1;\nx [1] -> n2;\nx [2] -> n3;";
    case("x[0], x[1], x[2] => n1, n2, n3", all);
    case("x[0,1,2] => n1, n2, n3", all);
    case("x[0-2] => n1, n2, n3", all);
    case("x => n1, n2, n3", all);
    case("x [] => n1, n2, n3", all);
    case("n1, n2 => x", "n1 -> x;\nn2 -> [1] x;");
    case("n1, n2[1] => [1,] x", "n1 -> [1] x;\nn2 [1] -> [2] x;");
    case("n1 [1,2] -> x", "n1 [1] -> x;\nn1 [2] -> x;");
    case("n1 -> [1,2] x", "n1 -> [1] x;\nn1 -> [2] x;");
    case("x => n1, n2, [0,1] x", "x [2] -> x -> n1;\nx [1] -> n2;\nx [3] -> [1] x;");
    case("n1, n1[1] -> n2 -> n3, x", "n1 -> n2 -> n3;\nn1 [1] -> n2;\nn2 -> x;");
    check("n2 :: I; n2, n1 :: C -> n3 :: I", "n2 :: I;\nn1 :: C;\nn3 :: I;\nn2 -> n3;\nn1 -> n3;");
}

#[test]
fn groups() {
    let case = |text: &str| {
        check(&format!("x, y :: I; {text}"), "x :: I;\ny :: I;\nx -> y;");
    };
    case("x -> y");
    case("x -> ( input -> output ) -> y");
    case("x -> ( [0] -> [0] ) -> y");
    case("x -> (->) -> y");
    case("x -> ( [0]->[0]; [1]->[1] ) => ( [0]->[0]; [1]->[1] ) -> y");
    check(
        "x :: I -> c :: C => ( input [0] -> output; input [1] -> Paint(1) -> output) -> y :: I",
        "x :: I;\nc :: C;\nPaint@6 :: Paint(1);\ny :: I;\nx -> c -> y;\nc [1] -> Paint@6 -> y;",
    );
    let two = "x :: I;\ny :: I;\nx -> y;\nx [1] -> y;";
    check("x, y :: I; x => ( [0]->[0]; [1]->[1] ) -> y", two);
    check("x, y :: I; x => [0,1] ( [0]->[0]; [1]->[1] ) [0,1] -> y", two);
    check(
        "x :: I -> (-> z :: Z ->) -> y :: I; z [1] -> x",
        "x :: I;\nz :: Z;\ny :: I;\nz [1] -> x -> z -> y;",
    );
}

#[test]
fn compounds() {
    let flat = "a :: A;\nb :: B;\nc/X@1 :: X;\na -> c/X@1 -> b;";
    check("a :: A; b :: B; c :: { input -> X -> output }; a -> c -> b", flat);
    check("a :: A; b :: B; c :: { -> X -> }; a -> c -> b", flat);
    check("elementclass C { -> X -> } a :: A -> c :: C -> b :: B", flat);
    check("elementclass D { -> X -> } elementclass C D; a :: A -> c :: C -> b :: B", flat);
    check("a :: A -> { -> X -> } -> b :: B", "a :: A;\nb :: B;\n@2/X@1 :: X;\na -> @2/X@1 -> b;");
    check("elementclass O { -> i :: I { } } ", "");
    check(
        "elementclass O { -> i :: { -> x :: X -> } -> } A -> o :: O -> B",
        "A@1 :: A;\nB@3 :: B;\no/i/x :: X;\nA@1 -> o/i/x -> B@3;",
    );
    // The class in scope when the compound is written is meant.
    check(
        "elementclass Q { -> Q(1) -> } A -> Q -> B",
        "A@1 :: A;\nB@3 :: B;\nQ@2/Q@1 :: Q(1);\nA@1 -> Q@2/Q@1 -> B@3;",
    );
    check("elementclass A { B } elementclass B { C } A", "A@1/B@1 :: B;");
    // Classes inside a compound are not seen outside.
    check("elementclass A { elementclass B { C } B } A; B", "B@2 :: B;\nA@1/B@1/C@1 :: C;");
}

#[test]
fn parameters() {
    check("{ $a | A(1, $a, 3) } (100)", "@1/A@1 :: A(1, 100, 3);");
    check(
        "{ $a, COUNT $count, __REST__ $rest | A($a, $count; $rest) } (1, 2, COUNT 3, FOO 4)",
        "@1/A@1 :: A(1, 3; 2, FOO 4);",
    );
    check(
        "elementclass Foo { $a | D($a); } elementclass Far { $a, $b | Foo($b); } Far(x, stop);",
        "Far@1/Foo@1/D@1 :: D(stop);",
    );
    check(
        "elementclass Foo { $a |
           elementclass Bar { $b | D($a); }
           elementclass Baz { $a | Idle; Bar($a); }
           Baz(other); }
         Foo(stop);",
        "Foo@1/Baz@1/Idle@1 :: Idle;\nFoo@1/Baz@1/Bar@2/D@1 :: D(stop);",
    );
    check("define($a 1, $b 2); A($a$b ${a}b $c ${c-3} '$a')", "A@1 :: A(12 1b $c 3 '$a');");
    check("A($a); define($a $b, $b 2)", "A@1 :: A(2);");
    check("define($a $a); A($a)", "A@1 :: A($a);");
    check("{ $x | define($y $x$x) A($y) }(1)", "@1/A@1 :: A(11);");
    check("{ $a, $n | P(${a[$n]}) } (D E F, 2)", "@1/P@1 :: P(F);");
    check("{ $a | P(\"$a\") } (\"x\")", "@1/P@1 :: P(\"\\\"x\\\"\");");

    let params = [("DEV".to_owned(), "eth7".to_owned())];
    let options = Options { params: &params, ..Options::default() };
    let (flat, diagnostics, _) = flatten("define($DEV eth0, $X $DEV) A($DEV, $X)", &options);
    assert_eq!((flat.trim(), &diagnostics[..]), ("A@1 :: A(eth7, eth7);", &[][..]));
}

#[test]
fn overloads() {
    let foo = "elementclass Foo {
           $a, $b | input -> Print(1) -> output
        || $a, __REST__ $b | input -> Print(2) -> output
        || $a, TWO $b, __REST__ $c | input -> Print(3) -> output }";
    check(
        &format!(
            "{foo} I -> Foo(A) -> f::Foo(A, TWO B)
             elementclass Foo {{ $a, $b | input -> Print(4) -> output || ... }}
             f -> Foo(A, B) -> Foo(A, B, C) -> Discard"
        ),
        "I@1 :: I;\nDiscard@6 :: Discard;\nFoo@2/Print@1 :: Print(2);\nf/Print@1 :: Print(1);
         Foo@4/Print@1 :: Print(4);\nFoo@5/Print@1 :: Print(2);
         I@1 -> Foo@2/Print@1 -> f/Print@1 -> Foo@4/Print@1 -> Foo@5/Print@1 -> Discard@6;",
    );
    check(
        "elementclass Q { $c, $r | -> Q($c) -> S($r) -> || ... } A -> Q(1, 2) -> B; A -> Q(7) -> B",
        "A@1 :: A;\nB@3 :: B;\nA@4 :: A;\nQ@5 :: Q(7);\nB@6 :: B;
         Q@2/Q@1 :: Q(1);\nQ@2/S@2 :: S(2);
         A@1 -> Q@2/Q@1 -> Q@2/S@2 -> B@3;\nA@4 -> Q@5 -> B@6;",
    );
}

#[test]
fn names_of_anonymous_elements() {
    check("A; b :: B; C", "A@1 :: A;\nb :: B;\nC@3 :: C;");
    check("A@1 :: X; A; A@2 :: X", "A@1 :: X;\nA@3 :: A;\nA@2 :: X;");
    check("A, B; C", "A@1 :: A;\nB@2 :: B;\nC@3 :: C;");
}

#[test]
fn requirements() {
    check(
        "require(foo, package bar, compact_config)",
        "require(package \"foo\", package \"bar\", compact_config);",
    );
    errors("require(a b)", &["1: syntax error at requirement"]);
    errors("require(library x)", &["1: library ‘x’ cannot be read here"]);
    errors("{ require(library x) }", &["1: ‘require library’ must be used at file scope"]);
    let find = |name: &str, from: &str| {
        assert_eq!((name, from), ("lib.click", "config"));
        Ok(("dir/lib.click".to_owned(), "elementclass L { -> X -> } l :: Idle".to_owned()))
    };
    let options = Options { library: Some(&find), ..Options::default() };
    let text = "require(library lib.click, library \"lib.click\"); A -> L -> B";
    let (flat, found, map) = flatten(text, &options);
    compare_errors(text, &found, &map, &[]);
    assert!(flat.contains("A@2 -> L@3/X@1\n    -> B@4;"), "{flat}");
}

#[test]
fn errors_of_connections() {
    let case = |text: &str, expected: &[&str]| errors(&format!("a,b,c,d :: I;\n{text}"), expected);
    case("a [0,1] => [0,1,2] b", &["2: connection mismatch: 2 outputs connected to 3 inputs"]);
    case("c [] => [] d", &["2: at most one expandable port allowed per connection"]);
    case("a [0,1,2] -> [0,1,2] b", &["2: syntax error: many-to-many connections require ‘=>’"]);
    case("[1] a -> b", &["2: input ports ignored at start of chain"]);
    case("a -> b [1]", &["2: output ports ignored at end of chain"]);
    case(
        "a -> (-> c; [2] -> d)",
        &["2: ‘<anonymous group>’ input 1 missing", "2: ‘@5’ has no input 1"],
    );
}

#[test]
fn errors_of_names() {
    errors("a :: I;\na :: J;", &["2: redeclaration of element ‘a’"]);
    errors("1 :: I", &["1: element name ‘1’ has all-digit component"]);
    errors("a :: A; a(1) -> B", &["1: configuration string ignored on element reference"]);
    errors("elementclass A {} A :: B", &["1: class ‘A’ used as element name"]);
    errors("{ $a, $a | }(1)", &["1: parameter ‘$a’ multiply defined"]);
    errors(
        "{ A $a, $b | }(1)",
        &[
            "1: no match for ‘<anonymous>[1 argument, 0 inputs, 0 outputs]’",
            "1: compound element parameters out of order",
        ],
    );
    errors("x/y :: I; x :: { y :: J }", &["1: redeclaration of element ‘x/y’"]);
}

#[test]
fn errors_with_known_classes() {
    let classes = ["Idle", "Discard", "Queue"].map(str::to_owned);
    let options = Options { classes: Some(&classes), ..Options::default() };
    let case = |text: &str, expected: &[&str], help: Option<&str>| {
        let (_, found, map) = flatten(text, &options);
        compare_errors(text, &found, &map, expected);
        assert_eq!(found[0].help.as_deref(), help, "{text}");
    };
    case(
        "Idle -> Qeueu -> Discard",
        &["1: undeclared element ‘Qeueu’"],
        Some("did you mean ‘Queue’?"),
    );
    case("q :: Zebra", &["1: unknown element class ‘Zebra’"], None);
    case("Queue :: Idle", &["1: class ‘Queue’ used as element name"], None);
    let itself = Some("a compound cannot contain itself, directly or through others");
    case("elementclass A { A }", &["1: undeclared element ‘A’"], itself);
    case(
        "elementclass A { B }\nelementclass B { C }\nelementclass C { A }",
        &["1: undeclared element ‘B’", "2: undeclared element ‘C’"],
        itself,
    );
    case(
        "B\nelementclass B { Idle }",
        &["1: undeclared element ‘B’"],
        Some("move the declaration before its first use"),
    );
    // What stands in a broken statement is no mistake of its own.
    let text = "a :: Idle -> ] b :: Queue -> c :: Discard;\nIdle -> b;";
    let (_, found, map) = flatten(text, &options);
    compare_errors(text, &found, &map, &["1: syntax error near ‘]’"]);
}

#[test]
fn errors_of_compounds() {
    errors(
        "x :: { -> A -> };\nx [1] -> B",
        &["1: ‘x’ has no output 1", "1: ‘x’ input 0 unused", "1: ‘x’ output 0 unused"],
    );
    errors("{ input [1] -> A }", &["1: ‘<anonymous>’ input 0 missing", "1: ‘@1’ input 1 unused"]);
    errors(
        "{ A -> input }",
        &["1: ‘<anonymous>’ pseudoelement ‘input’ may only be used as output"],
    );
    errors(
        "elementclass F { $a | } \nF(1, 2)",
        &["2: no match for ‘F[2 arguments, 0 inputs, 0 outputs]’"],
    );
}

#[test]
fn errors_of_syntax() {
    errors("->Null;", &["1: syntax error near ‘->’"]);
    errors("a :: ;\nb :: B", &["1: missing element type in declaration"]);
    errors("a -> ;", &["1: syntax error near ‘;’"]);
    errors("a :: A(1, 2\nb :: B", &["1: expected ‘)’"]);
    errors("a :: A(\n  1,\n  2;\nb ] c", &["1: expected ‘)’", "4: syntax error near ‘]’"]);
    errors("{ a :: A(\n  1,\n  2\n}\nb ] c", &["1: expected ‘)’", "5: syntax error near ‘]’"]);
    errors("a :: A(\n  \"1,\n  2\nb ]", &["1: expected ‘)’"]);
    errors("{ a :: A", &["1: expected ‘}’"]);
    errors("( a :: A }", &["1: syntax error near ‘}’", "1: expected ‘)’"]);
    errors("}", &["1: syntax error near ‘}’"]);
    errors("a [x] -> b", &["1: syntax error: port number should be integer"]);
    errors("a [70000] -> b", &["1: port number too large"]);
    errors("#foo\n", &["1: unknown preprocessor directive"]);
    errors(
        "elementclass { A }\nB ] C;\n D :: ",
        &[
            "1: expected element type name",
            "2: syntax error near ‘]’",
            "3: missing element type in declaration",
        ],
    );
    errors("{ A -> B -> -> C }", &["1: syntax error near ‘->’"]);
    errors(
        "{ A -> [0], B -> C }",
        &[
            "1: ‘<anonymous>’ pseudoelement ‘output’ may only be used as input",
            "1: implicit ports used in the middle of a chain",
        ],
    );
    errors("(-> A) :: B", &["1: a group cannot be declared"]);
}

#[test]
fn line_marks_count() {
    errors("# 100 \"foo\"\na ] b;\n", &["100: syntax error near ‘]’"]);
    let (_, _, _) = flatten("", &Options::default());
    let mut map = SourceMap::default();
    let source = map.add("config", "A\n#line 7 \"x y\"\nB\n# 9\nC\n# 1 \"\"\nD");
    let (graph, _) = compile(&mut map, source, &Options::default());
    let landmarks: Vec<&str> = graph.elements.iter().map(|e| e.landmark.as_str()).collect();
    assert_eq!(landmarks, ["config:1", "x y:7", "x y:9", "config:1"]);
}
