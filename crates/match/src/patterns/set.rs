//! Pattern sets as data.

/// Rules, in the order that numbers them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PatternSet {
    rules: Vec<Rule>,
}

/// Strings that must all occur in a text.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Rule {
    /// The strings; at least one.
    pub contents: Vec<Content>,
    /// Payloads of which protocols the rule is for.
    pub kinds: Kinds,
    /// What to call it.
    pub msg: Option<String>,
    /// Its number by its author.
    pub sid: Option<u32>,
}

/// A string of bytes and where in the text it may lie.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Content {
    /// The bytes, any bytes; at least one.
    pub bytes: Vec<u8>,
    /// Whether `A` to `Z` are the same as `a` to `z`.
    pub nocase: bool,
    /// It begins no earlier than so many bytes into the text.
    pub offset: u32,
    /// It ends no later than so many bytes after `offset`, if that is said; at least its length.
    pub depth: Option<u32>,
}

/// What a payload is the payload of. The number is its bit in [`Kinds`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
pub enum Kind {
    /// TCP.
    Tcp = 1,
    /// UDP.
    Udp = 2,
    /// ICMP or ICMPv6.
    Icmp = 4,
    /// Another protocol, or none that could be told.
    Other = 8,
}

/// A set of [`Kind`]s, as bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Kinds(u32);

/// What a rule may not be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SetError {
    /// A rule without a content would alert always.
    #[error("a rule must have a content")]
    NoContent,
    /// A content without bytes lies everywhere.
    #[error("empty pattern")]
    EmptyPattern,
    /// A content cannot lie in a window smaller than itself.
    #[error("depth {depth} is less than the {length} bytes of the content")]
    DepthTooSmall {
        /// The window.
        depth: u32,
        /// The content.
        length: usize,
    },
    /// More than images can number.
    #[error("a pattern has at most {} bytes", PatternSet::LONGEST)]
    PatternTooLong,
}

impl PatternSet {
    /// The longest content there may be, in bytes: no payload of IP is longer.
    pub const LONGEST: usize = 65535;

    /// A set without rules: nothing alerts.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a rule behind the others.
    pub fn push(&mut self, rule: Rule) -> Result<(), SetError> {
        rule.check()?;
        self.rules.push(rule);
        Ok(())
    }

    /// The rules, in their order.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// How many rules there are.
    pub fn len(&self) -> usize {
        self.rules.len()
    }

    /// Whether nothing is searched for.
    pub fn is_empty(&self) -> bool {
        self.rules.is_empty()
    }
}

impl Rule {
    /// A rule of one content, for payloads of every protocol.
    pub fn of(content: Content) -> Self {
        Self { contents: vec![content], kinds: Kinds::ALL, msg: None, sid: None }
    }

    /// Which content engines search for first: the longest is the least common. The first of the longest.
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
    /// A content that may lie anywhere, with its case.
    pub fn of(bytes: impl Into<Vec<u8>>) -> Self {
        Self { bytes: bytes.into(), nocase: false, offset: 0, depth: None }
    }

    /// The first position behind its window; `u32::MAX` when the window is open.
    pub fn end(&self) -> u32 {
        self.depth.map_or(u32::MAX, |depth| self.offset.saturating_add(depth))
    }

    /// The bytes as they are compared: in lower case if case does not matter.
    pub fn folded(&self) -> Vec<u8> {
        if self.nocase { self.bytes.to_ascii_lowercase() } else { self.bytes.clone() }
    }

    /// Whether its bytes would be others in another case, and are not to be.
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

    /// Whether payloads of a protocol are among them.
    pub fn has(self, kind: Kind) -> bool {
        self.0 & kind as u32 != 0
    }

    /// As bits.
    pub fn bits(self) -> u32 {
        self.0
    }
}
