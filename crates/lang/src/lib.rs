//! The Click language: from the text of a configuration to the graph of its elements.
//!
//! A configuration declares *elements*, each of a *class* and with a *configuration string*, and
//! connects their *ports*:
//!
//! ```text
//! FromDevice(eth0) -> q :: Queue(200) -> ToDevice(eth1);
//! ```
//!
//! The rest of the language is shorthand: compound elements with parameters, groups, many connections at
//! once, variables, libraries. [`compile`] expands all of it. The result is a [`Graph`]: a list of elements
//! and a list of connections between them.
//!
//! ```
//! use millrace_lang::{Options, SourceMap, compile};
//!
//! let mut map = SourceMap::default();
//! let source = map.add("router.click", "
//!     elementclass Paced { $n | input -> Queue($n) -> Shaper(1000) -> output }
//!     FromDevice(eth0) -> p :: Paced(200) -> ToDevice(eth1);
//! ");
//! let (graph, diagnostics) = compile(&mut map, source, &Options::default());
//! assert_eq!(diagnostics, []);
//!
//! let names: Vec<&str> = graph.elements.iter().map(|e| e.name.as_str()).collect();
//! assert_eq!(names, ["FromDevice@1", "ToDevice@3", "p/Queue@1", "p/Shaper@2"]);
//! let queue = &graph.elements[2];
//! assert_eq!((queue.class.as_str(), queue.config.text.as_str()), ("Queue", "200"));
//! assert_eq!(queue.landmark, "router.click:2");
//! ```
//!
//! # Errors
//!
//! Compilation does not stop at the first error. All problems come back as a list of [`Diagnostic`]s, each
//! with its location ([`Span`]) in a text of the [`SourceMap`], and with the name that was probably meant
//! when there is one. [`render`](fn@render) prints them, in the style of rustc or of Click.
//!
//! ```
//! # use millrace_lang::{Options, SourceMap, Style, compile, render_all};
//! # let mut map = SourceMap::default();
//! let source = map.add("config", "a :: Idle;\na :: Discard -> ] b;\nc -> a;\n");
//! let classes = ["Idle", "Discard"].map(String::from);
//! let options = Options { classes: Some(&classes), ..Options::default() };
//! let (_, diagnostics) = compile(&mut map, source, &options);
//! assert_eq!(render_all(&diagnostics, &map, Style::Click), "\
//! config:2: redeclaration of element ‘a’
//! config:1: element ‘a’ previously declared here
//! config:2: syntax error near ‘]’
//! config:3: undeclared element ‘c’
//! ");
//! ```
//!
//! # The steps
//!
//! | step | module | in, out |
//! |---|---|---|
//! | lex, parse | [`parser`] | text → syntax tree ([`ast`]) |
//! | resolve names | [`compile`] | trees → compounds, in their scopes |
//! | expand, join | [`compile`] | compounds → [`Graph`] |
//! | print | [`format`](fn@format), [`print_flat`] | tree → text laid out, graph → flat text |
//!
//! An element then parses its configuration string with the functions of [`config`], and a script replaces
//! its own variables with [`variables`].
//!
//! # Limits
//!
//! No text, whatever its size and content, makes the compiler panic, and none needs more time or memory than
//! a multiple of the text's length. Everything that could grow without bound has a limit. Exceeding it is an
//! error like any other: nesting ([`parser::MAX_NESTING`]), expansion ([`MAX_EXPANSION_DEPTH`]), port numbers
//! ([`parser::MAX_PORT`]), and, in proportion to the text, the number of elements and connections.
//!
//! Click's manual page click(5) specifies the language; where it leaves something open, Click's own behaviour
//! applies.

pub mod ast;
pub mod config;
pub mod diagnostic;
mod flatten;
pub mod graph;
mod lexer;
mod nearest;
pub mod parser;
mod print;
mod render;
pub mod source;
pub mod variables;

pub use diagnostic::{Diagnostic, Excerpt, Note, Severity};
pub use flatten::{
    FindLibrary, MAX_EXPANSION_DEPTH, Options, Variables, WhyAbsent, assemble, compile,
    find_in_click_path, find_in_path, outline,
};
pub use graph::{Assembly, ConfigText, Connection, ElementDecl, Graph, Part, Requirement};
pub use nearest::{Suggestions, nearest};
pub use print::{format, print_file, print_flat};
pub use render::{Style, ascii_quotes, render, render_all};
pub use source::{LineMark, Location, Source, SourceId, SourceMap, Span};
