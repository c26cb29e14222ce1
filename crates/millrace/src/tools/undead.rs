//! `click-undead`: removes elements that are on no path from a source to a sink, and elements that do nothing.

use std::collections::{HashMap, HashSet};

use millrace_lang::config::{split_args, uncomment};

use super::clp::{Choice, flag, switch, valued};
use super::router::{Element, Port, Router};
use super::session::Common::{self, ClickPath, Expression, File, Help, Output, Own, Version};
use super::session::Session;
use super::tool::{Stop, Tool};
use super::traits::{Traits, source_and_sink};

pub(super) const TOOL: Tool = Tool {
    name: "click-undead",
    about: "Removes elements that are on no path from a source of packets to a sink, and \
            elements without an effect",
    options: "\
  -f, --file FILE             Read the configuration from FILE.
  -e, --expression EXPR       Take EXPR itself as the configuration.
  -o, --output FILE           Write to FILE.
  -k, --kernel                The configuration is for Linux’ kernel.
  -u, --user                  The configuration is for the user-level driver.
  -c, --config                Write the configuration alone, not an archive.
  -V, --verbose               Print what is removed, and why.
  -C, --clickpath PATH        Look for libraries in PATH.
",
    run,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Choose {
    Config,
    Driver,
    Verbose,
}

const CHOICES: &[Choice<Common<Choose>>] = &[
    valued("clickpath", Some('C'), ClickPath),
    switch("config", Some('c'), Own(Choose::Config)),
    valued("expression", Some('e'), Expression),
    valued("file", Some('f'), File),
    flag("help", None, Help),
    switch("kernel", Some('k'), Own(Choose::Driver)),
    valued("output", Some('o'), Output),
    switch("user", Some('u'), Own(Choose::Driver)),
    switch("verbose", Some('V'), Own(Choose::Verbose)),
    flag("version", Some('v'), Version),
];

/// The origin of added elements.
const LANDMARK: &str = "<click-undead>";

/// Schedulers that do nothing if they have a single input, and whether they have an argument for each input.
const SCHEDULERS: [(&str, bool); 3] =
    [("RoundRobinSched", false), ("PrioSched", false), ("StrideSched", true)];

fn run(session: &mut Session, args: &[String]) -> Result<(), Stop> {
    let (mut config_only, mut verbose) = (false, false);
    session.command_line(CHOICES, args, |_, option, _, negated| {
        match option {
            Choose::Config => config_only = !negated,
            Choose::Verbose => verbose = !negated,
            Choose::Driver => {}
        }
        Ok(())
    })?;
    let mut input = session.read()?;
    let router = &mut input.router;
    let ports = router.iter().map(|(_, e)| (e.name.clone(), (e.inputs, e.outputs))).collect();
    let traits = Traits::new();
    let mut work = Work { session, traits: &traits, router, ports, verbose };
    work.remove_switches("StaticSwitch", true);
    work.remove_switches("StaticPullSwitch", false);
    work.remove_nulls();
    work.router.remove_dead();
    let live = work.live();
    if live.is_empty() && !work.router.elements.is_empty() {
        session.warn("no live elements in configuration");
        return Err(Stop::Failed);
    }
    for index in (0..work.router.elements.len()).filter(|index| !live.contains(index)) {
        work.remark(index, |e| format!("removing ‘{}’", e.declaration()));
        work.router.kill(index);
    }
    work.router.remove_dead_connections();
    loop {
        let mut changed = false;
        for (class, args) in SCHEDULERS {
            changed |= work.remove_schedulers(class, args);
        }
        changed |= work.remove_tee_ports("Tee", false);
        changed |= work.remove_tee_ports("PullTee", true);
        if !changed {
            break;
        }
    }
    work.fill_blank_ports();
    work.router.remove_dead();
    // The tool continues after an element that it cannot understand; the error is printed.
    match config_only {
        true => session.write_text(input.router.text().as_bytes())?,
        false => session.write(&input.router, &input.archive)?,
    }
    session.forgive();
    Ok(())
}

struct Work<'a> {
    session: &'a Session,
    traits: &'a Traits,
    router: &'a mut Router,
    /// The number of inputs and outputs of each element, connected or not.
    ports: HashMap<String, (usize, usize)>,
    verbose: bool,
}

impl Work<'_> {
    fn remark(&self, index: usize, words: impl Fn(&Element) -> String) {
        if self.verbose
            && let Some(element) = self.router.elements.get(index)
        {
            self.session.say(format_args!("{}: {}", element.landmark, words(element)));
        }
    }

    fn odd(&self, element: &Element, warning: bool) {
        let (landmark, declaration) = (&element.landmark, element.declaration());
        let words = format!("odd connections to ‘{declaration}’");
        match warning {
            true => self.session.say(format_args!("{landmark}: warning: {words}")),
            false => self.session.error(format_args!("{landmark}: {words}")),
        }
    }

    fn is_idle(&self, port: Port) -> bool {
        self.router.live(port.0).is_some_and(|element| element.is("Idle"))
    }

    /// Removes switches that never switch: all packets take the same output.
    fn remove_switches(&mut self, class: &str, push: bool) {
        for index in self.router.of_class(class) {
            let Some(element) = self.router.live(index).cloned() else { continue };
            let config = uncomment(&element.config).into_owned();
            let choice = config.parse::<i64>().unwrap_or_else(|_| {
                let (landmark, name) = (&element.landmark, &element.name);
                let message = format!("{name}: bad configuration ‘{class}({config})’");
                self.session.error(format_args!("{landmark}: {message}"));
                -1
            });
            let many = self.router.by_port(index, push);
            if many.iter().any(|port| port.len() != 1) {
                self.odd(&element, false);
            }
            let idle = self.router.add_anonymous("Idle", LANDMARK);
            let mut next = (0, 0);
            let chosen = usize::try_from(choice).ok();
            let beyond =
                chosen.and_then(|choice| many.get(choice)).and_then(|port| match port[..] {
                    [only] => self.router.connection(only),
                    _ => None,
                });
            let goal = match (beyond, push) {
                (Some(connection), true) => connection.to,
                (Some(connection), false) => connection.from,
                (None, true) => (idle, take(&mut next.0)),
                (None, false) => (idle, take(&mut next.1)),
            };
            if push {
                for number in self.router.numbers_to((index, 0)) {
                    self.router.move_to(number, goal);
                }
            } else {
                for number in self.router.numbers_from((index, 0)) {
                    self.router.move_from(number, goal);
                }
            }
            for (port, numbers) in many.iter().enumerate() {
                if let (Some(&number), true) = (numbers.first(), Some(port) != chosen) {
                    match push {
                        true => self.router.move_from(number, (idle, take(&mut next.1))),
                        false => self.router.move_to(number, (idle, take(&mut next.0))),
                    }
                }
            }
            self.router.kill(index);
        }
    }

    fn remove_nulls(&mut self) {
        for index in self.router.of_class("Null") {
            let Some(element) = self.router.live(index).cloned() else { continue };
            if (element.inputs, element.outputs) != (1, 1) {
                self.odd(&element, true);
                continue;
            }
            let before = self.router.numbers_to((index, 0));
            let after = self.router.numbers_from((index, 0));
            if before.len() > 1 && after.len() > 1 {
                self.odd(&element, true);
            } else if let &[only] = &before[..] {
                if let Some(before) = self.router.connection(only) {
                    self.lead_from((index, 0), before.from);
                }
            } else if let &[only] = &after[..]
                && let Some(after) = self.router.connection(only)
            {
                self.lead_to((index, 0), after.to);
            }
            self.router.kill(index);
        }
    }

    /// Moves the connections to a port to another port.
    fn lead_to(&mut self, old: Port, new: Port) {
        for number in self.router.numbers_to(old) {
            self.router.move_to(number, new);
        }
    }

    /// Moves the connections from a port to another port.
    fn lead_from(&mut self, old: Port, new: Port) {
        for number in self.router.numbers_from(old) {
            self.router.move_from(number, new);
        }
    }

    /// Removes unconnected inputs of schedulers, and schedulers with a single input.
    fn remove_schedulers(&mut self, class: &str, with_args: bool) -> bool {
        let mut changed = false;
        for index in self.router.of_class(class) {
            let Some(element) = self.router.live(index).cloned() else { continue };
            if element.outputs != 1 {
                self.odd(&element, true);
                continue;
            }
            let inputs = self.router.by_port(index, false);
            let mut inputs: Vec<Option<usize>> =
                inputs.iter().map(|numbers| numbers.first().copied()).collect();
            let mut args: Vec<String> =
                split_args(&element.config).into_iter().map(|arg| arg.text.into_owned()).collect();
            if with_args && args.len() != inputs.len() {
                continue;
            }
            let mut port = 0;
            while let Some(&input) = inputs.get(port) {
                let connection = input.and_then(|number| self.router.connection(number));
                if connection.is_some_and(|connection| !self.is_idle(connection.from)) {
                    port += 1;
                    continue;
                }
                if with_args {
                    args.remove(port);
                    if let Some(element) = self.router.elements.get_mut(index) {
                        element.config = args.join(", ");
                    }
                }
                if let Some(number) = inputs.remove(port) {
                    self.router.erase(number);
                }
                for (port, number) in inputs.iter().enumerate().skip(port) {
                    if let Some(number) = *number {
                        self.router.move_to(number, (index, port));
                    }
                }
            }
            if let &[Some(only)] = &inputs[..]
                && let Some(before) = self.router.connection(only)
            {
                self.remark(index, |e| {
                    format!("removing redundant scheduler ‘{}’", e.declaration())
                });
                self.lead_from((index, 0), before.from);
                self.router.kill(index);
                changed = true;
            }
            if let Some(ports) = self.ports.get_mut(&element.name) {
                ports.0 = inputs.len();
            }
        }
        changed
    }

    /// Removes unconnected outputs of tees, and tees with a single output.
    fn remove_tee_ports(&mut self, class: &str, pull: bool) -> bool {
        let mut changed = false;
        for index in self.router.of_class(class) {
            let Some(element) = self.router.live(index).cloned() else { continue };
            if element.inputs != 1 {
                self.odd(&element, true);
                continue;
            }
            let mut outputs = self.router.by_port(index, true);
            for port in (usize::from(pull)..outputs.len()).rev() {
                let numbers = outputs.get(port).cloned().unwrap_or_default();
                if !numbers.is_empty() {
                    continue;
                }
                outputs.remove(port);
                for (port, numbers) in outputs.iter().enumerate().skip(port) {
                    if let Some(&number) = numbers.first() {
                        self.router.move_from(number, (index, port));
                    }
                }
            }
            if let [only] = &outputs[..] {
                self.remark(index, |e| format!("removing redundant tee ‘{}’", e.declaration()));
                if pull {
                    if let Some(&before) = self.router.ports_to((index, 0)).first() {
                        self.lead_from((index, 0), before);
                    }
                } else if let Some(after) = only.first().and_then(|&n| self.router.connection(n)) {
                    self.lead_to((index, 0), after.to);
                }
                self.router.kill(index);
                changed = true;
            }
            if let Some(ports) = self.ports.get_mut(&element.name) {
                ports.1 = outputs.len();
            }
            if let Some(element) = self.router.elements.get_mut(index) {
                element.config = outputs.len().to_string();
            }
        }
        changed
    }

    /// The elements on a path from a source to a sink, and those that handle no packets.
    fn live(&self) -> HashSet<usize> {
        let mut from_source: HashSet<Port> = HashSet::new();
        let mut to_sink: HashSet<Port> = HashSet::new();
        let (mut sources, mut sinks) = (HashSet::new(), HashSet::new());
        for (index, element) in self.router.iter() {
            let known = source_and_sink(element.class());
            let (source, sink) = known.unwrap_or((element.inputs == 0, element.outputs == 0));
            let kind = match (source, sink) {
                (true, true) => "source and sink",
                (true, false) => "source",
                (false, true) => "sink",
                (false, false) => continue,
            };
            let assuming = if known.is_none() { "assuming " } else { "" };
            self.remark(index, |e| format!("{assuming}‘{}’ is {kind}", e.declaration()));
            if source {
                sources.insert(index);
                let outputs = (0..element.outputs).map(|port| (index, port));
                from_source.extend(outputs.flat_map(|port| self.router.ports_from(port)));
            }
            if sink {
                sinks.insert(index);
                let inputs = (0..element.inputs).map(|port| (index, port));
                to_sink.extend(inputs.flat_map(|port| self.router.ports_to(port)));
            }
        }
        self.follow(&mut from_source, true);
        self.follow(&mut to_sink, false);
        let mut live = HashSet::new();
        for (index, element) in self.router.iter() {
            let passes = !element.is("Idle");
            let has = |set: &HashSet<Port>, ports| {
                passes && (0..ports).any(|p| set.contains(&(index, p)))
            };
            let source = sources.contains(&index) || has(&from_source, element.inputs);
            let sink = sinks.contains(&index) || has(&to_sink, element.outputs);
            if source && sink {
                live.insert(index);
            } else if (element.inputs, element.outputs) == (0, 0) {
                live.insert(index);
                self.remark(index, |e| format!("assuming ‘{}’ is live", e.declaration()));
            }
        }
        live
    }

    /// Adds the inputs that packets reach from the given outputs; backwards, the outputs from which packets reach the
    /// Forward, adds the inputs that packets reach from the inputs in `ports`. Backward, adds the outputs from which
    /// packets reach the outputs in `ports`.
    fn follow(&self, ports: &mut HashSet<Port>, forward: bool) {
        let mut todo: Vec<Port> = ports.iter().copied().collect();
        while let Some((index, port)) = todo.pop() {
            let Some(element) = self.router.live(index) else { continue };
            let class = element.class();
            let others = if forward { element.outputs } else { element.inputs };
            for other in 0..others {
                let (input, output) = if forward { (port, other) } else { (other, port) };
                if !self.traits.connects(class, input, output) {
                    continue;
                }
                let next = match forward {
                    true => self.router.ports_from((index, other)),
                    false => self.router.ports_to((index, other)),
                };
                todo.extend(next.into_iter().filter(|&port| ports.insert(port)));
            }
        }
    }

    /// Connects ports of live elements that have lost their neighbours to an Idle.
    fn fill_blank_ports(&mut self) {
        let idle = self.router.add_anonymous("Idle", LANDMARK);
        let mut next = (0, 0);
        for index in 0..self.router.elements.len() {
            let Some(element) = self.router.live(index) else { continue };
            let ports = self.ports.get(&element.name).copied();
            let (inputs, outputs) = ports.unwrap_or((element.inputs, element.outputs));
            for port in (0..inputs).map(|port| (index, port)) {
                if self.router.numbers_to(port).is_empty() {
                    self.router.connect((idle, take(&mut next.1)), port);
                }
            }
            for port in (0..outputs).map(|port| (index, port)) {
                if self.router.numbers_from(port).is_empty() {
                    self.router.connect(port, (idle, take(&mut next.0)));
                }
            }
        }
        if next == (0, 0) {
            self.router.kill(idle);
        }
    }
}

fn take(next: &mut usize) -> usize {
    let taken = *next;
    *next += 1;
    taken
}
