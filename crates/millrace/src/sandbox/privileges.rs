//! Capabilities (capabilities(7)): this thread drops all that nothing needs. Threads that it starts have no more.

use std::path::Path;

use rustix::fs::{Access, AtFlags, CWD, accessat};
use rustix::io::Result;
use rustix::thread::{CapabilitySet, CapabilitySets, capabilities, set_capabilities};

use super::policy::Policy;

/// The capability with which root reads all files, whatever their permissions are.
const READING: CapabilitySet = CapabilitySet::DAC_READ_SEARCH;

/// The one with which it writes them, too.
const WRITING: CapabilitySet = CapabilitySet::DAC_OVERRIDE;

/// Those that are ever kept, and their names.
const NAMES: [(CapabilitySet, &str); 8] = [
    (CapabilitySet::NET_RAW, "NET_RAW"),
    (CapabilitySet::NET_ADMIN, "NET_ADMIN"),
    (CapabilitySet::BPF, "BPF"),
    (CapabilitySet::SYS_ADMIN, "SYS_ADMIN"),
    (CapabilitySet::IPC_LOCK, "IPC_LOCK"),
    (CapabilitySet::NET_BIND_SERVICE, "NET_BIND_SERVICE"),
    (READING, "DAC_READ_SEARCH"),
    (WRITING, "DAC_OVERRIDE"),
];

/// What of the right to pass over the permissions of files may be kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Confined {
    /// Nothing: files are not restricted otherwise.
    Not,
    /// To read: landlock says which files.
    Reading,
    /// To write, too.
    Wholly,
}

/// Drops what is not needed. Returns what is kept.
///
/// Where landlock confines this process, it may keep the right to pass over the permissions of files: the configuration
/// may name files of other users.
///
/// # Errors
/// The kernel refuses.
pub(super) fn drop_unneeded(policy: &Policy, confined: Confined) -> Result<CapabilitySet> {
    let has = capabilities(None)?;
    if has.permitted.is_empty() {
        return Ok(has.permitted);
    }
    let mut kept = needed(policy) & has.permitted;
    if has.permitted.contains(CapabilitySet::BPF) {
        // Before Linux 5.8 there was only this one, which allows far more.
        kept -= CapabilitySet::SYS_ADMIN;
    }
    if confined != Confined::Not && has.permitted.intersects(READING | WRITING) {
        // Only what is in the effective set counts for the check.
        set(kept, has.permitted)?;
        for path in policy.paths().filter(|path| !is_accessible(*path)) {
            kept |= match (path.1, confined) {
                (false, _) => READING,
                (true, Confined::Wholly) => WRITING,
                (true, _) => continue,
            };
        }
        kept &= has.permitted;
    }
    set(kept, kept)?;
    Ok(kept)
}

/// The capabilities that a policy needs.
fn needed(policy: &Policy) -> CapabilitySet {
    let mut needed = CapabilitySet::empty();
    if policy.raw_sockets {
        needed |= CapabilitySet::NET_RAW;
    }
    if policy.network_settings {
        needed |= CapabilitySet::NET_ADMIN;
    }
    if policy.kernel_programs {
        needed |= CapabilitySet::BPF | CapabilitySet::SYS_ADMIN | CapabilitySet::IPC_LOCK;
    }
    if policy.has_low_ports() {
        needed |= CapabilitySet::NET_BIND_SERVICE;
    }
    needed
}

fn set(effective: CapabilitySet, permitted: CapabilitySet) -> Result<()> {
    let inheritable = CapabilitySet::empty();
    set_capabilities(None, CapabilitySets { effective, permitted, inheritable })
}

/// Whether the permissions of a file, or of the folder that it would be created in, let this process write or read it.
fn is_accessible((path, writes): (&Path, bool)) -> bool {
    let wanted = if writes { Access::WRITE_OK } else { Access::READ_OK };
    let may = |path: &Path, wanted| accessat(CWD, path, wanted, AtFlags::EACCESS);
    match may(path, wanted) {
        Ok(()) => true,
        Err(rustix::io::Errno::NOENT) => {
            let folder = path.parent().unwrap_or(path);
            let wanted = if writes { wanted | Access::EXEC_OK } else { Access::EXEC_OK };
            may(folder, wanted) != Err(rustix::io::Errno::ACCESS)
        }
        Err(error) => error != rustix::io::Errno::ACCESS,
    }
}

/// Their names.
pub(super) fn names(kept: CapabilitySet) -> Vec<&'static str> {
    NAMES.iter().filter(|(one, _)| kept.contains(*one)).map(|(_, name)| *name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_needs_nothing() {
        assert_eq!(needed(&Policy::default()), CapabilitySet::empty());
        assert!(names(CapabilitySet::empty()).is_empty());
    }

    #[test]
    fn what_is_kept_is_named() {
        let policy = Policy { raw_sockets: true, network_settings: true, ..Policy::default() };
        assert_eq!(names(needed(&policy)), ["NET_RAW", "NET_ADMIN"]);
    }

    #[test]
    fn only_low_ports_need_a_capability() {
        let needs = |ports| needed(&Policy { tcp_ports: vec![ports], ..Policy::default() });
        assert_eq!(needs(1024..=2000), CapabilitySet::empty());
        assert_eq!(needs(1023..=2000), CapabilitySet::NET_BIND_SERVICE);
    }

    /// Runs this on a thread without effective capabilities: what root can do is what its files permit, too.
    fn as_anybody<T: Send>(run: impl FnOnce() -> T + Send) -> T {
        let without = move || {
            set(CapabilitySet::empty(), capabilities(None).unwrap().permitted).unwrap();
            run()
        };
        std::thread::scope(|scope| scope.spawn(without).join().unwrap())
    }

    #[test]
    fn permissions_decide_what_is_accessible() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let modes = [("mine", 0o600), ("read-only", 0o400), ("nobodys", 0o000), ("closed", 0o500)];
        for (name, mode) in modes {
            match name {
                "closed" => std::fs::create_dir(path(name)).unwrap(),
                _ => std::fs::write(path(name), "").unwrap(),
            }
            let mode = std::os::unix::fs::PermissionsExt::from_mode(mode);
            std::fs::set_permissions(path(name), mode).unwrap();
        }
        as_anybody(|| {
            let may = |name: &str, writes| is_accessible((&path(name), writes));
            assert!(may("mine", false) && may("mine", true));
            assert!(may("read-only", false) && !may("read-only", true));
            assert!(!may("nobodys", false) && !may("nobodys", true));
            // Files that are to come.
            assert!(may("new", true) && !may("closed/new", true));
            assert!(is_accessible((Path::new("/no/such/folder"), true)), "nothing would help");
        });
    }

    #[test]
    fn files_of_others_cost_a_capability_only_where_landlock_confines() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("nobodys");
        std::fs::write(&path, "").unwrap();
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o0);
        std::fs::set_permissions(&path, mode).unwrap();
        let kept = |writes: bool, confined| {
            let mut policy = Policy::default();
            match writes {
                true => policy.write.insert(path.clone()),
                false => policy.read.insert(path.clone()),
            };
            let drop = move || drop_unneeded(&policy, confined).unwrap();
            std::thread::scope(|scope| scope.spawn(drop).join().unwrap())
        };
        let has = capabilities(None).unwrap().permitted;
        assert_eq!(kept(false, Confined::Not), CapabilitySet::empty());
        assert_eq!(kept(true, Confined::Not), CapabilitySet::empty());
        assert_eq!(kept(false, Confined::Wholly), READING & has);
        assert_eq!(kept(true, Confined::Wholly), WRITING & has);
        assert_eq!(kept(true, Confined::Reading), CapabilitySet::empty());
    }
}
