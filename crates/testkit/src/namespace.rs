//! Hosts made of network namespaces.

#![allow(clippy::panic, reason = "what cannot be set up fails the test")]

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use crate::find_program;

/// A network namespace, which goes when this is dropped, with all that is in it.
#[derive(Debug)]
pub struct Namespace {
    name: String,
}

impl Namespace {
    /// A namespace with nothing but a loopback interface. The name is made unique.
    ///
    /// # Panics
    /// It cannot be made, which takes root and the programs `ip` and `sysctl`.
    pub fn new(role: &str) -> Self {
        static MADE: AtomicUsize = AtomicUsize::new(0);
        let n = MADE.fetch_add(1, Relaxed);
        let name = format!("millrace-{}-{n}-{role}", std::process::id());
        successful(command("ip").args(["netns", "add", &name]));
        let namespace = Self { name };
        namespace.ip("link set dev lo up");
        // Neighbour discovery and reports of groups would mix with what the tests count.
        let quiet = ["all", "default"].map(|of| format!("net.ipv6.conf.{of}.disable_ipv6=1"));
        successful(namespace.command("sysctl").args(["-q", "-w"]).args(quiet));
        namespace
    }

    /// A program that is yet to start here.
    pub fn command(&self, program: &str) -> Command {
        let mut command = command("ip");
        command.args(["netns", "exec", &self.name]).arg(path(program));
        command
    }

    /// Runs a program to its end. Words are separated by spaces.
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
    /// It does not succeed.
    pub fn ip(&self, line: &str) -> Output {
        successful(command("ip").args(["-n", &self.name]).args(line.split_whitespace()))
    }

    /// The name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Runs a function on a thread in the namespace; so are the programs that it starts.
    ///
    /// # Panics
    /// The function panics, or the namespace cannot be entered.
    pub fn enter<T: Send>(&self, act: impl FnOnce() -> T + Send) -> T {
        let result = std::thread::scope(|scope| {
            let thread = scope.spawn(|| {
                let file = File::open(format!("/run/netns/{}", self.name))?;
                move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network))?;
                io::Result::Ok(act())
            });
            thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
        });
        result.unwrap_or_else(|error| panic!("{}: {error}", self.name))
    }

    /// Gives an interface to another namespace, which calls it `there` and brings it up.
    pub fn give(&self, here: &str, other: &Namespace, there: &str) {
        self.ip(&format!("link set dev {here} netns {} name {there}", other.name));
        other.ip(&format!("link set dev {there} up"));
    }

    /// Lays a cable between an interface here and one in another namespace.
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
        // A failure must not hide why the test failed, if it did.
        let _ = command("ip").args(["netns", "delete", &self.name]).status();
    }
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
