//! The machine that the threads run on: cores, NUMA nodes, and which node a device is attached to.
//!
//! Everything is read from sysfs, below a root that may be another directory: with a copy of another
//! machine's `/sys` you can plan a router for that machine, and tests plan for made-up machines.
//!
//! | what | file (Documentation/ABI/stable/sysfs-devices-{node,system-cpu}) |
//! |---|---|
//! | nodes and their processors | `devices/system/node/online`, `node<N>/cpulist` |
//! | processors | `devices/system/cpu/online` |
//! | hardware threads of one core | `devices/system/cpu/cpu<N>/topology/thread_siblings_list` |
//! | node of a network interface | `class/net/<NAME>/device/numa_node` |
//! | node of a PCI device | `bus/pci/devices/<ADDRESS>/numa_node` |

use std::path::{Path, PathBuf};
use std::sync::OnceLock;

/// A machine's processors by node.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    root: PathBuf,
    /// In the order of their numbers.
    cores: Vec<Core>,
}

/// A logical processor: what the kernel schedules a thread on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Core {
    /// Its number.
    pub number: usize,
    /// Its NUMA node.
    pub node: usize,
    /// Which hardware thread of its physical core it is; 0 is the first one. Two hardware threads
    /// share execution units and caches, so the later ones are used last.
    pub sibling: usize,
}

impl Topology {
    /// This machine's, read once.
    pub fn machine() -> &'static Self {
        static MACHINE: OnceLock<Topology> = OnceLock::new();
        MACHINE.get_or_init(|| Self::read(Path::new("/sys")))
    }

    /// Reads the directory `root`, which is laid out like `/sys`. Missing files have defaults: without nodes
    /// there is one node, and without processors there are as many as the system reports.
    pub fn read(root: &Path) -> Self {
        let cpus = root.join("devices/system/cpu");
        let mut numbers = list(&cpus.join("online"));
        if numbers.is_empty() {
            numbers = (0..std::thread::available_parallelism().map_or(1, usize::from)).collect();
        }
        let nodes = root.join("devices/system/node");
        let by_node: Vec<(usize, Vec<usize>)> = list(&nodes.join("online"))
            .into_iter()
            .map(|node| (node, list(&nodes.join(format!("node{node}/cpulist")))))
            .collect();
        let node_of = |number: &usize| {
            let found = by_node.iter().find(|(_, cores)| cores.contains(number));
            found.map_or(0, |(node, _)| *node)
        };
        let cores = numbers.iter().map(|number| {
            let siblings = cpus.join(format!("cpu{number}/topology/thread_siblings_list"));
            let sibling = list(&siblings).iter().position(|other| other == number).unwrap_or(0);
            Core { number: *number, node: node_of(number), sibling }
        });
        Self { cores: cores.collect(), root: root.to_owned() }
    }

    /// The same machine with only these processors, for example those that the process may run on.
    #[must_use]
    pub fn only(mut self, usable: &[usize]) -> Self {
        self.cores.retain(|core| usable.contains(&core.number));
        self
    }

    /// The processors, in the order of their numbers.
    pub fn cores(&self) -> &[Core] {
        &self.cores
    }

    /// The nodes that have processors, in order; at least one.
    pub fn nodes(&self) -> Vec<usize> {
        let mut nodes: Vec<usize> = self.cores.iter().map(|core| core.node).collect();
        nodes.sort_unstable();
        nodes.dedup();
        if nodes.is_empty() { vec![0] } else { nodes }
    }

    /// The node of a processor; `None` when there is no such processor.
    pub fn node_of(&self, number: usize) -> Option<usize> {
        self.cores.iter().find(|core| core.number == number).map(|core| core.node)
    }

    /// The processors of a node in the order in which to use them: one hardware thread of every
    /// physical core before the second one of any.
    pub fn cores_of(&self, node: usize) -> Vec<usize> {
        let mut own: Vec<&Core> = self.cores.iter().filter(|core| core.node == node).collect();
        own.sort_by_key(|core| (core.sibling, core.number));
        own.iter().map(|core| core.number).collect()
    }

    /// The node that a network interface or a PCI device (`0000:3b:00.0`, or without the domain) is attached
    /// to; `None` for a device without a node, or one that does not exist.
    pub fn node_of_device(&self, device: &str) -> Option<usize> {
        // A name is one component of a path.
        if device.is_empty() || device.starts_with('.') || device.contains('/') {
            return None;
        }
        let pci = self.root.join("bus/pci/devices");
        let files = [
            self.root.join("class/net").join(device).join("device/numa_node"),
            pci.join(device).join("numa_node"),
            pci.join(format!("0000:{device}")).join("numa_node"),
        ];
        // -1 stands for none, and is no number of a node.
        files.iter().find_map(|file| std::fs::read_to_string(file).ok()?.trim().parse().ok())
    }
}

/// The numbers in a file with the kernel's list format; none when it cannot be read.
fn list(path: &Path) -> Vec<usize> {
    std::fs::read_to_string(path).map(|text| parse_list(&text)).unwrap_or_default()
}

/// Reads the kernel's list format, `0-3,8,10-11`. Skips words that are not numbers.
pub fn parse_list(text: &str) -> Vec<usize> {
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

/// Made-up machines, as directories laid out like `/sys`.
#[cfg(test)]
pub(crate) mod fake {
    #![allow(clippy::unwrap_used, reason = "helpers of tests")]

    use std::fs;
    use std::path::{Path, PathBuf};
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::Topology;

    /// A machine whose directory is removed when it is dropped.
    pub(crate) struct Machine {
        root: PathBuf,
    }

    impl Machine {
        /// A machine with these processors on each node, and network interfaces on nodes (-1: on none).
        pub(crate) fn new(nodes: &[&str], devices: &[(&str, i32)]) -> Self {
            static MADE: AtomicUsize = AtomicUsize::new(0);
            let name =
                format!("sys-{}-{}", std::process::id(), MADE.fetch_add(1, Ordering::SeqCst));
            let machine = Self { root: std::env::temp_dir().join(name) };
            machine.write("devices/system/node/online", &format!("0-{}", nodes.len() - 1));
            machine.write("devices/system/cpu/online", &nodes.join(","));
            for (node, cores) in nodes.iter().enumerate() {
                machine.write(&format!("devices/system/node/node{node}/cpulist"), cores);
            }
            for (device, node) in devices {
                let file = format!("class/net/{device}/device/numa_node");
                machine.write(&file, &format!("{node}\n"));
            }
            machine
        }

        /// Declares that these processors are the hardware threads of one core.
        pub(crate) fn siblings(self, groups: &[&[usize]]) -> Self {
            for group in groups {
                let list: Vec<String> = group.iter().map(usize::to_string).collect();
                for core in *group {
                    let file =
                        format!("devices/system/cpu/cpu{core}/topology/thread_siblings_list");
                    self.write(&file, &list.join(","));
                }
            }
            self
        }

        pub(crate) fn topology(&self) -> Topology {
            Topology::read(&self.root)
        }

        pub(crate) fn write(&self, file: &str, text: &str) {
            let path: &Path = &self.root.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
    }

    impl Drop for Machine {
        fn drop(&mut self) {
            // Best effort, in a directory for such things.
            let _ = fs::remove_dir_all(&self.root);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::fake::Machine;
    use super::*;

    #[test]
    fn lists_of_the_kernel_are_read() {
        assert_eq!(parse_list("0\n"), [0]);
        assert_eq!(parse_list("0-3,8,10-11\n"), [0, 1, 2, 3, 8, 10, 11]);
        assert_eq!(parse_list(""), [0usize; 0]);
        assert_eq!(parse_list("x,2-,5"), [5]);
    }

    #[test]
    fn two_nodes_of_two_cores_with_two_threads() {
        let machine = Machine::new(&["0-1,4-5", "2-3,6-7"], &[("eth0", 0), ("eth1", 1)])
            .siblings(&[&[0, 4], &[1, 5], &[2, 6], &[3, 7]]);
        machine.write("bus/pci/devices/0000:3b:00.0/numa_node", "1\n");
        machine.write("class/net/veth0/device/numa_node", "-1\n");
        let topology = machine.topology();
        assert_eq!(topology.nodes(), [0, 1]);
        assert_eq!(topology.cores().len(), 8);
        // Whole cores first.
        assert_eq!(topology.cores_of(0), [0, 1, 4, 5]);
        assert_eq!(topology.cores_of(1), [2, 3, 6, 7]);
        assert_eq!(topology.cores_of(2), [0usize; 0]);
        for (device, node) in [
            ("eth0", Some(0)),
            ("eth1", Some(1)),
            ("0000:3b:00.0", Some(1)),
            ("3b:00.0", Some(1)),
            ("veth0", None),
            ("none", None),
            ("../eth0", None),
            ("", None),
        ] {
            assert_eq!(topology.node_of_device(device), node, "{device}");
        }
        let few = topology.only(&[3, 7, 99]);
        assert_eq!((few.nodes(), few.cores_of(1)), (vec![1], vec![3, 7]));
        assert_eq!((few.node_of(7), few.node_of(0)), (Some(1), None));
    }

    #[test]
    fn a_machine_that_tells_nothing_has_one_node() {
        let topology = Topology::read(Path::new("/no/such/sys"));
        assert_eq!(topology.nodes(), [0]);
        assert!(!topology.cores().is_empty());
    }

    #[test]
    fn this_machine_has_processors() {
        assert!(!Topology::machine().cores().is_empty());
    }
}
