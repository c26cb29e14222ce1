//! Plans: layout, conditions, refusals.

use millrace_core::{Context, Packet};

use super::*;
use crate::StageSpec;
use crate::batch::Gather;
use crate::kernel::{Condition, Kernel};
use crate::region::Access;
use crate::stage::Rows;

/// A stage that is only asked for its needs.
struct Asks(StageSpec);

impl Stage for Asks {
    fn name(&self) -> &str {
        self.0.kernel.name()
    }
    fn spec(&self) -> StageSpec {
        self.0.clone()
    }
    fn table(&self) -> Option<(u64, Arc<Vec<u32>>)> {
        None
    }
    fn run(&self, _: &mut Rows<'_>) {}
    fn deliver(&self, _: &mut Context, _: &mut [Packet], _: &[u32]) {}
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
    assert_eq!(plan.copies(257, 0).to_device, [0..256 + 2048, 256 + 4096..256 + 4096, 8448..8448]);
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
fn ways_that_join_have_few_conditions() {
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
        "reads Ethernet 0-, which may be bytes that classify writes"
    );
}
