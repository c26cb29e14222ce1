//! Elements that treat packets one by one: how they are written, and where their packets go.

use std::fmt;

use super::Element;
use crate::drops::Reason;
use crate::engine::Context;
use crate::memory::{Packet, View};
use crate::moment::Moment;

/// An element that treats the packets of its input 0 one by one: [`treat`](Self::treat) is all that is done for
/// a packet as a rule, in place and without the engine; what is rare happens in [`aside`](Self::aside).
///
/// Nothing else is to be written or declared: the registration finds out that a class is one of these, and
/// `process`, `push` and `pull` for input 0 follow. Where such elements stand behind one another, a packet goes
/// through all of them, over branches and joins, while its bytes are at hand
/// ([`engine::program`](crate::engine)). An element with further inputs writes [`Element::push`] for those.
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
    /// Whether the element chooses among its outputs, as Classifier does. Of any other one, nearly all packets
    /// leave by output 0, and those that do not go through [`aside`](Self::aside).
    const ROUTES: bool = false;

    /// How many bytes [`treat`](Self::treat) puts in front of a packet at most. It may put more, but asks for
    /// these free of charge.
    const PREPENDS: usize = 0;

    /// Whether [`end`](Self::end) is to be called.
    const ENDS: bool = false;

    /// Treats one packet, and says which way it goes.
    ///
    /// Write `#[inline(always)]` on it when it is short: then what it asks of the packet is in registers.
    fn treat(&self, local: &mut Self::Local, packet: &mut View, at: &mut Moment) -> Way;

    /// Treats a packet for which [`treat`](Self::treat) said [`Way::MORE`]: for what is usual enough to stay without
    /// the engine, and would make the code of `treat` longer for all others.
    fn treat_more(&self, _: &mut Self::Local, _: &mut View, _: &mut Moment) -> Way {
        Way::drop(Reason::Unclaimed)
    }

    /// Does with a packet what [`treat`](Self::treat) has no time for. What is returned goes on by output 0.
    /// Unless written, the packet goes the way it should.
    fn aside(
        &self,
        cx: &mut Context,
        _local: &mut Self::Local,
        packet: Packet,
        way: Way,
    ) -> Option<Packet> {
        cx.send_or_drop(packet, way)
    }

    /// Called behind a batch of which packets may have come here. What it sends comes behind them.
    fn end(&self, _cx: &mut Context, _local: &mut Self::Local) {}
}

/// Where a packet goes.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Way(
    /// In the lower half an output, or one of the marks below; behind that, in eight bits, the reason to drop the packet if
    /// that output is not connected, or what the element noted; in the highest ones, what is no element's. One number,
    /// so that it is returned in a register.
    u32,
);

const DROPPED: u16 = u16::MAX;
const ASIDE: u16 = u16::MAX - 1;

/// Where the bits are that no element sets.
const OWN: u32 = 24;

impl Way {
    /// On, by output 0.
    pub const ON: Self = Self::output(0);

    /// By an output, 0 to 65,533.
    #[inline(always)]
    pub const fn output(port: u16) -> Self {
        Self::output_or_drop(port, Reason::Unconnected)
    }

    /// By an output if it is connected; else the packet is dropped.
    #[inline(always)]
    pub const fn output_or_drop(port: u16, reason: Reason) -> Self {
        debug_assert!(port < ASIDE);
        Self::new(port, reason as u8)
    }

    /// Nowhere: the packet is dropped.
    #[inline(always)]
    pub const fn drop(reason: Reason) -> Self {
        Self::new(DROPPED, reason as u8)
    }

    /// To be settled in [`PerPacket::aside`], which gets `note`.
    #[inline(always)]
    pub const fn aside(note: u8) -> Self {
        Self::new(ASIDE, note)
    }

    /// To be found out by [`PerPacket::treat_more`].
    pub const MORE: Self = Self(Self::aside(0).0 | 1 << OWN);

    /// Not to be found out before the packet is treated with care.
    pub(crate) const UNREADY: Self = Self(Self::aside(0).0 | 2 << OWN);

    #[inline(always)]
    const fn new(port: u16, detail: u8) -> Self {
        Self(port as u32 | (detail as u32) << 16)
    }

    /// Whether it leads by this output.
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

    /// The reason to drop the packet, if it comes to that.
    pub fn reason(self) -> Reason {
        let reason = Reason::ALL.get(usize::from(self.detail())).copied();
        reason.filter(|_| self.port() as u16 != ASIDE).unwrap_or(Reason::Unclaimed)
    }

    /// The output, or a number past all outputs.
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
    /// Sends a packet the way it should go, or drops it. Returns `None`, so that
    /// [`PerPacket::aside`] can end with it.
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
