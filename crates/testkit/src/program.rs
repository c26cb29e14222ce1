//! A program that runs beside the test, is told to end, or is killed.

use std::io::{self, BufRead, BufReader, Read};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

/// A program that runs. When this is dropped without [`stop`](Self::stop), it is killed.
#[derive(Debug)]
pub struct Program {
    child: Child,
    stdout: Option<JoinHandle<String>>,
    stderr: Receiver<String>,
}

/// How a program ended.
#[derive(Debug)]
pub struct Ended {
    /// Its status.
    pub status: ExitStatus,
    /// What it wrote to its standard output.
    pub stdout: String,
    /// What it wrote to its standard error output and nobody has read yet.
    pub stderr: Vec<String>,
}

/// For what takes a moment on an idle machine.
const PATIENCE: Duration = Duration::from_secs(120);

impl Program {
    /// Starts a program.
    ///
    /// # Errors
    /// It cannot be started.
    pub fn start(command: &mut Command) -> io::Result<Self> {
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn()?;
        let out = child.stdout.take();
        let stdout = std::thread::spawn(move || {
            let mut text = String::new();
            // What is no text is missed by whoever reads it.
            out.map(|mut out| out.read_to_string(&mut text));
            text
        });
        let (sender, stderr) = channel();
        if let Some(err) = child.stderr.take() {
            let lines = BufReader::new(err).lines();
            std::thread::spawn(move || {
                lines.map_while(Result::ok).try_for_each(|line| sender.send(line))
            });
        }
        Ok(Self { child, stdout: Some(stdout), stderr })
    }

    /// Waits until it has said a line with this beginning on its standard error output.
    ///
    /// # Errors
    /// It ends before, or says nothing for long: what it said.
    pub fn wait_for_line(&self, start: &str) -> Result<(), String> {
        let end = Instant::now() + PATIENCE;
        let mut said = Vec::new();
        loop {
            match self.stderr.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with(start) => return Ok(()),
                Ok(line) => said.push(line),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("not ready: {}", said.join("\n")));
                }
                Err(RecvTimeoutError::Disconnected) => {
                    return Err(format!("not run: {}", said.join("\n")));
                }
            }
        }
    }

    /// What it has said on its standard error output since the last call.
    pub fn said(&self) -> impl Iterator<Item = String> {
        self.stderr.try_iter()
    }

    /// The number of its process.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Whether it still runs.
    pub fn runs(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    /// Sends it a signal.
    ///
    /// # Errors
    /// The system refuses.
    pub fn signal(&self, signal: Signal) -> io::Result<()> {
        Ok(kill_process(Pid::from_child(&self.child), signal)?)
    }

    /// Tells it to end, as the system does, unless it has.
    ///
    /// # Errors
    /// It does not end.
    pub fn stop(mut self) -> io::Result<Ended> {
        if self.runs() {
            // It may be stopped, and would not hear the other.
            self.signal(Signal::CONT)?;
            self.signal(Signal::TERM)?;
        }
        let end = Instant::now() + PATIENCE;
        let status = loop {
            if let Some(status) = self.child.try_wait()? {
                break status;
            }
            if Instant::now() > end {
                return Err(io::Error::other("it does not stop"));
            }
            std::thread::sleep(Duration::from_millis(10));
        };
        let stdout = self.stdout.take().map(JoinHandle::join);
        Ok(Ended {
            status,
            stdout: stdout.and_then(Result::ok).unwrap_or_default(),
            stderr: self.stderr.try_iter().collect(),
        })
    }

    /// Kills it, so that it cannot clean up.
    ///
    /// # Errors
    /// The system refuses.
    pub fn kill(&mut self) -> io::Result<()> {
        self.child.kill()?;
        self.child.wait()?;
        Ok(())
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.kill();
        if std::thread::panicking() {
            self.stderr.try_iter().for_each(|line| eprintln!("program: {line}"));
        }
    }
}
