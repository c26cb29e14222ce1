//! `millrace top`, and the view of `millrace run`, on a terminal.

use std::fs::File;
use std::io::Write;
use std::os::fd::OwnedFd;
use std::process::Child;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Termios, Winsize, tcgetattr, tcsetwinsize};

use crate::control::Running;
use crate::{millrace, millrace_command};

/// What the terminal gets when the view is shown, and when it is not shown any more.
const SHOWN: &str = "\x1b[?1049h";
const GONE: &str = "\x1b[?1049l";

/// A terminal of 80 columns and 24 rows.
struct Terminal {
    user: File,
    program: OwnedFd,
    modes: Termios,
    seen: String,
}

impl Terminal {
    fn open() -> Self {
        let user = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).unwrap();
        grantpt(&user).unwrap();
        unlockpt(&user).unwrap();
        let name = ptsname(&user, Vec::new()).unwrap();
        let program = File::options().read(true).write(true).open(name.to_str().unwrap()).unwrap();
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&program, size).unwrap();
        let modes = tcgetattr(&program).unwrap();
        Self { user: user.into(), program: program.into(), modes, seen: String::new() }
    }

    fn start(&self, args: &[&str]) -> Child {
        let end = || self.program.try_clone().unwrap();
        let mut command = millrace_command();
        command.args(args).stdin(end()).stdout(end()).stderr(end());
        command.spawn().unwrap()
    }

    /// Waits until a text is on the terminal, after what was waited for before.
    fn wait_for(&mut self, text: &str) {
        let minute = Timespec { tv_sec: 60, tv_nsec: 0 };
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            let mut files = [PollFd::new(&self.user, PollFlags::IN)];
            assert_eq!(poll(&mut files, Some(&minute)), Ok(1), "no ‘{text}’ in {:?}", self.seen);
            self.read();
        }
    }

    /// Waits until a word is on the view, of which the terminal gets only what has changed.
    fn wait_for_view(&mut self, word: &str) {
        let moment = Timespec { tv_sec: 0, tv_nsec: 200_000_000 };
        for _ in 0..300 {
            // Then all of it is drawn.
            self.press("\x0c");
            while !self.seen.contains(word) {
                let mut files = [PollFd::new(&self.user, PollFlags::IN)];
                if poll(&mut files, Some(&moment)) != Ok(1) {
                    break;
                }
                self.read();
            }
            if self.seen.contains(word) {
                return self.wait_for(word);
            }
        }
        panic!("no ‘{word}’ in {:?}", self.seen);
    }

    fn read(&mut self) {
        let mut buffer = [0; 4096];
        let n = rustix::io::read(&self.user, &mut buffer).unwrap();
        self.seen.push_str(&String::from_utf8_lossy(&buffer[..n]));
    }

    fn press(&mut self, keys: &str) {
        self.user.write_all(keys.as_bytes()).unwrap();
    }

    /// Whether the terminal is as it was.
    fn is_restored(&self) -> bool {
        let (now, then) = (tcgetattr(&self.program).unwrap(), &self.modes);
        (now.local_modes, now.input_modes, now.output_modes)
            == (then.local_modes, then.input_modes, then.output_modes)
    }
}

const TALKING: &str = "RatedSource(RATE 100) -> Print(seen) -> c :: Counter -> Discard";

#[test]
fn one_page_of_text_says_what_a_router_does() {
    let running = Running::start("s :: RatedSource(RATE 1000) -> b :: Queue(50) -> Idle");
    let done = millrace(&["top", "--once", "--every", "200ms", "-u", &running.socket()]);
    assert_eq!((done.status, &*done.stderr), (0, ""));
    let row = |name: &str| {
        let line = done.stdout.lines().find(|line| line.split_whitespace().next() == Some(name));
        line.unwrap_or_else(|| panic!("no row {name} in {}", done.stdout)).to_owned()
    };
    assert!(row("millrace").contains("running"), "{}", done.stdout);
    assert!(row("s").contains("RatedSource"), "{}", done.stdout);
    assert!(row("THREAD").contains("POLLING"), "{}", done.stdout);
    assert!(row("QUEUE").contains("FULL"), "{}", done.stdout);
    running.stop();
}

#[test]
fn what_top_cannot_do_is_said_in_one_line() {
    let done = millrace(&["top", "-u", "/nonexistent/socket"]);
    assert_eq!(done.status, 1);
    assert!(done.stderr.contains("no terminal: --once prints one page"), "{}", done.stderr);
    let done = millrace(&["top", "--once", "-u", "/nonexistent/socket"]);
    assert_eq!(done.status, 1);
    assert!(done.stderr.contains("/nonexistent/socket: No such file"), "{}", done.stderr);
}

#[test]
fn a_router_is_shown_while_it_runs_and_q_ends_it() {
    let mut terminal = Terminal::open();
    let mut child = terminal.start(&["run", "-e", TALKING]);
    terminal.wait_for(SHOWN);
    terminal.wait_for_view("CYC/PKT");
    assert!(!terminal.is_restored());
    // What elements print is a page of the view.
    terminal.press("6");
    terminal.wait_for_view("seen:");
    terminal.press("1/counter\r");
    terminal.press("q");
    terminal.wait_for(GONE);
    // And comes on the terminal when the view is gone, before the summary.
    terminal.wait_for("seen:");
    terminal.wait_for("Every packet is accounted for.");
    assert!(child.wait().unwrap().success());
    assert!(terminal.is_restored());
}

#[test]
fn the_terminal_is_restored_by_whatever_ends_the_view() {
    for signal in [rustix::process::Signal::TERM, rustix::process::Signal::HUP] {
        let mut terminal = Terminal::open();
        let mut child = terminal.start(&["run", "-e", TALKING]);
        terminal.wait_for_view("CYC/PKT");
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        terminal.wait_for(GONE);
        terminal.wait_for("Every packet is accounted for.");
        assert!(child.wait().unwrap().success() && terminal.is_restored());
    }
}

#[test]
fn top_says_that_the_router_has_ended() {
    let running = Running::start("s :: RatedSource(RATE 1000) -> c :: Counter -> Discard");
    let mut terminal = Terminal::open();
    let mut child = terminal.start(&["top", "--every", "100ms", "-u", &running.socket()]);
    terminal.wait_for_view("CYC/PKT");
    terminal.press("/s\r\r");
    terminal.wait_for_view("HANDLERS");
    terminal.press("m");
    terminal.wait_for_view("SYNOPSIS");
    running.stop();
    terminal.wait_for_view("trying");
    rustix::process::kill_process(
        rustix::process::Pid::from_child(&child),
        rustix::process::Signal::TERM,
    )
    .unwrap();
    terminal.wait_for(GONE);
    assert!(child.wait().unwrap().success() && terminal.is_restored());
}
