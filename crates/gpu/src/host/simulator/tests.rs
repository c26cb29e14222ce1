#![allow(unsafe_code, reason = "kernels that do wrong")]

use std::sync::Arc;
use std::time::Duration;

use super::*;
use crate::device::slot::{HEADER, memory_of};
use crate::host::launch::HostLaunch;
use crate::kernel::{Launch, TILE};
use crate::plan::Area;
use crate::{Poll, SlotId};

const RESULTS: usize = 4 * TILE;

fn plan() -> Arc<Plan> {
    let at = HEADER.next_multiple_of(64);
    Arc::new(Plan {
        capacity: TILE,
        output: Area { at: at as u32, tile: RESULTS as u32 },
        slot_bytes: at + RESULTS,
        ..Plan::default()
    })
}

/// Runs a batch with this kernel, and another batch with an empty kernel. Returns the outcome, the slot, and the
/// reports of the simulator.
fn runs(function: crate::kernel::HostFunction) -> (Poll, Vec<u8>, Vec<String>) {
    let faults = Faults::none();
    let simulator = Simulator::new(Settings::default(), faults.clone());
    simulator.open().map(drop).unwrap();
    let device = simulator.open().unwrap();
    let sim = simulator.socket.lock().device.upgrade().unwrap();
    let launches = vec![HostLaunch::of(function)];
    let mut lane = Lane::with_launches(sim, &plan(), 1, launches).unwrap();
    let ticket = lane.submit(SlotId(0), 10, 0, &[]).unwrap();
    assert!(lane.quiesce(Duration::from_secs(10)));
    let poll = lane.poll(ticket);
    let block = lane.block(SlotId(0)).unwrap().to_vec();
    drop(device);
    (poll, block, faults.violations())
}

unsafe extern "C" fn nothing(_: *const Launch, _: *mut u8, _: u32, _: u32) {}

unsafe extern "C" fn beside(_: *const Launch, slot: *mut u8, first: u32, _: u32) {
    if first == 7 {
        // SAFETY: outside of the slot, but within its allocation: the red zone behind it.
        unsafe { slot.add(memory_of(&plan()) + 3).write(1) };
    }
}

unsafe extern "C" fn before(_: *const Launch, slot: *mut u8, first: u32, _: u32) {
    if first == 3 {
        // SAFETY: outside of the slot, but within its allocation: the red zone before it.
        unsafe { slot.sub(1).write(1) };
    }
}

#[test]
fn a_kernel_that_writes_outside_of_its_slot_is_detected() {
    for function in [beside, before] {
        let (poll, _, violations) = runs(function);
        assert!(matches!(&poll, Poll::Failed(DeviceError::Step(why)) if why.contains("outside")));
        assert_eq!(violations.len(), 1);
    }
    let (poll, _, violations) = runs(nothing);
    assert_eq!((poll, violations.len()), (Poll::Done, 0));
}

#[test]
fn unwritten_output_is_poison() {
    let (_, one, _) = runs(nothing);
    let at = HEADER.next_multiple_of(64);
    let area = &one[at..at + RESULTS];
    assert!(area.iter().any(|byte| *byte != 0), "the host's own zeros, or an earlier batch's");
}

#[test]
fn a_table_that_makes_a_kernel_read_outside_is_rejected() {
    let simulator = Simulator::new(Settings::default(), Faults::none());
    let device = simulator.open().unwrap();
    let decisions = table::Decisions { hops: &[1], miss: 0 };
    let built = table::Lpm6::build([], decisions).unwrap();
    device.load_table(built.words()).unwrap();
    let mut spoilt = built.words().to_vec();
    spoilt[2] += 1;
    let error = device.load_table(&Arc::new(spoilt)).unwrap_err();
    assert!(error.to_string().contains("the root"), "{error}");
}
