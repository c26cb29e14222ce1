//! The flat graph: the configuration after expansion of compound elements.

use crate::source::Span;

/// A flat configuration: elements connected by ports, no compound elements, no variables.
#[derive(Clone, Debug, Default)]
pub struct Graph {
    /// The elements in the order of their declaration (Click's element order).
    pub elements: Vec<ElementDecl>,
    /// The connections in the order of the text.
    pub connections: Vec<Connection>,
    /// The arguments of `require(...)`, unquoted, in order.
    pub requirements: Vec<Requirement>,
    /// The arguments of `provide(...)`: what the configuration provides that others may require.
    pub provisions: Vec<Requirement>,
}

/// One element of a flat configuration.
#[derive(Clone, Debug)]
pub struct ElementDecl {
    /// Full name: `outer/inner` inside compound elements, `Class@N` when anonymous.
    pub name: String,
    /// Class name.
    pub class: String,
    /// Configuration string.
    pub config: ConfigText,
    /// The range of its declaration.
    pub span: Span,
    /// The range of its class name.
    pub class_span: Span,
    /// `file:line`, with line marks applied, as in Click's messages.
    pub landmark: String,
}

/// A configuration string and its origin.
#[derive(Clone, Debug)]
pub struct ConfigText {
    /// The text between the parentheses, variables replaced, comments kept as written.
    pub text: String,
    /// Its range; the whole declaration when there are no parentheses.
    pub span: Span,
    /// True when `text` is the source text of `span` byte for byte, so that positions in both correspond.
    pub verbatim: bool,
}

impl ConfigText {
    /// The range of bytes `start..end` of the text: exact when verbatim, otherwise the whole.
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
    /// Its range in the source.
    pub span: Span,
}

/// One word of a `require(...)` or `provide(...)`.
#[derive(Clone, Debug)]
pub struct Requirement {
    /// The word: a package's name, or `compact_config`.
    pub text: String,
    /// Its range.
    pub span: Span,
}

/// A configuration as Click's tools see it: compound elements are expanded, but the tunnels that they and
/// groups leave behind are still there, elements are in the order in which the tools expand them, and the
/// file's variables are not replaced.
#[derive(Clone, Debug, Default)]
pub struct Assembly {
    /// Elements and ends of tunnels.
    pub parts: Vec<Part>,
    /// Connections between parts: those of the file first, then those of each compound element after those of
    /// the compound elements in it.
    pub connections: Vec<Connection>,
    /// The arguments of `require(...)`.
    pub requirements: Vec<Requirement>,
    /// The variables of the file, including those of the command line, with their values.
    pub variables: Vec<(String, String)>,
    /// The named compound classes of the file, in order, each as the assembly of its contents. The parts
    /// `input` and `output` of such an assembly lead nowhere.
    pub classes: Vec<(String, Assembly)>,
}

/// An element of an [`Assembly`], or an end of a tunnel.
#[derive(Clone, Debug)]
pub struct Part {
    /// Full name.
    pub name: String,
    /// Class name; `None` for the end of a tunnel.
    pub class: Option<String>,
    /// Configuration string.
    pub config: String,
    /// Where it is declared: `file:line`.
    pub landmark: String,
    /// The range of its declaration: the name, or the class if it has none.
    pub span: Span,
    /// Where packets that enter this end come out.
    pub leads_to: Option<usize>,
    /// Where packets that come out of this end entered.
    pub comes_from: Option<usize>,
}
