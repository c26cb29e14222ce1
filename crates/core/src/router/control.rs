//! The handlers of a router and of its elements.

use std::sync::atomic::Ordering::Relaxed;

use super::handlers::{
    ANY_HANDLER, Call, Handler, HandlerError, IntoText, Text, low_level_name, no_parameters,
};
use super::{Member, Router};
use crate::args::HandlerRef;
use crate::clock::Pace;
use crate::graph::{Class, PortKind};
use crate::schedule::DelayStats;
use crate::services::HotConfig;

/// What a router reports about one of its elements.
#[derive(Clone, Copy, Debug)]
pub struct ElementInfo<'a> {
    /// Its full name.
    pub name: &'a str,
    /// Its class.
    pub class: &'a Class,
    /// Its configuration string.
    pub config: &'a str,
    /// `file:line` of its declaration.
    pub landmark: &'a str,
    /// The kinds of its inputs.
    pub inputs: &'a [PortKind],
    /// The kinds of its outputs.
    pub outputs: &'a [PortKind],
}

/// The handlers that every element has.
const COMMON: &[&str] = &["handlers", "ports", "config", "class", "name"];

/// The handler that replaces the configuration, if the program allows it.
const HOTCONFIG: &str = "hotconfig";

/// The handler for the pace of the clock, which can be written unless time is virtual.
const TIMEWARP: &str = "timewarp";

/// The global handlers of the router: name, readable, writable.
const GLOBAL: &[(&str, bool, bool)] = &[
    ("version", true, false),
    ("driver", true, false),
    ("config", true, false),
    ("flatconfig", true, false),
    ("requirements", true, false),
    ("handlers", true, false),
    ("list", true, false),
    ("stop", false, true),
    ("classes", true, false),
    ("packages", true, false),
    (TIMEWARP, true, false),
    ("active_ports", true, false),
    ("threads", true, false),
    ("load", true, false),
    ("thread_vectors", true, false),
    ("rest", true, false),
    ("drops", true, false),
    ("swap_pause", true, false),
];

impl Router {
    /// The elements, in the order of their indices.
    pub fn elements(&self) -> impl Iterator<Item = ElementInfo<'_>> {
        self.members.iter().map(|member| ElementInfo {
            name: &member.name,
            class: member.class,
            config: &member.config,
            landmark: &member.landmark,
            inputs: &member.inputs,
            outputs: &member.outputs,
        })
    }

    /// Reads a handler by `element.handler`; a name without a dot, or with an empty element, is a global
    /// handler.
    ///
    /// # Errors
    /// There is no such handler, it cannot be read, or it returns an error.
    pub fn read(&self, path: &str, parameter: &[u8]) -> Result<Text, HandlerError> {
        match split_path(path) {
            (None, handler) => self.read_global(handler, parameter),
            (Some(element), handler) => {
                let id = self.known(element)?;
                self.visible(id, handler)?;
                self.read_of(id, handler, parameter)
            }
        }
    }

    /// Writes a handler by `element.handler`; a name without a dot, or with an empty element, is a global
    /// handler.
    ///
    /// # Errors
    /// There is no such handler, it cannot be written, or it rejects the value.
    pub fn write(&self, path: &str, text: &[u8]) -> Result<(), HandlerError> {
        match split_path(path) {
            (None, handler) => self.write_global(handler, text),
            (Some(element), handler) => {
                let id = self.known(element)?;
                self.visible(id, handler)?;
                self.write_of(id, handler, text)
            }
        }
    }

    /// Rejects a handler that only elements may use.
    fn visible(&self, id: usize, handler: &str) -> Result<(), HandlerError> {
        let own = self.members.get(id).and_then(|member| member.handler(handler));
        match own {
            Some(own) if own.is_hidden() => Err(HandlerError::NoHandler(handler.to_owned())),
            _ => Ok(()),
        }
    }

    /// Whether elements can read and write a handler of element `id`, or a global handler; `None` when there
    /// is no such handler.
    pub fn access_of(&self, id: Option<usize>, handler: &str) -> Option<(bool, bool)> {
        let Some(id) = id else {
            let found = self.global_handlers().into_iter().find(|(name, _, _)| name == handler);
            return found.map(|(_, read, write)| (read, write));
        };
        let member = self.members.get(id)?;
        if let Some(own) = member.handler(handler) {
            return Some((own.readable() || COMMON.contains(&handler), own.writable()));
        }
        if COMMON.contains(&handler) {
            return Some((true, false));
        }
        let answers = member.handler(ANY_HANDLER)?.answers(&*member.element, handler);
        (answers.0 || answers.1).then_some(answers)
    }

    /// Reads a handler that element `caller` names.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn read_from(
        &self,
        caller: usize,
        handler: &HandlerRef,
        parameter: &[u8],
    ) -> Result<Text, HandlerError> {
        match self.locate(caller, handler) {
            (Some(id), handler) => self.read_of(id, handler, parameter),
            (None, handler) => self.read_global(handler, parameter),
        }
    }

    /// Writes a handler that element `caller` names.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    pub fn write_to(
        &self,
        caller: usize,
        handler: &HandlerRef,
        text: &[u8],
    ) -> Result<(), HandlerError> {
        match self.locate(caller, handler) {
            (Some(id), handler) => self.write_of(id, handler, text),
            (None, handler) => self.write_global(handler, text),
        }
    }

    /// The element and the name of a handler; no element for a global handler.
    pub(crate) fn locate<'h>(
        &self,
        caller: usize,
        handler: &'h HandlerRef,
    ) -> (Option<usize>, &'h str) {
        let name = handler.handler();
        let element = match handler {
            HandlerRef::Of { element, .. } => Some(*element),
            HandlerRef::Global(_) => None,
            HandlerRef::Here(_) => self.access_of(Some(caller), name).is_some().then_some(caller),
        };
        (element, name)
    }

    /// Reads a handler of element `id`.
    ///
    /// # Errors
    /// See [`read`](Self::read).
    pub fn read_of(&self, id: usize, handler: &str, text: &[u8]) -> Result<Text, HandlerError> {
        let member = self.members.get(id).ok_or_else(|| no_element(&id.to_string()))?;
        let call = Call::new(self, id, handler, text);
        match member.handler(handler) {
            Some(own) if own.readable() || !COMMON.contains(&handler) => {
                call.with_parameter(own.call_read(&*member.element, &call)?)
            }
            _ if COMMON.contains(&handler) => {
                call.with_parameter(self.read_common(id, member, handler)?)
            }
            _ => match member.handler(ANY_HANDLER) {
                Some(any) => call.with_parameter(any.call_read(&*member.element, &call)?),
                None => Err(HandlerError::NoHandler(handler.to_owned())),
            },
        }
    }

    /// Writes a handler of element `id`.
    ///
    /// # Errors
    /// See [`write`](Self::write).
    pub fn write_of(&self, id: usize, handler: &str, text: &[u8]) -> Result<(), HandlerError> {
        let member = self.members.get(id).ok_or_else(|| no_element(&id.to_string()))?;
        let call = Call::new(self, id, handler, text);
        let written = match member.handler(handler) {
            Some(own) => own.call_write(&*member.element, &call),
            None if COMMON.contains(&handler) => Err(HandlerError::ReadOnly(handler.to_owned())),
            None => match member.handler(ANY_HANDLER) {
                Some(any) => any.call_write(&*member.element, &call),
                None => Err(HandlerError::NoHandler(handler.to_owned())),
            },
        };
        if member.class.ordered {
            self.heed_order();
        }
        written
    }

    /// Checks whether the order of the elements' effects is visible at present.
    pub(crate) fn heed_order(&self) {
        let shows = |member: &Member| {
            let class = member.class;
            let order_shows = class.shows_packets || (class.ordered && self.clock.is_virtual());
            order_shows && member.shows()
        };
        let singly = self.observations.is_singly() || self.members.iter().any(shows);
        self.goes_singly.store(singly, Relaxed);
    }

    /// Whether each packet goes its whole way before the next one.
    #[inline]
    pub(crate) fn goes_singly(&self) -> bool {
        self.goes_singly.load(Relaxed)
    }

    /// Makes a low-level call (Click's LLRPC) to an element, with a number and these bytes.
    ///
    /// # Errors
    /// There is no such element or call, or it returns an error.
    pub fn low_level(&self, element: &str, number: u8, data: &[u8]) -> Result<Text, HandlerError> {
        self.read_of(self.known(element)?, &low_level_name(number), data)
    }

    /// Whether a handler, named as in [`read`](Self::read), can be read and can be written.
    ///
    /// # Errors
    /// There is no such handler.
    pub fn access(&self, path: &str) -> Result<(bool, bool), HandlerError> {
        let (id, handler) = match split_path(path) {
            (None, handler) => (None, handler),
            (Some(element), handler) => {
                let id = self.known(element)?;
                self.visible(id, handler)?;
                (Some(id), handler)
            }
        };
        let found = self.access_of(id, handler);
        found.ok_or_else(|| HandlerError::NoHandler(handler.to_owned()))
    }

    /// Whether a handler that element `caller` names can be read and can be written.
    ///
    /// # Errors
    /// There is no such handler.
    pub fn access_from(
        &self,
        caller: usize,
        handler: &HandlerRef,
    ) -> Result<(bool, bool), HandlerError> {
        let (element, name) = self.locate(caller, handler);
        let found = self.access_of(element, name);
        found.ok_or_else(|| HandlerError::NoHandler(name.to_owned()))
    }

    /// The handlers of element `id`, first those that it declares: name, readable, writable.
    pub fn handlers_of(&self, id: usize) -> Vec<(String, bool, bool)> {
        let Some(member) = self.members.get(id) else { return Vec::new() };
        let listed = |own: &&Handler| own.name != ANY_HANDLER && !own.is_hidden();
        let own = member.handlers.iter().filter(listed);
        let mut list: Vec<_> =
            own.map(|own| (own.name.clone(), own.readable(), own.writable())).collect();
        for (name, readable, _) in &mut list {
            *readable |= COMMON.contains(&name.as_str());
        }
        for &common in COMMON {
            if !list.iter().any(|(name, _, _)| name == common) {
                list.push((common.to_owned(), true, false));
            }
        }
        list
    }

    /// The global handlers: name, readable, writable.
    pub fn global_handlers(&self) -> Vec<(String, bool, bool)> {
        let hot = self.services.get::<HotConfig>().is_some();
        let hot = hot.then_some((HOTCONFIG, false, true));
        let added = self.added.iter().flat_map(|added| added.iter());
        let added = added.map(|own| (own.name(), own.is_readable(), own.is_writable()));
        let all = GLOBAL.iter().copied().chain(hot).chain(added);
        let warps = |name: &str| name == TIMEWARP && !self.clock.is_virtual();
        all.map(|(name, read, write)| (name.to_owned(), read, write || warps(name))).collect()
    }

    /// The configuration that was last written to an element's handler, if any was.
    fn config_of(&self, id: usize) -> Option<String> {
        self.configs.lock().get(&id).cloned()
    }

    /// Records that an element has another configuration from now on.
    pub(crate) fn set_config(&self, id: usize, config: String) {
        self.configs.lock().insert(id, config);
    }

    pub(super) fn known(&self, element: &str) -> Result<usize, HandlerError> {
        // Elements may be named by their number, counted from 1, as in Click.
        let by_number =
            || element.parse::<usize>().ok()?.checked_sub(1).filter(|&id| id < self.len());
        self.find(element).or_else(by_number).ok_or_else(|| no_element(element))
    }

    fn read_common(&self, id: usize, member: &Member, handler: &str) -> Result<Text, HandlerError> {
        let text = match handler {
            "class" => member.class.name.to_owned(),
            "name" => member.name.clone(),
            "config" => self.config_of(id).unwrap_or_else(|| member.config.clone()),
            "handlers" => {
                // Those that every element has are calm, as Click says: they do not change by themselves.
                let calm = |name: &str| COMMON.contains(&name) && member.handler(name).is_none();
                handler_lines(&self.handlers_of(id), calm)
            }
            "ports" => self.ports_text(id, member),
            _ => return Err(HandlerError::NoHandler(handler.to_owned())),
        };
        Ok(text.into_bytes())
    }

    /// Reads a global handler.
    ///
    /// # Errors
    /// There is no such handler, it cannot be read, or there is a parameter.
    pub fn read_global(&self, handler: &str, parameter: &[u8]) -> Result<Text, HandlerError> {
        if let Some(added) = self.added.as_ref().and_then(|added| added.find(handler)) {
            return added.call_read(self, parameter);
        }
        if !parameter.is_empty() && self.access_of(None, handler).is_some_and(|(read, _)| read) {
            return Err(no_parameters(handler));
        }
        let lines = |lines: Vec<&str>| lines.iter().map(|line| format!("{line}\n")).collect();
        let text: String = match handler {
            "version" => env!("CARGO_PKG_VERSION").to_owned(),
            "list" => {
                let names = self.members.iter().map(|member| member.name.as_str());
                format!("{}\n{}", self.len(), lines(names.collect()))
            }
            "classes" => lines(self.texts.classes.clone()),
            "config" if !self.texts.written.is_empty() => self.texts.written.clone(),
            "config" | "flatconfig" => self.texts.flat.clone(),
            "requirements" => lines(self.texts.requirements.iter().map(String::as_str).collect()),
            "handlers" => handler_lines(&self.global_handlers(), |_| false),
            "packages" => String::new(),
            "driver" => "userlevel".to_owned(),
            "active_ports" => self.active_ports(),
            TIMEWARP => match self.clock.pace() {
                None => "simulation".to_owned(),
                Some(Pace::NoWait) => "nowait".to_owned(),
                Some(Pace::Speed(speed)) => return Ok(speed.into_text()),
            },
            "threads" => self.plan.threads.to_string(),
            "load" => self.take_loads().iter().map(|load| format!("{load:.3}\n")).collect(),
            "thread_vectors" => self.thread_vectors(),
            "rest" => self.rest_text(),
            "drops" => self.drops_text(),
            "swap_pause" => {
                self.swap_pause().map_or("-".to_owned(), |pause| pause.as_secs_f64().to_string())
            }
            _ if self.access_of(None, handler).is_some() => {
                return Err(HandlerError::WriteOnly(handler.to_owned()));
            }
            _ => return Err(HandlerError::NoHandler(handler.to_owned())),
        };
        Ok(text.into_bytes())
    }

    /// Writes a global handler.
    ///
    /// # Errors
    /// There is no such handler, it cannot be written, or it rejects the value.
    pub fn write_global(&self, handler: &str, text: &[u8]) -> Result<(), HandlerError> {
        if let Some(added) = self.added.as_ref().and_then(|added| added.find(handler)) {
            return added.call_write(self, text);
        }
        match handler {
            HOTCONFIG => match self.services.get::<HotConfig>() {
                Some(hot) => (hot.0)(&String::from_utf8_lossy(text)).map_err(HandlerError::Refused),
                None => Err(HandlerError::NoHandler(handler.to_owned())),
            },
            "stop" => {
                let text = String::from_utf8_lossy(text);
                let times: usize = text.trim().parse().unwrap_or(1);
                self.request_stops(times);
                Ok(())
            }
            TIMEWARP if !self.clock.is_virtual() => {
                let text = String::from_utf8_lossy(text);
                let pace = match text.trim() {
                    "nowait" => Pace::NoWait,
                    text => match text.parse() {
                        Ok(speed) if speed > 0.0 && f64::is_finite(speed) => Pace::Speed(speed),
                        Ok(_) => return Err("timefactor must be > 0".into()),
                        Err(_) => return Err("expected double".into()),
                    },
                };
                self.clock.set_pace(pace);
                // Threads that sleep have computed how long from the old pace.
                self.wake();
                Ok(())
            }
            _ if GLOBAL.iter().any(|global| global.0 == handler) => {
                Err(HandlerError::ReadOnly(handler.to_owned()))
            }
            _ => Err(HandlerError::NoHandler(handler.to_owned())),
        }
    }

    /// One line for each pull input and push output.
    fn active_ports(&self) -> String {
        let mut text = String::new();
        for member in &self.members {
            let inputs = (&member.inputs, PortKind::Pull, 'i');
            for (kinds, active, letter) in [inputs, (&member.outputs, PortKind::Push, 'o')] {
                for (port, _) in kinds.iter().enumerate().filter(|(_, kind)| **kind == active) {
                    text.push_str(&format!("{}\t{letter}{port}\n", member.name));
                }
            }
        }
        text
    }

    /// One line for each element: its name and the threads that reach it.
    fn thread_vectors(&self) -> String {
        let line = |(id, member): (usize, &Member)| {
            let threads: Vec<String> =
                self.plan.threads_of(id).map(|thread| thread.to_string()).collect();
            format!("{}\t{}\n", member.name, threads.join(","))
        };
        self.members.iter().enumerate().map(line).collect()
    }

    /// One line for each element and reason: the number of packets that it dropped.
    fn drops_text(&self) -> String {
        let lines = |(id, member): (usize, &Member)| {
            let drops = self.stats_of(id).drops;
            drops.into_iter().map(|(why, n)| format!("{}\t{why}\t{n}\n", member.name)).collect()
        };
        self.members.iter().enumerate().map::<String, _>(lines).collect()
    }

    /// One line for each thread: how it slept, and how quickly it woke up after calls and alarms.
    fn rest_text(&self) -> String {
        let micros = |nanos: u64| nanos as f64 / 1e3;
        let delays = |delays: DelayStats| {
            format!("{}\t{:.1}\t{:.1}", delays.count, micros(delays.mean()), micros(delays.longest))
        };
        let mut text =
            "thread\tsleeps\tseconds\tarrivals\tmean_us\tmax_us\tcalls\tmean_us\tmax_us\talarms\tmean_us\tmax_us\n"
                .to_owned();
        for thread in 0..self.plan.threads {
            let rest = self.rest_of(thread);
            let kinds = [rest.arrivals, rest.calls, rest.alarms].map(delays).join("\t");
            let seconds = rest.nanos as f64 / 1e9;
            text += &format!("{thread}\t{}\t{seconds:.3}\t{kinds}\n", rest.sleeps);
        }
        text
    }

    /// One line for each port: kind, a column for a count, what it is connected to.
    fn ports_text(&self, id: usize, member: &Member) -> String {
        let mut text = String::new();
        for (kinds, what) in [(&member.inputs, "input"), (&member.outputs, "output")] {
            let is_input = what == "input";
            let plural = if kinds.len() == 1 { "" } else { "s" };
            text.push_str(&format!("{} {what}{plural}\n", kinds.len()));
            for (port, kind) in kinds.iter().enumerate() {
                let code = member.class.processing();
                let declared = if is_input { code.input(port) } else { code.output(port) };
                let tilde = if declared == PortKind::Agnostic { "~" } else { "" };
                let others: Vec<String> = self
                    .across((id, port), is_input)
                    .map(|(other, port)| (&self.members[other].name, port))
                    .map(|(other, port)| match is_input {
                        true => format!("{other} [{port}]"),
                        false => format!("[{port}] {other}"),
                    })
                    .collect();
                text.push_str(&format!("{kind}{tilde}\t-\t{}\n", others.join(", ")));
            }
        }
        text
    }
}

/// The element and the handler of a path; no element for a global handler.
pub(super) fn split_path(path: &str) -> (Option<&str>, &str) {
    match path.split_once('.') {
        None => (None, path),
        Some(("", handler)) => (None, handler),
        Some((element, handler)) => (Some(element), handler),
    }
}

/// One line for each handler: its name, `r` and `w`, and a dot when it is calm.
fn handler_lines(handlers: &[(String, bool, bool)], calm: impl Fn(&str) -> bool) -> String {
    handlers
        .iter()
        .map(|(name, read, write)| {
            let (read, write) = (if *read { "r" } else { "" }, if *write { "w" } else { "" });
            let calm = if calm(name) { "." } else { "" };
            format!("{name}\t{read}{write}{calm}\n")
        })
        .collect()
}

fn no_element(name: &str) -> HandlerError {
    HandlerError::NoElement(name.to_owned())
}
