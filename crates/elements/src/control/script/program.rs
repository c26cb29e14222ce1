//! Scripts as written: a list of instructions.

use std::collections::HashMap;

use millrace_core::Args;
use millrace_core::args::ArgText;

/// The instructions of a script and where its labels stand.
#[derive(Debug, Default)]
pub(super) struct Program {
    pub(super) steps: Vec<Step>,
    pub(super) labels: HashMap<String, usize>,
}

/// An instruction. Texts are as written: variables are replaced when it runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Step {
    /// Sets a variable; `once`, when the script is initialised; `exported`, readable as a handler.
    Set { variable: String, text: String, unquotes: bool, once: bool, exported: bool },
    /// Prints a text or a handler's value.
    Print { text: String, newline: bool, unquotes: bool },
    /// Prints a handler's name and value on standard error.
    Read { text: String, unquotes: bool },
    /// Writes a handler.
    Write { text: String, unquotes: bool },
    /// Writes a handler's value to a file.
    Save { text: String, appends: bool },
    /// Waits for a number of steps, or in a driver script of requests to stop.
    Pause { count: String },
    /// Waits for a time.
    Wait { time: String },
    /// Goes to a label if a condition holds.
    Goto { target: Target, condition: String },
    /// Ends with a value.
    Return { text: String, unquotes: bool },
    /// Ends with an error.
    Error { text: String, unquotes: bool },
    /// Does nothing.
    Label,
}

/// Where a jump leads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Target {
    Label(String),
    /// The first instruction.
    Loop,
    End,
    Exit,
    Stop,
    Error,
}

impl Program {
    /// Reads all arguments that are left as instructions.
    pub(super) fn read(args: &mut Args<'_>) -> Self {
        let mut program = Self::default();
        for argument in args.rest() {
            if argument.is_empty() {
                continue;
            }
            match program.read_step(&argument) {
                Ok(step) => program.steps.push(step),
                Err(message) => args.error(&argument, message),
            }
        }
        for step in &program.steps {
            if let Step::Goto { target: Target::Label(label), .. } = step
                && !program.labels.contains_key(label)
                // A label may be computed while the script runs.
                && !label.contains('$')
            {
                args.error((), format!("no such label ‘{label}’"));
            }
        }
        program
    }

    fn read_step(&mut self, argument: &ArgText) -> Result<Step, String> {
        let (word, rest) = argument.split_first_word();
        let (word, rest) = (word.as_str(), rest.as_str().trim());
        let text = rest.to_owned();
        let unquotes = word.ends_with('q');
        Ok(match word {
            "set" | "setq" => Self::set(rest, unquotes, false, false)?,
            "init" | "initq" => Self::set(rest, unquotes, true, false)?,
            "export" | "exportq" => Self::set(rest, unquotes, true, true)?,
            "print" | "printq" => Step::Print { text, newline: true, unquotes },
            "printn" | "printnq" => Step::Print { text, newline: false, unquotes },
            "read" | "readq" => Step::Read { text, unquotes },
            "write" | "writeq" => Step::Write { text, unquotes },
            "save" => Step::Save { text, appends: false },
            "append" => Step::Save { text, appends: true },
            "pause" | "wait_step" | "wait_stop" => Step::Pause { count: text },
            "wait" if rest.is_empty() => Step::Pause { count: text },
            "wait" | "wait_for" | "wait_time" => match rest {
                "" => return Err(format!("missing time in ‘{word}’")),
                _ => Step::Wait { time: text },
            },
            "label" => {
                if !is_word(rest) {
                    return Err("bad label name".to_owned());
                }
                if self.labels.insert(text, self.steps.len()).is_some() {
                    return Err(format!("label ‘{rest}’ already defined"));
                }
                Step::Label
            }
            "goto" => {
                let (label, condition) = split(rest);
                if label.is_empty() {
                    return Err("missing label in ‘goto’".to_owned());
                }
                Step::Goto { target: Target::named(label), condition: condition.to_owned() }
            }
            "loop" | "end" | "exit" | "stop" => {
                Step::Goto { target: Target::named(word), condition: text }
            }
            "return" | "returnq" => Step::Return { text, unquotes },
            "error" | "errorq" => Step::Error { text, unquotes },
            _ => return Err(format!("unknown instruction ‘{word}’")),
        })
    }

    fn set(rest: &str, unquotes: bool, once: bool, exported: bool) -> Result<Step, String> {
        let (variable, text) = split(rest);
        if !is_word(variable) {
            return Err(format!("bad variable name ‘{variable}’"));
        }
        let (variable, text) = (variable.to_owned(), text.to_owned());
        Ok(Step::Set { variable, text, unquotes, once, exported })
    }
}

impl Target {
    pub(super) fn named(label: &str) -> Self {
        match label {
            "loop" | "begin" => Self::Loop,
            "end" => Self::End,
            "exit" => Self::Exit,
            "stop" => Self::Stop,
            "error" => Self::Error,
            _ => Self::Label(label.to_owned()),
        }
    }
}

/// The first word and the rest.
pub(super) fn split(text: &str) -> (&str, &str) {
    millrace_lang::config::shift_word(text)
}

fn is_word(text: &str) -> bool {
    !text.is_empty() && text.chars().all(|c| c.is_alphanumeric() || c == '_')
}
