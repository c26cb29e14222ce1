//! Elements that treat packets one by one, in a form that can be fused with their neighbours.

use std::ops::ControlFlow;

use super::Element;
use crate::drops::Reason;
use crate::engine::Context;
use crate::memory::{Batch, Packet};

/// An element that treats the packets of its input 0 one by one.
///
/// What is the same for all packets of a batch goes into a [`Pass`](Self::Pass), which is begun once;
/// [`treat`](Self::treat) is all that is done for a packet as a rule, in place and without the engine;
/// what is rare happens in [`aside`](Self::aside). So elements in a row can be run as one loop: each
/// packet goes through all of them while its headers are at hand ([`fuse!`](crate::fuse)).
///
/// [`Element::process`] (or `push`) of such an element is [`treat_batch`](Self::treat_batch). A fused
/// element has a [`Local`](Element::Local) of its own beside the one of `process`: it may hold a cache,
/// or room to work in, nothing that counts.
pub trait PerPacket: Element {
    /// Whether [`aside`](Self::aside) may send packets by output 0, which must then not overtake those that
    /// went on before: such an element is never the last of a fused row, and writes a
    /// [`push`](Element::push) of its own.
    const SENDS_ON: bool = false;

    /// What one batch needs: settings at this moment, constants.
    type Pass<'a>
    where
        Self: 'a;

    /// Begins a batch.
    fn begin<'a>(&'a self, cx: &Context, local: &'a mut Self::Local) -> Self::Pass<'a>;

    /// Treats one packet, and says which way it goes.
    fn treat(pass: &mut Self::Pass<'_>, packet: &mut Packet) -> Way;

    /// Does with a packet what [`treat`](Self::treat) has no time for. What is returned goes on, by output 0
    /// or, in a fused row, by the output that leads on. As a rule the packet goes the way it should.
    #[cold]
    fn aside(
        &self,
        cx: &mut Context,
        _pass: &mut Self::Pass<'_>,
        packet: Packet,
        way: Way,
    ) -> Option<Packet> {
        cx.send_or_drop(packet, way)
    }

    /// Ends a batch, of which `passed` packets went on.
    #[inline(always)]
    fn end(&self, _cx: &mut Context, _pass: Self::Pass<'_>, _passed: usize) {}

    /// Treats all packets of a batch; those that go on by output 0 remain in it.
    #[inline]
    fn treat_batch(&self, cx: &mut Context, local: &mut Self::Local, batch: &mut Batch) {
        let mut pass = self.begin(cx, local);
        let turned = batch.try_for_each(|packet| match Self::treat(&mut pass, packet) {
            way if way.is_output(0) => Ok(()),
            way => Err(way),
        });
        if let Err(first) = turned {
            treat_rest(self, cx, &mut pass, batch, first);
        }
        self.end(cx, pass, batch.len());
    }
}

/// Makes an element [`PerPacket`] whose treatment needs nothing but the element and the packet, and has no
/// [`aside`](PerPacket::aside) of its own: its method `treat_one` says which way a packet goes.
///
/// ```
/// # use millrace_core::{Packet, Reason, Way, treat_each};
/// # use millrace_core::{Batch, Class, Context, Element, Failed, Setup};
/// struct Beheaded;
/// # impl Element for Beheaded {
/// #     const CLASS: Class = Class::new("Beheaded", "1/1", "a/a");
/// #     type Local = ();
/// #     fn configure(_: &mut Setup<'_>) -> Result<Self, Failed> { Ok(Self) }
/// # }
/// treat_each!(Beheaded);
///
/// impl Beheaded {
///     fn treat_one(&self, packet: &mut Packet) -> Way {
///         if packet.strip(1) { Way::ON } else { Way::drop(Reason::Truncated) }
///     }
/// }
/// ```
#[macro_export]
macro_rules! treat_each {
    ($element:ty) => {
        impl $crate::PerPacket for $element {
            type Pass<'a> = &'a Self;

            #[inline(always)]
            fn begin<'a>(&'a self, _cx: &$crate::Context, _local: &'a mut ()) -> &'a Self {
                self
            }

            #[inline(always)]
            fn treat(element: &mut &Self, packet: &mut $crate::Packet) -> $crate::Way {
                element.treat_one(packet)
            }
        }
    };
}

/// Treats the packets of a batch from the first one on that has another way.
#[inline(never)]
fn treat_rest<E: PerPacket>(
    element: &E,
    cx: &mut Context,
    pass: &mut E::Pass<'_>,
    batch: &mut Batch,
    (first, way): (usize, Way),
) {
    let mut turned = Some(way);
    batch.map_filter_from(first, |mut packet| {
        let way = turned.take().unwrap_or_else(|| E::treat(pass, &mut packet));
        ControlFlow::Continue(match way.is_output(0) {
            true => Some(packet),
            false => element.aside(cx, pass, packet, way),
        })
    });
}

/// Where a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Way {
    /// An output, or one of the marks below.
    port: u8,
    /// The reason to drop the packet if the output is not connected; or what the element noted.
    detail: u8,
}

const DROPPED: u8 = u8::MAX;
const ASIDE: u8 = u8::MAX - 1;

impl Way {
    /// On, by output 0.
    pub const ON: Self = Self::output(0);

    /// By an output, 0 to 253.
    #[inline(always)]
    pub const fn output(port: u8) -> Self {
        Self::output_or_drop(port, Reason::Unconnected)
    }

    /// By an output if it is connected; else the packet is dropped.
    #[inline(always)]
    pub const fn output_or_drop(port: u8, reason: Reason) -> Self {
        debug_assert!(port < ASIDE);
        Self { port, detail: reason as u8 }
    }

    /// Nowhere: the packet is dropped.
    #[inline(always)]
    pub const fn drop(reason: Reason) -> Self {
        Self { port: DROPPED, detail: reason as u8 }
    }

    /// To be settled in [`PerPacket::aside`], which gets `note`.
    #[inline(always)]
    pub const fn aside(note: u8) -> Self {
        Self { port: ASIDE, detail: note }
    }

    /// Whether it leads by this output.
    #[inline(always)]
    pub const fn is_output(self, port: u8) -> bool {
        self.port == port
    }

    /// The note of [`aside`](Self::aside).
    pub const fn note(self) -> Option<u8> {
        match self.port {
            ASIDE => Some(self.detail),
            _ => None,
        }
    }

    /// The reason to drop the packet, if it comes to that.
    pub fn reason(self) -> Reason {
        let reason = Reason::ALL.get(usize::from(self.detail)).copied();
        reason.filter(|_| self.port != ASIDE).unwrap_or(Reason::Unclaimed)
    }
}

impl Context {
    /// Sends a packet the way it should go, or drops it. Returns `None`, so that
    /// [`PerPacket::aside`] can end with it.
    pub fn send_or_drop(&mut self, packet: Packet, way: Way) -> Option<Packet> {
        match way.port {
            DROPPED | ASIDE => self.drop(packet, way.reason()),
            port => {
                self.push_or_drop(port.into(), packet, way.reason());
                None
            }
        }
    }
}
