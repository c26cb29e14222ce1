//! The flat graph: what is left of a configuration when compounds are expanded.

use crate::source::Span;

/// A flat configuration: elements joined by ports, no compounds, no variables.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The elements in the order of their declaration (Click's element order).
    pub elements: Vec<ElementDecl>,
    /// The connections in the order of the text.
    pub connections: Vec<Connection>,
    /// The arguments of `require(...)`, unquoted, in order.
    pub requirements: Vec<Requirement>,
    /// The arguments of `provide(...)`: what the configuration has that others may require.
    pub provisions: Vec<Requirement>,
}

/// One element of a flat configuration.
#[derive(Clone, Debug)]
pub struct ElementDecl {
    /// Full name: `outer/inner` inside compounds, `Class@N` when anonymous.
    pub name: String,
    /// Class name.
    pub class: String,
    /// Configuration string.
    pub config: ConfigText,
    /// Where it is declared.
    pub span: Span,
    /// Where the name of its class stands.
    pub class_span: Span,
    /// `file:line`, after line marks, as messages of Click give it.
    pub landmark: String,
}

/// A configuration string and where it came from.
#[derive(Clone, Debug)]
pub struct ConfigText {
    /// The text between the parentheses, variables replaced, comments kept as written.
    pub text: String,
    /// Where it stands; the whole declaration when there are no parentheses.
    pub span: Span,
    /// True when `text` is the source text of `span` byte for byte, so that a part of the one is
    /// the same part of the other.
    pub verbatim: bool,
}

impl ConfigText {
    /// The place of bytes `start..end` of the text: exact when verbatim, else the whole.
    pub fn place(&self, start: usize, end: usize) -> Span {
        if self.verbatim { self.span.sub(start, end) } else { self.span }
    }
}

/// A connection from an output port to an input port.
#[derive(Clone, Copy, Debug)]
pub struct Connection {
    /// Index of the element the packets leave, and its output port.
    pub from: (usize, usize),
    /// Index of the element the packets enter, and its input port.
    pub to: (usize, usize),
    /// Where it is written.
    pub span: Span,
}

/// One word of a `require(...)` or `provide(...)`.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// The word: a package's name, or `compact_config`.
    pub text: String,
    /// Where it stands.
    pub span: Span,
}

/// A configuration as Click's tools see it: compounds are expanded, but the tunnels that they and
/// groups leave behind are still there, elements stand in the order in which the tools expand them,
/// and the variables of the file are still variables.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    /// Elements and ends of tunnels.
    pub parts: Vec<Part>,
    /// Connections between parts, those of the file first, then those of each compound after those
    /// of the compounds in it.
    pub connections: Vec<Connection>,
    /// The arguments of `require(...)`.
    pub requirements: Vec<Requirement>,
    /// The variables of the file, those of the command line included, and their values.
    pub variables: Vec<(String, String)>,
    /// The compound classes that the file declares under a name, in order, each as the assembly of
    /// what is inside. Its parts `input` and `output` lead nowhere.
    pub classes: Vec<(String, Assembly)>,
}

/// An element of an [`Assembly`], or an end of a tunnel.
#[derive(Clone, Debug)]
pub struct Part {
    /// Full name.
    pub name: String,
    /// Class name; `None` of a tunnel's end.
    pub class: Option<String>,
    /// Configuration string.
    pub config: String,
    /// Where it is declared: `file:line`.
    pub landmark: String,
    /// Where it is declared: the name, or the class of one that has none.
    pub span: Span,
    /// What enters this end comes out there.
    pub leads_to: Option<usize>,
    /// What comes out of this end entered there.
    pub comes_from: Option<usize>,
}
