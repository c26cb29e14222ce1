//! What a router will take of memory, told before it starts, next to what the machine has.

use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

use millrace_core::footprint::{Forecast, Growth};
use millrace_core::memory::Arena;
use millrace_core::run::Configured;
use serde_json::{Value, json};

/// A forecast with the names of the elements, and the machine's memory.
pub(crate) struct Outlook {
    forecast: Forecast,
    /// The elements' names and classes, in the order of the forecast's.
    names: Vec<(String, &'static str)>,
    /// What the program has taken so far, in bytes.
    now: u64,
    /// Whether the user chose the size of the packet memory.
    is_chosen: bool,
    machine: Memory,
}

/// A machine's memory, or the part of it that this process may use, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Memory {
    /// All of it, with swap space.
    pub(crate) limit: u64,
    /// What is free, or can be freed.
    pub(crate) available: u64,
}

/// How a forecast compares with the machine's memory.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Verdict {
    Fits,
    /// It may take more than there is; a sentence.
    Tight(String),
    /// It takes more than there can be; a sentence.
    Impossible(String),
}

impl Outlook {
    /// The outlook of a router on this machine.
    pub(crate) fn of(router: &Configured) -> Self {
        let forecast = router.forecast();
        let named = |&(id, _): &(usize, _)| (router.name_of(id).to_owned(), router.class_of(id));
        let names = forecast.elements.iter().map(named).collect();
        let machine = Memory::of_machine(Path::new("/"));
        Self { forecast, names, now: resident(), is_chosen: Arena::is_chosen(), machine }
    }

    /// One line: the sum and its parts.
    pub(crate) fn line(&self) -> String {
        let forecast = &self.forecast;
        let packets = sum(&forecast.arena);
        let mut parts = vec![
            format!("the program {}", size(self.now)),
            format!("packets {}{}", size(packets), count(forecast.arena.len(), "node")),
            format!(
                "threads {}{}",
                size(sum(&forecast.threads)),
                count(forecast.threads.len(), "thread")
            ),
        ];
        if forecast.at_start() > 0 {
            parts.push(format!("rings and tables at the start {}", size(forecast.at_start())));
        }
        if forecast.growth() > 0 {
            let most = self.largest().map(|(name, bytes)| format!("{name} {}", size(bytes)));
            let most: Vec<String> = most.take(3).collect();
            parts.push(format!("full tables {} ({})", size(forecast.growth()), most.join(", ")));
        }
        let mut line = format!("memory: at most {}: {}", size(self.most()), parts.join(", "));
        for (name, what) in self.unlimited() {
            // Writing to a string cannot fail.
            let _ = write!(line, "; without a limit: {name}, by {what}");
        }
        line
    }

    /// The same in numbers of bytes.
    pub(crate) fn json(&self) -> Value {
        let forecast = &self.forecast;
        let elements = forecast.elements.iter().zip(&self.names);
        let elements: Vec<Value> = elements
            .map(|((_, footprint), (name, class))| {
                let (most, by) = match footprint.growth {
                    Growth::Limited(bytes) => (Some(bytes), None),
                    Growth::Unlimited(what) => (None, Some(what)),
                };
                json!({
                    "name": name,
                    "class": class,
                    "at_start": footprint.at_start,
                    "tables": most,
                    "unlimited_by": by,
                    "packets": footprint.packets,
                })
            })
            .collect();
        json!({
            "now": self.now,
            "packet_memory": forecast.arena,
            "buffers": forecast.buffers,
            "threads": forecast.threads,
            "elements": elements,
            "most": self.unlimited().next().is_none().then_some(self.most()),
            "machine": { "limit": self.machine.limit, "available": self.machine.available },
        })
    }

    /// Whether the machine has the memory.
    pub(crate) fn verdict(&self) -> Verdict {
        let forecast = &self.forecast;
        let Memory { limit, available } = self.machine;
        let arena = sum(&forecast.arena);
        // What nobody asked for is taken only as packets need it.
        let asked = if self.is_chosen { arena } else { 0 };
        let needed = forecast.at_start().saturating_add(asked);
        if needed > limit {
            let advice = match self.is_chosen && forecast.at_start() <= limit {
                true => "choose a smaller number of --buffers",
                false => "choose smaller rings and tables",
            };
            return Verdict::Impossible(format!(
                "packet memory, rings and tables need {}, and there is {} of memory: {advice}",
                size(needed),
                size(limit)
            ));
        }
        let more = forecast.most();
        if more > available {
            return Verdict::Tight(format!(
                "it may take {} more, and {} of memory is available: when there is none left, the kernel ends the program",
                size(more),
                size(available)
            ));
        }
        Verdict::Fits
    }

    /// A sentence when the elements can hold more packets than there are buffers.
    pub(crate) fn starvation(&self) -> Option<String> {
        let (held, buffers) = (self.forecast.packets(), self.forecast.buffers);
        (held > buffers).then(|| {
            format!(
                "queues and tables can hold {held} packets, and there are {buffers} buffers: when they hold all, none can \
                 be received (--buffers)"
            )
        })
    }

    fn most(&self) -> u64 {
        self.now.saturating_add(self.forecast.most())
    }

    /// The elements whose tables grow, the largest first.
    fn largest(&self) -> impl Iterator<Item = (&str, u64)> {
        let elements = self.forecast.elements.iter().zip(&self.names);
        let mut growing: Vec<(&str, u64)> = elements
            .filter_map(|((_, footprint), (name, _))| match footprint.growth {
                Growth::Limited(bytes) if bytes > 0 => Some((name.as_str(), bytes)),
                _ => None,
            })
            .collect();
        growing.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
        growing.into_iter()
    }

    /// The elements that nothing limits, each with what it has an entry for.
    fn unlimited(&self) -> impl Iterator<Item = (String, &'static str)> {
        let elements = self.forecast.elements.iter().zip(&self.names);
        elements.filter_map(|((_, footprint), (name, class))| match footprint.growth {
            Growth::Unlimited(what) => Some((format!("{name} ({class})"), what)),
            Growth::Limited(_) => None,
        })
    }
}

impl Memory {
    /// That of the machine whose `/proc` and `/sys` are below `root`, or what the process's control group leaves of it.
    /// What cannot be read does not limit.
    pub(crate) fn of_machine(root: &Path) -> Self {
        let text = fs::read_to_string(root.join("proc/meminfo")).unwrap_or_default();
        let field = |name: &str| {
            let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
            let kib: u64 = line?.trim().strip_suffix(" kB")?.parse().ok()?;
            Some(kib << 10)
        };
        let swap = |name| field(name).unwrap_or(0);
        let machine = Self {
            limit: field("MemTotal").map_or(u64::MAX, |total| total + swap("SwapTotal")),
            available: field("MemAvailable").map_or(u64::MAX, |free| free + swap("SwapFree")),
        };
        groups(root).iter().fold(machine, |memory, group| memory.within(group))
    }

    /// At most what a control group has left.
    fn within(self, group: &Path) -> Self {
        let read = |name: &str| -> Option<u64> {
            fs::read_to_string(group.join(name)).ok()?.trim().parse().ok()
        };
        let counts = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
        let count = |name: &str| -> Option<u64> {
            let words = counts.lines().map(str::split_ascii_whitespace);
            words
                .filter_map(|mut words| Some((words.next()?, words.next()?)))
                .find_map(|(word, bytes)| (word == name).then(|| bytes.parse().ok())?)
        };
        // Version 2, then version 1. `max` is no number, and no limit. Beyond `memory.high` the kernel does not end the
        // program, but slows it down until it stands.
        let limit = [read("memory.max"), read("memory.high"), read("memory.limit_in_bytes")];
        let Some(limit) = limit.into_iter().flatten().min() else { return self };
        let used = read("memory.current").or_else(|| read("memory.usage_in_bytes")).unwrap_or(0);
        // What files have left in the page cache goes when memory is needed.
        let cached = count("total_inactive_file").or_else(|| count("inactive_file")).unwrap_or(0);
        let left = limit.saturating_sub(used.saturating_sub(cached));
        Self { limit: self.limit.min(limit), available: self.available.min(left) }
    }
}

/// The directories of the process's control groups for memory, and of those above them.
fn groups(root: &Path) -> Vec<PathBuf> {
    let text = fs::read_to_string(root.join("proc/self/cgroup")).unwrap_or_default();
    let mounts = text.lines().filter_map(|line| {
        let mut parts = line.splitn(3, ':').skip(1);
        let (controllers, path) = (parts.next()?, parts.next()?);
        let mount = match controllers {
            "" => "sys/fs/cgroup",
            _ if controllers.split(',').any(|name| name == "memory") => "sys/fs/cgroup/memory",
            _ => return None,
        };
        Some((root.join(mount), path.trim_start_matches('/').to_owned()))
    });
    mounts
        .flat_map(|(mount, path)| {
            let own = mount.join(path);
            let above = own.ancestors().take_while(|dir| dir.starts_with(&mount));
            above.map(Path::to_owned).collect::<Vec<_>>()
        })
        .collect()
}

/// What this process has in memory, in bytes; 0 if the system does not say.
fn resident() -> u64 {
    let text = fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages: u64 = text.split(' ').nth(1).and_then(|pages| pages.parse().ok()).unwrap_or(0);
    pages * rustix::param::page_size() as u64
}

fn sum(bytes: &[u64]) -> u64 {
    bytes.iter().copied().fold(0, u64::saturating_add)
}

/// ` on 2 nodes`; nothing for one.
fn count(n: usize, what: &str) -> String {
    match n {
        1 => String::new(),
        n => format!(" for {n} {what}s"),
    }
}

/// A number of bytes, in the unit that suits it.
fn size(bytes: u64) -> String {
    const LARGE: [(u32, &str); 2] = [(40, "TiB"), (30, "GiB")];
    let large = LARGE.into_iter().find(|(shift, _)| bytes >= 10 << shift);
    let (shift, unit) = large.unwrap_or((20, "MiB"));
    format!("{} {unit}", bytes.div_ceil(1 << shift))
}

#[cfg(test)]
mod tests {
    use millrace_core::Footprint;

    use super::*;

    const MIB: u64 = 1 << 20;

    fn outlook(elements: Vec<(usize, Footprint)>, is_chosen: bool) -> Outlook {
        let names = [("nat".to_owned(), "IPRewriter"), ("a".to_owned(), "ARPTable")];
        Outlook {
            names: names.into_iter().take(elements.len()).collect(),
            forecast: Forecast {
                arena: vec![600 * MIB],
                buffers: 100,
                threads: vec![MIB, MIB],
                elements,
            },
            now: 20 * MIB,
            is_chosen,
            machine: Memory { limit: 512 * MIB, available: 400 * MIB },
        }
    }

    #[test]
    fn what_was_asked_for_and_cannot_be_is_refused() {
        let Verdict::Impossible(why) = outlook(Vec::new(), true).verdict() else { panic!() };
        assert_eq!(
            why,
            "packet memory, rings and tables need 600 MiB, and there is 512 MiB of memory: choose a smaller number of \
             --buffers"
        );
        // Nobody asked for it: perhaps few packets come.
        let Verdict::Tight(why) = outlook(Vec::new(), false).verdict() else { panic!() };
        assert!(
            why.starts_with("it may take 602 MiB more, and 400 MiB of memory is available"),
            "{why}"
        );
        let mut large = outlook(Vec::new(), true);
        large.machine = Memory { limit: u64::MAX, available: u64::MAX };
        assert_eq!(large.verdict(), Verdict::Fits);
        let rings = Footprint::at_start(513 << 20);
        let Verdict::Impossible(why) = outlook(vec![(0, rings)], false).verdict() else { panic!() };
        assert!(why.ends_with("choose smaller rings and tables"), "{why}");
    }

    #[test]
    fn the_line_names_what_grows_most_and_what_has_no_limit() {
        let nat = Footprint::tables(200 << 20).and(Footprint::packets(101));
        let both = outlook(vec![(0, nat), (4, Footprint::unlimited("address"))], false);
        assert_eq!(
            both.line(),
            "memory: at most 822 MiB: the program 20 MiB, packets 600 MiB, threads 2 MiB for 2 threads, full tables \
             200 MiB (nat 200 MiB); without a limit: a (ARPTable), by address"
        );
        assert!(both.json()["most"].is_null());
        assert_eq!(both.json()["elements"][1]["unlimited_by"], "address");
        assert!(both.starvation().is_some_and(|said| said.contains("hold 101 packets")));
        assert_eq!(outlook(Vec::new(), false).starvation(), None);
    }

    #[test]
    fn control_groups_limit_the_machine() {
        let root = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = root.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let memory = || Memory::of_machine(root.path());
        assert_eq!(memory(), Memory { limit: u64::MAX, available: u64::MAX });
        let meminfo = "MemTotal:  2097152 kB\nMemAvailable: 1048576 kB\nSwapTotal: 1024 kB\nSwapFree: 1024 kB\n";
        write("proc/meminfo", meminfo);
        let machine = Memory { limit: 2049 * MIB, available: 1025 * MIB };
        assert_eq!(memory(), machine);
        write("proc/self/cgroup", "5:cpu:/x\n0::/outer/inner\n");
        write("sys/fs/cgroup/outer/inner/memory.max", "max\n");
        assert_eq!(memory(), machine);
        write("sys/fs/cgroup/outer/memory.max", "536870912\n");
        write("sys/fs/cgroup/outer/memory.current", "104857600\n");
        assert_eq!(memory(), Memory { limit: 512 * MIB, available: 412 * MIB });
        // The cache of files, of those that are not in use, is no use of memory.
        let counts = "anon 4096\nfile 94371840\nactive_file 10485760\ninactive_file 83886080\n";
        write("sys/fs/cgroup/outer/memory.stat", counts);
        assert_eq!(memory(), Memory { limit: 512 * MIB, available: 492 * MIB });
        // The count may be older than the statement of use.
        write("sys/fs/cgroup/outer/memory.current", "1048576\n");
        assert_eq!(memory(), Memory { limit: 512 * MIB, available: 512 * MIB });
        // Of two limits the lower one holds, in whatever group.
        write("sys/fs/cgroup/outer/memory.high", "max\n");
        write("sys/fs/cgroup/outer/inner/memory.high", "314572800\n");
        write("sys/fs/cgroup/outer/inner/memory.current", "104857600\n");
        assert_eq!(memory(), Memory { limit: 300 * MIB, available: 200 * MIB });
        write("sys/fs/cgroup/outer/inner/memory.max", "209715200\n");
        assert_eq!(memory(), Memory { limit: 200 * MIB, available: 100 * MIB });
        write("proc/self/cgroup", "4:memory:/old\n");
        // In version 1 the counts of a group and of those below it stand beside one another.
        write(
            "sys/fs/cgroup/memory/old/memory.stat",
            "inactive_file 1\ntotal_inactive_file 1048576\n",
        );
        write("sys/fs/cgroup/memory/old/memory.limit_in_bytes", "268435456\n");
        write("sys/fs/cgroup/memory/old/memory.usage_in_bytes", "2097152\n");
        assert_eq!(memory(), Memory { limit: 256 * MIB, available: 255 * MIB });
    }
}
