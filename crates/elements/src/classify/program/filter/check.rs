//! Builds a condition from its words: fills in what they omit, and rejects contradictions.

use super::case::Family;
use super::primitive::{
    Comparison, Condition, DCCP, ECN_CE, ECN_MASK, Ends, Extension, Kind, Operator, Primitive,
    Protocol, Relation, TCP, TOS, UDP,
};

/// The words of a condition.
#[derive(Clone, Copy, Debug)]
pub(super) struct Draft {
    pub(super) kind: Option<Kind>,
    pub(super) header: Option<Header>,
    pub(super) ends: Option<Ends>,
    pub(super) protocol: Option<Protocol>,
    pub(super) mask: Option<Mask>,
    pub(super) operator: Option<Operator>,
    pub(super) value: Value,
}

/// The header that a condition names.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Header {
    Ip,
    Ip6,
    Ether,
}

/// The operand of `&`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mask {
    Number(u32),
    Address(u32),
    Ether([u8; 6]),
}

/// The value at the end of a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Value {
    Missing,
    Number(u32),
    /// A number whose kind is known: a port by its name, or a number after `port 80 or`.
    Of(Kind, u32),
    Address(u32),
    Net {
        address: u32,
        mask: u32,
    },
    Address6(u128),
    Net6 {
        address: u128,
        mask: u128,
    },
    Ether([u8; 6]),
}

/// What conditions inherit from the previous one if they omit it: `src port 80 or 81`.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Previous {
    pub(super) kind: Option<Kind>,
    ends: Option<Ends>,
    protocol: Option<Protocol>,
    header: Option<Header>,
    pub(super) is_ether: bool,
}

/// A condition, and what the next one may inherit from it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Checked {
    pub(super) primitive: Primitive,
    pub(super) previous: Previous,
}

impl Draft {
    pub(super) const EMPTY: Draft = Draft {
        kind: None,
        header: None,
        ends: None,
        protocol: None,
        mask: None,
        operator: None,
        value: Value::Missing,
    };

    /// Builds the condition. Warnings go to `warn`.
    ///
    /// # Errors
    /// The error in the condition.
    pub(super) fn check(
        mut self,
        previous: &Previous,
        warn: &mut impl FnMut(String),
    ) -> Result<Checked, String> {
        if self.is_header_alone() {
            let primitive =
                Primitive { family: self.family(), ..Primitive::any(Condition::Constant(true)) };
            return Ok(Checked { primitive, previous: Previous::default() });
        }
        let given_ends = self.ends;
        let mut kind = match self.kind {
            Some(kind) => kind,
            None => self.infer_kind(previous)?,
        };
        let ether = self.header == Some(Header::Ether)
            || self.header.is_none() && matches!(self.value, Value::Ether(_));
        if ether && kind == Kind::Host {
            kind = Kind::Ether;
        }
        if ether && kind != Kind::Ether {
            return Err(self.complaint(kind, "ip only"));
        }
        if self.header == Some(Header::Ip6) && (kind == Kind::Ether || kind.is_of_ip4_alone()) {
            return Err(self.complaint(kind, "not in an IPv6 header"));
        }
        if kind.has_ends() {
            self.ends = self.ends.or(Some(Ends::Either));
        } else if given_ends.is_some() {
            let kind = self.spelled(kind);
            warn(format!("‘{kind}’: ‘src’ or ‘dst’ ignored"));
        }
        let condition = self.condition(kind, warn)?;
        let previous = Previous {
            kind: Some(match (kind, condition) {
                (Kind::Net, _) => Kind::Host,
                (Kind::Unfragmented, _) => Kind::Fragment,
                (_, Condition::Field(field, _)) => Kind::Field(field),
                _ => kind,
            }),
            ends: self.ends,
            protocol: self.protocol,
            header: self.header.filter(|header| *header != Header::Ether),
            is_ether: matches!(self.value, Value::Ether(_)),
        };
        let of_four = kind.is_of_ip4_alone().then_some(Family::Four);
        let family = self.family().or(of_four);
        let primitive = Primitive { family, protocol: self.protocol, condition };
        Ok(Checked { primitive, previous })
    }

    /// Whether the condition is `ip` or `ip6` and nothing more.
    fn is_header_alone(&self) -> bool {
        self.family().is_some()
            && self.kind.is_none()
            && self.ends.is_none()
            && self.protocol.is_none()
            && self.mask.is_none()
            && self.operator.is_none()
            && self.value == Value::Missing
    }

    /// The IP version that a condition names.
    fn family(&self) -> Option<Family> {
        match self.header? {
            Header::Ip => Some(Family::Four),
            Header::Ip6 => Some(Family::Six),
            Header::Ether => None,
        }
    }

    /// The kind of the condition, inferred from its value.
    fn infer_kind(&mut self, previous: &Previous) -> Result<Kind, String> {
        if let Value::Number(number) = self.value {
            match previous.kind {
                Some(kind) if kind.takes_numbers() => {
                    self.value = Value::Of(kind, number);
                    self.header = self.header.or(previous.header);
                }
                _ => return Err("specify header field or ‘port’".to_owned()),
            }
        }
        let kind = match self.value {
            Value::Address(_) | Value::Address6(_) => Kind::Host,
            Value::Net { .. } | Value::Net6 { .. } => Kind::Net,
            Value::Ether(_) => Kind::Ether,
            Value::Of(kind, _) => kind,
            Value::Missing if self.protocol.is_some() => Kind::Protocol,
            Value::Missing | Value::Number(_) => return Err("partial directive".to_owned()),
        };
        if kind.has_ends() || kind == Kind::TcpOption {
            self.ends = self.ends.or(previous.ends);
        }
        match kind {
            Kind::Port => self.protocol = self.protocol.or(previous.protocol),
            Kind::Field(field) => self.protocol = self.protocol.or(field.protocol),
            _ => {}
        }
        Ok(kind)
    }

    fn condition(
        &mut self,
        kind: Kind,
        warn: &mut impl FnMut(String),
    ) -> Result<Condition, String> {
        let ends = self.ends.unwrap_or(Ends::Either);
        match kind {
            Kind::Host | Kind::Net if self.is_six() => self.address6(kind, ends),
            Kind::Host | Kind::Net => {
                let (value, mask) = match (kind, self.value) {
                    (Kind::Host, Value::Address(address)) => (address, u32::MAX),
                    (Kind::Net, Value::Net { address, mask }) => (address, mask),
                    _ => return Err(self.complaint(kind, "address missing")),
                };
                let negated = self.negated_equality(kind)?;
                let mask = match self.mask {
                    None => mask,
                    Some(Mask::Number(mask) | Mask::Address(mask)) => mask,
                    Some(Mask::Ether(_)) => return Err(self.complaint(kind, "bad mask")),
                };
                Ok(Condition::Address { ends, value, mask, negated })
            }
            Kind::Ether => {
                let Value::Ether(value) = self.value else {
                    return Err(self.complaint(kind, "address missing"));
                };
                let negated = self.negated_equality(kind)?;
                let mask = match self.mask {
                    None => [0xff; 6],
                    Some(Mask::Ether(mask)) => mask,
                    Some(_) => return Err(self.complaint(kind, "bad mask")),
                };
                Ok(Condition::Ether { ends, value, mask, negated })
            }
            Kind::Protocol => self.protocol_condition(warn),
            Kind::Port => {
                let protocol = *self.protocol.get_or_insert(Protocol::TcpOrUdp);
                let has_ports = match protocol {
                    Protocol::TcpOrUdp => true,
                    Protocol::Number(number) => [TCP, UDP, DCCP].contains(&number),
                    Protocol::Any => false,
                };
                if !has_ports {
                    return Err(format!("‘port’: bad protocol ‘{protocol}’"));
                }
                let comparison = self.comparison(kind, 0xffff, warn)?;
                Ok(Condition::Port { ends, comparison })
            }
            Kind::TcpOption => self.tcp_option(),
            Kind::Extension => self.extension(kind),
            Kind::Fragment | Kind::Unfragmented => {
                self.stands_alone(kind)?;
                Ok(Condition::Fragment { negated: kind == Kind::Unfragmented })
            }
            Kind::Ce => {
                self.stands_alone(kind)?;
                let comparison =
                    Comparison { greater: false, mask: ECN_MASK, value: ECN_CE, negated: false };
                Ok(Condition::Field(TOS, comparison))
            }
            Kind::Ect if self.value == Value::Missing => {
                self.stands_alone(kind)?;
                let comparison =
                    Comparison { greater: false, mask: ECN_MASK, value: 0, negated: true };
                Ok(Condition::Field(TOS, comparison))
            }
            Kind::Ect => Ok(Condition::Field(TOS, self.comparison(kind, ECN_MASK, warn)?)),
            Kind::Field(field) => {
                Ok(Condition::Field(field, self.comparison(kind, field.mask(), warn)?))
            }
        }
    }

    /// Whether the value is an IPv6 address or network.
    fn is_six(&self) -> bool {
        matches!(self.value, Value::Address6(_) | Value::Net6 { .. })
    }

    fn address6(&self, kind: Kind, ends: Ends) -> Result<Condition, String> {
        let (value, mask) = match (kind, self.value) {
            (Kind::Host, Value::Address6(address)) => (address, u128::MAX),
            (Kind::Net, Value::Net6 { address, mask }) => (address, mask),
            _ => return Err(self.complaint(kind, "address missing")),
        };
        if self.header == Some(Header::Ip) {
            return Err(self.complaint(kind, "an IPv6 address"));
        }
        if self.mask.is_some() {
            return Err(self.complaint(kind, "bad mask"));
        }
        let negated = self.negated_equality(kind)?;
        Ok(Condition::Address6 { ends, value: value & mask, mask, negated })
    }

    fn extension(&self, kind: Kind) -> Result<Condition, String> {
        let (Value::Number(number) | Value::Of(Kind::Extension, number)) = self.value else {
            return Err(self.complaint(kind, "value missing"));
        };
        if self.operator.is_some_and(|it| it != Operator::EQUAL) || self.mask.is_some() {
            return Err(self.complaint(kind, "operator or mask not supported"));
        }
        let known = Extension::ALL.into_iter().find(|known| u32::from(known.number) == number);
        let names = || Extension::ALL.map(|known| known.name).join(", ");
        let unknown =
            || self.complaint(kind, &format!("no extension header, expected {}", names()));
        known.map(Condition::Extension).ok_or_else(unknown)
    }

    fn protocol_condition(&mut self, warn: &mut impl FnMut(String)) -> Result<Condition, String> {
        let kind = Kind::Protocol;
        let stated = self.protocol.take();
        let number = match (self.value, stated) {
            (Value::Number(number) | Value::Of(Kind::Protocol, number), None) => number,
            (Value::Number(number) | Value::Of(Kind::Protocol, number), Some(stated)) => {
                if super::names::protocol(number) != Some(stated) {
                    return Err(self.complaint(kind, "specified twice"));
                }
                number
            }
            (Value::Missing, Some(Protocol::Number(number))) => number.into(),
            (Value::Missing, Some(Protocol::TcpOrUdp)) => millrace_core::names::TCP_OR_UDP,
            (Value::Missing, Some(Protocol::Any)) => millrace_core::names::TRANSPORT,
            _ => return Err(self.complaint(kind, "value missing")),
        };
        // Numbers above 255 denote classes of protocols only when given by name.
        let is_name = matches!(self.value, Value::Of(..) | Value::Missing);
        match super::names::protocol(number) {
            Some(class @ (Protocol::TcpOrUdp | Protocol::Any)) if is_name => {
                if self.operator.is_some_and(|it| it != Operator::EQUAL) || self.mask.is_some() {
                    return Err(format!("‘{class}’: operator or mask not supported"));
                }
                if class == Protocol::Any {
                    return Err("‘transp’: names a header, as in ‘transp[0]’, no protocol".into());
                }
                self.protocol = Some(class);
                Ok(Condition::Protocol(None))
            }
            _ => {
                self.value = Value::Number(number);
                let comparison = self.comparison(kind, 0xff, warn)?;
                if !comparison.greater && !comparison.negated && comparison.mask == 0xff {
                    self.protocol = u8::try_from(comparison.value).ok().map(Protocol::Number);
                }
                Ok(Condition::Protocol(Some(comparison)))
            }
        }
    }

    fn tcp_option(&mut self) -> Result<Condition, String> {
        let kind = Kind::TcpOption;
        let (Value::Number(flags) | Value::Of(Kind::TcpOption, flags)) = self.value else {
            return Err(self.complaint(kind, "value missing"));
        };
        let protocol = *self.protocol.get_or_insert(Protocol::Number(TCP));
        if protocol != Protocol::Number(TCP) {
            return Err(format!("‘tcp opt’: bad protocol ‘{protocol}’"));
        }
        if self.operator.is_some_and(|it| it != Operator::EQUAL) || self.mask.is_some() {
            return Err(self.complaint(kind, "operator or mask not supported"));
        }
        let flags = u8::try_from(flags);
        let flags = flags.map_err(|_| "‘tcp opt’: value out of range, bound 255".to_owned())?;
        Ok(Condition::TcpOption(flags))
    }

    /// The comparison described by the words, with a number of at most `full`.
    fn comparison(
        &self,
        kind: Kind,
        full: u32,
        warn: &mut impl FnMut(String),
    ) -> Result<Comparison, String> {
        let value = match self.value {
            Value::Number(number) => number,
            Value::Of(of, number) if of == kind => number,
            _ => return Err(self.complaint(kind, "value missing")),
        };
        let mask = match self.mask {
            None => full,
            Some(Mask::Number(mask)) => mask,
            Some(_) => return Err(self.complaint(kind, "bad mask")),
        };
        if mask & !full != 0 {
            let message = format!("mask out of range, bound 0x{full:X}");
            return Err(self.complaint(kind, &message));
        }
        let operator = self.operator.unwrap_or(Operator::EQUAL);
        let Operator { relation, negated } = operator;
        match relation {
            Relation::Equal if value > full => {
                Err(self.complaint(kind, &format!("out of range, bound {full}")))
            }
            Relation::Equal => {
                Ok(Comparison { greater: false, mask, value: value & mask, negated })
            }
            Relation::Greater if value >= mask => Ok(constant(operator, value, mask, false, warn)),
            Relation::Less if value == 0 => Ok(constant(operator, value, mask, false, warn)),
            Relation::Less if value > mask => Ok(constant(operator, value, mask, true, warn)),
            Relation::Greater => {
                Ok(Comparison { greater: true, mask, value: within(value, mask), negated })
            }
            Relation::Less => {
                let value = within(value - 1, mask);
                Ok(Comparison { greater: true, mask, value, negated: !negated })
            }
        }
    }

    /// Whether an address must differ; other relations are not supported.
    fn negated_equality(&self, kind: Kind) -> Result<bool, String> {
        match self.operator {
            None => Ok(false),
            Some(Operator { relation: Relation::Equal, negated }) => Ok(negated),
            Some(_) => Err(self.complaint(kind, "operator not supported")),
        }
    }

    fn stands_alone(&self, kind: Kind) -> Result<(), String> {
        let alone = self.value == Value::Missing && self.mask.is_none() && self.operator.is_none();
        if alone { Ok(()) } else { Err(self.complaint(kind, "value not supported")) }
    }

    fn complaint(&self, kind: Kind, message: &str) -> String {
        format!("‘{}’: {message}", self.spelled(kind))
    }

    fn spelled(&self, kind: Kind) -> String {
        match self.ends {
            Some(ends) => format!("{ends} {kind}"),
            None => kind.to_string(),
        }
    }
}

/// The comparison that has the same result for every packet. `holds` is the result without the operator's negation.
fn constant(
    operator: Operator,
    value: u32,
    mask: u32,
    holds: bool,
    warn: &mut impl FnMut(String),
) -> Comparison {
    let holds = holds != operator.negated;
    warn(format!("relation ‘{operator} {value}’ is always {holds} (range 0-{mask})"));
    Comparison { greater: false, mask: 0, value: 0, negated: !holds }
}

/// The largest number within `mask` that is not greater than `value`: a masked word is greater
/// than `value` exactly if it is greater than this.
fn within(value: u32, mask: u32) -> u32 {
    match (value & !mask).checked_ilog2() {
        // Below the highest bit that is not in the mask, all bits may be set.
        Some(bit) => (value | ((1 << bit) - 1)) & mask,
        None => value,
    }
}
