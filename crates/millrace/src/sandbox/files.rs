//! Files, ports and other processes (landlock(7)): this thread, and those that it starts, reach only what the configuration
//! names.

use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, LandlockStatus, NetPort,
    PathBeneath, PathFd, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr, RulesetError,
    RulesetStatus, Scope,
};
use rustix::fs::OFlags;

use super::policy::Policy;
use super::programs;

/// The newest version whose rights are known here; an older kernel restricts what it can.
const NEWEST: ABI = ABI::V6;

/// The maximum number of TCP ports that get rules.
const MOST_PORTS: usize = 256;

/// The first version that restricts truncate(2).
const WITH_TRUNCATE: i32 = 3;
/// The first version that restricts TCP ports.
const WITH_PORTS: i32 = 4;
/// The first version that keeps signals and abstract names of sockets inside.
const WITH_SCOPES: i32 = 6;

/// What every program reads: libraries, names, the state of the kernel and of this process. What is another process's own
/// there, landlock keeps back.
const PUBLIC: [&str; 14] = [
    "/lib",
    "/lib64",
    "/usr/lib",
    "/usr/lib64",
    "/usr/local/lib",
    "/etc/ld.so.cache",
    "/etc/localtime",
    "/usr/share/zoneinfo",
    "/etc/passwd",
    "/etc/protocols",
    "/etc/services",
    "/dev/urandom",
    "/proc",
    "/sys",
];

/// The rights to read.
fn reading() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::ReadDir
}

/// The rights to use a file that is there.
fn writing() -> BitFlags<AccessFs> {
    AccessFs::ReadFile | AccessFs::WriteFile | AccessFs::Truncate | AccessFs::IoctlDev
}

/// The rights to make files in a folder.
fn making(nests: bool, removes: bool) -> BitFlags<AccessFs> {
    let mut rights = AccessFs::WriteFile | AccessFs::Truncate | AccessFs::MakeReg;
    if nests {
        rights |= AccessFs::MakeDir;
    }
    if removes {
        rights |= reading() | AccessFs::RemoveFile;
    }
    rights
}

/// All that can be done in a folder without making devices or running programs.
fn everything() -> BitFlags<AccessFs> {
    making(true, true)
        | writing()
        | AccessFs::MakeSock
        | AccessFs::MakeFifo
        | AccessFs::RemoveDir
        | AccessFs::Refer
}

/// What this process will be confined to.
pub(super) struct Confinement {
    rules: RulesetCreated,
    /// Whether each TCP port is refused that no rule names.
    has_ports: bool,
}

/// What holds.
pub(super) struct Held {
    /// The version of landlock.
    pub(super) abi: i32,
    /// In words: the version, and what it lacks.
    pub(super) said: String,
}

impl Held {
    /// Whether no file is changed that is not named, whatever its permissions are.
    pub(super) fn confines_writes(&self) -> bool {
        self.abi >= WITH_TRUNCATE
    }
}

/// Collects the files of a policy. Files and folders that are to come are made now, empty; files that are there are not
/// touched: whoever writes them truncates them.
///
/// # Errors
/// The kernel refuses.
pub(super) fn prepare(policy: &Policy) -> Result<Confinement, RulesetError> {
    make(policy);
    // Else nobody knows them, or each would be a rule.
    let has_ports = !policy.inet_sockets
        && policy.tcp_ports.iter().map(|ports| ports.clone().count()).sum::<usize>() <= MOST_PORTS;
    let mut ruleset = Ruleset::default().set_compatibility(CompatLevel::BestEffort);
    ruleset = ruleset.handle_access(AccessFs::from_all(NEWEST))?;
    if has_ports {
        ruleset = ruleset.handle_access(AccessNet::BindTcp | AccessNet::ConnectTcp)?;
    }
    ruleset = ruleset.scope(Scope::Signal)?;
    if !policy.abstract_sockets {
        ruleset = ruleset.scope(Scope::AbstractUnixSocket)?;
    }
    let mut rules = Rules(ruleset.create()?);
    for path in PUBLIC {
        rules.add(Path::new(path), reading())?;
    }
    // A panic looks for the names of functions there.
    if let Ok(own) = std::env::current_exe() {
        rules.add(&own, reading())?;
    }
    for path in ["/dev/null", "/dev/tty"] {
        rules.add(Path::new(path), writing())?;
    }
    for path in &policy.read {
        rules.add(path, reading())?;
    }
    for path in &policy.write {
        rules.add(path, if path.is_dir() { everything() } else { writing() })?;
    }
    for (folder, how) in policy.folders() {
        rules.add(folder, making(how.nests, how.removes))?;
    }
    for folder in policy.socket_folders() {
        rules.add(folder, AccessFs::RemoveFile)?;
        if policy.unix_listeners || policy.unix_sockets_anywhere {
            rules.add(folder, AccessFs::MakeSock)?;
        }
    }
    for path in programs::files(&policy.programs) {
        rules.add(&path, AccessFs::ReadFile | AccessFs::Execute)?;
    }
    if has_ports {
        for port in policy.tcp_ports.iter().cloned().flatten() {
            (&mut rules.0).add_rule(NetPort::new(port, AccessNet::BindTcp))?;
        }
    }
    Ok(Confinement { rules: rules.0, has_ports })
}

/// Makes the files and folders of a policy that are to come, so that no other ones can be made beside them. What cannot be
/// made is reported by whoever needs it.
fn make(policy: &Policy) {
    for (folder, _) in policy.folders() {
        let _ = std::fs::create_dir_all(folder);
    }
    for path in policy.write.iter().filter(|path| !path.exists()) {
        // Should there be a pipe or a terminal by now, it is neither waited for nor taken.
        let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false);
        let _: std::io::Result<File> = options.custom_flags(flags.bits().cast_signed()).open(path);
    }
}

impl Confinement {
    /// Confines this thread. Says what holds now; the error, what does not.
    pub(super) fn enter(self) -> Result<Held, String> {
        let status = self.rules.restrict_self().map_err(|error| error.to_string())?;
        let abi = match status.landlock {
            LandlockStatus::Available { effective_abi, kernel_abi } => {
                kernel_abi.unwrap_or(effective_abi as i32)
            }
            LandlockStatus::NotEnabled => return Err("landlock is not enabled".to_owned()),
            LandlockStatus::NotImplemented => return Err("the kernel has no landlock".to_owned()),
        };
        if status.ruleset == RulesetStatus::NotEnforced {
            return Err("the kernel enforces no rule".to_owned());
        }
        Ok(Held { abi, said: described(abi, self.has_ports) })
    }
}

/// What a version of landlock holds, in words.
fn described(abi: i32, has_ports: bool) -> String {
    let lacks = [
        (abi < WITH_TRUNCATE, "truncated files"),
        (abi < WITH_PORTS && has_ports, "TCP ports"),
        (abi < WITH_SCOPES, "signals and abstract sockets"),
    ];
    let lacks: Vec<&str> =
        lacks.into_iter().filter_map(|(is_lacking, what)| is_lacking.then_some(what)).collect();
    match lacks.is_empty() {
        true => format!("landlock ABI {abi}"),
        false => format!("landlock ABI {abi} (without {})", lacks.join(", ")),
    }
}

/// Rules under construction.
struct Rules(RulesetCreated);

impl Rules {
    /// Grants rights to a file, or beneath a folder. One that is not there cannot be opened either.
    fn add(
        &mut self,
        path: &Path,
        rights: impl Into<BitFlags<AccessFs>>,
    ) -> Result<(), RulesetError> {
        let Ok(place) = PathFd::new(path) else { return Ok(()) };
        let rights = match path.is_dir() {
            true => rights.into(),
            false => rights.into() & AccessFs::from_file(NEWEST),
        };
        (&mut self.0).add_rule(PathBeneath::new(place, rights))?;
        Ok(())
    }
}

/// Where files can be made or removed beside those that are named, in words: for the summary.
pub(super) fn open_folders(policy: &Policy) -> Vec<String> {
    let mut said: Vec<String> = Vec::new();
    for (folder, how) in policy.folders() {
        let what = if how.removes { "made and removed" } else { "made and overwritten" };
        said.push(format!("files can be {what} in {}", folder.display()));
    }
    let written = policy.write.iter().filter(|path| path.is_dir());
    said.extend(written.map(|path| format!("all files in {} can be changed", path.display())));
    let removed = policy.socket_folders().into_iter();
    said.extend(removed.map(|folder| format!("files can be removed in {}", folder.display())));
    said
}

#[cfg(test)]
mod tests {
    use millrace_core::Need;

    use super::*;

    #[test]
    fn files_that_are_to_come_are_made_and_others_left_as_they_are() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("old"), "old").unwrap();
        std::os::unix::fs::symlink(path("target"), path("link")).unwrap();
        let mut policy = Policy::default();
        for name in ["old", "new", "link", "no/such/folder"] {
            policy.add(Need::Write(path(name)));
        }
        policy.add(Need::Create { folder: path("deep/er"), nests: false, removes: false });
        make(&policy);
        assert_eq!(std::fs::read_to_string(path("old")).unwrap(), "old");
        assert_eq!(std::fs::read_to_string(path("new")).unwrap(), "");
        assert!(path("target").is_file() && path("link").is_symlink());
        assert!(!path("no").exists(), "whoever writes the file does not make its folder either");
        assert!(path("deep/er").is_dir());
    }

    #[test]
    fn what_an_old_kernel_does_not_hold_is_said() {
        assert_eq!(described(7, true), "landlock ABI 7");
        assert_eq!(described(5, true), "landlock ABI 5 (without signals and abstract sockets)");
        let lacking =
            "landlock ABI 1 (without truncated files, TCP ports, signals and abstract sockets)";
        assert_eq!(described(1, true), lacking);
        assert!(!described(1, false).contains("ports"));
        let held = |abi| Held { abi, said: String::new() };
        assert!(!held(2).confines_writes() && held(3).confines_writes());
    }
}
