//! The grammar of conditions.
//!
//! ```text
//! expression  = disjunction { "?" expression ":" disjunction }
//! disjunction = conjunction { ("or" | "||") conjunction }
//! conjunction = factor { ["and" | "&&"] factor }
//! factor      = ("not" | "!") factor | "(" expression ")" | condition
//! condition   = "true" | "false" | { qualifier } ["[" position "]"] ["&" mask] [operator] [value]
//! ```

use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::Range;

use millrace_core::args::{self, Arg, Scope};
use millrace_core::net::{EtherAddress, Ipv4Prefix, Ipv6Prefix};

use super::super::expr::Expr;
use super::super::finding::Finding;
use super::case::State;
use super::check::{Draft, Header, Mask, Previous, Value};
use super::names::{self, Meaning};
use super::primitive::{
    Condition, Ends, Field, ICMP_TYPE, ICMP6, ICMP6_TYPE, Kind, Operator, Primitive, Protocol,
};
use super::words::Word;

/// The maximum nesting of parentheses, `!` and `?`.
const MAX_DEPTH: usize = 200;

/// Parses an expression that must consist of all words. An error in a condition that does not affect the expression
/// goes to `findings`; the condition is then replaced by a placeholder.
///
/// # Errors
/// An error that makes the remaining words useless.
pub(super) fn parse(
    words: &[Word<'_>],
    end: usize,
    argument: usize,
    scope: &Scope<'_>,
    findings: &mut Vec<Finding>,
) -> Result<Expr<Primitive>, Finding> {
    let mut parser = Parser {
        words,
        at: 0,
        end,
        argument,
        depth: 0,
        scope,
        previous: Previous::default(),
        findings,
    };
    let expr = parser.expression()?;
    match parser.word() {
        None => Ok(expr),
        Some(word) => {
            let message = format!("garbage after expression at ‘{}’", word.text);
            Err(Finding::error(argument, word.range.clone(), message))
        }
    }
}

struct Parser<'a> {
    words: &'a [Word<'a>],
    at: usize,
    /// The end of the rule, for errors about missing words.
    end: usize,
    argument: usize,
    depth: usize,
    scope: &'a Scope<'a>,
    previous: Previous,
    findings: &'a mut Vec<Finding>,
}

type Parsed<T> = Result<T, Finding>;

/// The expression.
impl<'a> Parser<'a> {
    fn expression(&mut self) -> Parsed<Expr<Primitive>> {
        self.deeper()?;
        let mut choice = vec![self.disjunction()?];
        while self.accept(&["?"]) {
            choice.push(self.expression()?);
            if !self.accept(&[":"]) {
                return Err(self.error_here("missing ‘:’ in ternary expression"));
            }
            choice.push(self.disjunction()?);
        }
        self.depth -= 1;
        Ok(one_or(Expr::Choose, choice))
    }

    fn disjunction(&mut self) -> Parsed<Expr<Primitive>> {
        let mut any = vec![self.conjunction()?];
        while self.accept(&["or", "||"]) {
            any.push(self.conjunction()?);
        }
        Ok(one_or(Expr::Any, any))
    }

    fn conjunction(&mut self) -> Parsed<Expr<Primitive>> {
        let mut all = Vec::new();
        let mut required = true;
        loop {
            match self.factor()? {
                Some(factor) => all.push(factor),
                None if required => return Err(self.error_here("missing expression")),
                None => return Ok(one_or(Expr::All, all)),
            }
            required = self.accept(&["and", "&&"]);
        }
    }

    /// A factor, if one begins here.
    fn factor(&mut self) -> Parsed<Option<Expr<Primitive>>> {
        let mut negated = false;
        let mut last = None;
        while let Some(word) = self.word()
            && self.accept(&["not", "!"])
        {
            negated = !negated;
            last = Some(word);
        }
        let factor = if self.accept(&["("]) {
            let group = self.group()?;
            Some(if negated { group.negate() } else { group })
        } else {
            self.condition(negated)?
        };
        match last {
            Some(word) if factor.is_none() => {
                Err(self.error_here(format!("missing expression after ‘{}’", word.text)))
            }
            _ => Ok(factor),
        }
    }

    /// The contents of parentheses, after the opening one.
    fn group(&mut self) -> Parsed<Expr<Primitive>> {
        if self.peek().is_none_or(|word| word == ")") {
            return Err(self.error_here("missing expression after ‘(’"));
        }
        let group = self.expression()?;
        if self.accept(&[")"]) { Ok(group) } else { Err(self.error_here("missing ‘)’")) }
    }

    fn deeper(&mut self) -> Parsed<()> {
        self.depth += 1;
        if self.depth <= MAX_DEPTH {
            return Ok(());
        }
        Err(self.error_here(format!("expression is nested more than {MAX_DEPTH} deep")))
    }
}

/// The condition.
impl<'a> Parser<'a> {
    /// A condition, if one begins here.
    fn condition(&mut self, mut negated: bool) -> Parsed<Option<Expr<Primitive>>> {
        let first = self.at;
        match self.peek() {
            None | Some(")" | "||" | "or" | "?" | ":") => return Ok(None),
            Some(constant @ ("true" | "false")) => {
                self.at += 1;
                let constant = Condition::Constant((constant == "true") != negated);
                return Ok(Some(Expr::Is(Primitive::any(constant))));
            }
            Some(word) => {
                if let Some(state) = self.state(word) {
                    self.at += 1;
                    self.previous = Previous::default();
                    let condition = Expr::Is(Primitive::any(Condition::State(state)));
                    return Ok(Some(if negated { condition.negate() } else { condition }));
                }
            }
        }
        let mut draft = Draft::EMPTY;
        let errors = self.findings.len();
        self.qualifiers(&mut draft, &mut negated);
        // A condition with its own qualifiers inherits nothing.
        if self.at != first {
            self.previous = Previous::default();
        }
        if self.previous.is_ether {
            draft.header = Some(Header::Ether);
        }
        if self.at > first && draft.kind.is_none() && self.operator_is("[") {
            self.position(&mut draft)?;
        }
        if self.operator_is("&") {
            self.mask(&mut draft)?;
        }
        if let Some(operator) = self.operator().and_then(Operator::of) {
            draft.operator = Some(operator);
            self.at += 1;
        }
        let usable = self.value(&mut draft)?;
        if self.at == first {
            let word = self.peek().unwrap_or_default();
            let error = self.error_here(format!("empty term near ‘{word}’"));
            return Err(error.help(names::unknown(word, self.previous.kind)));
        }
        let usable = usable && self.findings.len() == errors;
        let condition = if usable { self.checked(draft, first) } else { PLACEHOLDER };
        let condition = Expr::Is(condition);
        Ok(Some(if negated { condition.negate() } else { condition }))
    }

    /// The state of connections that a word stands for, unless the configuration gave that name to an address.
    fn state(&self, word: &str) -> Option<State> {
        let state = State::named(word)?;
        let is_address =
            self.read::<Ipv4Addr>(word).is_some() || self.read::<Ipv6Addr>(word).is_some();
        (!is_address).then_some(state)
    }

    /// The words that name the subject of a condition.
    fn qualifiers(&mut self, draft: &mut Draft, negated: &mut bool) {
        // The names of extension headers may be words with a meaning of their own.
        while let Some(word) = self.peek()
            && draft.kind != Some(Kind::Extension)
        {
            let of_six = Some(word).filter(|_| draft.header == Some(Header::Ip6));
            let meaning = match of_six.and_then(names::of_ip6).filter(|_| draft.kind.is_none()) {
                Some(kind) => Meaning::Kind(kind),
                None => names::meaning(word, None, None, self.scope),
            };
            match meaning {
                Meaning::Kind(Kind::Field(ICMP_TYPE))
                    if draft.protocol == Some(Protocol::Number(ICMP6)) && draft.kind.is_none() =>
                {
                    draft.kind = Some(Kind::Field(ICMP6_TYPE));
                }
                Meaning::Kind(kind) => {
                    if draft.kind.is_some() {
                        self.report_here("type specified twice");
                    }
                    draft.kind = Some(kind);
                    if let Kind::Field(Field { protocol: Some(protocol), .. }) = kind {
                        self.set_protocol(draft, protocol);
                    }
                }
                Meaning::Value(Kind::Protocol, number) => {
                    if let Some(protocol) = names::protocol(number) {
                        self.set_protocol(draft, protocol);
                    }
                }
                Meaning::Value(..) | Meaning::Wrong(_) => return,
                Meaning::Nothing => match word {
                    "src" => {
                        let (ends, more) = self.source_and();
                        self.set_ends(draft, ends);
                        self.at += more;
                    }
                    "dst" | "dest" => self.set_ends(draft, Ends::Destination),
                    "ip" if draft.header.is_none() => draft.header = Some(Header::Ip),
                    "ip6" if draft.header.is_none() => draft.header = Some(Header::Ip6),
                    "ether" if draft.header.is_none() => draft.header = Some(Header::Ether),
                    "not" | "!" => *negated = !*negated,
                    _ => return,
                },
            }
            self.at += 1;
        }
    }

    /// The meaning of `src`, `src or dst` or `src and dst`, and the number of words after `src`.
    fn source_and(&self) -> (Ends, usize) {
        let next = |n: usize| self.words.get(self.at + n).map(|word| word.text);
        match (next(1), next(2)) {
            (Some("and" | "&&"), Some("dst" | "dest")) => (Ends::Both, 2),
            (Some("or" | "||"), Some("dst" | "dest")) => (Ends::Either, 2),
            _ => (Ends::Source, 0),
        }
    }

    fn set_ends(&mut self, draft: &mut Draft, ends: Ends) {
        if draft.ends.is_some() {
            self.report_here("‘src’ or ‘dst’ specified twice");
        }
        draft.ends = Some(ends);
    }

    fn set_protocol(&mut self, draft: &mut Draft, protocol: Protocol) {
        if draft.protocol.is_some_and(|before| before != protocol) {
            self.report_here("transport protocol specified twice");
        }
        draft.protocol = Some(protocol);
    }

    /// `[POS]`, `[POS:LEN]` or `[POS,LAST]`: a field of the header.
    fn position(&mut self, draft: &mut Draft) -> Parsed<()> {
        let open = self.at;
        let inside = self.words.get(open + 1..).unwrap_or_default();
        let Some(length) = inside.iter().position(|word| word.text == "]") else {
            return Err(self.error_at(self.range_from(open), "missing ‘]’"));
        };
        self.at += length + 2;
        let range = self.range_from(open);
        let text: String = inside.iter().take(length).map(|word| word.text).collect();
        let (first, length) = byte_range(&text).ok_or_else(|| {
            let message = "syntax error after ‘[’, expected ‘[POS]’ or ‘[POS:LEN]’";
            self.error_at(range.clone(), message)
        })?;
        let message = if !(1..=4).contains(&length) {
            "LEN in ‘[POS:LEN]’ out of range, should be between 1 and 4".to_owned()
        } else if first % 4 + length > 4 {
            format!("field [{first}:{length}] does not fit in a single word")
        } else if first > max_position(draft) {
            format!("POS in ‘[POS:LEN]’ out of range, bound {}", max_position(draft))
        } else {
            let field = Field { protocol: draft.protocol, bit: first * 8, bits: length * 8 };
            draft.kind = Some(Kind::Field(field));
            return Ok(());
        };
        Err(self.error_at(range, message))
    }

    /// `& MASK`.
    fn mask(&mut self, draft: &mut Draft) -> Parsed<()> {
        self.at += 1;
        let word = self.peek().unwrap_or_default();
        let mask = if let Some(number) = self.number(word)? {
            Mask::Number(number)
        } else if draft.header != Some(Header::Ether)
            && let Some(address) = self.read::<Ipv4Addr>(word)
        {
            Mask::Address(address.to_bits())
        } else if ![Some(Header::Ip), Some(Header::Ip6)].contains(&draft.header)
            && let Some(address) = self.read::<EtherAddress>(word)
        {
            Mask::Ether(address.octets())
        } else {
            return Err(self.error_here("expected a mask after ‘&’"));
        };
        if matches!(mask, Mask::Number(0) | Mask::Address(0)) {
            self.report_here("zero mask");
        }
        draft.mask = Some(mask);
        self.at += 1;
        Ok(())
    }

    /// The value at the end of a condition, if there is one; returns false if there is one that has been reported as
    /// useless.
    fn value(&mut self, draft: &mut Draft) -> Parsed<bool> {
        let Some(word) = self.peek() else { return Ok(true) };
        if let Some(value) = self.inherited(word, draft) {
            draft.value = value;
            self.at += 1;
            return Ok(true);
        }
        match names::meaning(word, draft.kind, draft.protocol, self.scope) {
            Meaning::Wrong(message) => {
                self.report_here(message);
                self.at += 1;
                return Ok(false);
            }
            Meaning::Value(kind, number) => draft.value = Value::Of(kind, number),
            Meaning::Kind(_) | Meaning::Nothing => match self.plain_value(word, draft)? {
                Some(value) => draft.value = value,
                None if draft.operator.is_some_and(|operator| operator != Operator::EQUAL) => {
                    let error = self.error_here(format!("dangling operator near ‘{word}’"));
                    return Err(error.help(names::unknown(word, draft.kind)));
                }
                None => return Ok(true),
            },
        }
        self.at += 1;
        Ok(true)
    }

    /// The value that a word names as the value of the previous condition did: `icmp6 type echo or echo-reply`. These
    /// are names that mean something else, or nothing, elsewhere.
    fn inherited(&self, word: &str, draft: &Draft) -> Option<Value> {
        let alone = draft.kind.is_none() && draft.protocol.is_none() && draft.ends.is_none();
        let kind = self.previous.kind.filter(|_| alone)?;
        names::only_with(kind, word).map(|number| Value::Of(kind, number))
    }

    /// A number or an address.
    fn plain_value(&mut self, word: &str, draft: &Draft) -> Parsed<Option<Value>> {
        if let Some(number) = self.number(word)? {
            return Ok(Some(Value::Number(number)));
        }
        let net = |prefix: Ipv4Prefix| Value::Net {
            address: prefix.address().to_bits(),
            mask: prefix.mask().to_bits(),
        };
        if [None, Some(Header::Ip)].contains(&draft.header) {
            if let Some(address) = self.read::<Ipv4Addr>(word) {
                if let Some(mask) = self.mask_word() {
                    self.at += 2;
                    return Ok(Some(net(Ipv4Prefix::with_mask(address, mask))));
                }
                // A name can denote both a host and a network.
                let named_net = (draft.kind == Some(Kind::Net)).then(|| self.read(word)).flatten();
                return Ok(Some(named_net.map_or(Value::Address(address.to_bits()), net)));
            }
            if let Some(prefix) = self.read(word) {
                return Ok(Some(net(prefix)));
            }
        }
        if [None, Some(Header::Ether)].contains(&draft.header)
            && let Some(address) = self.read::<EtherAddress>(word)
        {
            return Ok(Some(Value::Ether(address.octets())));
        }
        if draft.header == Some(Header::Ether) {
            return Ok(None);
        }
        Ok(self.value6(word, draft))
    }

    /// An IPv6 address or network.
    fn value6(&self, word: &str, draft: &Draft) -> Option<Value> {
        let address = self.read::<Ipv6Addr>(word).map(|address| Value::Address6(address.to_bits()));
        // A name can denote both a host and a network.
        if address.is_some() && draft.kind != Some(Kind::Net) {
            return address;
        }
        let net = |prefix: Ipv6Prefix| Value::Net6 {
            address: prefix.address().to_bits(),
            mask: prefix.mask().to_bits(),
        };
        self.read(word).map(net).or(address)
    }

    /// The mask of `ADDRESS mask MASK`.
    fn mask_word(&self) -> Option<Ipv4Addr> {
        let next = |n: usize| self.words.get(self.at + n).map(|word| word.text);
        if next(1)? != "mask" {
            return None;
        }
        self.read(next(2)?)
    }

    /// A number; `None` for words that are not numbers.
    fn number(&self, word: &str) -> Parsed<Option<u32>> {
        if !word.starts_with(|first: char| first.is_ascii_digit() || first == '-') {
            return Ok(None);
        }
        match self.read::<i64>(word) {
            None => Ok(None),
            // A negative number stands for its 32 bits.
            Some(number) => {
                match u32::try_from(number).or(i32::try_from(number).map(i32::cast_unsigned)) {
                    Ok(number) => Ok(Some(number)),
                    Err(_) => Err(self.error_here(format!("out of range, bound {}", u32::MAX))),
                }
            }
        }
    }

    fn read<T: Arg>(&self, word: &str) -> Option<T> {
        args::parse(word, self.scope).ok()
    }

    fn checked(&mut self, draft: Draft, first: usize) -> Primitive {
        let range = self.range_from(first);
        let argument = self.argument;
        let mut warn = |message| {
            self.findings.push(Finding::warning(argument, range.clone(), message));
        };
        if let (None, Value::Ether(_), Some(word)) =
            (draft.header, draft.value, self.words.get(self.at - 1))
            && is_like_ipv6(word.text)
        {
            let address = word.text;
            warn(format!(
                "‘{address}’ is taken for an Ethernet address; say so with ‘ether’ before it, or give all eight groups \
                 of an IPv6 address"
            ));
        }
        let without_value = matches!(draft.value, Value::Missing);
        match draft.check(&self.previous, &mut warn) {
            Ok(checked) => {
                self.previous = checked.previous;
                checked.primitive
            }
            Err(message) => {
                let error = Finding::error(argument, range, message);
                let next = self.peek().filter(|_| without_value);
                let address = next.filter(|_| draft.kind.is_none_or(Kind::has_addresses));
                let error = if let Some(wrong) =
                    address.and_then(|word| names::wrong_address(word, draft.header))
                {
                    self.error_here(wrong)
                } else if let Some(word) = next.filter(|word| names::is_unknown(word, self.scope)) {
                    error.help(names::unknown(word, draft.kind))
                } else {
                    error
                };
                self.findings.push(error);
                PLACEHOLDER
            }
        }
    }
}

/// Replaces a condition whose error has been reported.
const PLACEHOLDER: Primitive = Primitive::any(Condition::Constant(true));

/// Words and positions.
impl<'a> Parser<'a> {
    fn word(&self) -> Option<&'a Word<'a>> {
        self.words.get(self.at)
    }

    fn peek(&self) -> Option<&'a str> {
        self.word().map(|word| word.text)
    }

    fn accept(&mut self, any_of: &[&str]) -> bool {
        let accepted = self.peek().is_some_and(|word| any_of.contains(&word));
        self.at += usize::from(accepted);
        accepted
    }

    /// The current word, if it may be an operator; the last word cannot be one.
    fn operator(&self) -> Option<&'a str> {
        self.peek().filter(|_| self.at + 1 < self.words.len())
    }

    fn operator_is(&self, wanted: &str) -> bool {
        self.operator() == Some(wanted)
    }

    /// The range from a word to the one before the current word.
    fn range_from(&self, first: usize) -> Range<usize> {
        let start = self.words.get(first).map_or(self.end, |word| word.range.start);
        let last = self.at.max(first + 1) - 1;
        let end = self.words.get(last).map_or(self.end, |word| word.range.end);
        start..end
    }

    fn here(&self) -> Range<usize> {
        self.word().map_or(self.end..self.end, |word| word.range.clone())
    }

    fn error_at(&self, range: Range<usize>, message: impl Into<String>) -> Finding {
        Finding::error(self.argument, range, message)
    }

    fn error_here(&self, message: impl Into<String>) -> Finding {
        self.error_at(self.here(), message)
    }

    fn report_here(&mut self, message: impl Into<String>) {
        let finding = self.error_here(message);
        self.findings.push(finding);
    }
}

/// Whether an Ethernet address may be meant as an IPv6 address, for it has a group of one digit.
fn is_like_ipv6(word: &str) -> bool {
    word.contains(':') && word.split(':').any(|group| group.len() == 1)
}

/// The only element of a list, or `all` applied to the list.
fn one_or(
    all: impl FnOnce(Vec<Expr<Primitive>>) -> Expr<Primitive>,
    mut list: Vec<Expr<Primitive>>,
) -> Expr<Primitive> {
    match list.pop() {
        Some(only) if list.is_empty() => only,
        Some(last) => {
            list.push(last);
            all(list)
        }
        None => all(list),
    }
}

/// The first byte and the number of bytes denoted by `POS`, `POS:LEN` or `POS,LAST`.
fn byte_range(text: &str) -> Option<(u32, u32)> {
    let number = |text: &str| args::parse::<u32>(text, &Scope::builtin()).ok();
    if let Some((first, length)) = text.split_once(':') {
        return Some((number(first)?, number(length)?));
    }
    if let Some((first, last)) = text.split_once(',') {
        let (first, last) = (number(first)?, number(last)?);
        // An empty range: a length of 0, which is rejected.
        return Some((first, last.checked_sub(first).map_or(0, |more| more.saturating_add(1))));
    }
    Some((number(text)?, 1))
}

/// The last byte of a header that can be tested: for the IP header because the offsets of the transport header follow,
/// for others because Click allows no more.
fn max_position(draft: &Draft) -> u32 {
    match (draft.protocol, draft.header) {
        (Some(_), _) => 8191,
        // The header has 40 bytes.
        (None, Some(Header::Ip6)) => 39,
        (None, _) => 255,
    }
}
