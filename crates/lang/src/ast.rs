//! The syntax tree: the contents of a configuration file, before any name is resolved.
//!
//! The tree contains positions, not copies: every name, class and configuration string is a [`TextRange`] of
//! the one text that the [`File`] was parsed from. So a tree stays small, and a tool that rewrites a file
//! knows which bytes each part came from.
//!
//! ```text
//! File ── Item ─┬─ Chain ── Element ─┬─ Name          q
//!               │                    ├─ Declaration   q :: Queue(10)   Queue(10)   {...}(10)
//!               │                    ├─ Group         ( input -> output )
//!               │                    └─ Implicit      the missing end of “-> Strip(14) ->”
//!               ├─ ElementClass      elementclass Name {...}   elementclass Name Other
//!               └─ Directive         require(...) provide(...) define(...)
//! ```

pub use crate::lexer::{Comment, CommentKind, TextRange};
use crate::source::SourceId;

/// A parsed configuration file.
#[derive(Clone, Debug)]
pub struct File {
    /// The text that all ranges refer to.
    pub source: SourceId,
    /// The statements.
    pub items: Vec<Item>,
    /// Comments and line marks between tokens, in order. Comments inside configuration strings are part of
    /// the string.
    pub comments: Vec<Comment>,
    /// Identifiers that the parser skipped after an error. The skipped text may well declare such a name.
    pub skipped: Vec<TextRange>,
}

/// A statement.
#[derive(Clone, Debug)]
pub enum Item {
    /// Declarations and connections.
    Chain(Chain),
    /// `elementclass ...`
    ElementClass(Box<ElementClass>),
    /// `require(...)`, `provide(...)` or `define(...)`
    Directive(Directive),
}

impl Item {
    /// The range of the statement.
    pub fn range(&self) -> TextRange {
        match self {
            Item::Chain(chain) => chain.range(),
            Item::ElementClass(class) => class.range,
            Item::Directive(directive) => directive.range,
        }
    }
}

/// Elements connected by commas and arrows: `a, b :: Queue -> [1] c`. It is never empty.
///
/// The elements between two arrows are one *stage*; see [`Chain::stages`].
#[derive(Clone, Debug)]
pub struct Chain {
    /// The elements in the order of the text.
    pub elements: Vec<Element>,
}

impl Chain {
    /// The stages: runs of elements separated by commas. All links inside a stage are commas; its last
    /// element has the arrow that leads to the next stage.
    pub fn stages(&self) -> impl Iterator<Item = &[Element]> {
        self.elements.split_inclusive(|element| element.link != Link::Comma)
    }

    /// The range of the chain.
    pub fn range(&self) -> TextRange {
        match (self.elements.first(), self.elements.last()) {
            (Some(first), Some(last)) => first.range.to(last.range),
            _ => TextRange::default(),
        }
    }
}

/// What follows an element in a chain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// `,`
    Comma,
    /// `->`
    Arrow,
    /// `=>`
    FatArrow,
    /// Nothing: the end of the chain.
    End,
}

/// One element of a chain, with its ports: `[0] name :: Class(config) [1]`.
#[derive(Clone, Debug)]
pub struct Element {
    /// The ports before it.
    pub inputs: Option<Box<Ports>>,
    /// The element itself.
    pub body: Body,
    /// The ports after it.
    pub outputs: Option<Box<Ports>>,
    /// What follows it.
    pub link: Link,
    /// From its first token to its last; empty, between tokens, when there is none.
    pub range: TextRange,
}

/// What an [`Element`] is.
#[derive(Clone, Debug)]
pub enum Body {
    /// Nothing is written: `input` at the start of a chain, `output` at its end. If there are ports, they are
    /// in [`Element::inputs`].
    Implicit,
    /// A bare identifier: a reference to an element, or an anonymous element of that class.
    Name(TextRange),
    /// Something with a class or a configuration.
    Declaration(Box<Declaration>),
    /// `(...)`
    Group(Box<Group>),
}

/// `name :: Class(config)`, `Class(config)`, `{...}` or `{...}(config)`.
#[derive(Clone, Debug)]
pub struct Declaration {
    /// The identifier before `::` or before the parenthesis.
    pub name: Option<TextRange>,
    /// The class after `::`, or the compound element in place of an element.
    pub class: Option<Class>,
    /// The text between the parentheses.
    pub config: Option<TextRange>,
}

/// A use of a class.
#[derive(Clone, Debug)]
pub enum Class {
    /// By its name.
    Name(TextRange),
    /// By its definition.
    Compound(Box<Compound>),
}

/// `{ ... || ... }`
#[derive(Clone, Debug)]
pub struct Compound {
    /// From brace to brace.
    pub range: TextRange,
    /// The definitions between the bars; never empty.
    pub alternatives: Vec<Alternative>,
    /// The `...` that stands for the class's earlier definitions.
    pub extends: Option<TextRange>,
}

/// One definition of a compound: `$a, KEY $b | statements`.
#[derive(Clone, Debug)]
pub struct Alternative {
    /// The parameters.
    pub formals: Vec<Formal>,
    /// The `|` after the parameters.
    pub bar: Option<TextRange>,
    /// The statements.
    pub items: Vec<Item>,
    /// From after the brace or bar before it to before the one after it.
    pub range: TextRange,
}

/// One parameter of a compound: `$name` or `KEYWORD $name`.
#[derive(Clone, Copy, Debug)]
pub struct Formal {
    /// The keyword.
    pub keyword: Option<TextRange>,
    /// The variable, its `$` included.
    pub variable: TextRange,
}

/// `( statements )` in place of an element, or `name :: ( statements )`.
#[derive(Clone, Debug)]
pub struct Group {
    /// The identifier before `::`.
    pub name: Option<TextRange>,
    /// From parenthesis to parenthesis.
    pub range: TextRange,
    /// The statements.
    pub items: Vec<Item>,
}

/// A list of ports: `[0, 2-4]`, or `[1,]`, which extends as far as the other side needs.
#[derive(Clone, Debug)]
pub struct Ports {
    /// From bracket to bracket.
    pub range: TextRange,
    /// The ports, as ranges with first and last port. Empty means port 0.
    pub ranges: Vec<PortRange>,
    /// True when the list is open-ended: `[]` or a comma before the bracket.
    pub open: bool,
}

/// Ports `first` to `last`, inclusive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortRange {
    /// The first port.
    pub first: u32,
    /// The last port, not less than the first.
    pub last: u32,
}

/// `elementclass Name {...}` or `elementclass Name Other`
#[derive(Clone, Debug)]
pub struct ElementClass {
    /// The whole statement.
    pub range: TextRange,
    /// The new name.
    pub name: TextRange,
    /// The class that it names.
    pub class: Class,
}

/// `require(...)`, `provide(...)` or `define(...)`
#[derive(Clone, Copy, Debug)]
pub struct Directive {
    /// Which it is.
    pub kind: DirectiveKind,
    /// The whole statement.
    pub range: TextRange,
    /// The text between the parentheses.
    pub config: TextRange,
}

/// Which [`Directive`] it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DirectiveKind {
    /// The configuration needs packages or libraries.
    Require,
    /// The configuration provides what others may require.
    Provide,
    /// Gives variables their values.
    Define,
}
