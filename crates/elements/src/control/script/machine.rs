//! Scripts at run time: their position, and how they step.

use std::cell::RefCell;
use std::collections::HashMap;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::sync::MutexGuard;
use std::sync::atomic::AtomicU64;
use std::thread::ThreadId;

use millrace_core::args::{self, Seconds};
use millrace_core::element::Text;
use millrace_core::{Lock, Phase, Router, Timer, Timestamp, os_error_text, standard_output};
use millrace_lang::config::unquote;

use super::errors::{Errors, declaration};
use super::functions;
use super::names::{Arguments, Names};
use super::program::{Program, Redirect, Step, Target};

/// A script: its program, its variables, and its position.
pub(super) struct Machine {
    pub(super) program: Program,
    pub(super) kind: Kind,
    timer: Timer,
    variables: Lock<HashMap<String, Text>>,
    position: Lock<Position>,
    /// The arguments of the call that a waiting script belongs to.
    arguments: Lock<Arguments>,
    /// The thread that runs the script from its position.
    runner: Lock<Option<ThreadId>>,
    /// The errors that nobody but the user was told of.
    pub(super) failures: AtomicU64,
}

/// When a script runs (Click's script types).
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::control) enum Kind {
    /// From the start.
    Active,
    /// From the start; it also decides what happens when the program is asked to stop.
    Driver,
    /// When its `run` handler is called.
    Passive,
    /// When any handler is called.
    Proxy,
    /// When a packet arrives.
    Packet,
    /// When one of these signals arrives.
    Signal(Vec<i32>),
}

/// The position of a script.
#[derive(Clone, Debug, Default)]
struct Position {
    /// The next instruction.
    at: usize,
    /// The number of waits passed so far.
    taken: i64,
    /// For waits of several steps: the steps so far.
    counts: HashMap<usize, u64>,
    /// Whether the script has not started; only for a script that does not start with a wait.
    fresh: bool,
    /// Steps requested while the script ran.
    owed: Option<i64>,
}

/// How a run of a script ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Ended {
    /// It ended, is waiting, or was given up; the value that it returns.
    Well(Text),
    /// It asked the program to stop.
    Stop,
    /// It ended with an error.
    Error,
}

/// What makes a script step.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum How {
    /// A handler, or the timer.
    Step,
    /// A request to stop.
    Router,
    /// A jump, which passes no wait.
    Jump,
}

/// The number of jumps that a script may make without waiting.
const MOST_JUMPS: u32 = 1000;
/// How deeply scripts may call one another.
const DEEPEST: u32 = 32;

thread_local! {
    static DEPTH: std::cell::Cell<u32> = const { std::cell::Cell::new(0) };
}

/// The router and the element that a run belongs to.
#[derive(Clone, Copy)]
pub(super) struct Place<'a> {
    pub(super) router: &'a Router,
    pub(super) element: usize,
}

impl Machine {
    pub(super) fn new(program: Program, kind: Kind, timer: Timer) -> Self {
        Self {
            program,
            kind,
            timer,
            variables: Lock::default(),
            position: Lock::default(),
            arguments: Lock::default(),
            runner: Lock::default(),
            failures: 0.into(),
        }
    }

    /// Sets the `init` variables and starts an active script.
    pub(super) fn start(&self, router: &Router, element: usize) {
        let errors = Errors::executing(router, element, &self.failures);
        let place = Place { router, element };
        let run = Run::shared(self, place, &errors);
        for step in &self.program.steps {
            if let Step::Init { variable, text, unquotes } = step {
                let value = run.names().text(text, *unquotes);
                self.set(variable, value);
            }
        }
        if !matches!(self.kind, Kind::Active | Kind::Driver) {
            return;
        }
        match self.program.steps.first() {
            Some(Step::WaitTime { time }) => {
                run.wait(time);
            }
            Some(Step::Begin) => {
                self.position().fresh = true;
                match self.kind {
                    Kind::Driver => router.request_stop(),
                    _ => self.timer.schedule_at(router.clock().now()),
                }
            }
            _ => {}
        }
    }

    /// The timer has expired: the wait is over.
    pub(super) fn wake(&self, place: Place<'_>) {
        let errors = Errors::executing(place.router, place.element, &self.failures);
        let Some(_guard) = self.enter() else {
            // Another thread is running the script: try again soon.
            let soon = place.router.clock().now() + Timestamp::from_millis(1);
            return self.timer.schedule_at(soon);
        };
        let run = Run::shared(self, place, &errors);
        run.advance(1, How::Step, 0);
        loop {
            let owed = self.position().owed.take();
            let Some(n) = owed else { break };
            run.advance(n, How::Step, 0);
        }
        self.end(&run);
    }

    /// Steps past waits. Returns how the run ended, and whether the script waits.
    pub(super) fn step(
        &self,
        place: Place<'_>,
        errors: &Errors<'_>,
        n: i64,
        how: How,
    ) -> (Ended, bool) {
        let run = Run::shared(self, place, errors);
        let Some(_guard) = self.enter() else {
            // The thread that runs the script takes these steps.
            let owed = self.position().owed.unwrap_or(0);
            self.position().owed = Some(owed + n);
            return (Ended::Well(Text::new()), true);
        };
        let running = self.position().owed.is_some();
        if running {
            if how == How::Step {
                let mut position = self.position();
                position.owed = position.owed.map(|owed| owed + n);
            }
            return (self.finish(&run), true);
        }
        let (mut n, mut how, mut jumps) = (n, how, 0);
        loop {
            self.position().owed = Some(-1);
            let waits;
            (jumps, waits) = run.advance(n, how, jumps);
            let owed = self.position().owed.take();
            match owed {
                Some(owed) if owed >= 0 => n = owed,
                _ => return (self.end(&run), waits),
            }
            how = How::Step;
        }
    }

    /// Goes to a label. `None` if there is no such label.
    pub(super) fn go_to(
        &self,
        place: Place<'_>,
        errors: &Errors<'_>,
        label: &str,
    ) -> Option<Ended> {
        let Some(Target::Step(step)) = self.program.target(label) else { return None };
        {
            let mut position = self.position();
            position.counts.retain(|&at, _| at < step);
            position.at = step;
        }
        Some(self.step(place, errors, 0, How::Jump).0)
    }

    /// Whether a driver script keeps the program running when it is asked to stop; if so, the request counts as a step.
    pub(super) fn outlives_stop(&self, place: Place<'_>) -> bool {
        if self.kind != Kind::Driver {
            return false;
        }
        let errors = Errors::to_user(place.router, &self.failures);
        for _ in 0..MOST_JUMPS {
            let (ended, waits) = self.step(place, &errors, 1, How::Router);
            if !matches!(ended, Ended::Well(_)) || !waits {
                return false;
            }
            if place.router.phase() == Phase::Running {
                return true;
            }
        }
        false
    }

    /// Runs a called script from its first instruction. Scripts that run on their own start again; each call of the
    /// others has a run of its own, which can be stepped when it waits.
    pub(super) fn call(
        &self,
        place: Place<'_>,
        errors: &Errors<'_>,
        arguments: Arguments,
    ) -> Ended {
        let depth = DEPTH.get();
        if depth >= DEEPEST {
            errors.error("scripts call one another too deeply");
            return Ended::Error;
        }
        DEPTH.set(depth + 1);
        let ended = match self.kind {
            Kind::Active | Kind::Driver | Kind::Signal(_) => {
                self.position().at = 0;
                *self.arguments() = arguments;
                self.step(place, errors, 0, How::Jump).0
            }
            Kind::Passive | Kind::Proxy | Kind::Packet => {
                let run = Run {
                    machine: self,
                    place,
                    errors,
                    position: Some(RefCell::default()),
                    arguments: Some(RefCell::new(arguments)),
                };
                let (_, waits) = run.advance(0, How::Jump, 0);
                let ended = self.finish(&run);
                if waits {
                    self.adopt(run);
                }
                ended
            }
        };
        DEPTH.set(depth);
        ended
    }

    /// Lets the timer and the handlers continue a run that waits.
    fn adopt(&self, run: Run<'_>) {
        let (Some(position), Some(arguments)) = (run.position, run.arguments) else { return };
        let position = position.into_inner();
        let step = self.program.steps.get(position.at);
        if matches!(step, Some(Step::WaitFor { .. } | Step::WaitTime { .. })) {
            *self.position() = position;
            *self.arguments() = arguments.into_inner();
        }
    }

    /// How the script ended, according to the instruction at its position.
    fn finish(&self, run: &Run<'_>) -> Ended {
        let at = run.with(|position| position.at);
        let packet = self.kind == Kind::Packet;
        let target = match self.program.steps.get(at) {
            Some(Step::Return { .. }) => {
                return Ended::Well(self.get("_").unwrap_or_default());
            }
            Some(Step::End) => Target::End,
            Some(Step::Stop) => Target::Stop,
            Some(Step::Error { .. }) => Target::Error,
            Some(Step::Goto { target, .. }) => *target,
            _ => return Ended::Well(Text::new()),
        };
        match target {
            Target::End => Ended::Well(if packet { b"0".to_vec() } else { Text::new() }),
            Target::Stop => Ended::Stop,
            Target::Error => Ended::Error,
            Target::Exit | Target::Step(_) => Ended::Well(Text::new()),
        }
    }

    /// The same, where nothing of the run is left to do: signals run a script again that has ended, and not one that has
    /// left. While it waits, they wait too.
    fn end(&self, run: &Run<'_>) -> Ended {
        if let Kind::Signal(signals) = &self.kind {
            let at = run.with(|position| position.at);
            match self.program.steps.get(at) {
                Some(Step::WaitFor { .. } | Step::WaitTime { .. }) => {}
                Some(Step::End | Step::Goto { target: Target::End, .. }) => {
                    self.listen(run.place, signals);
                }
                _ => self.forget(run.place, signals),
            }
        }
        self.finish(run)
    }

    /// Makes signals run the script.
    pub(super) fn listen(&self, place: Place<'_>, signals: &[i32]) {
        for &signal in signals {
            if place.router.signals().listen(signal, place.element) {
                place.router.wake();
            }
        }
    }

    /// Signals run the script no longer.
    fn forget(&self, place: Place<'_>, signals: &[i32]) {
        for &signal in signals {
            if place.router.signals().forget(signal, place.element) {
                place.router.wake();
            }
        }
    }

    pub(super) fn get(&self, variable: &str) -> Option<Text> {
        self.variables().get(variable).cloned()
    }

    pub(super) fn set(&self, variable: &str, value: Text) {
        self.variables().insert(variable.to_owned(), value);
    }

    /// Whether a variable can be read as a handler.
    pub(super) fn exports(&self, variable: &str) -> bool {
        self.program.exported.contains(variable)
    }

    fn variables(&self) -> MutexGuard<'_, HashMap<String, Text>> {
        self.variables.lock()
    }

    fn position(&self) -> MutexGuard<'_, Position> {
        self.position.lock()
    }

    pub(super) fn arguments(&self) -> MutexGuard<'_, Arguments> {
        self.arguments.lock()
    }

    fn runner(&self) -> MutexGuard<'_, Option<ThreadId>> {
        self.runner.lock()
    }

    /// Makes this thread the one that runs the script; `None` while another thread runs it.
    fn enter(&self) -> Option<Entered<'_>> {
        let me = std::thread::current().id();
        let mut runner = self.runner();
        match *runner {
            Some(other) if other != me => None,
            Some(_) => Some(Entered { machine: None }),
            None => {
                *runner = Some(me);
                Some(Entered { machine: Some(self) })
            }
        }
    }
}

/// This thread runs the script as long as this value lives.
struct Entered<'a> {
    machine: Option<&'a Machine>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        if let Some(machine) = self.machine {
            *machine.runner() = None;
        }
    }
}

/// One run of a script.
pub(super) struct Run<'a> {
    pub(super) machine: &'a Machine,
    pub(super) place: Place<'a>,
    pub(super) errors: &'a Errors<'a>,
    /// The position of the run, if not the script's own.
    position: Option<RefCell<Position>>,
    /// The arguments of the run's call, if not the script's own.
    pub(super) arguments: Option<RefCell<Arguments>>,
}

/// What follows an instruction, if not the next one.
enum Go {
    On,
    /// The script waits, or returns a value.
    Wait,
    /// The script ends here.
    End,
}

impl<'a> Run<'a> {
    /// A run from the script's position.
    fn shared(machine: &'a Machine, place: Place<'a>, errors: &'a Errors<'a>) -> Self {
        Self { machine, place, errors, position: None, arguments: None }
    }

    fn with<T>(&self, act: impl FnOnce(&mut Position) -> T) -> T {
        match &self.position {
            Some(own) => act(&mut own.borrow_mut()),
            None => act(&mut self.machine.position()),
        }
    }

    /// Executes instructions until `n` waits are passed and another one is reached. Returns how often the script
    /// jumped, and whether it waits.
    fn advance(&self, n: i64, how: How, jumps: u32) -> (u32, bool) {
        let steps = &self.machine.program.steps;
        let target = self.with(|position| position.taken + n);
        let mut jumps = jumps;
        while jumps < MOST_JUMPS {
            let here = self.with(|position| match position.taken <= target {
                true => {
                    position.at += 1;
                    Some(position.at - 1)
                }
                false => None,
            });
            let Some((here, step)) = here.and_then(|at| Some((at, steps.get(at)?))) else {
                self.with(|position| position.at = position.at.min(steps.len()));
                break;
            };
            match self.take(here, step, target, how) {
                Go::On => {}
                Go::Wait => break,
                Go::End => {
                    self.with(|position| position.at -= 1);
                    return (jumps + 1, false);
                }
            }
            if self.with(|position| position.at) != here + 1 {
                jumps += 1;
            }
        }
        if jumps >= MOST_JUMPS {
            let name = declaration(self.place.router, self.place.element);
            self.place.router.chatter(&format!("{name}: too many jumps, giving up"));
            self.with(|position| position.at = steps.len());
            self.machine.timer.unschedule();
        }
        (jumps + 1, true)
    }

    fn take(&self, here: usize, step: &Step, target: i64, how: How) -> Go {
        match step {
            Step::Begin => self.with(|position| {
                if std::mem::take(&mut position.fresh) {
                    position.taken += 1;
                }
            }),
            Step::Init { .. } | Step::Label => {}
            Step::Set { variable, text, unquotes } => {
                self.machine.set(variable, self.names().text(text, *unquotes));
            }
            Step::Return { text, unquotes } => {
                self.machine.set("_", self.names().text(text, *unquotes));
                let still_here = self.with(|position| match position.at == here + 1 {
                    true => {
                        position.at = here;
                        true
                    }
                    false => false,
                });
                if still_here {
                    return Go::Wait;
                }
            }
            Step::Print { to, text, newline, unquotes } => {
                self.print(to.as_ref(), text, *newline, *unquotes);
            }
            Step::Read { text, unquotes } => self.read(text, *unquotes),
            Step::Write { text, unquotes } => self.write(text, *unquotes),
            Step::WaitFor { count } => return self.wait_step(here, *count, target),
            Step::WaitTime { time } => {
                let over = self.with(|position| {
                    let over = position.taken < target;
                    position.taken += i64::from(over);
                    over
                });
                if !over {
                    if self.wait(time) {
                        self.with(|position| position.at = here);
                    }
                    return Go::Wait;
                }
                self.machine.timer.unschedule();
            }
            Step::Goto { target, condition } => return self.go_to(here, *target, condition),
            Step::Error { text, unquotes } => {
                let message = self.names().text(text, *unquotes);
                if !message.is_empty() {
                    self.errors.error(&String::from_utf8_lossy(&message));
                }
                return Go::End;
            }
            Step::End | Step::Exit => return Go::End,
            Step::Stop => {
                self.with(|position| position.taken += 1);
                if how != How::Router {
                    self.place.router.request_stop();
                }
                return Go::End;
            }
        }
        Go::On
    }

    pub(super) fn names(&self) -> Names<'_> {
        Names { run: self }
    }

    fn wait_step(&self, here: usize, count: u64, target: i64) -> Go {
        self.with(|position| {
            let had = position.counts.entry(here).or_default();
            while position.taken < target && *had < count {
                *had += 1;
                position.taken += 1;
            }
            if *had < count {
                position.at = here;
                return Go::Wait;
            }
            Go::On
        })
    }

    fn print(&self, to: Option<&Redirect>, text: &str, newline: bool, unquotes: bool) {
        let errors = self.errors.count();
        let file = to.map(|to| {
            let name = self.names().text(&to.file, true);
            (String::from_utf8_lossy(&name).into_owned(), to.appends)
        });
        // First, for the handler may read the file, and what it prints itself comes before its value.
        let handler = text.starts_with(|c: char| c.is_ascii_alphabetic() || c == '@' || c == '_');
        let mut value = match handler {
            true => self.names().called(text, unquotes).unwrap_or_default(),
            false => unquote(&self.names().expanded_quoted(text)),
        };
        let failed = self.errors.count() != errors;
        if newline && value.last() != Some(&b'\n') && !failed {
            value.push(b'\n');
        }
        let mut out: Box<dyn std::io::Write> = match &file {
            Some((name, appends)) if !name.is_empty() && name != "-" => {
                // What a file has is not given up for a value that there is not.
                if failed && value.is_empty() {
                    return;
                }
                match open(name, *appends) {
                    Ok(file) => Box::new(file),
                    Err(error) => {
                        return self.errors.error(&format!("{name}: {}", os_error_text(&error)));
                    }
                }
            }
            _ => Box::new(standard_output::for_data().lock()),
        };
        if let Err(error) = out.write_all(&value).and_then(|()| out.flush()) {
            self.errors.error(&format!("print: {}", os_error_text(&error)));
        }
    }

    fn read(&self, text: &str, unquotes: bool) {
        let names = self.names();
        if let Some((name, value)) = names.called_by_name(text, unquotes) {
            let value = String::from_utf8_lossy(&value).into_owned();
            let text = format!("{name}:\n{value}");
            self.place.router.chatter(text.strip_suffix('\n').unwrap_or(&text));
        }
    }

    fn write(&self, text: &str, unquotes: bool) {
        if let Some(status) = self.names().written(text, unquotes) {
            self.machine.set("?", status.to_string().into_bytes());
        }
    }

    /// Schedules the timer after a time; returns false if the text is not a time.
    fn wait(&self, time: &str) -> bool {
        let time = self.names().expanded(time);
        let scope = self.place.router.scope_of(self.place.element);
        match args::parse::<Seconds>(&time, &scope) {
            Ok(time) => {
                let nanos = i64::try_from(time.as_nanos()).unwrap_or(i64::MAX);
                let now = self.place.router.clock().now();
                let until = Timestamp::from_nanos(now.as_nanos().saturating_add(nanos));
                self.machine.timer.schedule_at(until);
                true
            }
            Err(_) => {
                self.errors.error("syntax error at ‘wait’");
                false
            }
        }
    }

    fn go_to(&self, here: usize, target: Target, condition: &str) -> Go {
        let condition = self.names().expanded(condition);
        if !condition.is_empty() {
            let text = unquote(&condition);
            match functions::truth(String::from_utf8_lossy(&text).trim()) {
                Some(true) => {}
                Some(false) => return Go::On,
                None => {
                    self.errors.error(&format!("bad condition ‘{condition}’"));
                    return Go::On;
                }
            }
        }
        match target {
            Target::Step(to) => self.with(|position| {
                position.counts.retain(|at, _| !(to..here).contains(at));
                position.at = to;
                Go::On
            }),
            Target::Stop => {
                self.place.router.request_stop();
                Go::End
            }
            Target::End | Target::Exit | Target::Error => Go::End,
        }
    }
}

fn open(name: &str, appends: bool) -> std::io::Result<std::fs::File> {
    let mut options = OpenOptions::new();
    options.create(true).write(true).append(appends).truncate(!appends);
    options.open(name)
}
