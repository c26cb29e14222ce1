//! NUMA support for packet memory.

use std::ptr::NonNull;
use std::sync::OnceLock;

use crate::topology::Topology;

/// The number of nodes, up to the highest number; at least 1.
pub(super) fn nodes() -> usize {
    let highest = Topology::machine().nodes().into_iter().max();
    highest.map_or(1, |highest| highest + 1).min(MAX_NODES)
}

/// The node of the processor that this thread runs on now; 0 if it cannot be determined.
pub(super) fn current_node() -> usize {
    static NODE_OF_CPU: OnceLock<Vec<usize>> = OnceLock::new();
    let map = NODE_OF_CPU.get_or_init(node_of_cpu);
    if map.is_empty() {
        return 0;
    }
    map.get(current_cpu()).copied().unwrap_or(0)
}

/// As many nodes as fit in one word of `mbind`'s mask.
pub(super) const MAX_NODES: usize = 64;

#[cfg(not(miri))]
fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

#[cfg(miri)]
fn current_cpu() -> usize {
    0
}

/// Node by processor number; empty if there is only one node.
fn node_of_cpu() -> Vec<usize> {
    let machine = Topology::machine();
    let highest = machine.cores().iter().map(|core| core.number).max();
    match highest {
        Some(highest) if nodes() > 1 => {
            (0..=highest).map(|cpu| machine.node_of(cpu).unwrap_or(0)).collect()
        }
        _ => Vec::new(),
    }
}

/// Requests that pages of this memory come from a node. If the request is refused, the memory is only slower.
pub(super) fn prefer(base: NonNull<u8>, len: usize, node: usize) {
    #[cfg(not(miri))]
    {
        const MPOL_PREFERRED: libc::c_int = 1;
        let mask: libc::c_ulong = if node < MAX_NODES { 1 << node } else { return };
        // SAFETY: mbind changes the placement of pages not yet touched, in a mapping of our own.
        unsafe {
            libc::syscall(
                libc::SYS_mbind,
                base.as_ptr(),
                len,
                MPOL_PREFERRED,
                &raw const mask,
                MAX_NODES + 1,
                0,
            );
        }
    }
    #[cfg(miri)]
    let _ = (base, len, node);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_thread_runs_on_a_node_that_exists() {
        assert!(current_node() < nodes());
    }
}
