//! `millrace plan`: prints which thread would run what, and why.

use std::collections::{BTreeMap, HashSet};
use std::fmt::Write;
use std::path::PathBuf;
use std::process::ExitCode;

use millrace_core::Router;
use millrace_core::plan::Seat;
use millrace_io::{DefaultMethod, Method};
use serde_json::{Value, json};

use super::run::method;
use crate::config::{Input, load};
use crate::dpdk::{DpdkOptions, Running};
use crate::forecast::Outlook;
use crate::messages::show;
use crate::model::Model;
use crate::output;
use crate::session::{Affinity, Choices, Reach, configure, services};

/// Prints the devices, queues, threads and cores that a router would use, and why; opens no device
#[derive(clap::Args)]
pub(crate) struct Plan {
    #[command(flatten)]
    input: Input,

    /// The number of threads
    #[arg(short = 'j', long, value_name = "N", default_value_t = 1)]
    threads: usize,

    /// Pins the threads to cores: `auto` (near their devices), the first core, or a list of cores
    #[arg(long, value_name = "auto|N|LIST", num_args = 0..=1, require_equals = true, default_missing_value = "auto")]
    affinity: Option<Affinity>,

    /// Runs elements one by one on batches, even where packets could pass several in one go
    #[arg(long)]
    no_optimise: bool,

    /// Plans for the machine whose /sys, or a copy of it, is in this directory
    #[arg(long, value_name = "DIR")]
    sys: Option<PathBuf>,

    /// The method of FromDevice and ToDevice without METHOD
    #[arg(long, value_name = "METHOD", value_parser = method)]
    method: Option<Method>,

    #[command(flatten)]
    dpdk: DpdkOptions,

    /// As JSON
    #[arg(long)]
    json: bool,
}

impl Plan {
    /// Runs the sub-command.
    pub(crate) fn run(self) -> anyhow::Result<ExitCode> {
        self.dpdk.leave(&self.input)?;
        let (origin, variables) = self.input.resolve()?;
        let mut loaded = load(&origin, &variables, None)?;
        let _dpdk = Running::prepare(self.dpdk.dpdk.as_deref(), None)?;
        let choices = Choices {
            threads: Some(self.threads),
            affinity: self.affinity,
            no_optimise: self.no_optimise,
            machine: self.sys,
            ..Choices::default()
        };
        let mut services = services(Reach::Guarded, &Model::default());
        if let Some(method) = self.method {
            services.insert(DefaultMethod(method));
        }
        let options = choices.options(services)?;
        let router = configure(&mut loaded, options);
        show(&loaded.diagnostics, &loaded.map);
        let Some(router) = router else { return Ok(ExitCode::FAILURE) };
        let facts = Facts::gather(&router, Outlook::of(&router));
        output::print(if self.json { format!("{:#}\n", facts.json()) } else { facts.words() })?;
        Ok(ExitCode::SUCCESS)
    }
}

/// What the plan contains, ready to be printed.
struct Facts<'a> {
    router: &'a Router,
    memory: Outlook,
    threads: Vec<Thread<'a>>,
    elements: Vec<Reached<'a>>,
}

struct Thread<'a> {
    seat: Seat,
    plain: bool,
    work: Vec<Work<'a>>,
}

/// A task of an element, or its timers, with its home thread.
struct Work<'a> {
    element: &'a str,
    class: &'a str,
    receives: Option<&'a (String, Vec<usize>)>,
    why: &'a str,
}

struct Reached<'a> {
    name: &'a str,
    class: &'a str,
    threads: Vec<usize>,
}

impl Reached<'_> {
    fn full_name(&self) -> String {
        format!("{} :: {}", self.name, self.class)
    }
}

impl<'a> Facts<'a> {
    fn gather(router: &'a Router, memory: Outlook) -> Self {
        let plan = router.plan();
        let seats = plan.seats.iter().cloned().enumerate();
        let mut threads: Vec<Thread<'_>> = seats
            .map(|(n, seat)| Thread { seat, plain: plan.counts_plainly(n), work: Vec::new() })
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
        let mut add = |element: usize, thread: usize, receives, why| {
            if let (Some(thread), Some(of)) = (threads.get_mut(thread), elements.get(element)) {
                thread.work.push(Work { element: of.name, class: of.class, receives, why });
            }
        };
        for task in plan.running() {
            add(task.element, task.thread, task.receives.as_ref(), &task.why);
        }
        let with_tasks: HashSet<usize> = plan.tasks.iter().map(|task| task.element).collect();
        for &(element, thread) in &plan.timers {
            if !with_tasks.contains(&element) {
                add(element, thread, None, "its timers run here");
            }
        }
        Self { router, memory, threads, elements }
    }

    fn words(&self) -> String {
        let mut text = String::new();
        let mut say = |line: String| {
            let _ = writeln!(text, "{line}");
        };
        for (n, thread) in self.threads.iter().enumerate() {
            say(format!("Thread {n}{} runs:", seat(&thread.seat, self.router.plan().nodes)));
            for work in &thread.work {
                let queues = match work.receives {
                    Some((device, queues)) => format!(" on {} of {device}", list("queue", queues)),
                    None => String::new(),
                };
                say(format!("  {} :: {}{queues}: {}", work.element, work.class, work.why));
            }
            if thread.work.is_empty() {
                say(match self.router.plan().receivers.is_empty() {
                    true => "  no task".to_owned(),
                    false => "  nothing, because no receive queue is left for it (SoftwareRSS \
                              distributes the packets of few queues over all threads)"
                        .to_owned(),
                });
            }
        }
        devices(self.router).into_iter().for_each(&mut say);
        self.say_passages(&mut say);
        self.say_reach(&mut say);
        self.say_counts(&mut say);
        self.router.plan().notes.iter().cloned().for_each(&mut say);
        say(self.memory.line());
        self.memory.starvation().into_iter().for_each(&mut say);
        for (of, plan) in self.own_plans() {
            say(format!("{} begins a part that runs by this plan:", of.full_name()));
            plan.lines().for_each(|line| say(format!("  {line}")));
        }
        text
    }

    /// Prints which elements packets pass in one go.
    fn say_passages(&self, say: &mut impl FnMut(String)) {
        let passages = &self.router.plan().passages;
        if passages.is_empty() {
            return;
        }
        say("Packets pass these elements in one go, where they are connected:".to_owned());
        for passage in passages {
            let of = passage.iter().filter_map(|&id| self.elements.get(id));
            let names: Vec<String> = of.map(Reached::full_name).collect();
            say(format!("  {}", names.join(", ")));
        }
    }

    /// Prints which threads reach which elements, grouped by threads, because most elements are reached by the same
    /// threads.
    fn say_reach(&self, say: &mut impl FnMut(String)) {
        let mut groups: BTreeMap<&[usize], Vec<String>> = BTreeMap::new();
        let (reached, infos) = (&self.elements, self.router.elements());
        let shown = reached.iter().zip(infos).filter(|(_, info)| !info.class.information);
        for (element, _) in shown {
            groups.entry(&element.threads).or_default().push(element.full_name());
        }
        for (threads, names) in groups {
            say(match threads {
                [] => "No packets reach:".to_owned(),
                [one] => format!("Only thread {one} reaches:"),
                several => format!(
                    "{} reach, each with its own state (shared parts, such as queues, are locked \
                     or atomic):",
                    capital(&list("thread", several)),
                ),
            });
            names.into_iter().for_each(|name| say(format!("  {name}")));
        }
    }

    /// The plans that elements make themselves, such as those of GPU sections.
    fn own_plans(&self) -> impl Iterator<Item = (&Reached<'a>, String)> {
        self.elements.iter().enumerate().filter_map(|(id, of)| {
            let plan = self.router.read_of(id, "plan", b"").ok()?;
            Some((of, String::from_utf8_lossy(&plan).into_owned()))
        })
    }

    /// Prints how references to shared packets are counted.
    fn say_counts(&self, say: &mut impl FnMut(String)) {
        let of = |plain: bool| {
            let chosen =
                self.threads.iter().enumerate().filter(|(_, thread)| thread.plain == plain);
            chosen.map(|(n, _)| n).collect::<Vec<usize>>()
        };
        for (threads, how) in [
            (of(true), "without atomic instructions: packets stay on their thread"),
            (of(false), "with atomic instructions: packets get to other threads"),
        ] {
            if !threads.is_empty() {
                let verb = if threads.len() == 1 { "counts" } else { "count" };
                let who = capital(&list("thread", &threads));
                say(format!("{who} {verb} references to shared packets {how}"));
            }
        }
    }

    fn json(&self) -> Value {
        let plan = self.router.plan();
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
                json!({
                    "thread": n,
                    "core": thread.seat.core,
                    "numa_node": thread.seat.node,
                    "plain_counts": thread.plain,
                    "runs": work,
                })
            })
            .collect();
        let receivers: Vec<Value> = plan
            .receivers
            .iter()
            .map(|one| {
                json!({
                    "element": self.router.name_of(one.element),
                    "device": one.device,
                    "numa_node": one.node,
                    "queues": one.queues.clone().collect::<Vec<usize>>(),
                    "threads": one.threads,
                    "why": one.why,
                })
            })
            .collect();
        let transmitters: Vec<Value> = plan
            .transmitters
            .iter()
            .map(|one| {
                json!({
                    "element": self.router.name_of(one.element),
                    "device": one.device,
                    "numa_node": one.node,
                    "queues": one.queues.clone().collect::<Vec<usize>>(),
                    "threads": one.threads,
                    "locked": one.is_locked(),
                })
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
        let names = |passage: &Vec<usize>| -> Vec<&str> {
            passage.iter().filter_map(|&id| self.elements.get(id)).map(|e| e.name).collect()
        };
        let passages: Vec<Vec<&str>> = plan.passages.iter().map(names).collect();
        let own: Vec<Value> = self
            .own_plans()
            .map(|(of, plan)| json!({ "element": of.name, "class": of.class, "plan": plan }))
            .collect();
        json!({
            "threads": threads,
            "receivers": receivers,
            "transmitters": transmitters,
            "passages": passages,
            "elements": elements,
            "notes": plan.notes,
            "memory": self.memory.json(),
            "plans": own,
        })
    }
}

/// The core and the NUMA node of a thread, such as ` on core 2 of NUMA node 0`.
pub(crate) fn seat(seat: &Seat, nodes: usize) -> String {
    let node = if nodes > 1 { format!(" of NUMA node {}", seat.node) } else { String::new() };
    match (seat.core, seat.cores.as_slice()) {
        (Some(core), _) => format!(" on core {core}{node}"),
        (None, []) => ", not pinned to a core,".to_owned(),
        (None, _) => format!(" on any core{node}"),
    }
}

/// For each device, the queues and threads that receive and transmit, and why.
pub(crate) fn devices(router: &Router) -> Vec<String> {
    let plan = router.plan();
    let node = |node: Option<usize>| match node {
        Some(node) if plan.nodes > 1 => format!(" (NUMA node {node})"),
        _ => String::new(),
    };
    let receives = plan.receivers.iter().map(|one| {
        let by: Vec<String> = plan
            .tasks
            .iter()
            .filter(|task| task.element == one.element)
            .filter_map(|task| {
                let queues = &task.receives.as_ref()?.1;
                Some(format!("{} by thread {}", list("queue", queues), task.thread))
            })
            .collect();
        let device = format!("{}{}", one.device, node(one.node));
        format!(
            "{} receives from {device}: {}: {}",
            router.name_of(one.element),
            by.join(", "),
            one.why
        )
    });
    let transmits = plan.transmitters.iter().filter(|one| !one.threads.is_empty()).map(|one| {
        let device = format!("{}{}", one.device, node(one.node));
        let name = router.name_of(one.element);
        let who = list("thread", &one.threads);
        let far = one.node.is_some_and(|node| {
            plan.nodes > 1
                && one.threads.iter().any(|&n| plan.seats.get(n).is_none_or(|s| s.node != node))
        });
        let crossing = if far { "; packets cross to its NUMA node" } else { "" };
        let queues: Vec<usize> = one.queues.clone().collect();
        let how = match (one.is_locked(), one.threads.len()) {
            (true, _) => {
                format!(
                    "{}, which {who} share under a lock, because there are no more queues",
                    list("queue", &queues)
                )
            }
            (false, 1) => format!("{}, because only {who} reaches it", list("queue", &queues)),
            (false, _) => format!("{}, one for each of {who}", list("queue", &queues)),
        };
        format!("{name} transmits to {device} by {how}{crossing}")
    });
    receives.chain(transmits).collect()
}

/// A list of numbers, such as `queue 0`, `queues 0, 1 and 4` or `queues 0 to 7`.
fn list(what: &str, numbers: &[usize]) -> String {
    match numbers {
        [] => format!("no {what}"),
        [one] => format!("{what} {one}"),
        [first, .., last] if numbers.len() > 4 && last - first + 1 == numbers.len() => {
            format!("{what}s {first} to {last}")
        }
        [first @ .., last] => {
            let first: Vec<String> = first.iter().map(usize::to_string).collect();
            format!("{what}s {} and {last}", first.join(", "))
        }
    }
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
