//! Looks up addresses: on the CPU, and with what the device found.

use millrace_core::{Batch, Context, Packet};
use millrace_gpu::kernel::NONE;
use millrace_gpu::region::{Base, Region};
use millrace_gpu::{Results, Rows, Snapshot, Stage, StageSpec, StageTable};

use super::routes::Pinned;
use super::{Family, Lookup};
use crate::ip::lookup::HopId;

impl<A: Family> Stage for Lookup<A> {
    fn name(&self) -> &str {
        &self.name
    }

    fn spec(&self) -> StageSpec {
        StageSpec {
            kernel: A::KERNEL,
            regions: vec![Region::read(Base::Annotation, 0, u16::from(A::LENGTH) / 8)],
            constants: [0; 4],
            table: true,
            outputs: self.outputs,
        }
    }

    fn table(&self) -> Option<StageTable> {
        self.routes.table()
    }

    fn snapshot(&self) -> Snapshot {
        Snapshot::of(self.routes.pin())
    }

    fn run(&self, snapshot: &Snapshot, rows: &mut Rows<'_>) {
        let pinned = snapshot.get::<Pinned<A>>().unwrap_or_else(|| self.routes.pin());
        let Pinned { routes, hops } = &*pinned;
        let mut addresses = [A::Bits::default(); Batch::CAPACITY];
        let mut found = [HopId::NONE; Batch::CAPACITY];
        let count = rows.len().min(Batch::CAPACITY);
        for (address, packet) in addresses.iter_mut().zip(rows.packets()) {
            *address = A::destination(packet.annotations()).to_bits();
        }
        routes.lookup_batch(&addresses[..count], &mut found[..count]);
        for (row, id) in found[..count].iter().enumerate() {
            if !rows.is_active(row) {
                continue;
            }
            let hop = routes.hop(*id);
            match hop.and_then(|hop| Some((hop, *hops.numbers.get(&hop)?))) {
                Some((hop, number)) => {
                    rows.set_result(row, number);
                    rows.decide(row, hop.port);
                }
                None => rows.decide(row, Rows::DROP),
            }
        }
    }

    fn deliver(
        &self,
        _cx: &mut Context,
        _snapshot: &Snapshot,
        packets: &mut [Packet],
        results: &Results<'_>,
    ) {
        let hops = self.routes.hops();
        for (packet, &result) in packets.iter_mut().zip(results.iter()) {
            if result != NONE
                && let Some(hop) = hops.by_number.get(result as usize)
                && hop.has_gateway()
            {
                hop.gateway.set_destination(packet.annotations_mut());
            }
        }
    }
}
