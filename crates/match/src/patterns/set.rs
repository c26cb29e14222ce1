//! Pattern sets as data.

/// Rules. Their order defines their numbers.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternSet {
    rules: Vec<Rule>,
}

/// Strings that must all occur in a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The strings; at least one.
    pub contents: Vec<Content>,
    /// The protocols of the payloads that the rule applies to.
    pub kinds: Kinds,
    /// The message of its alerts.
    pub msg: Option<String>,
    /// The number that its author gave it.
    pub sid: Option<u32>,
}

/// A string of bytes, and where it may occur in the text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// The bytes, of any value; at least one.
    pub bytes: Vec<u8>,
    /// True if `A` to `Z` match `a` to `z`.
    pub nocase: bool,
    /// The minimum position of its first byte in the text.
    pub offset: u32,
    /// It must end within this number of bytes after `offset`, if given. At least its length.
    pub depth: Option<u32>,
}

/// The protocol of a payload. The number is its bit in [`Kinds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// TCP.
    Tcp = 1,
    /// UDP.
    Udp = 2,
    /// ICMP or ICMPv6.
    Icmp = 4,
    /// Another protocol, or an unknown one.
    Other = 8,
}

/// A set of [`Kind`]s, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kinds(u32);

/// Why a rule is not valid.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// A rule without a content would always alert.
    #[error("a rule must have a content")]
    NoContent,
    /// An empty content would match everywhere.
    #[error("empty pattern")]
    EmptyPattern,
    /// A content cannot match in a window that is shorter than it.
    #[error("depth {depth} is less than the {length} bytes of the content")]
    DepthTooSmall {
        /// The length of the window.
        depth: u32,
        /// The length of the content.
        length: usize,
    },
    /// The content is longer than [`PatternSet::LONGEST`].
    #[error("a pattern has at most {} bytes", PatternSet::LONGEST)]
    PatternTooLong,
}

impl PatternSet {
    /// The maximum length of a content in bytes. No IP payload is longer.
    pub const LONGEST: usize = 65535;

    /// A set without rules.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a rule.
    pub fn push(&mut self, rule: Rule) -> Result<(), SetError> {
        rule.check()?;
        self.rules.push(rule);
        Ok(())
    }

    /// The rules, in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// The number of rules.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// True if there are no rules.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl Rule {
    /// A rule of one content, for payloads of every protocol.
    pub fn of(content: Content) -> Self {
        Self { contents: vec![content], kinds: Kinds::ALL, msg: None, sid: None }
    }

    /// The content that engines search for first: the longest one, because it is the rarest; among equals, the first.
    pub(crate) fn trigger(&self) -> usize {
        let lengths = self.contents.iter().map(|content| content.bytes.len()).enumerate();
        lengths.rev().max_by_key(|&(_, length)| length).map_or(0, |(index, _)| index)
    }

    fn check(&self) -> Result<(), SetError> {
        if self.contents.is_empty() {
            return Err(SetError::NoContent);
        }
        self.contents.iter().try_for_each(Content::check)
    }
}

impl Content {
    /// A case-sensitive content that may occur anywhere.
    pub fn of(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), nocase: false, offset: 0, depth: None }
    }

    /// The end of its window; `u32::MAX` if the window is not limited.
    pub fn end(&self) -> u32 {
        self.depth.map_or(u32::MAX, |depth| self.offset.saturating_add(depth))
    }

    /// The bytes as they are compared: in lower case if case does not matter.
    pub fn folded(&self) -> Vec<u8> {
        if self.nocase { self.bytes.to_ascii_lowercase() } else { self.bytes.clone() }
    }

    /// True if it contains letters and is case-sensitive.
    pub(crate) fn has_case(&self) -> bool {
        !self.nocase && self.has_letters()
    }

    pub(crate) fn has_letters(&self) -> bool {
        self.bytes.iter().any(u8::is_ascii_alphabetic)
    }

    pub(crate) fn check(&self) -> Result<(), SetError> {
        let length = self.bytes.len();
        match self.depth {
            _ if length == 0 => Err(SetError::EmptyPattern),
            _ if length > PatternSet::LONGEST => Err(SetError::PatternTooLong),
            Some(depth) if (depth as usize) < length => {
                Err(SetError::DepthTooSmall { depth, length })
            }
            _ => Ok(()),
        }
    }
}

impl Kinds {
    /// Payloads of every protocol.
    pub const ALL: Self = Self(15);

    /// Payloads of one protocol.
    pub fn only(kind: Kind) -> Self {
        Self(kind as u32)
    }

    /// True if the set contains a protocol.
    pub fn has(self, kind: Kind) -> bool {
        self.0 & kind as u32 != 0
    }

    /// As bits.
    pub fn bits(self) -> u32 {
        self.0
    }
}
