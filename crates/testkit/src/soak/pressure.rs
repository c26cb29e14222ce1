//! A control group for the router, which gets no more memory for a while.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::Command;

/// A control group of this process's making, which goes when this is dropped.
#[derive(Debug)]
pub(super) struct Group {
    path: PathBuf,
    version: Version,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    /// `memory.high`: who wants more memory is slowed down.
    Two,
    /// `memory.limit_in_bytes` without the kernel's killer: who wants more memory waits.
    One,
}

impl Group {
    /// Makes one, by the newest interface that controls memory here.
    ///
    /// # Errors
    /// Neither does; the error says why.
    pub(super) fn new() -> Result<Self, String> {
        let name = format!("millrace-soak-{}", std::process::id());
        let mut refusals = Vec::new();
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new) {
            let has = fs::read_to_string(root.join("cgroup.controllers")).unwrap_or_default();
            if has.split_whitespace().any(|controller| controller == "memory") {
                // It may be on already.
                let _ = fs::write(root.join("cgroup.subtree_control"), "+memory");
                let path = root.join(&name);
                match fs::create_dir(&path) {
                    Ok(()) if path.join("memory.high").exists() => {
                        return Ok(Self { path, version: Version::Two });
                    }
                    Ok(()) => {
                        let _ = fs::remove_dir(&path);
                        refusals.push(format!("{} has no memory.high", path.display()));
                    }
                    Err(error) => refusals.push(format!("{}: {error}", path.display())),
                }
            }
        }
        let path = Path::new("/sys/fs/cgroup/memory").join(&name);
        let made =
            fs::create_dir(&path).and_then(|()| fs::write(path.join("memory.oom_control"), "1"));
        match made {
            Ok(()) => Ok(Self { path, version: Version::One }),
            Err(error) => {
                let _ = fs::remove_dir(&path);
                refusals.push(format!("{}: {error}", path.display()));
                Err(refusals.join("; "))
            }
        }
    }

    /// Deletes those of processes that were killed.
    pub(super) fn delete_abandoned() {
        for root in ["/sys/fs/cgroup", "/sys/fs/cgroup/unified", "/sys/fs/cgroup/memory"] {
            for group in fs::read_dir(root).into_iter().flatten().flatten() {
                let name = group.file_name().to_string_lossy().into_owned();
                let process = name.strip_prefix("millrace-soak-");
                if process.is_some_and(|id| !Path::new("/proc").join(id).exists()) {
                    // A process of it may be ending.
                    let _ = fs::remove_dir(group.path());
                }
            }
        }
    }

    /// By which interface memory is controlled.
    pub(super) fn kind(&self) -> &'static str {
        match self.version {
            Version::Two => "cgroup2, memory.high",
            Version::One => "cgroup1, memory.limit_in_bytes",
        }
    }

    /// A command that runs another in the group. The other may not see the group: `ip netns exec` mounts `/sys` anew.
    pub(super) fn wrap(&self, command: &Command) -> Command {
        let mut wrapped = Command::new("sh");
        wrapped.args(["-c", "echo $$ > \"$0\" && exec \"$@\""]).arg(self.path.join("cgroup.procs"));
        wrapped.arg(command.get_program()).args(command.get_args());
        wrapped
    }

    /// Gives it nothing beyond what it has now, or as much as it wants again.
    ///
    /// # Errors
    /// The kernel refuses.
    pub(super) fn squeeze(&self, on: bool) -> io::Result<()> {
        let (now, limit, none) = match self.version {
            Version::Two => ("memory.current", "memory.high", "max"),
            Version::One => ("memory.usage_in_bytes", "memory.limit_in_bytes", "-1"),
        };
        let value = match on {
            true => {
                let now = fs::read_to_string(self.path.join(now))?;
                let now: u64 = now.trim().parse().map_err(io::Error::other)?;
                // The pages that are charged in advance, for each processor.
                (now + (1 << 20)).to_string()
            }
            false => none.to_owned(),
        };
        fs::write(self.path.join(limit), value)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        // While a process of it is ending, it stays.
        for _ in 0..50 {
            if fs::remove_dir(&self.path).is_ok() {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(20));
        }
    }
}
