//! Elements in a row, compiled into one loop.

use std::any::Any;
use std::ops::ControlFlow;
use std::sync::Arc;

use linkme::distributed_slice;

use super::{PerPacket, Way};
use crate::engine::Context;
use crate::memory::{Batch, Packet};

/// An element of some class.
pub type Shared = Arc<dyn Any + Send + Sync>;

/// Every row of classes that is compiled into one loop. Use [`fuse!`](crate::fuse) to add one.
#[distributed_slice]
pub static FUSIONS: [Fusion];

/// A row of classes that is compiled into one loop.
#[derive(Clone, Copy, Debug)]
pub struct Fusion {
    /// The classes, each with the output that leads on to the next one.
    pub classes: &'static [(&'static str, u8)],
    pub(crate) make: fn(&[Shared]) -> Option<Box<dyn FusedRow>>,
}

impl Fusion {
    /// The description of row `R`, for [`FUSIONS`]. A row that is too long, or whose last element
    /// [sends packets on](PerPacket::SENDS_ON) behind the back of the others, is not compiled.
    pub const fn of<R: Row>(classes: &'static [(&'static str, u8)]) -> Self {
        const {
            assert!(R::LEN <= MOST, "a row of so many elements is not counted right");
            assert!(!R::LAST_SENDS_ON, "what the last element sends would overtake its batch");
        }
        let make =
            |elements: &[Shared]| -> Option<Box<dyn FusedRow>> { Some(Box::new(R::of(elements)?)) };
        Self { classes, make }
    }
}

/// Adds a row of classes that are to run as one loop where they stand in a row: by output 0 each,
/// unless another one is named: `fuse!(DropBroadcasts, CheckPaint => 1, IPGWOptions);`. Worth it where
/// nearly all packets go on.
#[macro_export]
macro_rules! fuse {
    ($($class:ty $(=> $main:literal)?),+ $(,)?) => {
        const _: () = {
            #[$crate::linkme::distributed_slice($crate::element::FUSIONS)]
            #[linkme(crate = $crate::linkme)]
            static FUSION: $crate::element::Fusion =
                $crate::element::Fusion::of::<$crate::fuse!(@row $($class $(=> $main)?),+)>(&[
                    $((<$class as $crate::Element>::CLASS.name, 0 $(+ $main)?)),+
                ]);
        };
    };
    (@row $class:ty $(=> $main:literal)?) => {
        $crate::element::One<$class, { 0 $(+ $main)? }>
    };
    (@row $class:ty $(=> $main:literal)?, $($rest:tt)+) => {
        $crate::element::Then<
            $crate::element::One<$class, { 0 $(+ $main)? }>,
            $crate::fuse!(@row $($rest)+)
        >
    };
}

/// One or more elements, each behind the other.
pub trait Row: Send + Sized + 'static {
    /// How many.
    const LEN: usize;

    /// [`PerPacket::SENDS_ON`] of the last one.
    const LAST_SENDS_ON: bool;

    /// What one batch needs.
    type Pass<'a>
    where
        Self: 'a;

    /// The row of these elements; none if they are of other classes.
    fn of(elements: &[Shared]) -> Option<Self>;

    /// Begins a batch.
    fn begin<'a>(&'a mut self, cx: &Context) -> Self::Pass<'a>;

    /// Takes a packet through all elements, or says which one has another way for it.
    fn treat(pass: &mut Self::Pass<'_>, packet: &mut Packet) -> Result<(), (usize, Way)>;

    /// Takes a packet through the elements from the one numbered `from` on.
    fn treat_from(
        pass: &mut Self::Pass<'_>,
        packet: &mut Packet,
        from: usize,
    ) -> Result<(), (usize, Way)>;

    /// [`PerPacket::aside`] of the element numbered `at`, which is the running one.
    fn aside(
        pass: &mut Self::Pass<'_>,
        cx: &mut Context,
        packet: Packet,
        turned: (usize, Way),
    ) -> Option<Packet>;

    /// Ends a batch: of each of the elements, its id and how many packets went on.
    fn end(pass: Self::Pass<'_>, cx: &mut Context, members: &[(usize, usize)]);
}

/// A row of one element, whose packets go on by output `MAIN`.
pub struct One<E: PerPacket, const MAIN: u8> {
    element: Arc<E>,
    local: E::Local,
}

/// What a batch needs of one element.
pub struct OnePass<'a, E: PerPacket + 'a> {
    element: &'a E,
    pass: E::Pass<'a>,
}

impl<E: PerPacket, const MAIN: u8> Row for One<E, MAIN> {
    const LEN: usize = 1;
    const LAST_SENDS_ON: bool = E::SENDS_ON;
    type Pass<'a> = OnePass<'a, E>;

    fn of(elements: &[Shared]) -> Option<Self> {
        let [element] = elements else { return None };
        Some(Self { element: element.clone().downcast().ok()?, local: E::Local::default() })
    }

    #[inline(always)]
    fn begin<'a>(&'a mut self, cx: &Context) -> OnePass<'a, E> {
        OnePass { element: &self.element, pass: self.element.begin(cx, &mut self.local) }
    }

    #[inline(always)]
    fn treat(pass: &mut OnePass<'_, E>, packet: &mut Packet) -> Result<(), (usize, Way)> {
        match E::treat(&mut pass.pass, packet) {
            way if way.is_output(MAIN) => Ok(()),
            way => Err((0, way)),
        }
    }

    fn treat_from(
        pass: &mut OnePass<'_, E>,
        packet: &mut Packet,
        from: usize,
    ) -> Result<(), (usize, Way)> {
        if from == 0 { Self::treat(pass, packet) } else { Ok(()) }
    }

    fn aside(
        pass: &mut OnePass<'_, E>,
        cx: &mut Context,
        packet: Packet,
        (_, way): (usize, Way),
    ) -> Option<Packet> {
        let packet = pass.element.aside(cx, &mut pass.pass, packet, way)?;
        if MAIN == 0 {
            return Some(packet);
        }
        // The element goes on by output 0, which is not the one that leads on here.
        cx.push(0, packet);
        None
    }

    #[inline(always)]
    fn end(pass: OnePass<'_, E>, cx: &mut Context, members: &[(usize, usize)]) {
        if let [(id, passed)] = *members {
            cx.run_as(id, |cx| pass.element.end(cx, pass.pass, passed));
        }
    }
}

/// A row, and another one behind it.
pub struct Then<A, B>(A, B);

impl<A: Row, B: Row> Row for Then<A, B> {
    const LEN: usize = A::LEN + B::LEN;
    const LAST_SENDS_ON: bool = B::LAST_SENDS_ON;
    type Pass<'a> = (A::Pass<'a>, B::Pass<'a>);

    fn of(elements: &[Shared]) -> Option<Self> {
        let (first, rest) = elements.split_at_checked(A::LEN)?;
        Some(Self(A::of(first)?, B::of(rest)?))
    }

    #[inline(always)]
    fn begin<'a>(&'a mut self, cx: &Context) -> Self::Pass<'a> {
        (self.0.begin(cx), self.1.begin(cx))
    }

    #[inline(always)]
    fn treat(pass: &mut Self::Pass<'_>, packet: &mut Packet) -> Result<(), (usize, Way)> {
        A::treat(&mut pass.0, packet)?;
        B::treat(&mut pass.1, packet).map_err(|(at, way)| (A::LEN + at, way))
    }

    fn treat_from(
        pass: &mut Self::Pass<'_>,
        packet: &mut Packet,
        from: usize,
    ) -> Result<(), (usize, Way)> {
        A::treat_from(&mut pass.0, packet, from)?;
        let treated = B::treat_from(&mut pass.1, packet, from.saturating_sub(A::LEN));
        treated.map_err(|(at, way)| (A::LEN + at, way))
    }

    fn aside(
        pass: &mut Self::Pass<'_>,
        cx: &mut Context,
        packet: Packet,
        (at, way): (usize, Way),
    ) -> Option<Packet> {
        match at.checked_sub(A::LEN) {
            None => A::aside(&mut pass.0, cx, packet, (at, way)),
            Some(at) => B::aside(&mut pass.1, cx, packet, (at, way)),
        }
    }

    #[inline(always)]
    fn end(pass: Self::Pass<'_>, cx: &mut Context, members: &[(usize, usize)]) {
        if let Some((first, rest)) = members.split_at_checked(A::LEN) {
            A::end(pass.0, cx, first);
            B::end(pass.1, cx, rest);
        }
    }
}

/// A row behind one face: what the engine runs.
pub(crate) trait FusedRow: Send {
    /// Takes all packets of a batch through the row, whose elements are `members`: those that went on
    /// remain in the batch. Writes for each element how many went on from it.
    ///
    /// Stops when an element sends packets to the next one past the row, for those behind must not overtake
    /// them; returns how many packets had gone on by then. The others are still to be treated.
    fn run(
        &mut self,
        cx: &mut Context,
        members: &mut [(usize, usize)],
        batch: &mut Batch,
    ) -> Option<usize>;
}

impl<R: Row> FusedRow for R {
    fn run(
        &mut self,
        cx: &mut Context,
        members: &mut [(usize, usize)],
        batch: &mut Batch,
    ) -> Option<usize> {
        let mut turned = [0usize; MOST];
        let mut pass = self.begin(cx);
        let all = batch.len();
        let stopped = match batch.try_for_each(|packet| R::treat(&mut pass, packet)) {
            Ok(()) => None,
            Err(first) => treat_rest::<R>(cx, &mut pass, members, &mut turned, batch, first),
        };
        let untreated = stopped.map_or(0, |kept| batch.len() - kept);
        let mut on = all - untreated;
        for ((_, passed), turned) in members.iter_mut().zip(turned) {
            on -= turned;
            *passed = on;
        }
        R::end(pass, cx, members);
        stopped
    }
}

/// Treats the packets of a batch from the first one on that has another way. Returns how many packets had gone on
/// when it had to stop.
#[inline(never)]
fn treat_rest<R: Row>(
    cx: &mut Context,
    pass: &mut R::Pass<'_>,
    members: &[(usize, usize)],
    turned: &mut [usize; MOST],
    batch: &mut Batch,
    (first, way): (usize, (usize, Way)),
) -> Option<usize> {
    let mut known = Some(way);
    batch.map_filter_from(first, |mut packet| {
        let treated = known.take().map_or_else(|| R::treat(pass, &mut packet), Err);
        match treated {
            Ok(()) => ControlFlow::Continue(Some(packet)),
            Err(way) => aside::<R>(cx, pass, members, turned, packet, way),
        }
    })
}

/// The most elements in a row.
const MOST: usize = 16;

/// Lets the element that has another way for a packet settle it; should the packet go on after all, takes it
/// through the rest of the row. Breaks when packets have been sent past the row.
#[cold]
#[inline(never)]
fn aside<R: Row>(
    cx: &mut Context,
    pass: &mut R::Pass<'_>,
    members: &[(usize, usize)],
    turned: &mut [usize; MOST],
    mut packet: Packet,
    mut way: (usize, Way),
) -> ControlFlow<Option<Packet>, Option<Packet>> {
    loop {
        let (at, id) = (way.0, members.get(way.0).map_or(0, |member| member.0));
        let settled = cx.run_as(id, |cx| R::aside(pass, cx, packet, way));
        let Some(on) = settled else {
            if let Some(turned) = turned.get_mut(at) {
                *turned += 1;
            }
            break flow(cx, None);
        };
        packet = on;
        match R::treat_from(pass, &mut packet, at + 1) {
            Ok(()) => break flow(cx, Some(packet)),
            Err(turned) => way = turned,
        }
    }
}

fn flow(cx: &mut Context, packet: Option<Packet>) -> ControlFlow<Option<Packet>, Option<Packet>> {
    match cx.has_waiting_inside() {
        true => ControlFlow::Break(packet),
        false => ControlFlow::Continue(packet),
    }
}
