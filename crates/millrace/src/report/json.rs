//! The summary as JSON.

use millrace_core::Router;
use serde_json::{Map, Value, json as value};

use super::Figures;
use super::figures::{cycles_per_packet, mean_batch, packets_in, packets_out};

/// The contents of the [`summary`](super::summary()), for programs. Names and units are stable: packets, bytes,
/// cycles, seconds.
pub(crate) fn json(router: &Router, figures: &Figures) -> Map<String, Value> {
    let totals = figures.totals();
    let elements: Vec<Value> = router
        .elements()
        .zip(&figures.elements)
        .zip(&figures.bytes)
        .map(|((element, stats), bytes)| {
            let drops = stats.drops.iter().map(|(why, n)| (why.name().to_owned(), value!(n)));
            value!({
                "name": element.name,
                "class": element.class.name,
                "in": packets_in(stats),
                "out": packets_out(stats),
                "received": stats.received,
                "created": stats.created,
                "sent": stats.sent,
                "consumed": stats.consumed,
                "bytes": bytes,
                "batches": stats.batches,
                "mean_batch": mean_batch(stats),
                "cycles": stats.cycles,
                "cycles_per_packet": cycles_per_packet(stats),
                "held": stats.held,
                "dropped": stats.dropped(),
                "drops": drops.collect::<Map<_, _>>(),
                "balanced": stats.balanced(),
            })
        })
        .collect();
    let devices: Vec<Value> = figures
        .devices
        .iter()
        .map(|device| {
            value!({
                "device": device.device,
                "direction": device.direction,
                "backend": device.backend,
                "zero_copy": device.zero_copy,
                "queues": device.queues,
                "packets": device.packets,
                "bytes": device.bytes,
                "batches": device.batches,
                "lost": device.lost,
                "segmented": device.segmented,
            })
        })
        .collect();
    let copies = figures.copies.iter().map(|(cause, n)| (cause.name().to_owned(), value!(n)));
    let balanced = totals.balanced() && figures.elements.iter().all(|stats| stats.balanced());
    let fields = [
        ("seconds", value!(figures.elapsed.as_secs_f64())),
        ("threads", value!(router.plan().threads)),
        ("virtual_seconds", value!(figures.virtual_time.map(|time| time.as_secs_f64()))),
        ("elements", value!(elements)),
        ("devices", value!(devices)),
        ("copies", value!(copies.collect::<Map<_, _>>())),
        ("idle_cycles", value!(router.idle_cycles())),
        (
            "totals",
            value!({
                "in": totals.entered,
                "out": totals.left,
                "dropped": totals.dropped,
                "held": totals.held,
                "balanced": balanced,
            }),
        ),
    ];
    fields.into_iter().map(|(name, value)| (name.to_owned(), value)).collect()
}
