//! The connection to a device, on a clock of the test.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::time::Duration;

use super::super::Fault;
use super::super::recovery::{Connection, Link, Order};
use crate::host::Fast;
use crate::{DeviceError, DeviceLane, Poll, SlotId, Table, Ticket};

const MS: u64 = 1_000_000;

/// A lane on which batches are done at once, and which becomes quiet when the test says so.
struct Scripted {
    quiet: Arc<AtomicBool>,
    blocks: [Vec<u8>; 3],
}

impl DeviceLane for Scripted {
    fn slots(&self) -> usize {
        self.blocks.len()
    }

    fn block(&mut self, slot: SlotId) -> Option<&mut [u8]> {
        Some(&mut self.blocks[slot.0])
    }

    fn submit(
        &mut self,
        slot: SlotId,
        _: usize,
        _: usize,
        _: &[Table],
    ) -> Result<Ticket, DeviceError> {
        Ok(Ticket { slot, sequence: 0 })
    }

    fn poll(&mut self, _: Ticket) -> Poll {
        Poll::Done
    }

    fn quiesce(&mut self, most: Duration) -> bool {
        assert!(most.is_zero(), "a packet thread does not wait");
        self.quiet.load(Ordering::Relaxed)
    }
}

fn connection(quiet: &Arc<AtomicBool>) -> Connection {
    let lane = Box::new(Scripted { quiet: quiet.clone(), blocks: Default::default() });
    Connection { lane, generation: 1, _device: Fast::open("") }
}

fn link() -> (Link, Arc<AtomicBool>) {
    let quiet = Arc::new(AtomicBool::new(true));
    (Link::new(Some(connection(&quiet))), quiet)
}

/// Takes a slot and submits a batch.
fn submit(link: &mut Link) -> Option<SlotId> {
    let slot = link.take_slot()?;
    link.submit(slot, 1, 0, &[]).unwrap();
    Some(slot)
}

/// The first time, in milliseconds, at which a batch is accepted again.
fn used_again(link: &mut Link, from: u64) -> u64 {
    (from..from + 10_000)
        .find(|ms| {
            assert!(matches!(link.attend(ms * MS), Order::Nothing));
            link.is_open()
        })
        .unwrap()
}

#[test]
fn pauses_double_up_to_a_second_and_end_with_a_batch_that_is_done() {
    let (mut link, _) = link();
    let mut now = 0;
    for pause in [1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1000, 1000, 1000] {
        let slot = submit(&mut link).unwrap();
        assert!(link.fault(now * MS, Fault::Step, [slot]).is_none());
        assert!(link.take_slot().is_none());
        let again = used_again(&mut link, now);
        assert_eq!(again - now, pause);
        now = again;
    }
    let slot = submit(&mut link).unwrap();
    assert!(link.take_slot().is_none(), "one batch is tried alone");
    link.well();
    link.give_slot(slot);
    assert!(link.is_good());
    let slots = [(); 3].map(|()| submit(&mut link).unwrap());
    assert!(link.take_slot().is_none(), "there are three");
    link.fault(now * MS, Fault::Step, slots);
    assert_eq!(used_again(&mut link, now) - now, 1, "the first pause is short again");
}

#[test]
fn slots_are_not_used_until_the_device_is_quiet() {
    let (mut link, quiet) = link();
    let (landed, flying) = (submit(&mut link).unwrap(), submit(&mut link).unwrap());
    quiet.store(false, Ordering::Relaxed);
    link.fault(0, Fault::Timeout, [flying]);
    assert!(link.submit(landed, 1, 0, &[]).is_err(), "it is not to be used");
    for ms in 0..50 {
        assert!(matches!(link.attend(ms * MS), Order::Nothing));
        assert!(link.take_slot().is_none());
    }
    assert!(link.block(landed).is_some(), "what was done before can be read");
    quiet.store(true, Ordering::Relaxed);
    used_again(&mut link, 50);
    link.well();
    let mut free = [link.take_slot().unwrap(), link.take_slot().unwrap()];
    free.sort_by_key(|slot| slot.0);
    assert!(link.take_slot().is_none(), "one is still to be read");
    assert!(free.contains(&flying) && !free.contains(&landed));
    link.give_slot(landed);
    assert_eq!(link.take_slot(), Some(landed));
}

#[test]
fn a_lane_that_never_becomes_quiet_is_replaced() {
    let (mut link, quiet) = link();
    let slot = submit(&mut link).unwrap();
    quiet.store(false, Ordering::Relaxed);
    link.fault(0, Fault::Timeout, [slot]);
    let given_up = (0..1000).find(|ms| matches!(link.attend(ms * MS), Order::Dispose(_)));
    assert!((100..300).contains(&given_up.unwrap()), "{given_up:?} ms");
    let mut now = given_up.unwrap();

    // The pauses between failed attempts to connect grow, too.
    for pause in [1, 2, 4, 8] {
        let began = now;
        while !matches!(link.attend(now * MS), Order::Connect) {
            now += 1;
        }
        assert_eq!(now - began, pause);
        let (sender, receiver) = sync_channel(1);
        link.asked(receiver);
        assert!(matches!(link.attend(now * MS), Order::Nothing));
        sender.send(Err((Fault::Open, DeviceError::Lost(String::new())))).unwrap();
        assert!(matches!(link.attend(now * MS), Order::Failed(Fault::Open)));
    }
    while !matches!(link.attend(now * MS), Order::Connect) {
        now += 1;
    }
    let (sender, receiver) = sync_channel(1);
    link.asked(receiver);
    assert!(sender.send(Ok(connection(&Arc::default()))).is_ok());
    assert!(matches!(link.attend(now * MS), Order::Nothing));
    assert!(submit(&mut link).is_some() && !link.is_good());
    link.well();
    assert!(link.is_good());
}

#[test]
fn a_lost_device_is_released_at_once() {
    let (mut link, _) = link();
    let slot = submit(&mut link).unwrap();
    assert!(link.fault(0, Fault::Lost, [slot]).is_some(), "to be taken apart");
    assert!(link.generation().is_none() && link.block(slot).is_none());
    assert!(matches!(link.attend(0), Order::Nothing));
    assert!(matches!(link.attend(MS), Order::Connect));
}
