//! Where each thread runs: its core and its NUMA node.
//!
//! Threads are placed on the nodes of the devices that they receive from. A thread that is not pinned still
//! has a node: it may run on all cores of that node, and allocates its packets from the node's arena.

use crate::topology::Topology;

/// Which cores threads are pinned to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) enum Pinning {
    /// To no core: the kernel moves them among the cores of their node.
    #[default]
    Free,
    /// To one core each, near the devices that they receive from.
    Planned,
    /// To these, in order. If there are fewer cores than threads, they repeat.
    Cores(Vec<usize>),
}

/// Where a thread runs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Seat {
    /// The core that it is pinned to.
    pub core: Option<usize>,
    /// The NUMA node of its cores and of its packets.
    pub node: usize,
    /// The cores that it may run on; empty for any.
    pub cores: Vec<usize>,
}

/// What the devices on one node could use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Demand {
    pub(super) node: usize,
    /// How many elements receive there.
    pub(super) receivers: usize,
    /// The maximum number of threads that they could use together; `None` for any number.
    pub(super) most: Option<usize>,
}

/// Seats for `threads` threads.
pub(super) fn seats(
    threads: usize,
    pinning: &Pinning,
    topology: &Topology,
    demands: &[Demand],
) -> Vec<Seat> {
    if let Pinning::Cores(cores) = pinning
        && !cores.is_empty()
    {
        let on = |&core: &usize| {
            let node = topology.node_of(core).unwrap_or(0);
            Seat { core: Some(core), node, cores: vec![core] }
        };
        return cores.iter().cycle().take(threads).map(on).collect();
    }
    let counts = divide(threads, topology, demands);
    let several = topology.nodes().len() > 1;
    let on_node = |(node, count): (usize, usize)| {
        let cores = topology.cores_of(node);
        (0..count).map(move |n| match pinning {
            Pinning::Free if several => Seat { core: None, node, cores: cores.clone() },
            Pinning::Free => Seat { core: None, node, cores: Vec::new() },
            _ => {
                let core = cores.get(n % cores.len().max(1)).copied();
                Seat { core, node, cores: core.into_iter().collect() }
            }
        })
    };
    counts.into_iter().flat_map(on_node).collect()
}

/// How many threads each node gets. Threads are assigned one after the other, each to the node whose
/// receivers have the fewest, as long as they can use them and it has cores for them.
fn divide(threads: usize, topology: &Topology, demands: &[Demand]) -> Vec<(usize, usize)> {
    let mut counts: Vec<(usize, usize)> =
        topology.nodes().into_iter().map(|node| (node, 0)).collect();
    let demand = |node: usize| demands.iter().find(|demand| demand.node == node);
    for _ in 0..threads {
        let useful = |&&mut (node, count): &&mut (usize, usize)| {
            let most = demand(node).map_or(Some(0), |demand| demand.most);
            count < topology.cores_of(node).len() && most.is_none_or(|most| count < most)
        };
        let crowd = |&(node, count): &(usize, usize)| {
            // Threads a receiver, in units that need no fractions.
            const UNIT: usize = 5040;
            count * UNIT / demand(node).map_or(1, |demand| demand.receivers.max(1))
        };
        if let Some((_, count)) = counts.iter_mut().filter(useful).min_by_key(|entry| crowd(entry))
        {
            *count += 1;
            continue;
        }
        // What no receiver can use stays together, near the others, where a core is free.
        let has_core =
            |&&mut (node, count): &&mut (usize, usize)| count < topology.cores_of(node).len();
        let roomy = counts
            .iter_mut()
            .filter(has_core)
            .max_by_key(|&&mut (node, count)| (count > 0, std::cmp::Reverse(node)));
        match roomy {
            Some((_, count)) => *count += 1,
            // More threads than cores.
            None => {
                if let Some((_, count)) = counts.iter_mut().min_by_key(|(_, count)| *count) {
                    *count += 1;
                }
            }
        }
    }
    counts
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology::fake::Machine;

    fn demand(node: usize, receivers: usize, most: Option<usize>) -> Demand {
        Demand { node, receivers, most }
    }

    fn places(
        threads: usize,
        pinning: &Pinning,
        demands: &[Demand],
    ) -> Vec<(usize, Option<usize>)> {
        let machine =
            Machine::new(&["0-3", "4-7"], &[]).siblings(&[&[0, 2], &[1, 3], &[4, 6], &[5, 7]]);
        let seats = seats(threads, pinning, &machine.topology(), demands);
        seats.iter().map(|seat| (seat.node, seat.core)).collect()
    }

    #[test]
    fn threads_sit_near_their_devices() {
        for (threads, demands, nodes) in [
            (1, vec![demand(1, 1, None)], vec![1]),
            (4, vec![demand(1, 1, None)], vec![1, 1, 1, 1]),
            (4, vec![demand(0, 1, None), demand(1, 1, None)], vec![0, 0, 1, 1]),
            (4, vec![demand(0, 3, None), demand(1, 1, None)], vec![0, 0, 0, 1]),
            // A device that can use one thread leaves the others to the other one.
            (4, vec![demand(0, 1, Some(1)), demand(1, 1, None)], vec![0, 1, 1, 1]),
            // More than the node has cores: the other node helps out.
            (6, vec![demand(1, 2, None)], vec![0, 0, 1, 1, 1, 1]),
            // No device on any node: together.
            (3, vec![], vec![0, 0, 0]),
            (5, vec![], vec![0, 0, 0, 0, 1]),
            // More than there are cores.
            (10, vec![], vec![0, 0, 0, 0, 0, 1, 1, 1, 1, 1]),
        ] {
            let got = places(threads, &Pinning::Free, &demands);
            let expected: Vec<_> = nodes.iter().map(|&node| (node, None)).collect();
            assert_eq!(got, expected, "{threads} {demands:?}");
        }
    }

    #[test]
    fn whole_cores_come_first() {
        let demands = [demand(1, 1, None)];
        let got = places(3, &Pinning::Planned, &demands);
        assert_eq!(got, [(1, Some(4)), (1, Some(5)), (1, Some(6))]);
    }

    #[test]
    fn named_cores_are_taken_as_they_are() {
        let pinning = Pinning::Cores(vec![5, 0]);
        let got = places(3, &pinning, &[demand(0, 1, None)]);
        assert_eq!(got, [(1, Some(5)), (0, Some(0)), (1, Some(5))]);
    }

    #[test]
    fn a_free_thread_may_run_on_all_cores_of_its_node() {
        let machine = Machine::new(&["0-1", "2-3"], &[]);
        let found = seats(1, &Pinning::Free, &machine.topology(), &[demand(1, 1, None)]);
        assert_eq!(found, [Seat { core: None, node: 1, cores: vec![2, 3] }]);
        let one = Machine::new(&["0-1"], &[]);
        let found = seats(1, &Pinning::Free, &one.topology(), &[]);
        assert_eq!(found, [Seat::default()]);
    }
}
