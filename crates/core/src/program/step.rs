//! The code of a step, which the compiler generates for each class.

use std::any::Any;
use std::fmt;
use std::mem::MaybeUninit;
use std::sync::Arc;

use super::tile::{Mask, Seat, Tile, is_run};
use super::{End, Op, Program, Step};
use crate::element::{AnyElement, Direction, Instance, PerPacket, Way};
use crate::engine::{Context, Node};
use crate::memory::{Batch, View};
use crate::moment::Moment;

/// Makes one thread's instance of an element, if it has this class.
type Instantiate = fn(Arc<dyn AnyElement>) -> Option<Box<dyn Node>>;

/// How a class processes packets one by one.
#[derive(Clone, Copy)]
pub struct Steps {
    pub(super) step: Step,
    pub(super) end: Option<End>,
    /// Whether the element chooses among its outputs.
    pub(super) routes: bool,
    pub(crate) instantiate: Instantiate,
    /// The number of a tap.
    pub(super) tap: usize,
}

impl Steps {
    /// For class `E`.
    pub(crate) const fn of<E: PerPacket>() -> Self {
        Self {
            step: step::<E>,
            end: if E::ENDS { Some(end::<E>) } else { None },
            routes: E::ROUTES,
            instantiate: |element| {
                let element: Arc<dyn Any + Send + Sync> = element;
                let element = element.downcast::<E>().ok()?;
                Some(Box::new(Instance::per_packet(element, treat_batch::<E>)))
            },
            tap: usize::MAX,
        }
    }

    /// For a tap, which is no element.
    pub(super) fn of_tap(tap: usize) -> Self {
        Self { step: super::show, end: None, routes: false, instantiate: |_| None, tap }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("routes", &self.routes).finish_non_exhaustive()
    }
}

/// The code of class `E`.
unsafe fn step<E: PerPacket>(program: &mut Program, at: usize, cx: &mut Context) {
    // SAFETY: the caller's promise.
    let (came, count) = unsafe { program.enter(at) };
    // SAFETY: the caller's promise; the packets that have come are in their seats.
    let (rest, way) = unsafe { run::<E>(program, at, cx, came) };
    if E::ROUTES {
        if rest != 0 {
            // SAFETY: as above.
            unsafe { settle::<E>(program, at, cx, 0, rest, way) };
        }
        program.pass_on_sent(at, cx);
    } else if rest == 0 {
        // SAFETY: as above.
        unsafe { program.pass_on(at, came, count, cx) };
    } else {
        // SAFETY: as above.
        unsafe {
            let on = settle::<E>(program, at, cx, came & !rest, rest, way);
            program.pass_on_some(at, on, cx);
        }
    }
}

/// Runs the loop over packets of a linked step.
///
/// # Safety
/// See [`Step`]; the packets are in their seats.
#[inline(always)]
unsafe fn run<E: PerPacket>(
    program: &mut Program,
    at: usize,
    cx: &mut Context,
    todo: Mask,
) -> (Mask, Way) {
    let &mut Op { element, local, .. } = program.op(at);
    let sent = match E::ROUTES {
        true => {
            let outputs = program.op(at).fast_outputs();
            program.sent.get_mut(outputs).unwrap_or_default()
        }
        false => &mut [],
    };
    let tile = &mut *program.tile;
    let treat = match todo & !tile.ready {
        0 => treat_ready::<E>,
        _ => treat_any::<E>,
    };
    // SAFETY: the step is linked: the pointers are those of an element of this class, which lives as long as its node,
    // and of a local that this thread alone uses, here alone until the call has ended.
    unsafe {
        let element = &*element.cast::<E>();
        let local = &mut *local.cast::<E::Local>();
        treat(element, local, &mut cx.moment, tile, sent, todo)
    }
}

/// What the loop over packets works with.
struct Loop<'a, E: PerPacket> {
    element: &'a E,
    local: &'a mut E::Local,
    moment: &'a mut Moment,
    tile: &'a mut Tile,
    /// If the element chooses among its outputs, the packets for each of them.
    sent: &'a mut [Mask],
}

/// [`Loop::run`] for packets all of which qualify for the short form, without a check.
///
/// # Safety
/// The packets are in their seats, and ready.
#[inline(never)]
unsafe fn treat_ready<E: PerPacket>(
    element: &E,
    local: &mut E::Local,
    moment: &mut Moment,
    tile: &mut Tile,
    sent: &mut [Mask],
    todo: Mask,
) -> (Mask, Way) {
    // SAFETY: the caller's promise.
    unsafe { Loop { element, local, moment, tile, sent }.run::<true>(todo) }
}

/// [`Loop::run`] for any packets.
///
/// # Safety
/// The packets are in their seats.
#[inline(never)]
unsafe fn treat_any<E: PerPacket>(
    element: &E,
    local: &mut E::Local,
    moment: &mut Moment,
    tile: &mut Tile,
    sent: &mut [Mask],
    todo: Mask,
) -> (Mask, Way) {
    // SAFETY: the caller's promise.
    unsafe { Loop { element, local, moment, tile, sent }.run::<false>(todo) }
}

impl<E: PerPacket> Loop<'_, E> {
    /// Processes the packets of `todo`, in order, until one does not go on by itself. Returns that one and
    /// those behind it, and its way, or [`Way::UNREADY`]. If the element chooses among its outputs, the
    /// packets before it are in the masks of `sent`; otherwise they go to output 0.
    ///
    /// # Safety
    /// The packets are in their seats; with `READY`, all are ready.
    #[inline(always)]
    unsafe fn run<const READY: bool>(mut self, mut todo: Mask) -> (Mask, Way) {
        let seats = self.tile.seats.as_mut_ptr();
        // Nearly always so up to the first branch.
        if READY && is_run(todo) {
            let (mut seat, mut bit) = (seats, 1);
            // SAFETY: there is a seat for each bit.
            let end = unsafe { seats.add(todo.trailing_ones() as usize) };
            while seat != end {
                // Where it is not needed for each packet, it follows from the seat.
                let bit_here = || match E::ROUTES {
                    true => bit,
                    // SAFETY: both point into the tile's seats.
                    false => 1 << unsafe { seat.offset_from_unsigned(seats) },
                };
                // SAFETY: the caller's promise.
                if let Some(way) = unsafe { self.treat::<READY>(seat, bit_here) } {
                    return (todo & Mask::wrapping_neg(bit_here()), way);
                }
                // SAFETY: as above.
                seat = unsafe { seat.add(1) };
                bit <<= 1;
            }
            return (0, Way::ON);
        }
        while todo != 0 {
            let place = todo.trailing_zeros() as usize % Tile::CAPACITY;
            // SAFETY: there is a seat for each bit; the rest is the caller's promise.
            if let Some(way) = unsafe { self.treat::<READY>(seats.add(place), || 1 << place) } {
                return (todo, way);
            }
            todo &= todo - 1;
        }
        (0, Way::ON)
    }

    /// Processes the packet of a seat; `bit` returns the seat's bit. Returns the packet's way, or
    /// [`Way::UNREADY`], unless it goes on by itself.
    ///
    /// # Safety
    /// `seat` is one of the tile's; the packet is in it, and ready if `READY`.
    #[inline(always)]
    unsafe fn treat<const READY: bool>(
        &mut self,
        seat: *mut MaybeUninit<Seat>,
        bit: impl Fn() -> Mask,
    ) -> Option<Way> {
        // SAFETY: the caller's promise; the view is put back before another is taken.
        let mut view = unsafe { (*seat).assume_init().view(READY || self.tile.ready & bit() != 0) };
        if READY && E::PREPENDS > 0 && !view.reserve(E::PREPENDS) {
            self.tile.ready &= !bit();
            return Some(Way::UNREADY);
        }
        let way = self.element.treat(self.local, &mut view, self.moment);
        if !READY {
            self.tile.ready = self.tile.ready & !bit() | if view.is_ready() { bit() } else { 0 };
        } else if !view.is_ready() {
            self.tile.ready &= !bit();
        }
        // SAFETY: as above.
        unsafe { (*seat).assume_init_mut() }.set(view);
        if E::ROUTES {
            match self.sent.get_mut(way.port()) {
                Some(sent) => *sent |= bit(),
                None => return Some(way),
            }
        } else if !way.is_output(0) {
            return Some(way);
        }
        None
    }
}

/// Handles the first packet of `rest`, which goes another `way` than by itself, and processes those behind
/// it. Returns those of them and of `on` that go to output 0, unless they were passed on already.
///
/// # Safety
/// See [`Step`]; the packets are in their seats.
#[cold]
unsafe fn settle<E: PerPacket>(
    program: &mut Program,
    at: usize,
    cx: &mut Context,
    mut on: Mask,
    mut rest: Mask,
    mut way: Way,
) -> Mask {
    while rest != 0 {
        let mut todo = rest;
        if way != Way::UNREADY {
            let place = rest.trailing_zeros() as usize;
            todo &= todo - 1;
            // SAFETY: the caller's promise.
            match unsafe { turn::<E>(program, at, cx, place, way, &mut on) } {
                Turned::Through => {}
                Turned::Ahead => {
                    program.hold_back(at, todo, cx);
                    return on;
                }
            }
        }
        // SAFETY: the caller's promise.
        (rest, way) = unsafe { run::<E>(program, at, cx, todo) };
        on |= todo & !rest;
    }
    on
}

/// The result for a packet that did not go on by itself.
enum Turned {
    /// It has been handled.
    Through,
    /// Packets that must not be overtaken wait outside of the program.
    Ahead,
}

/// Handles a packet. If it goes to output 0 after all, it is added to `on`; packets already in there may be
/// passed on.
///
/// # Safety
/// See [`Step`]; the packet is in its seat.
unsafe fn turn<E: PerPacket>(
    program: &mut Program,
    at: usize,
    cx: &mut Context,
    place: usize,
    mut way: Way,
    on: &mut Mask,
) -> Turned {
    let op = &program.ops[at];
    let id = op.id;
    // SAFETY: as in `run`. No treatment is under way, so the context is free to be used, and what the element does
    // with it reaches neither this program nor the node that has this local, which are taken out of it.
    let (element, local) = unsafe { (&*op.element.cast::<E>(), &mut *op.local.cast::<E::Local>()) };
    if way == Way::MORE {
        // SAFETY: the caller's promise.
        let mut view = unsafe { program.tile.view(place) };
        way = element.treat_more(local, &mut view, &mut cx.moment);
        program.tile.set(place, view);
    }
    if !E::ROUTES && way.is_output(0) {
        *on |= 1 << place;
        return Turned::Through;
    }
    if E::ROUTES && program.send(at, way, 1 << place, cx) {
        return Turned::Through;
    }
    match E::ROUTES {
        true => program.pass_on_sent(at, cx),
        // SAFETY: the caller's promise.
        false => unsafe { program.pass_on_some(at, std::mem::take(on), cx) },
    }
    program.hand_over_from(at, cx);
    if cx.waiting().goes_singly() {
        program.end_in_front_of(at, cx);
    }
    // SAFETY: as above.
    let packet = unsafe { program.tile.take(place) };
    let mut kept = cx.run_step(id, |cx| element.aside(cx, local, packet, way));
    let overtakes = program.is_awaited(at, cx);
    if !overtakes
        && !E::ROUTES
        && let Some(packet) = kept.take()
    {
        program.tile.put(place, packet);
        *on |= 1 << place;
    } else if let Some(packet) = kept {
        cx.run_as(id, |cx| cx.push(0, packet));
    } else if overtakes {
        program.adopt(at, place, cx);
    }
    match program.is_awaited(at, cx) {
        true => Turned::Ahead,
        false => Turned::Through,
    }
}

unsafe fn end<E: PerPacket>(program: &mut Program, at: usize, cx: &mut Context) {
    let op = &program.ops[at];
    // SAFETY: as in `turn`.
    unsafe {
        let element = &*op.element.cast::<E>();
        let local = &mut *op.local.cast::<E::Local>();
        cx.run_step(op.id, |cx| element.end(cx, local));
    }
}

/// Processes the packets of a batch where the element runs by itself. Pushed packets are sent on; pulled
/// packets that go on to output 0 remain in the batch.
pub(crate) fn treat_batch<E: PerPacket>(
    element: &E,
    local: &mut E::Local,
    cx: &mut Context,
    direction: Direction,
    batch: &mut Batch,
) {
    let mut kept = cx.take_batch();
    for packet in batch.drain() {
        let mut view = View::of(packet);
        let mut way = element.treat(local, &mut view, &mut cx.moment);
        if way == Way::MORE {
            way = element.treat_more(local, &mut view, &mut cx.moment);
        }
        let packet = view.into_packet();
        let settled = if way.is_output(0) && (direction == Direction::Pull || !E::ROUTES) {
            Some(packet)
        } else if E::ROUTES && cx.is_connected(way.port()) {
            cx.push(way.port(), packet);
            None
        } else {
            if direction == Direction::Push {
                // What the element sends now comes behind.
                cx.push_batch(0, &mut kept);
            }
            let back = element.aside(cx, local, packet, way);
            if E::ROUTES && direction == Direction::Push {
                // In front of what the element chooses this output for.
                back.into_iter().for_each(|packet| cx.push(0, packet));
                continue;
            }
            back
        };
        if let Some(packet) = settled {
            // There is room for all packets of a batch.
            let _ = kept.push(packet);
        }
    }
    match direction {
        Direction::Push => cx.push_batch(0, &mut kept),
        Direction::Pull => std::mem::swap(batch, &mut kept),
    }
    if E::ENDS {
        element.end(cx, local);
    }
    cx.give_batch(kept);
}
