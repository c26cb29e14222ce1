//! `millrace plan`: what would run where, and why.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::Path;
use std::process::ExitCode;

use millrace_core::Router;
use serde_json::{Value, json};

use crate::config::{Input, load};
use crate::messages::show;
use crate::output;
use crate::report::Ledger;
use crate::session::{Choices, configure, services};

/// Prints which devices, queues, threads and cores a router would use, and why; touches none
#[derive(clap::Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    input: Input,

    /// For N threads
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// With the threads pinned to cores, the first one to core N (0 unless given)
    #[arg(long, value_name = "N", num_args = 0..=1, require_equals = true, default_missing_value = "0")]
    affinity: Option<usize>,

    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Plan {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        let (origin, variables) = self.input.resolve()?;
        let mut loaded = load(&origin, &variables, None)?;
        let choices = Choices {
            threads: Some(self.threads),
            first_core: self.affinity,
            ..Choices::default()
        };
        let options = choices.options(services(None, &Ledger::default()))?;
        let router = configure(&mut loaded, options);
        show(&loaded.diagnostics, &loaded.map);
        let Some(router) = router else { return Ok(ExitCode::FAILURE) };
        let facts = Facts::gather(&router);
        output::print(if self.json { format!("{:#}\n", facts.json()) } else { facts.words() })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// The plan, ready to be told.
struct Facts<'a> {
    threads: Vec<Thread<'a>>,
    devices: BTreeMap<&'a str, Device>,
    elements: Vec<Reached<'a>>,
}

#[derive(Default)]
struct Thread<'a> {
    core: Option<usize>,
    node: Option<usize>,
    work: Vec<Work<'a>>,
}

/// A task or the timers of an element, at home on a thread.
struct Work<'a> {
    element: &'a str,
    class: &'a str,
    receives: Option<(&'a str, &'a [usize])>,
    why: &'static str,
}

#[derive(Default)]
struct Device {
    node: Option<usize>,
    /// Queue and thread.
    queues: Vec<(usize, usize)>,
}

struct Reached<'a> {
    name: &'a str,
    class: &'a str,
    threads: Vec<usize>,
}

impl<'a> Facts<'a> {
    fn gather(router: &'a Router) -> Self {
        let plan = router.plan();
        let mut threads: Vec<Thread<'_>> = (0..plan.threads)
            .map(|thread| {
                let core = plan.cores.get(thread).copied();
                Thread { core, node: core.and_then(node_of_core), work: Vec::new() }
            })
            .collect();
        let elements: Vec<Reached<'_>> = router
            .elements()
            .enumerate()
            .map(|(id, element)| Reached {
                name: element.name,
                class: element.class.name,
                threads: plan.threads_of(id).collect(),
            })
            .collect();
        let mut devices: BTreeMap<&str, Device> = BTreeMap::new();
        let mut add = |element: usize, thread: usize, receives, why| {
            if let (Some(thread), Some(of)) = (threads.get_mut(thread), elements.get(element)) {
                thread.work.push(Work { element: of.name, class: of.class, receives, why });
            }
        };
        for task in plan.running() {
            let receives =
                task.receives.as_ref().map(|(device, queues)| (device.as_str(), queues.as_slice()));
            add(task.element, task.thread, receives, task.why);
            if let Some((device, queues)) = receives {
                let entry = devices
                    .entry(device)
                    .or_insert_with(|| Device { node: node_of_device(device), queues: Vec::new() });
                entry.queues.extend(queues.iter().map(|&queue| (queue, task.thread)));
            }
        }
        for &(element, thread) in &plan.timers {
            if !plan.running().any(|task| task.element == element) {
                add(element, thread, None, "its timers run here");
            }
        }
        Self { threads, devices, elements }
    }

    fn words(&self) -> String {
        let mut text = String::new();
        let mut say = |line: String| {
            let _ = writeln!(text, "{line}");
        };
        for (n, thread) in self.threads.iter().enumerate() {
            say(match (thread.core, thread.node) {
                (Some(core), Some(node)) => {
                    format!("Thread {n} on core {core} of NUMA node {node} runs")
                }
                (Some(core), None) => format!("Thread {n} on core {core} runs"),
                (None, _) => format!("Thread {n}, not pinned to a core, runs"),
            });
            for work in &thread.work {
                let queue = match work.receives {
                    Some((device, [queue])) => format!(" on queue {queue} of {device}"),
                    Some((device, queues)) => {
                        let queues: Vec<String> = queues.iter().map(usize::to_string).collect();
                        format!(" on queues {} of {device}", queues.join(", "))
                    }
                    None => String::new(),
                };
                say(format!("  {} :: {}{queue}: {}", work.element, work.class, work.why));
            }
            if thread.work.is_empty() {
                say("  nothing: no receive queue is left for it".to_owned());
            }
        }
        for (name, device) in &self.devices {
            let node = match device.node {
                Some(node) => format!(" on NUMA node {node}"),
                None => String::new(),
            };
            let queues: Vec<String> = device
                .queues
                .iter()
                .map(|(queue, thread)| format!("queue {queue} by thread {thread}"))
                .collect();
            say(format!("Device {name}{node}: {}", queues.join(", ")));
        }
        self.say_reach(&mut say);
        text
    }

    /// Who reaches what: in groups, because most elements are reached by the same threads.
    fn say_reach(&self, say: &mut impl FnMut(String)) {
        let mut groups: BTreeMap<&[usize], Vec<String>> = BTreeMap::new();
        for element in &self.elements {
            let name = format!("{} :: {}", element.name, element.class);
            groups.entry(&element.threads).or_default().push(name);
        }
        for (threads, names) in groups {
            say(match threads {
                [] => "No packets reach".to_owned(),
                [one] => format!("Thread {one} alone reaches, without locks,"),
                several => format!(
                    "Threads {} reach, each with state of its own; what they share there (queues, \
                     transmit queues fewer than threads) is locked or atomic:",
                    several.iter().map(usize::to_string).collect::<Vec<_>>().join(", ")
                ),
            });
            names.into_iter().for_each(|name| say(format!("  {name}")));
        }
    }

    fn json(&self) -> Value {
        let threads: Vec<Value> = self
            .threads
            .iter()
            .enumerate()
            .map(|(n, thread)| {
                let work: Vec<Value> = thread
                    .work
                    .iter()
                    .map(|work| {
                        json!({
                            "element": work.element,
                            "device": work.receives.map(|(device, _)| device),
                            "queues": work.receives.map(|(_, queues)| queues),
                            "why": work.why,
                        })
                    })
                    .collect();
                json!({ "thread": n, "core": thread.core, "numa_node": thread.node, "runs": work })
            })
            .collect();
        let devices: Vec<Value> = self
            .devices
            .iter()
            .map(|(name, device)| {
                let queues: Vec<Value> = device
                    .queues
                    .iter()
                    .map(|(queue, thread)| json!({ "queue": queue, "thread": thread }))
                    .collect();
                json!({ "device": name, "numa_node": device.node, "queues": queues })
            })
            .collect();
        let elements: Vec<Value> = self
            .elements
            .iter()
            .map(|element| {
                json!({
                    "name": element.name,
                    "class": element.class,
                    "threads": element.threads,
                    "shared": element.threads.len() > 1,
                })
            })
            .collect();
        json!({ "threads": threads, "devices": devices, "elements": elements })
    }
}

/// The NUMA node of a core, as sysfs has it; none where there is no such thing.
fn node_of_core(core: usize) -> Option<usize> {
    let entries = std::fs::read_dir(format!("/sys/devices/system/cpu/cpu{core}")).ok()?;
    entries
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .find_map(|name| name.strip_prefix("node")?.parse().ok())
}

/// The NUMA node that a network device is attached to; none when it is attached to none.
fn node_of_device(device: &str) -> Option<usize> {
    let path = Path::new("/sys/class/net").join(device).join("device/numa_node");
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}
