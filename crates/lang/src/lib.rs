//! The Click language: source texts, diagnostics and the flat graph.

pub mod diagnostic;
pub mod graph;
pub mod source;

pub use diagnostic::{Diagnostic, Note, Severity};
pub use graph::{ConfigText, Connection, ElementDecl, Graph, Requirement};
pub use source::{Source, SourceId, SourceMap, Span};
