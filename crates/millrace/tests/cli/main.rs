//! The program from end to end: what is typed, what is printed, what the exit status is.

#![allow(clippy::unwrap_used, clippy::panic, reason = "what cannot be set up fails the test")]

mod capture;
mod check;
mod click;
mod control;
mod gpu;
mod gpu_driver;
mod http;
mod memory;
mod pictures;
mod run;
mod sandbox;
mod slips;
mod top;
mod trace;

use std::io::Write;
use std::process::{Command, Output, Stdio};

/// What came of a run of the program.
#[derive(Debug)]
struct Done {
    stdout: String,
    stderr: String,
    status: i32,
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Self {
            stdout: String::from_utf8(output.stdout).unwrap(),
            stderr: String::from_utf8(output.stderr).unwrap(),
            status: output.status.code().unwrap_or(-1),
        }
    }
}

/// `millrace`, with a locale that has all of Unicode.
fn millrace_command() -> Command {
    command(env!("CARGO_BIN_EXE_millrace"))
}

fn click_command() -> Command {
    command(env!("CARGO_BIN_EXE_click"))
}

fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.env("LC_ALL", "C.UTF-8").env_remove("CLICKPATH").stdin(Stdio::null());
    command
}

fn millrace(args: &[&str]) -> Done {
    millrace_command().args(args).output().unwrap().into()
}

fn click(args: &[&str]) -> Done {
    click_command().args(args).output().unwrap().into()
}

/// Runs a command with text on its standard input.
fn with_input(command: &mut Command, text: &str) -> Done {
    let piped = command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = piped.spawn().unwrap();
    child.stdin.take().unwrap().write_all(text.as_bytes()).unwrap();
    child.wait_with_output().unwrap().into()
}

/// A file in a folder of its own, which goes when this is dropped.
struct TempFile {
    folder: tempfile::TempDir,
    name: &'static str,
}

impl TempFile {
    fn new(name: &'static str, text: impl AsRef<[u8]>) -> Self {
        let file = Self { folder: tempfile::tempdir().unwrap(), name };
        std::fs::write(file.path(), text).unwrap();
        file
    }

    fn path(&self) -> String {
        self.folder.path().join(self.name).to_str().unwrap().to_owned()
    }

    fn read(&self) -> String {
        std::fs::read_to_string(self.path()).unwrap()
    }
}

#[test]
fn sub_commands_are_explained() {
    let help = millrace(&["help"]);
    assert_eq!(help.status, 0);
    for command in [
        "run", "check", "flatten", "fmt", "graph", "plan", "elements", "handlers", "read", "write",
        "hotswap",
    ] {
        assert!(help.stdout.contains(&format!("\n  {command} ")), "{command}");
        let own = millrace(&[command, "--help"]);
        assert_eq!(own.status, 0);
        assert!(own.stdout.contains("Usage: millrace"), "{command}");
    }
    assert_eq!(millrace(&["fly"]).status, 2);
    assert_eq!(
        millrace(&["--version"]).stdout,
        format!("millrace {}\n", env!("CARGO_PKG_VERSION"))
    );
}

#[test]
fn elements_are_listed_and_explained() {
    let list = millrace(&["elements"]);
    assert_eq!(list.status, 0);
    let line = list.stdout.lines().find(|line| line.starts_with("  Discard ")).unwrap();
    assert!(line.ends_with("  throws packets away"), "{line}");

    let manual = millrace(&["elements", "Discard"]).stdout;
    assert!(manual.starts_with("Discard - throws packets away\n\nSYNOPSIS\n"), "{manual}");
    assert!(!manual.contains("```"));
    let markdown = millrace(&["elements", "Discard", "--markdown"]).stdout;
    assert!(markdown.contains("\n## Synopsis\n") && markdown.contains("```click"), "{markdown}");

    let json: serde_json::Value =
        serde_json::from_str(&millrace(&["elements", "--json"]).stdout).unwrap();
    let discard = json.as_array().unwrap().iter().find(|class| class["name"] == "Discard").unwrap();
    assert_eq!(discard["topic"], "standard");
    assert_eq!(discard["ports"], "1/0");

    let wrong = millrace(&["elements", "Diskard"]);
    assert_eq!(wrong.status, 1);
    assert_eq!(
        wrong.stderr,
        "millrace: there is no element class ‘Diskard’; did you mean ‘Discard’?\n"
    );
}

#[test]
fn elements_are_found_by_words() {
    let found = |words: &[&str]| {
        let done = millrace(&[&["elements"], words].concat());
        assert_eq!(done.status, 0, "{}", done.stderr);
        let names = done.stdout.lines().filter_map(|line| line.split_whitespace().next());
        (names.map(str::to_owned).collect::<Vec<_>>(), done.stderr)
    };
    // The class of that name, those with it in theirs, in their title, in their text.
    let (names, near) = found(&["discard"]);
    let at = |name: &str| names.iter().position(|found| found == name).unwrap();
    assert_eq!((at("Discard"), near.as_str()), (0, ""));
    let order = ["Discard", "Idle", "Queue"].map(at);
    assert!(order.is_sorted(), "{names:?}");

    // All words, in whatever case and order, in one argument or several.
    let (names, _) = found(&["TTL", "decrements"]);
    assert!(names.starts_with(&["DecIPTTL".to_owned()]), "{names:?}");
    assert_eq!(found(&["Decrements ttl"]).0, names);
    assert!(!names.contains(&"Discard".to_owned()));

    let (_, near) = found(&["prints"]);
    assert_eq!(near, "There is no element class ‘prints’; did you mean ‘Print’?\n");

    let json = millrace(&["elements", "decrements", "ttl", "--json"]).stdout;
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json[0]["name"], "DecIPTTL");
    assert_eq!(json[0]["per_packet"], true);
    let nowhere = millrace(&["elements", "discard", "xyzzy"]);
    assert_eq!(nowhere.status, 1);
    let expected = "there is no element class ‘discard xyzzy’; `millrace elements` lists them\n";
    assert_eq!(nowhere.stderr, format!("millrace: {expected}"));
}
