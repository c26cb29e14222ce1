//! AggregateLast - keeps the last packet of each aggregate
//!
//! # Synopsis
//! `AggregateLast([keywords NOTIFIER, STOP_AFTER_CLEAR, CAPACITY])`
//!
//! # Description
//! Keeps the latest packet of each aggregate. When the next one arrives, the earlier one leaves by output 1, or is
//! dropped if that is not connected. The kept packets leave by output 0: all of them, in the order of their aggregates,
//! when `clear` is written, and one when NOTIFIER reports that its aggregate has ended.
//!
//! A kept packet stands for all of its aggregate: its extra packets and extra length annotations hold the number of
//! packets and bytes that came before it, and its first timestamp is that of the first packet.
//!
//! Each aggregate keeps a packet buffer. While there are CAPACITY aggregates, packets of new ones are dropped.
//!
//! # Arguments
//! - NOTIFIER: an AggregateIPFlows element; a packet leaves when that element ends its aggregate. Keyword.
//! - STOP_AFTER_CLEAR: stop the router after `clear` has emitted the packets. Keyword, default false.
//! - CAPACITY: maximum number of aggregates. Keyword, default 65536. The packets count towards `--buffers`.
//!
//! # Ports
//! One push input, one push output; an optional second one for packets that are not the last.
//!
//! # Handlers
//! - `clear` (write): emits all packets.
//!
//! # Drops
//! - filtered: another packet of its aggregate arrived, and output 1 is not connected.
//! - table full: the packet's aggregate is new, and there are CAPACITY aggregates.
//! - stopped: the packet was still kept when the router stopped.
//!
//! # Example
//! ```click
//! FromDump(in.pcap, FORCE_IP true, STOP true)
//!     -> AggregateIPFlows
//!     -> last :: AggregateLast(STOP_AFTER_CLEAR true)
//!     -> Print(last)
//!     -> Discard;
//! DriverManager(wait, write last.clear, wait);
//! ```
//!
//! # See also
//! AggregateFirst, AggregateIPFlows

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};

use millrace_core::args::ElementRef;
use millrace_core::{
    Batch, Class, Context, Element, Failed, Footprint, Handlers, Init, Lock, Packet, Reason,
    Refused, Setup, Task, Timestamp, register,
};

use crate::capability::{AggregateNotifier, Ended};
use crate::flows::capacity::capacity_or;

/// The element; its manual is at the top of the file.
pub struct AggregateLast {
    last: Lock<BTreeMap<u32, Packet>>,
    /// The maximum number of packets.
    capacity: usize,
    notifier: Option<ElementRef>,
    ended: OnceLock<Arc<Ended>>,
    clear: AtomicBool,
    stop_after_clear: bool,
    task: Task,
}

/// The default of CAPACITY.
const MOST_PACKETS: u32 = 1 << 16;

register!(AggregateLast, "aggregate_last.rs");

impl Element for AggregateLast {
    const CLASS: Class = Class::new("AggregateLast", "1/1-2", "h/h");
    type Local = ();

    fn configure(setup: &mut Setup<'_>) -> Result<Self, Failed> {
        let notifier = setup.args.optional_keyword("NOTIFIER");
        let stop_after_clear = setup.args.keyword("STOP_AFTER_CLEAR", false);
        let capacity = capacity_or(&mut setup.args, MOST_PACKETS);
        setup.args.complete()?;
        Ok(Self {
            last: Lock::default(),
            capacity,
            notifier,
            ended: OnceLock::new(),
            clear: false.into(),
            stop_after_clear,
            task: setup.task(),
        })
    }

    fn initialize(&self, init: &mut Init<'_>) -> Result<(), Refused> {
        if let Some(ElementRef(id)) = self.notifier {
            let flows = init.require::<dyn AggregateNotifier>(id)?;
            let _ = self.ended.set(flows.listen(self.task.clone()));
        }
        Ok(())
    }

    fn push(&self, cx: &mut Context, (): &mut (), _port: usize, batch: &mut Batch) {
        self.let_ended_go(cx);
        for packet in batch.drain() {
            match self.keep(packet) {
                Ok(None) => {}
                Ok(Some(earlier)) => cx.push_or_drop(1, earlier, Reason::Filtered),
                Err(packet) => _ = cx.drop(packet, Reason::TableFull),
            }
        }
    }

    fn run_task(&self, cx: &mut Context, (): &mut ()) -> bool {
        self.task.rest();
        self.let_ended_go(cx);
        if self.clear.swap(false, Relaxed) {
            let all = std::mem::take(&mut *self.last.lock());
            all.into_values().for_each(|packet| cx.push(0, packet));
            if self.stop_after_clear {
                cx.router().request_stop();
            }
        }
        true
    }

    fn footprint(&self) -> Footprint {
        // The nodes of the tree are at least half full.
        let nodes = self.capacity.saturating_mul(2 * size_of::<(u32, Packet)>() + 16);
        Footprint::tables(nodes).and(Footprint::packets(self.capacity))
    }

    fn handlers(handlers: &mut Handlers<Self>) {
        handlers.write("clear", |last, _| {
            last.clear.store(true, Relaxed);
            last.task.schedule();
            Ok(())
        });
    }

    fn held(&self) -> usize {
        self.last.lock().len()
    }
}

impl AggregateLast {
    /// Keeps a packet; returns the one that it replaces. The packet comes back if there is no room for it.
    fn keep(&self, mut packet: Packet) -> Result<Option<Packet>, Packet> {
        let mut last = self.last.lock();
        let is_full = last.len() >= self.capacity;
        let first_time = match last.get(&packet.aggregate()) {
            Some(earlier) => {
                let packets = earlier.extra_packets().wrapping_add(packet.extra_packets());
                packet.set_extra_packets(packets.wrapping_add(1));
                let bytes = earlier.extra_length().wrapping_add(packet.extra_length());
                packet.set_extra_length(bytes.wrapping_add(earlier.len() as u32));
                earlier.first_timestamp()
            }
            None if is_full => return Err(packet),
            None if packet.first_timestamp() == Timestamp::ZERO => packet.timestamp(),
            None => packet.first_timestamp(),
        };
        packet.set_first_timestamp(first_time);
        Ok(last.insert(packet.aggregate(), packet))
    }

    fn let_ended_go(&self, cx: &mut Context) {
        let Some(ended) = self.ended.get() else { return };
        for aggregate in ended.take() {
            let packet = self.last.lock().remove(&aggregate);
            if let Some(packet) = packet {
                cx.push(0, packet);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use millrace_core::testing::Rig;
    use millrace_core::{Packet, Reason};

    #[test]
    fn a_full_table_keeps_the_last_packets_of_the_aggregates_that_it_knows() {
        let mut rig = Rig::new("AggregateLast(CAPACITY 2)", 1, 2).unwrap();
        let packets = [1, 2, 3, 1].map(|aggregate| {
            let mut packet = Packet::with_len(60).unwrap();
            packet.set_aggregate(aggregate);
            packet
        });
        let out = rig.push_packets(0, packets.into());
        // The earlier one of aggregate 1; the one of aggregate 3 is dropped.
        assert_eq!(out.iter().map(Vec::len).collect::<Vec<_>>(), [0, 1]);
        assert_eq!(out[1][0].aggregate(), 1);
        assert_eq!(rig.stats().drops, [(Reason::TableFull, 1)]);
    }
}
