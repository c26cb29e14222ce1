//! Plans: layout, conditions, refusals.

use std::sync::Arc;

use millrace_core::{Context, Packet};

use super::*;
use crate::batch::Gather;
use crate::kernel::{Condition, Kernel};
use crate::region::Access;
use crate::stage::{Rows, Snapshot};
use crate::{Results, Stage, StageSpec, StageTable};

/// A stage that has only a specification.
struct Asks(StageSpec);

impl Stage for Asks {
    fn name(&self) -> &str {
        self.0.kernel.name()
    }
    fn spec(&self) -> StageSpec {
        self.0.clone()
    }
    fn table(&self) -> Option<StageTable> {
        None
    }
    fn run(&self, _: &Snapshot, _: &mut Rows<'_>) {}
    fn deliver(&self, _: &mut Context, _: &Snapshot, _: &mut [Packet], _: &Results<'_>) {}
}

fn node(regions: &[Region], outputs: u32, from: &[(usize, u32)]) -> Node {
    let spec = StageSpec {
        kernel: Kernel::Classify,
        regions: regions.to_vec(),
        constants: [0; 4],
        table: false,
        outputs,
    };
    let from = from.iter().map(|&(node, output)| Edge { node, output }).collect();
    Node { stage: Arc::new(Asks(spec)), from, only: None }
}

const LIMITS: Limits = Limits { packets: 1000, payload: 1000 };

fn conditions(plan: &Plan, step: usize) -> Vec<Condition> {
    let launch = &plan.steps[step].launch;
    launch.condition[..launch.conditions as usize].to_vec()
}

#[test]
fn a_lookup_costs_four_bytes_each_way() {
    let plan = Plan::new(&[node(&[Region::read(Base::Annotation, 0, 4)], 0, &[])], LIMITS).unwrap();
    assert_eq!((plan.capacity, plan.bytes_a_packet()), (1024, (4, 4)));
    assert_eq!(
        plan.copies(257, 0).to_device,
        [0..144, 256..256 + 2048, 256 + 4096..256 + 4096, 8448..8448]
    );
    assert_eq!(plan.copies(257, 0).to_host, [4352..4352, 4352..6400]);
    let mut block = vec![0xee; plan.slot_bytes];
    let mut packet = Packet::from_bytes(b"").unwrap();
    packet.set_dst_ip([1, 2, 3, 4].into());
    let mut gather = Gather::new();
    assert_eq!(gather.add(&plan, &[packet], &mut block), 1);
    let launch = &plan.steps[0].launch;
    assert_eq!(block[launch.input[0].of(0)..][..4], [1, 2, 3, 4]);
    assert_eq!(launch.valid[0].stride, 0);
}

#[test]
fn paths_that_join_have_few_conditions() {
    let nodes = [
        node(&[], 2, &[]),
        node(&[], 0, &[(0, 0)]),
        node(&[], 0, &[(0, 1), (1, 0)]),
        node(&[], 14, &[(2, 0)]),
        node(&[], 0, &[(3, 0), (3, 1), (3, 2), (3, 3), (3, 4), (3, 5), (3, 6)]),
    ];
    let plan = Plan::new(&nodes, LIMITS).unwrap();
    assert_eq!(conditions(&plan, 0), []);
    assert_eq!(conditions(&plan, 1), [Condition { mask: 3, value: 1 }]);
    assert_eq!(conditions(&plan, 2).len(), 2);
    assert!(conditions(&plan, 4).len() <= 3, "{plan}");
    assert_eq!(plan.steps[3].launch.field_mask, 0xf << 2);
}

#[test]
fn unordered_writers_are_refused() {
    let written = Region::read(Base::Network, 8, 4).with(Access::ReadWrite);
    let refused = |nodes: &[Node]| Plan::new(nodes, LIMITS).unwrap_err();
    let twice = refused(&[node(&[written], 0, &[]), node(&[written], 0, &[])]);
    assert_eq!(twice.node, 1);
    assert!(Plan::new(&[node(&[written], 0, &[]), node(&[written], 0, &[(0, 0)])], LIMITS).is_ok());
    let stale =
        [node(&[written], 0, &[]), node(&[Region::to_end(Base::Ethernet, 0)], 0, &[(0, 0)])];
    assert_eq!(
        refused(&stale).message,
        "reads Ethernet 0-, which may overlap bytes that classify writes"
    );
}

#[test]
fn invalid_sections_are_rejected_with_the_node() {
    let annotation = Region::read(Base::Annotation, 45, 4);
    let end = Region::to_end(Base::Transport, 0);
    let entry = || node(&[], 2, &[]);
    let table: [(Vec<Node>, usize, &str); 11] = [
        (vec![node(&[annotation], 0, &[])], 0, "annotations have 48 bytes"),
        (vec![node(&[Region::read(Base::Network, 0, 0)], 0, &[])], 0, "must have bytes"),
        (vec![node(&[end.with(Access::Write)], 0, &[])], 0, "cannot be written"),
        (vec![node(&[end, end], 0, &[])], 0, "more than one slice to the packet's end"),
        (vec![node(&[Region::read(Base::Network, 0, 4); 7], 0, &[])], 0, "asks for 7 slices"),
        (vec![entry(), node(&[], 0, &[(0, 2)])], 1, "output 2, which does not exist"),
        (vec![entry(), node(&[], 0, &[(1, 0)])], 1, "comes before"),
        (vec![node(&[], 1023, &[])], 0, "between 1023 outputs"),
        ((0..17).map(|_| entry()).collect(), 16, "needs bits 32 to 33"),
        (vec![entry(), only(node(&[], 0, &[(0, 0)]), 0, 1)], 1, "cannot be reached by any packet"),
        (vec![node(&[], 0, &[]), only(node(&[], 0, &[]), 0, 0)], 1, "decides nothing"),
    ];
    for (nodes, index, message) in table {
        let refused = Plan::new(&nodes, LIMITS).unwrap_err();
        assert_eq!(refused.node, index, "{refused}");
        assert!(refused.message.contains(message), "{refused}");
    }
    let no_room = Limits { payload: 0, ..LIMITS };
    let refused = Plan::new(&[entry(), node(&[end], 0, &[(0, 0)])], no_room).unwrap_err();
    assert_eq!(refused.node, 1);
    let huge = Limits { packets: 1 << 20, payload: 4 << 30 };
    assert!(Plan::new(&[node(&[end], 0, &[])], huge).is_err());
    for packets in [0, Limits::MAX_PACKETS + 1, usize::MAX] {
        assert!(Plan::new(&[node(&[], 0, &[])], Limits { packets, payload: 0 }).is_err());
    }
    let wide = Limits { packets: 1 << 20, payload: 0 };
    assert!(Plan::new(&[node(&[Region::read(Base::Network, 0, 5000)], 0, &[])], wide).is_err());
}

fn only(mut node: Node, of: usize, output: u32) -> Node {
    node.only = Some(Edge { node: of, output });
    node
}

#[test]
fn more_conditions_than_a_launch_has_are_refused() {
    // Every second output of a stage with many outputs: no single bit identifies them.
    let odd: Vec<_> = (0..9).map(|output| (0, output * 7)).collect();
    let refused = Plan::new(&[node(&[], 70, &[]), node(&[], 0, &odd)], LIMITS).unwrap_err();
    assert_eq!(refused.node, 1);
    assert!(refused.message.contains("8 is the maximum"), "{refused}");
}

#[test]
fn a_stage_before_another_can_exclude_it() {
    let nodes = [
        node(&[], 2, &[]),
        node(&[], 0, &[(0, 0), (0, 1)]),
        only(node(&[], 3, &[(1, 0)]), 0, 1),
        node(&[], 0, &[(2, 0)]),
    ];
    let plan = Plan::new(&nodes, LIMITS).unwrap();
    assert_eq!(conditions(&plan, 2), [Condition { mask: 3, value: 2 }]);
    // Packets that pass unprocessed also arrive by output 0.
    assert_eq!(conditions(&plan, 3).len(), 3, "{plan}");
}

#[test]
fn written_columns_are_copied_the_way_that_they_need() {
    let write = Region::read(Base::Network, 8, 4).with(Access::Write);
    let way = |nodes: &[Node]| Plan::new(nodes, LIMITS).unwrap().slices[0].way;
    assert_eq!(way(&[node(&[write], 0, &[])]), Way::Out);
    assert_eq!(way(&[node(&[write.with(Access::ReadWrite)], 0, &[])]), Way::Both);
    assert_eq!(way(&[node(&[], 2, &[]), node(&[write], 0, &[(0, 1)])]), Way::Both);
    assert_eq!(way(&[node(&[write], 0, &[]), node(&[write], 0, &[(0, 0)])]), Way::Both);
}

#[test]
fn a_plan_in_words() {
    let address = Region::read(Base::Network, 16, 4);
    let payload = Region::to_end(Base::TransportPayload, 0);
    let nodes = [node(&[address], 2, &[]), node(&[address, payload], 0, &[(0, 1)])];
    let expected = "\
batch: 1024 packets at most, 27888 bytes a slot; a packet takes 18 bytes to the device and 12 back
payload: 1008 bytes a batch at most, to the device
column: network 16/4, to the device
payload column: transport payload 0-, to the device
launch 0: classify for classify, on network 16/4
  decides between 2 outputs: bits 0-1
launch 1: classify for classify, on network 16/4; transport payload 0-
  from classify [1]
  where predicate & 0x3 = 0x2
";
    assert_eq!(Plan::new(&nodes, LIMITS).unwrap().to_string(), expected);
    let runs = [(0, 0), (0, 1), (0, 2), (0, 4)];
    let nodes = [node(&[address], 5, &[]), node(&[address], 0, &runs)];
    let text = Plan::new(&nodes, LIMITS).unwrap().to_string();
    assert!(text.contains("\n  from classify [0-2]\n  from classify [4]\n"), "{text}");
}

#[test]
fn additional_slices_are_copied() {
    let nodes = [node(&[Region::read(Base::Annotation, 0, 4)], 0, &[])];
    let both = Region { access: Access::ReadWrite, ..Region::read(Base::Annotation, 0, 48) };
    let extra = [Region::read(Base::Ethernet, 0, 64), both];
    let plan = Plan::with_slices(&nodes, LIMITS, &extra).unwrap();
    let (up, down) = plan.bytes_a_packet();
    assert_eq!((up, down), (48 + 2 + 64 + 2, 48 + 4), "slices, what is valid of them, results");
    let mut block = vec![0xee; plan.slot_bytes];
    let packet = Packet::from_bytes(&[7; 20]).unwrap();
    assert_eq!(Gather::new().add(&plan, &[packet], &mut block), 1);
    let ethernet = plan.slices.iter().find(|slice| slice.merged.base == Base::Ethernet).unwrap();
    let row = &block[ethernet.column.of(0)..][..64];
    assert_eq!((&row[..20], &row[20..]), (&[7; 20][..], &[0; 44][..]));

    let error = Plan::with_slices(&nodes, LIMITS, &[Region::read(Base::Annotation, 40, 16)]);
    assert!(error.unwrap_err().message.ends_with("annotations have 48 bytes"));
}
