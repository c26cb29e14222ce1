//! What elements need of the system while the router runs, beside packets.
//!
//! `millrace run` gives up every privilege that nothing in its configuration needs, once all devices and files are open
//! (`millrace/src/sandbox`). So elements declare what they will need later: with [`Args::needs`](crate::Args::needs)
//! what follows from their arguments, and with [`Init::needs`](crate::Init::needs) what is known only once a device is
//! open. An element that only processes packets declares nothing.
//!
//! Whether a crate's classes declare their needs, the crate says once, in its `lib.rs`:
//!
//! ```
//! millrace_core::declares_needs!();
//! ```
//!
//! While a router has an element of a crate that does not say so, the process keeps its privileges, and the program says
//! why.

use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};

use linkme::distributed_slice;
use millrace_lang::config::unquote;

/// The crates whose classes declare what they need. Use [`declares_needs!`](crate::declares_needs) to add one.
#[distributed_slice]
pub static DECLARING_CRATES: [&'static str];

/// Says that the classes of the crate declare what they [need](crate::needs). It belongs in the crate's root.
#[macro_export]
macro_rules! declares_needs {
    () => {
        const _: () = {
            #[$crate::linkme::distributed_slice($crate::needs::DECLARING_CRATES)]
            #[linkme(crate = $crate::linkme)]
            static CRATE: &'static str = module_path!();
        };
    };
}

/// Whether the crate of a module (`millrace_elements::ip::dec_ip_ttl`) declares what its classes need.
pub fn are_declared(module: &str) -> bool {
    let name = module.split("::").next();
    DECLARING_CRATES.iter().any(|declaring| declaring.split("::").next() == name)
}

/// Something that an element needs while the router runs, or when it is configured anew.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Need {
    /// Reads a file, or the files in a folder. A file that is put in its place later is another one.
    Read(PathBuf),
    /// Like [`Read`](Self::Read), when a handler asks for it: what stands there then, even if this router wrote it.
    ReadLater(PathBuf),
    /// Creates, reads and writes a file; of a folder that exists, creates, reads, writes and removes the files in it.
    Write(PathBuf),
    /// Like [`Write`](Self::Write), from the start of the file on: no other element of the router may write it.
    Replace(PathBuf),
    /// Creates and writes files in a folder whose names are not known before.
    Create {
        /// The folder; it is made if it does not exist.
        folder: PathBuf,
        /// Whether folders are made in it, too.
        nests: bool,
        /// Whether the files are read and removed, too: by a program that compresses them, say.
        removes: bool,
    },
    /// Makes and removes a Unix socket at this path.
    UnixSocket(PathBuf),
    /// Starts this program, found as the shell would.
    Run(String),
    /// Listens at one of these TCP ports that it has not opened yet.
    TcpPorts(RangeInclusive<u16>),
    /// Opens sockets to other hosts, and to programs of this one that have ports: TCP and UDP.
    InetSockets,
    /// Listens at Unix sockets that it has not opened yet. Their paths are further needs.
    UnixListeners,
    /// Opens Unix sockets and connects to any other one of the machine: there is no way to say which.
    UnixSockets,
    /// Sends to Unix sockets with abstract names that other programs have.
    AbstractSockets,
    /// Opens packet sockets (`CAP_NET_RAW`): to open a device again whose interface was gone, say.
    RawSockets,
    /// Changes settings of interfaces, and restores them (`CAP_NET_ADMIN`).
    NetworkSettings,
    /// Loads programs into the kernel, and shares memory with it (bpf(2), AF_XDP).
    KernelPrograms,
    /// Nobody knows; the text says whose needs and why, and follows “because”.
    Unknown(String),
}

/// Handlers that read the file whose name they get. Those that write it have the word “file” in their names.
const READING_HANDLERS: [&str; 2] = ["load", "reload"];

impl Need {
    /// The file with this name is read, unless the name stands for standard input.
    pub fn read(name: impl AsRef<Path>) -> Option<Self> {
        file(name.as_ref()).map(Self::Read)
    }

    /// The file with this name is read when a handler asks, unless the name stands for standard input.
    pub fn read_later(name: impl AsRef<Path>) -> Option<Self> {
        file(name.as_ref()).map(Self::ReadLater)
    }

    /// The file with this name is written, unless the name stands for standard output.
    pub fn write(name: impl AsRef<Path>) -> Option<Self> {
        file(name.as_ref()).map(Self::Write)
    }

    /// The file with this name is written from its start, unless the name stands for standard output.
    pub fn replace(name: impl AsRef<Path>) -> Option<Self> {
        file(name.as_ref()).map(Self::Replace)
    }

    /// The file that a handler needs that this value is written to (`counts.write_file /tmp/counts`). A handler that takes
    /// the name of a file has a name that says so. Arguments that are a
    /// [`HandlerCall`](crate::element::HandlerCall) declare it by themselves.
    pub fn of_call(handler: &str, value: &[u8]) -> Option<Self> {
        let handler = handler.rsplit('.').next().unwrap_or_default();
        let name = unquote(String::from_utf8_lossy(value).trim());
        let name = String::from_utf8_lossy(&name);
        if name.contains('$') {
            // It is known only when the handler is called.
            return None;
        }
        if READING_HANDLERS.contains(&handler) {
            return Self::read_later(&*name);
        }
        handler.split('_').any(|word| word == "file").then(|| Self::write(&*name))?
    }
}

fn file(name: &Path) -> Option<PathBuf> {
    (name != Path::new("-") && !name.as_os_str().is_empty()).then(|| name.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_crate_that_says_nothing_declares_nothing() {
        assert!(!are_declared("some_plugins::magic"));
        assert!(!are_declared(""));
    }

    #[test]
    fn standard_streams_are_no_files() {
        assert_eq!(Need::read("-"), None);
        assert_eq!(Need::write(""), None);
        assert_eq!(Need::write("./-"), Some(Need::Write("./-".into())));
    }

    #[test]
    fn the_name_of_a_handler_says_what_it_does_with_a_file() {
        let need = |handler: &str, value: &str| Need::of_call(handler, value.as_bytes());
        assert_eq!(
            need("counts.write_ip_file", " \"/tmp/a b\" "),
            Some(Need::Write("/tmp/a b".into()))
        );
        assert_eq!(need("write_file", "-"), None);
        assert_eq!(need("x/rules.load", "/etc/rules"), Some(Need::ReadLater("/etc/rules".into())));
        assert_eq!(need("rules.load", ""), None);
        assert_eq!(need("filepos", "12"), None);
        assert_eq!(need("write_file", "/tmp/$name"), None);
    }
}
