//! Scripts as written: a list of instructions.

use std::collections::{HashMap, HashSet};

use millrace_core::args::ArgText;
use millrace_core::{Args, Need};
use millrace_lang::config::unquote;
use millrace_lang::nearest;

/// The instructions of a script. The first one is a wait, or [`Step::Begin`]; the last one ends it.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    labels: HashMap<String, usize>,
    /// Those that the next step has.
    unplaced: Vec<String>,
    /// Variables that can be read as handlers.
    pub(super) exported: HashSet<String>,
}

/// An instruction. Texts are unchanged: variables are replaced when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// The start of a script that does not start with a wait.
    Begin,
    /// Sets a variable.
    Set { variable: String, text: String, unquotes: bool },
    /// Sets a variable when the script is initialised; does nothing when it runs.
    Init { variable: String, text: String, unquotes: bool },
    /// Prints a text or a handler's value.
    Print { to: Option<Redirect>, text: String, newline: bool, unquotes: bool },
    /// Prints a handler's name and value on standard error.
    Read { text: String, unquotes: bool },
    /// Writes a handler.
    Write { text: String, unquotes: bool },
    /// Waits for a number of steps or, in a driver script, requests to stop.
    WaitFor { count: u64 },
    /// Waits for a time.
    WaitTime { time: String },
    /// Jumps if a condition holds.
    Goto { target: Target, condition: String },
    /// Ends with a value.
    Return { text: String, unquotes: bool },
    /// Ends with an error.
    Error { text: String, unquotes: bool },
    /// Ends.
    End,
    /// Ends; drops the packet, or stops listening for signals.
    Exit,
    /// Ends, and asks the program to stop.
    Stop,
    /// Does nothing.
    Label,
}

/// The first words of instructions.
const INSTRUCTIONS: [&str; 32] = [
    "set",
    "setq",
    "init",
    "initq",
    "export",
    "exportq",
    "print",
    "printq",
    "printn",
    "printnq",
    "save",
    "append",
    "read",
    "readq",
    "write",
    "writeq",
    "pause",
    "wait",
    "wait_step",
    "wait_stop",
    "wait_for",
    "wait_time",
    "label",
    "goto",
    "loop",
    "end",
    "exit",
    "stop",
    "return",
    "returnq",
    "error",
    "errorq",
];

/// The labels that every script has.
const LABELS: [&str; 7] = ["loop", "begin", "end", "exit", "stop", "error", "errorq"];

/// A file to print to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Redirect {
    pub(super) file: String,
    pub(super) appends: bool,
}

/// The target of a jump.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Step(usize),
    End,
    Exit,
    Stop,
    Error,
}

impl Step {
    /// The files that it names.
    fn files(&self) -> Vec<Need> {
        let mut files = Vec::new();
        match self {
            Self::Print { to: Some(Redirect { file, .. }), .. } if !file.contains('$') => {
                files.extend(Need::write(file));
            }
            // `write counts.write_file /tmp/counts`
            Self::Write { text, .. } => {
                let (handler, value) = split(text);
                files.extend(Need::of_call(handler, value.as_bytes()));
            }
            _ => {}
        }
        files.extend(self.texts().into_iter().flat_map(read_by_functions));
        files
    }

    /// The texts in which variables and functions are expanded.
    pub(super) fn texts(&self) -> Vec<&str> {
        match self {
            Self::Set { text, .. }
            | Self::Init { text, .. }
            | Self::Print { text, .. }
            | Self::Read { text, .. }
            | Self::Write { text, .. }
            | Self::Return { text, .. }
            | Self::Error { text, .. } => vec![text],
            Self::Goto { condition, .. } => vec![condition],
            _ => Vec::new(),
        }
    }
}

/// The files of `$(cat FILE)`.
fn read_by_functions(text: &str) -> impl Iterator<Item = Need> {
    text.split("$(cat").skip(1).filter_map(|rest| {
        let name = rest.strip_prefix('q').unwrap_or(rest).split(')').next()?;
        (name.starts_with(char::is_whitespace) && !name.contains('$'))
            .then(|| Need::read_later(unquote_name(name)))?
    })
}

fn unquote_name(text: &str) -> String {
    String::from_utf8_lossy(&unquote(text.trim())).into_owned()
}

impl Program {
    /// Reads all remaining arguments as instructions.
    pub(super) fn read(args: &mut Args<'_>, drives: bool) -> Self {
        let mut program = Self::default();
        let mut jumps = Vec::new();
        for argument in args.rest() {
            if argument.is_empty() {
                continue;
            }
            match program.read_step(&argument) {
                Some((step, label)) => {
                    if let Some(label) = label {
                        jumps.push((program.add(step), label, argument));
                    } else {
                        program.add(step);
                    }
                }
                None => {
                    let word = argument.split_first_word().0;
                    let word = word.as_str();
                    let help = match nearest(word, INSTRUCTIONS.iter().copied()) {
                        _ if INSTRUCTIONS.contains(&word) => {
                            "see `millrace elements Script`".to_owned()
                        }
                        Some(near) => format!("did you mean ‘{near}’?"),
                        None => format!("the instructions are {}", INSTRUCTIONS.join(" ")),
                    };
                    args.error_with_help(&argument, format!("syntax error at ‘{word}’"), help);
                }
            }
        }
        for (at, label, argument) in jumps {
            let found = program.target(&label);
            if found.is_none() {
                let mut labels: Vec<&str> = program.labels.keys().map(String::as_str).collect();
                labels.sort_unstable();
                labels.extend(LABELS);
                let help = nearest(&label, labels).map(|near| format!("did you mean ‘{near}’?"));
                let message = format!("no such label ‘{label}’");
                args.error_with_help(&argument, message, help.unwrap_or_default());
            }
            if let (Some(found), Some(Step::Goto { target, .. })) =
                (found, program.steps.get_mut(at))
            {
                *target = found;
            }
        }
        if program.steps.is_empty() && drives {
            program.add(Step::WaitFor { count: 1 });
        }
        program.add(if drives { Step::Stop } else { Step::End });
        program
    }

    /// The files that the instructions name: those that they write, and those that functions and handlers read or write.
    /// A name that is only known when the script runs is none of them.
    pub(super) fn files(&self) -> Vec<Need> {
        self.steps.iter().flat_map(Step::files).collect()
    }

    /// The target of a label, or of a predefined one.
    pub(super) fn target(&self, label: &str) -> Option<Target> {
        if let Some(&step) = self.labels.get(label) {
            return Some(Target::Step(step));
        }
        Some(match label {
            "loop" | "begin" => Target::Step(0),
            "end" => Target::End,
            "exit" => Target::Exit,
            "stop" => Target::Stop,
            "error" | "errorq" => Target::Error,
            _ => return None,
        })
    }

    /// Adds an instruction; returns its position.
    fn add(&mut self, step: Step) -> usize {
        let waits = matches!(step, Step::WaitFor { .. } | Step::WaitTime { .. });
        if self.steps.is_empty() && !waits {
            self.steps.push(Step::Begin);
        }
        if let Step::Label = step {
            let here = self.steps.len();
            for label in self.unplaced.drain(..) {
                self.labels.insert(label, here);
            }
        }
        self.steps.push(step);
        self.steps.len() - 1
    }

    /// An instruction, and the label that it goes to.
    fn read_step(&mut self, argument: &ArgText) -> Option<(Step, Option<String>)> {
        let (word, rest) = argument.split_first_word();
        let (word, rest) = (word.as_str(), rest.as_str().trim());
        let text = rest.to_owned();
        let unquotes = word.ends_with('q');
        let goto = |target: &str, condition: &str| {
            let step = Step::Goto { target: Target::Step(0), condition: condition.to_owned() };
            Some((step, Some(target.to_owned())))
        };
        let step = match word {
            "set" | "setq" => {
                let (variable, text) = split(rest);
                if text.is_empty() {
                    return None;
                }
                Step::Set { variable: variable.to_owned(), text: text.to_owned(), unquotes }
            }
            "init" | "initq" | "export" | "exportq" => {
                let (variable, text) = split(rest);
                if variable.is_empty() {
                    return None;
                }
                if word.starts_with("export") {
                    self.exported.insert(variable.to_owned());
                }
                Step::Init { variable: variable.to_owned(), text: text.to_owned(), unquotes }
            }
            "print" | "printq" | "printn" | "printnq" => {
                let (to, text) = redirect(rest);
                let newline = matches!(word, "print" | "printq");
                Step::Print { to, text: text.to_owned(), newline, unquotes }
            }
            "save" | "append" => {
                let (handler, file) = split(rest);
                let file = if file.is_empty() { "-" } else { split(file).0 };
                let to = Some(Redirect { file: file.to_owned(), appends: word == "append" });
                Step::Print { to, text: handler.to_owned(), newline: true, unquotes: false }
            }
            "read" | "readq" => Step::Read { text, unquotes },
            "write" | "writeq" => Step::Write { text, unquotes },
            "pause" | "wait_step" | "wait_stop" => Step::WaitFor { count: count(rest)? },
            "wait" if rest.is_empty() => Step::WaitFor { count: 1 },
            "wait" | "wait_for" | "wait_time" => Step::WaitTime { time: text },
            "label" => {
                if rest.is_empty() || rest.contains(char::is_whitespace) {
                    return None;
                }
                // If two labels have the same name, the first one counts.
                if !self.labels.contains_key(&text) {
                    self.unplaced.push(text);
                }
                Step::Label
            }
            "goto" if rest.is_empty() => return goto("loop", ""),
            "goto" => {
                let (label, condition) = split(rest);
                return goto(label, condition);
            }
            "loop" if rest.is_empty() => return goto("loop", ""),
            "end" if rest.is_empty() => Step::End,
            "exit" if rest.is_empty() => Step::Exit,
            "stop" if rest.is_empty() => Step::Stop,
            "return" | "returnq" => Step::Return { text, unquotes },
            "error" | "errorq" => Step::Error { text, unquotes },
            _ => return None,
        };
        Some((step, None))
    }
}

/// The first word and the rest.
pub(super) fn split(text: &str) -> (&str, &str) {
    millrace_lang::config::shift_word(text)
}

/// The file named by `>FILE` or `>>FILE`, and the rest of the text.
fn redirect(text: &str) -> (Option<Redirect>, &str) {
    let (appends, rest) = match (text.strip_prefix(">>"), text.strip_prefix('>')) {
        (Some(rest), _) => (true, rest),
        (None, Some(rest)) => (false, rest),
        (None, None) => return (None, text),
    };
    let (file, text) = split(rest);
    (Some(Redirect { file: file.to_owned(), appends }), text)
}

fn count(text: &str) -> Option<u64> {
    match text {
        "" => Some(1),
        text => text.parse().ok(),
    }
}
