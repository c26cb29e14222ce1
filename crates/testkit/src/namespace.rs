//! Hosts as network namespaces.

#![allow(clippy::panic, reason = "what cannot be set up fails the test")]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::find_program;

/// A network namespace. It is deleted with all its contents when this is dropped.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// Creates a namespace with only a loopback interface. Its name is unique.
    ///
    /// # Panics
    /// It cannot be created: this needs root, and the programs `ip` and `sysctl`.
    pub fn new(role: &str) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let n = MADE.fetch_add(1, Relaxed);
        let name = format!("millrace-{}-{n}-{role}", std::process::id());
        successful(command("ip").args(["netns", "add", &name]));
        let namespace = Self { name };
        namespace.ip("link set dev lo up");
        // Neighbour discovery and group reports would disturb the packet counts of the tests.
        let quiet = ["all", "default"].map(|of| format!("net.ipv6.conf.{of}.disable_ipv6=1"));
        successful(namespace.command("sysctl").args(["-q", "-w"]).args(quiet));
        namespace
    }

    /// Deletes the namespaces of processes that were killed, with what is in them.
    pub fn delete_abandoned() {
        for namespace in std::fs::read_dir("/run/netns").into_iter().flatten().flatten() {
            let name = namespace.file_name().to_string_lossy().into_owned();
            let process = name.strip_prefix("millrace-").and_then(|rest| rest.split('-').next());
            let is_gone =
                |id: &str| id.parse::<u32>().is_ok() && !PathBuf::from("/proc").join(id).exists();
            if process.is_some_and(is_gone) {
                // Another process may do the same.
                let _ = command("ip").args(["netns", "delete", &name]).output();
            }
        }
    }

    /// A command that will run in the namespace.
    pub fn command(&self, program: &str) -> Command {
        let mut command = command("ip");
        command.args(["netns", "exec", &self.name]).arg(path(program));
        command
    }

    /// Runs a program until it ends. Words are separated by spaces.
    ///
    /// # Panics
    /// It cannot be started.
    pub fn run(&self, line: &str) -> Output {
        let mut words = line.split_whitespace();
        let mut command = self.command(words.next().unwrap_or_default());
        output(command.args(words))
    }

    /// Runs `ip` with words that are separated by spaces.
    ///
    /// # Panics
    /// It fails.
    pub fn ip(&self, line: &str) -> Output {
        successful(command("ip").args(["-n", &self.name]).args(line.split_whitespace()))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a function on a thread in the namespace. Programs that it starts also run there.
    ///
    /// # Panics
    /// The function panics, or the namespace cannot be entered.
    pub fn enter<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let result = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                move_to(&self.name)?;
                io::Result::Ok(act())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        result.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Moves an interface to another namespace, renames it to `there` and brings it up.
    pub fn give(&self, here: &str, other: &Namespace, there: &str) {
        self.ip(&format!("link set dev {here} netns {} name {there}", other.name));
        other.ip(&format!("link set dev {there} up"));
    }

    /// Connects an interface here with one in another namespace by a virtual cable.
    ///
    /// # Panics
    /// One of these names is taken.
    pub fn connect(&self, here: &str, other: &Namespace, there: &str) {
        let peer = &other.name;
        self.ip(&format!("link add name {here} type veth peer name {there} netns {peer}"));
        self.ip(&format!("link set dev {here} up"));
        other.ip(&format!("link set dev {there} up"));
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        // An error here must not hide the failure of the test.
        let _ = command("ip").args(["netns", "delete", &self.name]).status();
    }
}

/// Moves the calling thread to the namespace with this name, for good.
///
/// # Errors
/// There is none, or the system refuses.
pub(crate) fn move_to(name: &str) -> io::Result<()> {
    let file = File::open(format!("/run/netns/{name}"))?;
    Ok(move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?)
}

fn command(program: &str) -> Command {
    let mut command = Command::new(path(program));
    command.env("LC_ALL", "C").stdin(Stdio::null());
    command
}

fn path(program: &str) -> PathBuf {
    find_program(program).unwrap_or_else(|| program.into())
}

fn successful(command: &mut Command) -> Output {
    let output = output(command);
    assert!(output.status.success(), "{command:?}: {output:?}");
    output
}

fn output(command: &mut Command) -> Output {
    match command.output() {
        Ok(output) => output,
        Err(error) => panic!("{command:?}: {error}"),
    }
}
