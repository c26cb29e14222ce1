//! Scripts at run time.

use std::borrow::Cow;
use std::collections::{HashMap, HashSet};
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::{Mutex, MutexGuard, PoisonError};

use millrace_core::args::{self, HandlerRef, Seconds};
use millrace_core::element::Text;
use millrace_core::{Router, Timer, Timestamp};
use millrace_lang::config::unquote;
use millrace_lang::variables::{Reference, expand, expand_quoted};

use super::functions::{self, FUNCTIONS};
use super::program::{Program, Step, Target, split};

/// A script: its program, its variables, and where it stands.
pub(super) struct Machine {
    pub(super) program: Program,
    pub(super) kind: Kind,
    timer: Timer,
    variables: Mutex<HashMap<String, Text>>,
    exported: HashSet<String>,
    position: Mutex<Position>,
}

/// When a script runs (Click's script types).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// From the start.
    Active,
    /// From the start; and it decides what happens when the program is asked to stop.
    Driver,
    /// When its handler `run` is called.
    Passive,
    /// When any handler is called.
    Proxy,
    /// When a packet comes.
    Packet,
}

/// Where an active script stands.
#[derive(Default)]
struct Position {
    step: usize,
    wait: Wait,
    ended: bool,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Wait {
    #[default]
    Not,
    Steps(u64),
    Until(Timestamp),
}

/// How a run of a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It waits.
    Waits,
    End,
    Exit,
    Stop,
    Return(Text),
    Error(String),
}

/// A script may jump this often without waiting.
const MOST_JUMPS: u32 = 1000;
/// Replacing variables may make a text this long.
const LONGEST: usize = 1 << 20;
/// Passive scripts may call one another this deep.
const DEEPEST: u32 = 32;

thread_local! {
    static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// Where a run takes place.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) router: &'a Router,
    pub(super) element: usize,
}

impl Machine {
    pub(super) fn new(program: Program, kind: Kind, timer: Timer) -> Self {
        let exported = program.steps.iter().filter_map(|step| match step {
            Step::Set { variable, exported: true, .. } => Some(variable.clone()),
            _ => None,
        });
        Self {
            exported: exported.collect(),
            program,
            kind,
            timer,
            variables: Mutex::default(),
            position: Mutex::default(),
        }
    }

    /// Sets the variables that are set once, and gets an active script going.
    pub(super) fn start(&self, router: &Router, element: usize, now: Timestamp) {
        for step in &self.program.steps {
            if let Step::Set { variable, text, unquotes, once: true, .. } = step {
                let scope = Names { machine: self, router, element, arguments: None };
                let value = scope.text(text, *unquotes);
                self.set(variable, value);
            }
        }
        if matches!(self.kind, Kind::Active | Kind::Driver) {
            self.timer.schedule_at(now);
        }
    }

    /// Goes on where the script stands, if it need not wait any more. Called on its thread.
    pub(super) fn go_on(&self, place: Place<'_>) {
        let now = place.router.clock().now();
        {
            let mut position = self.position();
            if position.ended {
                return;
            }
            match position.wait {
                Wait::Steps(1..) => return,
                Wait::Until(time) if now < time => return self.timer.schedule_at(time),
                _ => position.wait = Wait::Not,
            }
        }
        let step = self.position().step;
        let mut run = Run { machine: self, place, arguments: None, step, waits: true };
        let ended = run.run();
        let step = run.step;
        let mut position = self.position();
        position.step = step;
        position.ended = ended != Ended::Waits;
        drop(position);
        match &ended {
            Ended::Stop => place.router.request_stop(),
            // A driver that has nothing more to say lets the program stop.
            Ended::End | Ended::Exit | Ended::Return(_) if self.kind == Kind::Driver => {
                place.router.request_stop();
            }
            Ended::Error(message) => complain(place, message),
            _ => {}
        }
    }

    /// Steps past `n` waits.
    pub(super) fn step(&self, n: u64, now: Timestamp) {
        let mut position = self.position();
        position.wait = match position.wait {
            Wait::Steps(steps) if steps > n => Wait::Steps(steps - n),
            _ => Wait::Not,
        };
        drop(position);
        self.timer.schedule_at(now);
    }

    /// Goes to a label. Returns false when there is none.
    pub(super) fn go_to(&self, label: &str, now: Timestamp) -> bool {
        let step = match Target::named(label) {
            Target::Loop => 0,
            Target::Label(label) => match self.program.labels.get(&label) {
                Some(&step) => step,
                None => return false,
            },
            _ => self.program.steps.len(),
        };
        *self.position() = Position { step, ..Position::default() };
        self.timer.schedule_at(now);
        true
    }

    /// Whether a driver script wants the program to go on when it is asked to stop; if so, the
    /// request counts as a step.
    pub(super) fn outlives_stop(&self, now: Timestamp) -> bool {
        if self.kind != Kind::Driver || self.position().ended {
            return false;
        }
        self.step(1, now);
        true
    }

    /// Runs a script that is called, from its first instruction.
    pub(super) fn call(&self, place: Place<'_>, arguments: Arguments) -> Ended {
        let depth = DEPTH.get();
        if depth >= DEEPEST {
            return Ended::Error("scripts call one another too deep".to_owned());
        }
        DEPTH.set(depth + 1);
        let arguments = Some(arguments);
        let ended = Run { machine: self, place, arguments, step: 0, waits: false }.run();
        DEPTH.set(depth);
        ended
    }

    pub(super) fn get(&self, variable: &str) -> Option<Text> {
        self.variables().get(variable).cloned()
    }

    pub(super) fn set(&self, variable: &str, value: Text) {
        self.variables().insert(variable.to_owned(), value);
    }

    /// The value of a variable that is readable as a handler.
    pub(super) fn exported(&self, variable: &str) -> Option<Text> {
        self.exported.contains(variable).then(|| self.get(variable)).flatten()
    }

    fn variables(&self) -> MutexGuard<'_, HashMap<String, Text>> {
        self.variables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn position(&self) -> MutexGuard<'_, Position> {
        self.position.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What a script that is called knows of the call.
#[derive(Clone, Debug, Default)]
pub(super) struct Arguments {
    /// `$0`: the handler.
    pub(super) handler: String,
    /// `$args`, and its words `$1`, `$2`, ...
    pub(super) text: String,
    /// `$write`.
    pub(super) writes: bool,
    /// `$input`.
    pub(super) input: usize,
}

struct Run<'a> {
    machine: &'a Machine,
    place: Place<'a>,
    arguments: Option<Arguments>,
    step: usize,
    /// Whether the script may wait.
    waits: bool,
}

impl Run<'_> {
    fn run(&mut self) -> Ended {
        let mut jumps = 0;
        loop {
            let Some(step) = self.machine.program.steps.get(self.step) else { return Ended::End };
            self.step += 1;
            match self.take(step) {
                Ok(None) => {}
                Ok(Some(Go::To(step))) => {
                    self.step = step;
                    jumps += 1;
                    if jumps > MOST_JUMPS {
                        return Ended::Error("possible infinite loop in script".to_owned());
                    }
                }
                Ok(Some(Go::End(ended))) => return ended,
                Err(message) => return Ended::Error(message),
            }
        }
    }

    fn take(&self, step: &Step) -> Result<Option<Go>, String> {
        match step {
            Step::Set { once: true, .. } | Step::Label => {}
            Step::Set { variable, text, unquotes, .. } => {
                self.machine.set(variable, self.names().text(text, *unquotes));
            }
            Step::Print { text, newline, unquotes } => self.print(text, *newline, *unquotes),
            Step::Read { text, unquotes } => self.read(text, *unquotes),
            Step::Write { text, unquotes } => self.write(text, *unquotes),
            Step::Save { text, appends } => self.save(text, *appends),
            Step::Pause { count } => return self.pause(count).map(Some),
            Step::Wait { time } => return self.wait(time).map(Some),
            Step::Goto { target, condition } => return self.go_to(target, condition),
            Step::Return { text, unquotes } => {
                let value = self.names().text(text, *unquotes);
                return Ok(Some(Go::End(Ended::Return(value))));
            }
            Step::Error { text, unquotes } => {
                let message = self.names().text(text, *unquotes);
                return Err(String::from_utf8_lossy(&message).into_owned());
            }
        }
        Ok(None)
    }

    fn names(&self) -> Names<'_> {
        Names {
            machine: self.machine,
            router: self.place.router,
            element: self.place.element,
            arguments: self.arguments.as_ref(),
        }
    }

    /// A handler's name and what follows it, variables replaced.
    fn handler(&self, text: &str, unquotes: bool) -> (String, Text) {
        let text = self.names().expanded(text);
        let (handler, rest) = split(&text);
        let rest = if unquotes { unquote(rest) } else { rest.as_bytes().to_vec() };
        (handler.to_owned(), rest)
    }

    fn print(&self, text: &str, newline: bool, unquotes: bool) {
        let (file, text) = match text.strip_prefix(">>") {
            Some(rest) => (Some(true), rest.trim_start()),
            None => match text.strip_prefix('>') {
                Some(rest) => (Some(false), rest.trim_start()),
                None => (None, text),
            },
        };
        let (name, text) = if file.is_some() { split(text) } else { ("", text) };
        let handler = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@' || c == '_');
        let mut value = if handler {
            let (handler, parameter) = self.handler(text, unquotes);
            match self.names().read(&handler, &parameter) {
                Ok(value) => value,
                Err(message) => return complain(self.place, &message),
            }
        } else {
            unquote(&self.names().expanded(text))
        };
        if newline && value.last() != Some(&b'\n') {
            value.push(b'\n');
        }
        let written = match file {
            None => {
                let mut stdout = std::io::stdout().lock();
                stdout.write_all(&value).and_then(|()| stdout.flush())
            }
            Some(appends) => {
                let name = String::from_utf8_lossy(&unquote(&self.names().expanded(name))).into();
                append(name, appends, &value)
            }
        };
        if let Err(error) = written {
            complain(self.place, &format!("print: {error}"));
        }
    }

    fn read(&self, text: &str, unquotes: bool) {
        let (handler, parameter) = self.handler(text, unquotes);
        match self.names().read(&handler, &parameter) {
            Ok(value) => {
                let value = String::from_utf8_lossy(&value).into_owned();
                self.place
                    .router
                    .chatter(&format!("{handler}:\n{}\n", value.trim_end_matches('\n')));
            }
            Err(message) => complain(self.place, &message),
        }
    }

    fn write(&self, text: &str, unquotes: bool) {
        let (handler, text) = self.handler(text, unquotes);
        let scope = self.place.router.scope_of(self.place.element);
        let result = args::parse::<HandlerRef>(&handler, &scope).and_then(|handler| {
            let written = self.place.router.write_to(self.place.element, &handler, &text);
            written.map_err(|error| error.to_string())
        });
        self.machine.set("?", if result.is_ok() { b"0".to_vec() } else { b"-1".to_vec() });
        if let Err(message) = result {
            complain(self.place, &message);
        }
    }

    fn save(&self, text: &str, appends: bool) {
        let (handler, file) = self.handler(text, true);
        let name = String::from_utf8_lossy(&file).into_owned();
        let saved = self.names().read(&handler, b"").and_then(|value| {
            append(name.clone(), appends, &value).map_err(|error| format!("{name}: {error}"))
        });
        if let Err(message) = saved {
            complain(self.place, &message);
        }
    }

    fn pause(&self, count: &str) -> Result<Go, String> {
        self.may_wait()?;
        let count = self.names().expanded(count);
        let count = match count.trim() {
            "" => 1,
            text => text.parse().map_err(|_| format!("expected a count, not ‘{text}’"))?,
        };
        self.machine.position().wait = Wait::Steps(count);
        Ok(Go::End(Ended::Waits))
    }

    fn wait(&self, time: &str) -> Result<Go, String> {
        self.may_wait()?;
        let time = self.names().expanded(time);
        let scope = self.place.router.scope_of(self.place.element);
        let time: Seconds = args::parse(&time, &scope)?;
        let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
        let now = self.place.router.clock().now();
        let until = Timestamp::from_nanos(now.as_nanos().saturating_add(nanos));
        self.machine.position().wait = Wait::Until(until);
        self.machine.timer.schedule_at(until);
        Ok(Go::End(Ended::Waits))
    }

    fn may_wait(&self) -> Result<(), String> {
        match self.waits {
            true => Ok(()),
            false => Err("a script that is called cannot wait".to_owned()),
        }
    }

    fn go_to(&self, target: &Target, condition: &str) -> Result<Option<Go>, String> {
        if !condition.is_empty() {
            let condition = unquote(&self.names().expanded(condition));
            if !functions::truth(String::from_utf8_lossy(&condition).trim())? {
                return Ok(None);
            }
        }
        let target = match target {
            Target::Label(label) => Target::named(&self.names().expanded(label)),
            other => other.clone(),
        };
        Ok(Some(match target {
            Target::Loop => Go::To(0),
            Target::End => Go::End(Ended::End),
            Target::Exit => Go::End(Ended::Exit),
            Target::Stop => Go::End(Ended::Stop),
            Target::Error => return Err("error in script".to_owned()),
            Target::Label(label) => match self.machine.program.labels.get(&label) {
                Some(&step) => Go::To(step),
                None => return Err(format!("no such label ‘{label}’")),
            },
        }))
    }
}

/// What comes after an instruction, if not the next one.
enum Go {
    To(usize),
    End(Ended),
}

/// What names mean in a script.
struct Names<'a> {
    machine: &'a Machine,
    router: &'a Router,
    element: usize,
    arguments: Option<&'a Arguments>,
}

impl Names<'_> {
    /// A text with its variables replaced, and a layer of quotes removed if asked.
    fn text(&self, text: &str, unquotes: bool) -> Text {
        let text = self.expanded(text);
        if unquotes { unquote(&text) } else { text.into_bytes() }
    }

    fn expanded(&self, text: &str) -> String {
        match expand(text, LONGEST, |reference| self.value(reference)) {
            Ok(expanded) => expanded.into_owned(),
            Err(error) => {
                self.router.chatter(&format!("{}: {error}", self.router.name_of(self.element)));
                String::new()
            }
        }
    }

    fn value(&self, reference: Reference<'_>) -> Option<Cow<'static, str>> {
        let value = match reference {
            Reference::Name(name) => self.variable(name)?,
            Reference::Call(call) => {
                let call = expand_quoted(call, LONGEST, |inner| self.value(inner)).ok()?;
                let (handler, parameter) = split(&call);
                match self.read(handler, parameter.as_bytes()) {
                    Ok(value) => value,
                    Err(message) => {
                        let name = self.router.name_of(self.element);
                        self.router.chatter(&format!("{name}: {message}"));
                        Text::new()
                    }
                }
            }
        };
        Some(String::from_utf8_lossy(&value).into_owned().into())
    }

    fn variable(&self, name: &str) -> Option<Text> {
        if name == "$" {
            return Some(std::process::id().to_string().into_bytes());
        }
        if let Some(arguments) = self.arguments
            && let Some(value) = arguments.variable(name)
        {
            return Some(value);
        }
        self.machine.get(name)
    }

    fn read(&self, handler: &str, parameter: &[u8]) -> Result<Text, String> {
        let own = FUNCTIONS.iter().find(|(name, _)| *name == handler);
        if let Some((_, function)) = own {
            return function(&String::from_utf8_lossy(parameter));
        }
        let reference = args::parse::<HandlerRef>(handler, &self.router.scope_of(self.element))?;
        self.router
            .read_from(self.element, &reference, parameter)
            .map_err(|error| error.to_string())
    }
}

impl Arguments {
    fn variable(&self, name: &str) -> Option<Text> {
        let text = match name {
            "args" => self.text.clone(),
            "0" => self.handler.clone(),
            "write" => self.writes.to_string(),
            "input" => self.input.to_string(),
            "#" => functions::words(&self.text).len().to_string(),
            _ => {
                let number: usize = name.parse().ok()?;
                let words = millrace_lang::config::split_words(&self.text);
                words.get(number.checked_sub(1)?)?.text.to_owned()
            }
        };
        Some(text.into_bytes())
    }
}

fn append(name: String, appends: bool, value: &[u8]) -> std::io::Result<()> {
    if name == "-" {
        return std::io::stdout().write_all(value);
    }
    let mut options = OpenOptions::new();
    options.create(true).write(true).append(appends).truncate(!appends);
    options.open(name)?.write_all(value)
}

fn complain(place: Place<'_>, message: &str) {
    place.router.chatter(&format!("{}: {message}", place.router.name_of(place.element)));
}
