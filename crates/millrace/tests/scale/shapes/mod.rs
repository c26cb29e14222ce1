//! The kinds of parts.

mod arguments;
mod compounds;
mod graphs;
mod mistakes;
mod text;
mod tools;

/// Writes a file of so many parts.
type Write = fn(usize) -> String;

/// A kind of configuration of any number of parts.
pub(crate) struct Shape {
    pub name: &'static str,
    /// The commands to try, and their options.
    pub commands: &'static [&'static str],
    /// Whether the commands accept it.
    pub is_valid: bool,
    pub write: Write,
    /// Above so many parts the commands refuse it, and say this.
    pub limit: Option<(usize, &'static str)>,
}

const RUN: &str = "run --simtime --for 1ms";
const LOAD: &[&str] = &[RUN];
const ALL: &[&str] = &[RUN, "plan", "flatten", "fmt", "graph", "handlers"];
const LANGUAGE: &[&str] = &[RUN, "fmt"];
const CHECK: &[&str] = &["check"];

const fn valid(name: &'static str, commands: &'static [&'static str], write: Write) -> Shape {
    Shape { name, commands, is_valid: true, write, limit: None }
}

const fn wrong(name: &'static str, write: Write) -> Shape {
    Shape { is_valid: false, ..valid(name, CHECK, write) }
}

/// What can have so many parts.
const fn limited(
    name: &'static str,
    commands: &'static [&'static str],
    most: usize,
    write: Write,
) -> Shape {
    Shape { limit: Some((most, "port number too large")), ..valid(name, commands, write) }
}

/// What is too large, for the reason given, above so many parts.
const fn at_most(
    most: usize,
    says: &'static str,
    name: &'static str,
    commands: &'static [&'static str],
    write: Write,
) -> Shape {
    Shape { limit: Some((most, says)), ..valid(name, commands, write) }
}

/// What pulls through too many elements from so many parts on.
const fn deep(
    name: &'static str,
    commands: &'static [&'static str],
    from: usize,
    write: Write,
) -> Shape {
    let limit = Some((from - 1, "pulls through more than 1000 elements"));
    Shape { limit, ..valid(name, commands, write) }
}

/// The most ports that an element can have.
const PORTS: usize = 65_536;

pub(crate) static SHAPES: &[&[Shape]] = &[
    graphs::SHAPES,
    compounds::SHAPES,
    arguments::SHAPES,
    text::SHAPES,
    mistakes::SHAPES,
    tools::SHAPES,
];

fn each(n: usize, part: impl Fn(usize) -> String) -> String {
    (0..n).map(part).collect()
}

fn list(n: usize, part: impl Fn(usize) -> String) -> String {
    (0..n).map(part).collect::<Vec<_>>().join(",\n")
}

/// An address of its own for each number below 2^24, in 10/8.
fn address(i: usize) -> String {
    format!("10.{}.{}.{}", i >> 16 & 255, i >> 8 & 255, i & 255)
}

fn lookup(class: &str, n: usize) -> String {
    let routes = list(n, |i| format!("{}/{} 0", address(i << 4), 28 + i % 5));
    format!("Idle -> {class}({routes}) -> Discard;")
}
