//! The Click language: source texts, diagnostics and the flat graph.

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

pub use diagnostic::{Diagnostic, Note, Severity};
pub use flatten::{
    FindLibrary, MAX_EXPANSION_DEPTH, Options, compile, find_in_click_path, find_in_path,
};
pub use graph::{ConfigText, Connection, ElementDecl, Graph, Requirement};
pub use nearest::nearest;
pub use print::{format, print_file, print_flat};
pub use render::{Style, ascii_quotes, render, render_all};
pub use source::{Location, Source, SourceId, SourceMap, Span};
