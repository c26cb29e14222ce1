//! The sandbox: what a running router may do to the machine.
//!
//! When all devices and files are open, the program gives up what nothing in the configuration needs: capabilities
//! (`privileges`), files (`files`), system calls (`calls`); and `no_new_privs`, so that no program that it starts
//! gets more. Elements say what they [need](millrace_core::needs). All of this is for the program alone: who runs a
//! router in his own process keeps his privileges.
//!
//! A thread has what the thread had that started it. So the sandbox is entered by the main thread while there is no
//! other one, and threads that would be earlier wait at the `gate`.

mod calls;
mod files;
pub(crate) mod gate;
mod policy;
mod privileges;
mod programs;
mod summary;
mod threads;

use std::path::PathBuf;
use std::sync::OnceLock;
use std::time::Duration;

use millrace_core::{Need, Router, advise_on_refusals, os_error_text};

use self::policy::Policy;
use self::privileges::Confined;
pub(crate) use self::summary::Summary;
use self::threads::Others;

/// What the user wants of the sandbox.
#[derive(Clone, Debug, Default, PartialEq, Eq, clap::Args)]
pub(crate) struct Wishes {
    /// Keeps all privileges while the router runs, and access to all files
    #[arg(long)]
    pub(crate) no_sandbox: bool,

    /// Lets the running router read and write this file or folder, though no element names it
    #[arg(long, value_name = "PATH")]
    pub(crate) allow_path: Vec<PathBuf>,

    /// Lets the running router open Unix sockets, and connect to any service of this machine that has one
    #[arg(long)]
    pub(crate) allow_unix_sockets: bool,
}

/// What follows when the system refuses something to a process in the sandbox.
const ADVICE: &str = "in the sandbox a running router gets only what its configuration names, as it was at the start: \
                      --allow-path PATH adds a file or folder, --no-sandbox leaves it all";

/// What this process is confined to.
static HELD: OnceLock<Policy> = OnceLock::new();

/// So long the threads that made the router ready have to end.
const PATIENCE: Duration = Duration::from_millis(20);

impl Wishes {
    /// Makes threads wait for the sandbox. Call this before the router is initialised.
    ///
    /// # Errors
    /// A path that is to be allowed does not exist, so it could not be.
    pub(crate) fn announce(&self) -> Result<(), String> {
        for path in &self.allow_path {
            std::fs::metadata(path).map_err(|error| {
                format!("--allow-path {}: {}", path.display(), os_error_text(&error))
            })?;
        }
        if !self.no_sandbox {
            gate::close();
        }
        Ok(())
    }

    /// Enters the sandbox, from which `sockets` of the program can be removed; `replaceable` if another configuration
    /// may replace this one. Says what holds.
    ///
    /// # Errors
    /// Threads that waited for the sandbox cannot be started.
    pub(crate) fn enter(
        &self,
        router: &Router,
        sockets: &[PathBuf],
        replaceable: bool,
    ) -> std::io::Result<Summary> {
        if self.no_sandbox {
            return Ok(Summary::none());
        }
        let mut policy = Policy::of(router);
        self.allow_path.iter().for_each(|path| policy.allow(path));
        sockets.iter().for_each(|path| policy.add(Need::UnixSocket(path.clone())));
        if self.allow_unix_sockets {
            policy.add(Need::UnixSockets);
            policy.add(Need::AbstractSockets);
        }
        if replaceable {
            policy.allow_other_devices();
        }
        let others = threads::others_after(PATIENCE);
        let summary = enter(&policy, &others);
        // It is entered once.
        let _ = HELD.set(policy);
        gate::open()?;
        Ok(summary)
    }
}

fn enter(policy: &Policy, others: &Others) -> Summary {
    let mut held = Summary::wanted();
    if let Some(why) = &policy.unknown {
        held.fails("capabilities and access to files kept", &format!("because {why}"));
        match calls::restrict(policy) {
            Ok(()) => held.part("seccomp against calls that act on the machine"),
            Err(why) => held.fails("calls not restricted", &why),
        }
        return held;
    }
    // Prepared and entered with all privileges: the files may be in folders that only they can enter.
    let confinement = files::prepare(policy).map_err(|error| error.to_string());
    let confinement = confinement.and_then(files::Confinement::enter);
    let confined = match &confinement {
        Ok(files) if files.confines_writes() => Confined::Wholly,
        Ok(_) => Confined::Reading,
        Err(_) => Confined::Not,
    };
    match privileges::drop_unneeded(policy, confined) {
        Ok(kept) => held.keeps(privileges::names(kept)),
        Err(error) => held.fails("capabilities kept", &error.to_string()),
    }
    match confinement {
        Ok(files) => held.confines(&files),
        Err(why) => held.fails("files not restricted", &why),
    }
    held.opens(policy);
    match calls::restrict(policy) {
        Ok(()) => held.filters(),
        Err(why) => held.fails("calls not restricted", &why),
    }
    advise_on_refusals(ADVICE);
    const ONLY_NEW: &str = "capabilities and files only of new threads";
    match others {
        Ok(names) if names.is_empty() => {}
        Ok(names) => held.fails(ONLY_NEW, &format!("{} ran before", names.join(", "))),
        Err(error) => held.fails(ONLY_NEW, &format!("nobody knows which ran before: {error}")),
    }
    held
}

/// Confines this thread, and those that it starts, as the program confines a router whose elements need nothing but to
/// read some files and folders, and to write to others: for fuzzing. All threads lose the system calls, so a process does
/// this once, before there are others.
///
/// # Errors
/// Something does not hold; which, and why.
pub fn confine(read: &[PathBuf], write: &[PathBuf]) -> Result<(), String> {
    let mut policy = Policy::default();
    read.iter().for_each(|path| policy.add(Need::Read(path.clone())));
    write.iter().for_each(|path| policy.allow(path));
    let summary = enter(&policy, &Ok(Vec::new()));
    if summary.holds { Ok(()) } else { Err(summary.line()) }
}

/// Whether a router that is to replace the one that runs gets what it needs.
///
/// # Errors
/// What it does not get, and how to give it, line by line.
pub(crate) fn admits(router: &Router) -> Result<(), String> {
    let Some(held) = HELD.get() else { return Ok(()) };
    let missing = held.lacks(router);
    match missing.is_empty() {
        true => Ok(()),
        false => Err(missing.join("\n")),
    }
}

#[cfg(test)]
mod tests;
