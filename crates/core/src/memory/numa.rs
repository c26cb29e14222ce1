//! The little that packet memory needs to know about NUMA, read from `/sys/devices/system/node`.

use std::ptr::NonNull;
use std::sync::OnceLock;

const NODES: &str = "/sys/devices/system/node";

/// How many nodes there are, counted to the highest number that is online; at least 1.
pub(super) fn nodes() -> usize {
    let online = std::fs::read_to_string(format!("{NODES}/online")).unwrap_or_default();
    parse_list(&online).into_iter().max().map_or(1, |highest| highest + 1).min(MAX_NODES)
}

/// The node of the processor that this thread runs on now; 0 when that cannot be told.
pub(super) fn current_node() -> usize {
    static NODE_OF_CPU: OnceLock<Vec<usize>> = OnceLock::new();
    let map = NODE_OF_CPU.get_or_init(read_node_of_cpu);
    if map.is_empty() {
        return 0;
    }
    map.get(current_cpu()).copied().unwrap_or(0)
}

/// As many nodes as one word of `mbind`'s mask holds.
pub(super) const MAX_NODES: usize = 64;

#[cfg(not(miri))]
fn current_cpu() -> usize {
    rustix::thread::sched_getcpu()
}

#[cfg(miri)]
fn current_cpu() -> usize {
    0
}

/// Node by processor number; empty where there is one node only.
fn read_node_of_cpu() -> Vec<usize> {
    let count = nodes();
    let mut map = Vec::new();
    if count < 2 {
        return map;
    }
    for node in 0..count {
        let list = std::fs::read_to_string(format!("{NODES}/node{node}/cpulist"));
        for cpu in parse_list(&list.unwrap_or_default()) {
            if map.len() <= cpu {
                map.resize(cpu + 1, 0);
            }
            if let Some(entry) = map.get_mut(cpu) {
                *entry = node;
            }
        }
    }
    map
}

/// Reads the kernel's list format, `0-3,8,10-11`. What is not a number is passed over.
fn parse_list(text: &str) -> Vec<usize> {
    const HIGHEST: usize = 1 << 16;
    let mut all = Vec::new();
    for part in text.trim().split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        if let (Ok(first), Ok(last)) = (first.parse::<usize>(), last.parse::<usize>()) {
            all.extend(first..=last.min(HIGHEST));
        }
    }
    all
}

/// Asks that pages of this memory come from a node. A wish: when it is refused, memory is just slower.
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
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse_list("0\n"), [0]);
        assert_eq!(parse_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_list(""), [0usize; 0]);
        assert_eq!(parse_list("x,2-,5"), [5]);
    }

    #[test]
    fn this_thread_runs_on_a_node_that_exists() {
        assert!(current_node() < nodes());
    }
}
