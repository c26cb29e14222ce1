//! The cases that a packet can be, of which conditions know the outcome before any of its fields is read: its IP
//! version, and the state of its connection.
//!
//! Rules with words for IPv6 or for connections are compiled once for each case, with the conditions that the case
//! decides replaced by their outcome. So `allow established` costs the packets of established connections nothing but
//! finding out that they are, and rules for one IP version cost the packets of the other nothing.

use std::fmt;

use super::primitive::{Condition, ICMP, ICMP6, Primitive, Protocol};

/// The version of a packet's IP header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Family {
    Four,
    Six,
}

/// What an upstream ConnectionTracker found out about a packet's connection, and wrote into its annotation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(u8)]
pub enum State {
    /// No tracker saw the packet, or it belongs to nothing that has a state.
    #[default]
    Untracked,
    /// It begins a connection, or no reply to it has been seen yet.
    New,
    /// It belongs to a connection with packets in both directions.
    Established,
    /// It reports an error about a packet of a connection.
    Related,
    /// It should belong to a connection, and there is none.
    Invalid,
}

impl State {
    /// All, by number.
    pub const ALL: [State; 5] =
        [State::Untracked, State::New, State::Established, State::Related, State::Invalid];

    /// The state with this number; numbers of no state stand for [`Untracked`](State::Untracked).
    pub fn of(number: u8) -> Self {
        Self::ALL.get(usize::from(number)).copied().unwrap_or_default()
    }

    /// Its word in rules.
    pub fn word(self) -> &'static str {
        match self {
            State::Untracked => "untracked",
            State::New => "new",
            State::Established => "established",
            State::Related => "related",
            State::Invalid => "invalid",
        }
    }

    /// The state with this word.
    pub(super) fn named(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.word() == word)
    }
}

/// One case.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Case {
    /// `None` where the rules know of one version only, as Click's do: they read any header as an IPv4 header.
    pub(super) family: Option<Family>,
    pub(super) state: State,
}

impl Case {
    /// The only case of rules that [differ](Primitive::differs_by_case) in none.
    pub(super) const ONLY: Case = Case { family: None, state: State::Untracked };
    /// How many there are for other rules.
    pub(super) const COUNT: usize = 2 * State::ALL.len();

    /// The case with a [number](Case::number).
    pub(super) fn of(number: usize) -> Self {
        let family = if Self::is_six(number) { Family::Six } else { Family::Four };
        let state = State::ALL.into_iter().nth(number % State::ALL.len()).unwrap_or_default();
        Self { family: Some(family), state }
    }

    /// The number of a packet's case.
    #[inline(always)]
    pub(super) fn number(family: Family, state: State) -> usize {
        family as usize * State::ALL.len() + state as usize
    }

    /// Whether the case with this number is of IPv6 packets.
    pub(super) fn is_six(number: usize) -> bool {
        number >= Self::number(Family::Six, State::Untracked)
    }

    /// The outcome of a condition, if it is the same for all packets of this case.
    pub(super) fn decides(self, primitive: &Primitive) -> Option<bool> {
        let needed = primitive.family.or(match (primitive.condition, primitive.protocol) {
            (Condition::Address { .. }, _) => Some(Family::Four),
            (Condition::Address6 { .. } | Condition::Extension(_), _) => Some(Family::Six),
            (_, Some(Protocol::Number(ICMP))) => Some(Family::Four),
            (_, Some(Protocol::Number(ICMP6))) => Some(Family::Six),
            _ => None,
        });
        let is_other = self.family.is_some_and(|own| needed.is_some_and(|needed| needed != own));
        match primitive.condition {
            _ if is_other => Some(false),
            Condition::State(state) => Some(state == self.state),
            Condition::Constant(holds) => Some(holds),
            _ => None,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let family = match self.family {
            Some(Family::Six) => "ip6",
            _ => "ip",
        };
        write!(out, "{family} {}", self.state.word())
    }
}

impl Primitive {
    /// Whether the condition can only be understood by the case of a packet.
    pub(super) fn differs_by_case(&self) -> bool {
        let has_word = match self.condition {
            Condition::Address6 { .. } | Condition::Extension(_) | Condition::State(_) => true,
            Condition::Field(field, _) => field.protocol == Some(Protocol::Number(ICMP6)),
            _ => false,
        };
        has_word || self.family == Some(Family::Six)
    }
}
