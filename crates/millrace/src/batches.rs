//! What keeps the batches of a router small.

use std::collections::HashSet;

use millrace_core::Router;
use millrace_core::element::PortKind;

/// A sentence for each element that breaks batches, in the order of the elements.
pub(crate) fn remarks(router: &Router) -> Vec<String> {
    let per_packet: Vec<bool> = router.elements().map(|element| element.class.per_packet).collect();
    let is_batch = |id: usize| per_packet.get(id) == Some(&false);
    let links = router.connections();
    let above: HashSet<usize> =
        links.iter().filter(|(from, _)| is_batch(from.0)).map(|(_, to)| to.0).collect();
    let below: HashSet<usize> =
        links.iter().filter(|(_, to)| is_batch(to.0)).map(|(from, _)| from.0).collect();
    let mut remarks = Vec::new();
    for (id, element) in router.elements().enumerate() {
        let name = format!("{} ({} :: {})", element.landmark, element.name, element.class.name);
        if element.class.breaks_batches {
            remarks.push(format!("{name} hands packets on one at a time"));
        }
        let sends = element.outputs.contains(&PortKind::Push);
        let starts = sends && !element.inputs.contains(&PortKind::Push);
        if starts && burst(router, id) == Some(1) {
            remarks.push(format!(
                "{name} sends bursts of 1, so what is below gets batches of 1; say BURST 32, \
                 for example"
            ));
        }
        if !is_batch(id) && above.contains(&id) && below.contains(&id) {
            remarks.push(format!(
                "{name} treats packets one by one between elements that treat batches"
            ));
        }
    }
    remarks
}

/// How many packets an element sends or pulls at a time, if it says so.
fn burst(router: &Router, id: usize) -> Option<u64> {
    let text = router.read_of(id, "burst", b"").ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}
