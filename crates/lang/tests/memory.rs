//! Compiling takes memory in proportion to the text, whatever the text says.
//!
//! Each text is compiled in a process of its own, whose high-water mark tells.

#![allow(clippy::unwrap_used, clippy::panic, reason = "tests, in functions of their own")]

use std::process::Command;

use millrace_lang::{Options, SourceMap, compile};

const CASE: &str = "MILLRACE_MEMORY_CASE";

/// Texts with as many parts to the byte as there can be.
fn dense() -> Vec<String> {
    let units = [
        "a ",
        "a;",
        "a->",
        "a=>b",
        "a[1]->",
        "Null -> ",
        "a::B;",
        "a()",
        "{};",
        "();",
        "(->)->",
        "{->}->",
        "#\n",
        "#1\n",
        "//\n",
        "{$a|",
        "elementclass a{}",
        "elementclass a",
        "a($a)",
        "define($a 1);",
        "require(a);",
        "](a",
        "]a ",
    ];
    // Unoptimised code would take its time.
    let len = if cfg!(debug_assertions) { 256 << 10 } else { 8 << 20 };
    units.iter().map(|unit| unit.repeat(len / unit.len())).collect()
}

/// A few lines that multiply.
fn multiplying() -> Vec<String> {
    let doubling = |count: usize| {
        let mut text = String::from("elementclass A0 { X(a long configuration, $x) }\n");
        for i in 1..count {
            text += &format!("elementclass A{i} {{ A{0}; A{0} }}\n", i - 1);
        }
        text + &format!("A{}", count - 1)
    };
    let mut variables = String::from("define($a0 0123456789");
    for i in 1..60 {
        variables += &format!(", $a{i} $a{0}$a{0}", i - 1);
    }
    variables += ") A($a59)";
    let arguments = "elementclass A { $x | A2($x$x, $x$x) } ".repeat(50) + "A(1)";
    let ports = "a[0-65535] => [0-65535]b; c[0-65535] => [0-65535]d;".repeat(100);
    let product = "a [0-9999] -> (input -> [0-9999] b) => (input -> [0-9999] c)".to_owned();
    vec![doubling(40), doubling(99), variables, arguments, ports, product]
}

/// A field of this process's status, in bytes.
fn status(field: &str) -> usize {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find(|line| line.starts_with(field)).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<usize>().unwrap() * 1024
}

/// What a child prints: the most memory that compiling takes beyond the text.
fn print_peak(text: &str) {
    let mut map = SourceMap::default();
    let source = map.add("text", text);
    let before = status("VmRSS");
    let result = compile(&mut map, source, &Options::default());
    println!("peak {}", status("VmHWM").saturating_sub(before));
    drop(result);
}

/// The peak of compiling the text with this number, in a process of its own.
fn peak(test: &str, case: usize) -> usize {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "--nocapture", test]).env(CASE, case.to_string());
    let output = command.output().unwrap();
    let output = String::from_utf8(output.stdout).unwrap();
    let line = output.lines().find_map(|line| line.strip_prefix("peak "));
    line.unwrap_or_else(|| panic!("{output}")).parse().unwrap()
}

/// Runs a case in a child, all cases in the parent.
fn each(test: &str, texts: &[String], most: impl Fn(usize) -> usize) {
    if let Ok(case) = std::env::var(CASE) {
        return print_peak(&texts[case.parse::<usize>().unwrap()]);
    }
    for (case, text) in texts.iter().enumerate() {
        let (used, most) = (peak(test, case), most(text.len()));
        let start: String = text.chars().take(20).collect();
        eprintln!("{start:?}: {} MiB for {} KiB", used >> 20, text.len() >> 10);
        assert!(used <= most, "{start:?}: {used} bytes, at most {most} expected");
    }
}

#[test]
fn memory_is_in_proportion() {
    each("memory_is_in_proportion", &dense(), |len| 64 * len + (64 << 20));
}

#[test]
fn few_lines_take_little() {
    each("few_lines_take_little", &multiplying(), |_| 64 << 20);
}
