//! The code of a step: what the compiler makes of each class, and what is the same for all.

use std::fmt;
use std::ptr::NonNull;
use std::sync::Arc;

use super::run::Out;
use super::{End, Op};
use crate::drops::Reason;
use crate::element::node::{AnyElement, Instance, Node};
use crate::element::{PerPacket, Way};
use crate::engine::Context;
use crate::memory::{Batch, Descriptor, Packet, View};

/// Takes a packet, as the words of its view, through a step and all that follow. The words are arguments one by
/// one, so that they travel in registers from step to step.
///
/// # Safety
/// The words are those of a view, and are used once. The step is linked; the run's state is used by nobody else.
pub(super) type Step = unsafe fn(NonNull<Descriptor>, *mut u8, usize, u64, *const Op);

/// Settles a packet that does not go on by itself, and takes it on if it does after all. The way that it should
/// go stands in the upper half of the length.
///
/// # Safety
/// As [`Step`].
pub(super) type Turn = Step;

/// The code of a step: for packets that are ready, as nearly all are ([`View::is_ready`]), without a look at what that
/// says; and for all others.
pub(super) type Forms = [Step; 2];

/// Which of the forms is for all packets.
const CAREFUL: usize = 1;

/// Makes one thread's instance of an element, if it is of the class.
type Instantiate = fn(Arc<dyn AnyElement>) -> Option<Box<dyn Node>>;

/// How a class treats packets one by one.
#[derive(Clone, Copy)]
pub struct Steps {
    pub(super) step: Forms,
    pub(super) turn: Turn,
    pub(super) end: Option<End>,
    /// Whether packets meet before they are treated.
    pub(super) waits: bool,
    /// Whether the element chooses among its outputs.
    pub(super) routes: bool,
    pub(crate) instantiate: Instantiate,
}

impl Steps {
    /// That of class `E`.
    pub(crate) const fn of<E: PerPacket>() -> Self {
        Self {
            step: [step::<E, true>, step::<E, false>],
            waits: E::WAITS,
            turn: turn::<E>,
            end: if E::ENDS { Some(end::<E>) } else { None },
            routes: E::ROUTES,
            instantiate: |element| {
                let element = element.into_any().downcast::<E>().ok()?;
                Some(Box::new(Instance::per_packet(element, treat_batch::<E>)))
            },
        }
    }
}

impl fmt::Debug for Steps {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Steps").field("routes", &self.routes).finish_non_exhaustive()
    }
}

unsafe fn step<E: PerPacket, const READY: bool>(
    slot: NonNull<Descriptor>,
    data: *mut u8,
    len: usize,
    headers: u64,
    op: *const Op,
) {
    // SAFETY: the step is linked: the pointers are those of an element of this class, which lives as long as its
    // node, and of a local that this thread alone uses, here alone. The moment is the running context's, which
    // nobody uses while a packet is treated. The words are a view's, which was ready if this is such a step.
    unsafe {
        let element = &*(*op).element.cast::<E>();
        let local = &mut *(*op).local.cast::<E::Local>();
        let mut view = View::from_words((slot, data, len, headers), READY);
        if READY && E::PREPENDS > 0 && !view.reserve(E::PREPENDS) {
            return ((*op).waiting_run[CAREFUL])(slot, data, len, headers, op);
        }
        let way = element.treat(local, &mut view, &mut *(*(*op).state).moment);
        let form = usize::from(!view.is_ready());
        let (slot, data, len, headers) = view.into_words();
        if E::ROUTES {
            if way.port() < (*op).outputs {
                let edge = &*(*op).edges.add(way.port());
                if !edge.op.is_null() {
                    (*edge.flow).packets.add(1);
                    return ((*edge.op).run[form])(slot, data, len, headers, edge.op);
                }
            }
        } else if way.is_output(0) {
            let next = (*op).next;
            return ((*next).run[form])(slot, data, len, headers, next);
        }
        let len = len | (way.to_bits() as usize) << 32;
        ((*op).turn)(slot, data, len, headers, op);
    }
}

#[cold]
unsafe fn turn<E: PerPacket>(
    slot: NonNull<Descriptor>,
    data: *mut u8,
    len: usize,
    headers: u64,
    op: *const Op,
) {
    let way = Way::from_bits((len >> 32) as u32);
    // SAFETY: as in `step`. No treatment is under way, so the context is free to be used, and what the element
    // does with it reaches neither this program, which is taken out of it, nor this local.
    unsafe {
        let element = &*(*op).element.cast::<E>();
        let local = &mut *(*op).local.cast::<E::Local>();
        let mut view = View::from_words((slot, data, len as u32 as usize, headers), false);
        let mut way = way;
        if way == Way::MORE {
            way = element.treat_more(local, &mut view, &mut *(*(*op).state).moment);
            if let Some(next) = (*op).next_for(way) {
                let form = usize::from(!view.is_ready());
                let (slot, data, len, headers) = view.into_words();
                return ((*next).run[form])(slot, data, len, headers, next);
            }
        }
        let packet = view.into_packet();
        (*(*op).state).hand_over();
        let cx = &mut *(*(*op).state).cx;
        let kept = cx.run_as((*op).id, |cx| element.aside(cx, local, packet, way));
        settle(kept, op);
    }
}

impl Op {
    /// The step that follows by a way, which is counted; none if the packet is to be turned aside.
    ///
    /// # Safety
    /// As [`Step`].
    unsafe fn next_for(&self, way: Way) -> Option<*const Op> {
        // SAFETY: a step's flow and ways live as long as its program.
        unsafe {
            if !(*self.flow).routes {
                return way.is_output(0).then_some(self.next);
            }
            let edge = (way.port() < self.outputs).then(|| &*self.edges.add(way.port()))?;
            (!edge.op.is_null()).then(|| {
                (*edge.flow).packets.add(1);
                edge.op
            })
        }
    }
}

/// Takes on a packet that its element has settled aside, if there is one left.
///
/// # Safety
/// As [`Step`].
unsafe fn settle(kept: Option<Packet>, op: *const Op) {
    // SAFETY: as in `turn`; a step's flow lives as long as its program.
    unsafe {
        let flow = &*(*op).flow;
        let overtakes = (*(*op).state).is_awaited();
        match kept {
            Some(packet) if !overtakes && !flow.routes => {
                return go((*op).next, packet);
            }
            Some(packet) => (*(*(*op).state).cx).run_as((*op).id, |cx| cx.push(0, packet)),
            None => {}
        }
        flow.turned.add(1);
        if (*(*op).state).is_awaited() {
            (*(*op).state).stop();
        }
    }
}

/// Takes a packet through a step and all that follow.
///
/// # Safety
/// As [`Step`].
#[inline(always)]
pub(super) unsafe fn go(op: *const Op, packet: Packet) {
    let view = View::of(packet);
    let form = usize::from(!view.is_ready());
    let (slot, data, len, headers) = view.into_words();
    // SAFETY: the words are a view's; the rest is the caller's promise.
    unsafe { ((*op).run[form])(slot, data, len, headers, op) }
}

unsafe fn end<E: PerPacket>(op: *const Op, cx: &mut Context) {
    // SAFETY: as in `step`.
    unsafe {
        let element = &*(*op).element.cast::<E>();
        let local = &mut *(*op).local.cast::<E::Local>();
        cx.run_as((*op).id, |cx| element.end(cx, local));
    }
}

/// The step by which packets leave the program.
pub(super) const LEAVE: Forms = [leave::<true>, leave::<false>];

unsafe fn leave<const READY: bool>(
    slot: NonNull<Descriptor>,
    data: *mut u8,
    len: usize,
    headers: u64,
    op: *const Op,
) {
    // SAFETY: the words are a view's, which was ready if this is such a step. The local of such a step is an `Out`,
    // which is handed over before each batch, and a batch's packets leave once each.
    unsafe {
        let packet = View::from_words((slot, data, len, headers), READY).into_packet();
        (*(*op).local.cast::<Out>()).add(packet);
    }
}

/// The step of packets for an output 0 that is not connected.
pub(super) const NOWHERE: Forms = [nowhere, nowhere];

#[cold]
unsafe fn nowhere(
    slot: NonNull<Descriptor>,
    data: *mut u8,
    len: usize,
    headers: u64,
    op: *const Op,
) {
    // SAFETY: as in `turn`; the local of such a step is the step that the packet comes from.
    unsafe {
        let from = (*op).local.cast::<Op>();
        (*(*from).flow).turned.add(1);
        let packet = View::from_words((slot, data, len, headers), false).into_packet();
        (*(*(*op).state).cx).run_as((*op).id, |cx| cx.drop(packet, Reason::Unconnected));
    }
}

/// For steps that turn nothing aside.
pub(super) const NO_TURN: Turn = leave::<false>;

/// In which direction packets pass an element.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Direction {
    Push,
    Pull,
}

/// Treats the packets of a batch where the element runs by itself. Pushed ones are sent on; pulled ones that go on
/// by output 0 remain in the batch.
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
            element.aside(cx, local, packet, way)
        };
        if let Some(packet) = settled {
            // There is room for all packets of a batch.
            let _ = kept.push(packet);
        }
    }
    if E::ENDS {
        element.end(cx, local);
    }
    match direction {
        Direction::Push => cx.push_batch(0, &mut kept),
        Direction::Pull => std::mem::swap(batch, &mut kept),
    }
    cx.give_batch(kept);
}
