//! Batches at their limits: rows, payload, packets that are too large.

use std::sync::Arc;

use millrace_core::Packet;
use millrace_gpu::batch::Gather;
use millrace_gpu::plan::{Limits, Plan};
use millrace_gpu::region::{Base, Layers, Region};

use super::stages::{TestStage, Work};

const PAYLOAD: usize = 65_536;

/// A plan that asks for packets from their network header on.
fn plan() -> Arc<Plan> {
    let regions = vec![Region::to_end(Base::Network, 0), Region::read(Base::Network, 0, 4)];
    let stage = TestStage { work: Work::Mix(1), regions, outputs: 0, from: Vec::new(), only: None };
    Arc::new(Plan::new(&[stage.node()], Limits { packets: 512, payload: PAYLOAD }).unwrap())
}

/// An Ethernet frame without IP in it.
fn frame(bytes: usize) -> Packet {
    let mut frame = vec![0x77; bytes];
    frame[12..14].copy_from_slice(&[0x88, 0xb5]);
    Packet::from_bytes(&frame).unwrap()
}

/// How many of these packets fit into a batch, and the bytes of payload that they take.
fn gathered(plan: &Plan, packets: &[Packet], block: &mut [u8]) -> (usize, usize) {
    let mut gather = Gather::new();
    let fitted = gather.add(plan, packets, block);
    assert_eq!(fitted, gather.rows());
    (fitted, gather.payload())
}

#[test]
fn a_batch_ends_when_its_slot_is_full() {
    let plan = plan();
    let mut block = vec![0; plan.slot_bytes];
    let small: Vec<Packet> = (0..600).map(|_| frame(14 + 100)).collect();
    assert_eq!(gathered(&plan, &small, &mut block), (512, 512 * 112));
    let jumbo: Vec<Packet> = (0..20).map(|_| frame(14 + 9000)).collect();
    assert_eq!(gathered(&plan, &jumbo, &mut block), (7, 7 * 9008));
    // To the last byte, and one more.
    assert_eq!(gathered(&plan, &[frame(14 + PAYLOAD)], &mut block), (1, PAYLOAD));
    assert_eq!(gathered(&plan, &[frame(15 + PAYLOAD)], &mut block), (0, 0));
}

#[test]
fn a_packet_that_is_too_large_stops_the_batch_in_front_of_it() {
    let plan = plan();
    let mut block = vec![0; plan.slot_bytes];
    let packets = [frame(60), frame(200_000), frame(60)];
    assert_eq!(packets.each_ref().map(|packet| plan.fits(packet)), [true, false, true]);
    assert_eq!(gathered(&plan, &packets, &mut block), (1, 48));
    // Alone it fits into no batch: the caller sends it another way.
    assert_eq!(gathered(&plan, &packets[1..], &mut block), (0, 0));
    assert_eq!(gathered(&plan, &packets[2..], &mut block), (1, 48));
}

#[test]
fn nothing_fits_into_a_block_that_is_too_short() {
    let plan = plan();
    let mut block = vec![0; plan.slot_bytes - 1];
    assert_eq!(gathered(&plan, &[frame(60)], &mut block), (0, 0));
}

#[test]
fn a_plan_for_annotations_reads_no_packet_bytes() {
    let regions = vec![Region::read(Base::Annotation, 0, 4), Region::read(Base::Annotation, 20, 2)];
    let stage = TestStage { work: Work::Mix(1), regions, outputs: 0, from: Vec::new(), only: None };
    let plan = Plan::new(&[stage.node()], Limits { packets: 1, payload: 0 }).unwrap();
    assert_eq!((plan.depth, plan.valids.len(), plan.payload_bytes), (Base::Annotation, 0, 0));
}

#[test]
fn a_jumbogram_ends_with_the_frame() {
    let mut bytes = vec![0x60, 0, 0, 0, 0, 0, 0, 64];
    bytes.extend([0; 32]);
    bytes.extend([17, 0, 0xc2, 4, 0, 1, 0x11, 0x70]);
    bytes.resize(70_000, 9);
    let mut packet = Packet::from_bytes(&bytes).unwrap();
    packet.set_network_header(0, 40);
    let layers = Layers::of(&packet, Base::TransportPayload);
    let payload = layers.slice(&packet, &Region::to_end(Base::TransportPayload, 0));
    assert_eq!(payload.len(), 70_000 - 40 - 8 - 8);
}
