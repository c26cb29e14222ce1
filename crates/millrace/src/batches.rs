//! What keeps the batches of a router small.

use millrace_core::Router;
use millrace_core::element::PortKind;

/// A sentence for each element that breaks batches, in the order of the elements.
pub(crate) fn remarks(router: &Router) -> Vec<String> {
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
    }
    remarks
}

/// How many packets an element sends or pulls at a time, if it says so.
fn burst(router: &Router, id: usize) -> Option<u64> {
    let text = router.read_of(id, "burst", b"").ok()?;
    std::str::from_utf8(&text).ok()?.trim().parse().ok()
}
