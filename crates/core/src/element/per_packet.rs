//! Elements that process packets one by one: how to write them, and where their packets go.

use std::fmt;

use super::Element;
use crate::drops::Reason;
use crate::engine::Context;
use crate::memory::{Packet, View};
use crate::moment::Moment;

/// An element that processes the packets of its input 0 one by one. [`treat`](Self::treat) does the usual
/// work for a packet, in place and without the engine; [`aside`](Self::aside) does the rare work.
///
/// Nothing else needs to be written or declared: the registration detects such a class, and provides
/// `process`, `push` and `pull` for input 0. Where such elements are connected, a packet goes through all of
/// them in one go, across branches and joins, while its bytes are at hand
/// ([`engine::program`](crate::engine)). An element with further inputs implements [`Element::push`] for
/// those.
///
/// ```
/// # use millrace_core::{Class, Element, Failed, Moment, PerPacket, Reason, Setup, View, Way};
/// struct Beheaded;
/// # impl Element for Beheaded {
/// #     const CLASS: Class = Class::new("Beheaded", "1/1", "a/a");
/// #     type Local = ();
/// #     fn configure(_: &mut Setup<'_>) -> Result<Self, Failed> { Ok(Self) }
/// # }
/// impl PerPacket for Beheaded {
///     fn treat(&self, _: &mut (), packet: &mut View, _: &mut Moment) -> Way {
///         if packet.strip(1) { Way::ON } else { Way::drop(Reason::Truncated) }
///     }
/// }
/// ```
pub trait PerPacket: Element {
    /// Whether the element chooses among its outputs, as Classifier does. In any other element nearly all
    /// packets leave by output 0, and the others go through [`aside`](Self::aside).
    const ROUTES: bool = false;

    /// The maximum number of bytes that [`treat`](Self::treat) puts in front of a packet. It may put more,
    /// but room for this many is checked in advance, at no cost.
    const PREPENDS: usize = 0;

    /// Whether to call [`end`](Self::end).
    const ENDS: bool = false;

    /// Processes one packet, and returns which way it goes.
    ///
    /// Mark it `#[inline(always)]` when it is short: then the packet's fields that it uses are in registers.
    fn treat(&self, local: &mut Self::Local, packet: &mut View, at: &mut Moment) -> Way;

    /// Processes a packet for which [`treat`](Self::treat) returned [`Way::MORE`]. Use it for work that is
    /// too common for the engine, and would make the code of `treat` longer for all other packets.
    fn treat_more(&self, _: &mut Self::Local, _: &mut View, _: &mut Moment) -> Way {
        Way::drop(Reason::Unclaimed)
    }

    /// Does the rare work for a packet, with the engine. The returned packet goes to output 0. By default,
    /// the packet goes the way that it should.
    fn aside(
        &self,
        cx: &mut Context,
        _local: &mut Self::Local,
        packet: Packet,
        way: Way,
    ) -> Option<Packet> {
        cx.send_or_drop(packet, way)
    }

    /// Called after a batch whose packets may have passed this element. Packets that it sends come after
    /// them.
    fn end(&self, _cx: &mut Context, _local: &mut Self::Local) {}
}

/// Where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Way(
    /// The lower half is an output, or one of the marks below. The next eight bits are the reason to drop the
    /// packet if that output is not connected, or the element's note. The highest bits are not for elements.
    /// It is a single number so that it is returned in a register.
    u32,
);

const DROPPED: u16 = u16::MAX;
const ASIDE: u16 = u16::MAX - 1;

/// The position of the bits that no element sets.
const OWN: u32 = 24;

impl Way {
    /// To output 0.
    pub const ON: Self = Self::output(0);

    /// To an output, 0 to 65,533.
    #[inline(always)]
    pub const fn output(port: u16) -> Self {
        Self::output_or_drop(port, Reason::Unconnected)
    }

    /// To an output if it is connected; otherwise the packet is dropped, as it is with 65,535.
    #[inline(always)]
    pub const fn output_or_drop(port: u16, reason: Reason) -> Self {
        debug_assert!(port != ASIDE);
        Self::new(port, reason as u8)
    }

    /// Nowhere: the packet is dropped.
    #[inline(always)]
    pub const fn drop(reason: Reason) -> Self {
        Self::new(DROPPED, reason as u8)
    }

    /// On, by output 0; or nowhere, for the reason of the error.
    #[inline(always)]
    pub const fn on_or_drop(treated: Result<(), Reason>) -> Self {
        match treated {
            Ok(()) => Self::ON,
            Err(reason) => Self::drop(reason),
        }
    }

    /// To [`PerPacket::aside`], which gets `note`.
    #[inline(always)]
    pub const fn aside(note: u8) -> Self {
        // The usual packets' code is then in one piece.
        std::hint::cold_path();
        Self::new(ASIDE, note)
    }

    /// To [`PerPacket::treat_more`].
    pub const MORE: Self = Self(Self::aside(0).0 | 1 << OWN);

    /// Unknown until the packet has been processed by the careful form of the loop.
    pub(crate) const UNREADY: Self = Self(Self::aside(0).0 | 2 << OWN);

    #[inline(always)]
    const fn new(port: u16, detail: u8) -> Self {
        Self(port as u32 | (detail as u32) << 16)
    }

    /// Whether it leads to this output.
    #[inline(always)]
    pub const fn is_output(self, port: u16) -> bool {
        self.port() == port as usize
    }

    /// The note of [`aside`](Self::aside).
    pub const fn note(self) -> Option<u8> {
        match (self.port() as u16, self.0 >> OWN) {
            (ASIDE, 0) => Some(self.detail()),
            _ => None,
        }
    }

    /// The reason to drop the packet, if it is dropped.
    pub fn reason(self) -> Reason {
        let reason = Reason::ALL.get(usize::from(self.detail())).copied();
        reason.filter(|_| self.port() as u16 != ASIDE).unwrap_or(Reason::Unclaimed)
    }

    /// The output, or a number beyond all outputs.
    #[inline(always)]
    pub(crate) const fn port(self) -> usize {
        self.0 as u16 as usize
    }

    const fn detail(self) -> u8 {
        (self.0 >> 16) as u8
    }
}

impl fmt::Debug for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Way({}, {})", self.port(), self.detail())
    }
}

impl Context {
    /// Sends a packet the way it should go, or drops it. Returns `None`, so that [`PerPacket::aside`] can end
    /// with it.
    pub fn send_or_drop(&mut self, packet: Packet, way: Way) -> Option<Packet> {
        match way.port() as u16 {
            DROPPED | ASIDE => self.drop(packet, way.reason()),
            port => {
                self.push_or_drop(port.into(), packet, way.reason());
                None
            }
        }
    }
}
