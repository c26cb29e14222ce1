//! What a process may do once the sandbox holds: what its configuration needs, and what the user allows beside it.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use millrace_core::{Need, Router};

/// What is allowed.
#[derive(Clone, Debug, Default)]
pub(super) struct Policy {
    pub(super) read: BTreeSet<PathBuf>,
    pub(super) write: BTreeSet<PathBuf>,
    /// Folders in which files are made whose names are not known before.
    pub(super) create: BTreeMap<PathBuf, Making>,
    pub(super) unix_sockets: BTreeSet<PathBuf>,
    pub(super) programs: BTreeSet<String>,
    /// TCP ports that are opened later.
    pub(super) tcp_ports: Vec<RangeInclusive<u16>>,
    pub(super) inet_sockets: bool,
    /// Unix sockets that wait for connections.
    pub(super) unix_listeners: bool,
    /// Unix sockets that connect to others, whichever these are.
    pub(super) unix_sockets_anywhere: bool,
    pub(super) abstract_sockets: bool,
    pub(super) raw_sockets: bool,
    pub(super) network_settings: bool,
    pub(super) kernel_programs: bool,
    /// Why the needs are not known, if they are not.
    pub(super) unknown: Option<String>,
}

/// What is done in a folder beside making and writing files.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Making {
    pub(super) nests: bool,
    pub(super) removes: bool,
}

/// The device through which TAP interfaces are made.
const TUN: &str = "/dev/net/tun";

/// Where the ports begin that need no capability.
const FIRST_FREE_PORT: u16 = 1024;

impl Policy {
    /// What the elements of a router need.
    pub(super) fn of(router: &Router) -> Self {
        let mut policy = Self::default();
        router.needs().into_iter().for_each(|(_, need)| policy.add(need));
        policy
    }

    /// Allows to read and write a file, or the files in a folder.
    pub(super) fn allow(&mut self, path: &Path) {
        self.write.insert(absolute(path));
    }

    /// Allows what it takes to replace the configuration by one with other devices.
    pub(super) fn allow_other_devices(&mut self) {
        self.inet_sockets = true;
        self.raw_sockets = true;
        self.network_settings = true;
        self.kernel_programs = true;
        self.write.extend(Path::new(TUN).exists().then(|| TUN.into()));
    }

    pub(super) fn add(&mut self, need: Need) {
        match need {
            Need::Read(path) | Need::ReadLater(path) => _ = self.read.insert(absolute(&path)),
            Need::Write(path) | Need::Replace(path) => _ = self.write.insert(absolute(&path)),
            Need::Create { folder, nests, removes } => {
                let making = self.create.entry(absolute(&folder)).or_default();
                making.nests |= nests;
                making.removes |= removes;
            }
            Need::UnixSocket(path) => _ = self.unix_sockets.insert(absolute(&path)),
            Need::Run(program) => _ = self.programs.insert(program),
            Need::TcpPorts(ports) => self.tcp_ports.push(ports),
            Need::InetSockets => self.inet_sockets = true,
            Need::UnixListeners => self.unix_listeners = true,
            Need::UnixSockets => self.unix_sockets_anywhere = true,
            Need::AbstractSockets => self.abstract_sockets = true,
            Need::RawSockets => self.raw_sockets = true,
            Need::NetworkSettings => self.network_settings = true,
            Need::KernelPrograms => self.kernel_programs = true,
            Need::Unknown(why) => _ = self.unknown.get_or_insert(why),
            // A kind that was added later, for elements that this program does not know.
            other => _ = self.unknown.get_or_insert(format!("an element needs {other:?}")),
        }
    }

    /// The folders in which files are made. In the root none are: with it, all files of the machine would be granted.
    pub(super) fn folders(&self) -> impl Iterator<Item = (&Path, Making)> {
        let folders = self.create.iter().map(|(folder, making)| (&**folder, *making));
        folders.filter(|(folder, _)| folder.parent().is_some())
    }

    /// The folders from which sockets are removed, but for the root.
    pub(super) fn socket_folders(&self) -> BTreeSet<&Path> {
        let folders = self.unix_sockets.iter().filter_map(|path| path.parent());
        folders.filter(|folder| folder.parent().is_some()).collect()
    }

    /// The files, and whether they are written.
    pub(super) fn paths(&self) -> impl Iterator<Item = (&Path, bool)> {
        let read = self.read.iter().map(|path| (&**path, false));
        let written = self.write.iter().chain(&self.unix_sockets).map(|path| (&**path, true));
        read.chain(written).chain(self.folders().map(|(folder, _)| (folder, true)))
    }

    /// Whether TCP ports are opened that only `CAP_NET_BIND_SERVICE` permits.
    pub(super) fn has_low_ports(&self) -> bool {
        self.inet_sockets || self.tcp_ports.iter().any(|ports| *ports.start() < FIRST_FREE_PORT)
    }

    /// Whether anything connects to something.
    pub(super) fn connects(&self) -> bool {
        self.inet_sockets || self.unix_sockets_anywhere
    }

    /// Whether any Unix socket can be connected to: who may open one and connect something may.
    pub(super) fn reaches_unix_sockets(&self) -> bool {
        self.unix_sockets_anywhere || self.unix_listeners && self.connects()
    }

    /// What a router needs that is not allowed: the element, what it needs and how to allow that, in words.
    pub(super) fn lacks(&self, router: &Router) -> Vec<String> {
        if self.unknown.is_some() {
            // Nothing was given up that an element can need.
            return Vec::new();
        }
        let needs = router.needs().into_iter();
        let lacks = needs.filter_map(|(id, need)| {
            let (what, remedy) = self.lacks_one(&need)?;
            Some(format!("‘{}’ needs {what}: start this program with {remedy}", router.name_of(id)))
        });
        let mut missing: Vec<String> = lacks.collect();
        missing.dedup();
        missing
    }

    /// What is missing for a need, and the option that gives it.
    fn lacks_one(&self, need: &Need) -> Option<(String, String)> {
        const ALL: &str = "--no-sandbox";
        let allow = |path: &Path| format!("--allow-path ‘{}’", existing(&absolute(path)).display());
        let sockets = || "--allow-unix-sockets".to_owned();
        match need {
            Need::Read(path) | Need::ReadLater(path) if !self.may(path, false) => {
                Some((format!("to read ‘{}’", path.display()), allow(path)))
            }
            Need::Write(path) | Need::Replace(path) if !self.may(path, true) => {
                Some((format!("to write ‘{}’", path.display()), allow(path)))
            }
            Need::Create { folder, nests, removes } if !self.may_make(folder, *nests, *removes) => {
                Some((format!("to make files in ‘{}’", folder.display()), allow(folder)))
            }
            Need::UnixSocket(path) if !self.unix_sockets.contains(&absolute(path)) => {
                let what = format!("a socket at ‘{}’", path.display());
                match (self.may(path, true), self.unix_sockets_anywhere) {
                    (true, true) => None,
                    (true, false) => Some((what, sockets())),
                    (false, true) => Some((what, allow(path.parent().unwrap_or(path)))),
                    (false, false) => {
                        let folder = allow(path.parent().unwrap_or(path));
                        Some((what, format!("{folder} {}", sockets())))
                    }
                }
            }
            Need::Run(program) if !self.programs.contains(program) => {
                Some((format!("to run ‘{program}’"), ALL.to_owned()))
            }
            Need::UnixListeners if self.unix_listeners => None,
            Need::UnixListeners | Need::UnixSockets if !self.unix_sockets_anywhere => {
                Some(("Unix sockets".to_owned(), sockets()))
            }
            Need::AbstractSockets if !self.abstract_sockets => {
                Some(("abstract Unix sockets of other programs".to_owned(), sockets()))
            }
            Need::Unknown(why) => Some((format!("more than it says ({why})"), ALL.to_owned())),
            _ => None,
        }
    }

    /// Whether a file may be read or written.
    fn may(&self, path: &Path, writes: bool) -> bool {
        let path = absolute(path);
        let beneath = |allowed: &PathBuf| path.starts_with(allowed);
        self.write.iter().any(beneath) || !writes && self.read.iter().any(beneath)
    }

    /// Whether files may be made in a folder, and what goes with it.
    fn may_make(&self, folder: &Path, nests: bool, removes: bool) -> bool {
        let path = absolute(folder);
        let enough = |making: Making| (making.nests || !nests) && (making.removes || !removes);
        let mut folders = self.folders();
        self.may(folder, true)
            || folders.any(|(allowed, making)| path.starts_with(allowed) && enough(making))
    }
}

/// The path, or the nearest folder above it that exists.
fn existing(path: &Path) -> &Path {
    path.ancestors().find(|one| one.exists()).unwrap_or(path)
}

/// The path from the root. A path that the system cannot tell stays as it is, and is allowed as such.
fn absolute(path: &Path) -> PathBuf {
    std::path::absolute(path).unwrap_or_else(|_| path.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_beneath_an_allowed_folder_may_be_written() {
        let mut policy = Policy::default();
        policy.allow(Path::new("/var/lib/millrace"));
        policy.add(Need::Read("/etc/rules".into()));
        assert!(policy.may(Path::new("/var/lib/millrace/x/y"), true));
        assert!(!policy.may(Path::new("/var/lib/millrace-other"), false));
        assert!(policy.may(Path::new("/etc/rules"), false));
        assert!(!policy.may(Path::new("/etc/rules"), true));
    }

    #[test]
    fn nothing_is_made_or_removed_in_the_root() {
        let mut policy = Policy::default();
        policy.add(Need::Create { folder: "/".into(), nests: true, removes: true });
        policy.add(Need::UnixSocket("/socket".into()));
        assert_eq!(policy.folders().count(), 0);
        assert!(policy.socket_folders().is_empty());
    }

    #[test]
    fn what_is_missing_is_told_with_the_option_that_gives_it() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        std::fs::write(path("there"), "").unwrap();
        let (mut none, here) = (Policy::default(), folder.path().display().to_string());
        let remedy =
            |policy: &Policy, need: Need| policy.lacks_one(&need).map(|(_, remedy)| remedy);
        let there = format!("--allow-path ‘{here}/there’");
        assert_eq!(remedy(&none, Need::Read(path("there"))), Some(there));
        // A file that does not exist cannot be allowed.
        let in_folder = format!("--allow-path ‘{here}’");
        assert_eq!(remedy(&none, Need::Write(path("new"))), Some(in_folder.clone()));
        let socket = format!("{in_folder} --allow-unix-sockets");
        assert_eq!(remedy(&none, Need::UnixSocket(path("socket"))), Some(socket));
        assert_eq!(remedy(&none, Need::Run("gzip".to_owned())), Some("--no-sandbox".to_owned()));
        assert_eq!(remedy(&none, Need::RawSockets), None);
        none.allow(folder.path());
        assert_eq!(remedy(&none, Need::Write(path("new"))), None);
        let nested = Need::Create { folder: path("x"), nests: true, removes: true };
        assert_eq!(remedy(&none, nested), None);
        let only_sockets = Some("--allow-unix-sockets".to_owned());
        assert_eq!(remedy(&none, Need::UnixSocket(path("socket"))), only_sockets);
    }
}
