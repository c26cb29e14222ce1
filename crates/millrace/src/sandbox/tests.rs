//! Each layer is tried from inside: the tests start themselves again, confine themselves there, and try to break out.

use std::fs::File;
use std::io::ErrorKind;
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram, UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use millrace_core::Need;
use millrace_testkit::find_program;
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketType, socket};
use rustix::process::Pid;
use rustix::thread::{CapabilitySet, capabilities};

use super::enter;
use super::policy::Policy;

/// Where the test that runs inside finds its folder; it does nothing without.
const FOLDER: &str = "MILLRACE_SANDBOX_TEST";
/// What the test inside tries.
const TRIAL: &str = "MILLRACE_SANDBOX_TRIAL";
const INSIDE: &str = "sandbox::tests::inside_the_sandbox";

/// A trial's name, and what it does in a confined process.
type Trial = (&'static str, fn(&Place));

/// What is tried inside.
const TRIALS: [Trial; 8] = [
    ("unnamed", what_is_not_named),
    ("beside", files_beside_the_named_one),
    ("folder", a_folder_for_new_files),
    ("swap", sockets_of_a_hot_swap),
    ("abstract", abstract_sockets),
    ("ports", one_tcp_port),
    ("programs", programs),
    ("numbers", numbers_of_other_interfaces),
];

/// What the test outside has prepared.
struct Place {
    folder: PathBuf,
    /// The process outside.
    parent: Pid,
}

impl Place {
    fn file(&self, name: &str) -> PathBuf {
        self.folder.join(name)
    }

    /// Enters the sandbox.
    fn enter(&self, policy: &Policy) {
        let held = enter(policy, &Ok(Vec::new()));
        assert!(held.holds, "{held:?}");
        let line = held.line();
        assert!(line.contains("landlock ABI") && line.ends_with("seccomp"), "{line}");
    }
}

/// Runs this program again, on one thread, with the test that tries.
fn inside(wrapper: &[&str], folder: &Path, trial: &str) -> Option<Output> {
    let own = std::env::current_exe().unwrap();
    let mut words = wrapper.iter().map(|word| (*word).to_owned());
    let mut command = match words.next() {
        Some(program) => Command::new(find_program(&program)?),
        None => Command::new(&own),
    };
    command.args(words);
    if !wrapper.is_empty() {
        command.arg(&own);
    }
    command.args(["--exact", INSIDE, "--nocapture", "--test-threads=1"]);
    Some(command.env(FOLDER, folder).env(TRIAL, trial).stdin(Stdio::null()).output().unwrap())
}

/// Lets the test inside try this.
fn attempt(folder: &Path, trial: &str) {
    let output = inside(&[], folder, trial).unwrap();
    assert!(output.status.success(), "{output:?}");
}

fn folder() -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for name in ["named", "other"] {
        std::fs::write(folder.path().join(name), name).unwrap();
    }
    for name in ["box", "coming"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
        std::fs::write(folder.path().join(name).join("neighbour"), "neighbour").unwrap();
    }
    folder
}

#[test]
fn what_is_not_named_is_out_of_reach() {
    attempt(folder().path(), "unnamed");
}

#[test]
fn a_file_that_is_to_come_opens_nothing_beside_it() {
    attempt(folder().path(), "beside");
}

#[test]
fn new_files_in_a_folder_do_not_open_all_of_it() {
    attempt(folder().path(), "folder");
}

#[test]
fn unix_sockets_of_other_programs_are_out_of_reach_of_a_hot_swap() {
    let folder = folder();
    // Such as that of a container engine, which makes anybody root who reaches it.
    let _engine = UnixListener::bind(folder.path().join("engine")).unwrap();
    attempt(folder.path(), "swap");
}

#[test]
fn abstract_sockets_of_other_programs_are_out_of_reach() {
    let folder = folder();
    let _named = UnixListener::bind(folder.path().join("service")).unwrap();
    let name = SocketAddr::from_abstract_name(folder.path().as_os_str().as_encoded_bytes());
    let _abstract = UnixListener::bind_addr(&name.unwrap()).unwrap();
    attempt(folder.path(), "abstract");
}

#[test]
fn a_port_that_is_named_is_the_only_one() {
    attempt(folder().path(), "ports");
}

#[test]
fn a_program_that_may_be_started_is_the_only_one() {
    attempt(folder().path(), "programs");
}

#[test]
fn calls_by_other_numbers_are_refused() {
    attempt(folder().path(), "numbers");
}

#[test]
fn it_holds_for_an_ordinary_user_too() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let folder = folder();
    let user = rustix::fs::Uid::from_raw(65_534);
    for name in ["", "named", "other", "box", "coming"] {
        rustix::fs::chown(folder.path().join(name), Some(user), None).unwrap();
    }
    let wrapper = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"];
    let Some(output) = inside(&wrapper, folder.path(), "unnamed") else { return };
    let text = String::from_utf8_lossy(&output.stderr);
    if text.contains("Permission denied") && !text.contains("panicked") {
        // The program itself is where only root can go.
        return;
    }
    assert!(output.status.success(), "{output:?}");
}

fn refused<T>(result: std::io::Result<T>) -> bool {
    matches!(result, Err(error) if error.kind() == ErrorKind::PermissionDenied)
}

/// Confines its process, so it does something only where the other tests have started it.
#[test]
fn inside_the_sandbox() {
    let Some(folder) = std::env::var_os(FOLDER) else { return };
    let parent = rustix::process::getppid().unwrap();
    let wanted = std::env::var(TRIAL).unwrap();
    let (_, trial) = TRIALS.into_iter().find(|(name, _)| *name == wanted).unwrap();
    trial(&Place { folder: folder.into(), parent });
}

fn what_is_not_named(place: &Place) {
    let mut policy = Policy::default();
    policy.allow(&place.file("named"));
    policy.allow(&place.file("box"));
    policy.add(Need::Write(place.file("coming/later")));
    // One that was open before stays open.
    let before = File::open(place.file("other")).unwrap();
    place.enter(&policy);
    let try_all = || {
        // Files.
        assert!(refused(File::open(place.file("other"))));
        assert!(refused(std::fs::read_dir("/etc")));
        assert!(refused(File::open("/etc/shadow")));
        assert!(refused(std::fs::remove_file(place.file("other"))));
        // Landlock alone would let the owner do that.
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o666);
        assert!(refused(std::fs::set_permissions(place.file("other"), mode)));
        assert_eq!(std::fs::read_to_string(place.file("named")).unwrap(), "named");
        drop(File::options().append(true).open(place.file("named")).unwrap());
        drop(File::create(place.file("box/new")).unwrap());
        drop(File::open("/proc/self/status").unwrap());
        assert!(refused(File::open(format!("/proc/{}/environ", place.parent.as_raw_nonzero()))));
        // Programs, signals, identities.
        assert!(refused(Command::new("/bin/true").status()));
        assert_eq!(rustix::process::test_kill_process(place.parent), Err(Errno::PERM));
        // Sockets.
        let packets = socket(AddressFamily::PACKET, SocketType::RAW, None);
        assert_eq!(packets.map(drop), Err(Errno::PERM));
        assert!(refused(UdpSocket::bind("127.0.0.1:0")));
        drop(UnixStream::pair().unwrap());
        assert!(refused(UnixDatagram::pair()));
        assert_eq!(capabilities(None).unwrap().permitted, CapabilitySet::empty());
    };
    try_all();
    drop(before);
    drop(File::create(place.file("coming/later")).unwrap());
    std::thread::scope(|scope| scope.spawn(try_all).join().unwrap());
    let status = std::fs::read_to_string("/proc/thread-self/status").unwrap();
    assert!(status.contains("NoNewPrivs:\t1") && status.contains("Seccomp:\t2"), "{status}");
}

fn files_beside_the_named_one(place: &Place) {
    let mut policy = Policy::default();
    policy.add(Need::Write(place.file("coming/later")));
    policy.add(Need::Read(place.file("named")));
    place.enter(&policy);
    // As an element writes it.
    std::fs::write(place.file("coming/later"), "written").unwrap();
    assert!(refused(File::create(place.file("coming/another"))));
    assert!(refused(File::open(place.file("coming/neighbour"))));
    assert!(refused(File::options().append(true).open(place.file("coming/neighbour"))));
    assert!(refused(std::fs::remove_file(place.file("coming/neighbour"))));
    assert!(refused(std::fs::create_dir(place.file("coming/folder"))));
    assert!(refused(std::fs::rename(place.file("coming/later"), place.file("coming/moved"))));
    // A file that is read again does not open its folder either.
    assert_eq!(std::fs::read_to_string(place.file("named")).unwrap(), "named");
    assert!(refused(File::open(place.file("other"))));
}

fn a_folder_for_new_files(place: &Place) {
    let mut policy = Policy::default();
    let create = |folder, removes| Need::Create { folder, nests: false, removes };
    policy.add(create(place.file("box"), false));
    policy.add(create(place.file("coming"), true));
    policy.add(create("/".into(), true));
    place.enter(&policy);
    std::fs::write(place.file("box/new"), "new").unwrap();
    assert!(refused(File::open(place.file("box/neighbour"))), "it is not read");
    assert!(refused(std::fs::remove_file(place.file("box/neighbour"))));
    assert!(refused(std::fs::create_dir(place.file("box/folder"))));
    assert!(refused(UnixListener::bind(place.file("box/socket"))));
    drop(File::create(place.file("coming/new")).unwrap());
    std::fs::remove_file(place.file("coming/new")).unwrap();
    // The folder that they have in common, and the root, stay closed.
    assert!(refused(File::create(place.file("new"))));
}

fn sockets_of_a_hot_swap(place: &Place) {
    let engine = place.file("engine");
    drop(UnixStream::connect(&engine).unwrap());
    let mut policy = Policy::default();
    policy.allow_other_devices();
    place.enter(&policy);
    assert!(refused(UnixStream::connect(&engine)));
    assert!(refused(UnixDatagram::unbound()));
    assert!(refused(UnixListener::bind(place.file("own"))));
    // Other hosts are what devices of the next configuration may need.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    drop(TcpStream::connect(listener.local_addr().unwrap()).unwrap());
    drop(UdpSocket::bind("127.0.0.1:0").unwrap());
}

fn abstract_sockets(place: &Place) {
    let name = SocketAddr::from_abstract_name(place.folder.as_os_str().as_encoded_bytes()).unwrap();
    drop(UnixStream::connect_addr(&name).unwrap());
    let mut policy = Policy::default();
    policy.add(Need::UnixSockets);
    place.enter(&policy);
    drop(UnixStream::connect(place.file("service")).unwrap());
    assert!(refused(UnixStream::connect_addr(&name)));
}

fn one_tcp_port(place: &Place) {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap();
    let (own, other) = (free(), free());
    let (port, wrong) = (own.local_addr().unwrap().port(), other.local_addr().unwrap().port());
    drop((own, other));
    let service = free();
    let mut policy = Policy::default();
    policy.add(Need::TcpPorts(port..=port));
    policy.add(Need::UnixListeners);
    place.enter(&policy);
    assert!(refused(TcpListener::bind(("127.0.0.1", wrong))));
    drop(TcpListener::bind(("127.0.0.1", port)).unwrap());
    assert!(refused(TcpStream::connect(service.local_addr().unwrap())));
    assert!(refused(UdpSocket::bind("127.0.0.1:0")));
    // A Unix socket can be opened here, but nothing can be reached through it.
    drop(socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap());
    assert!(refused(UnixStream::connect(place.file("engine"))));
}

fn programs(place: &Place) {
    // The C library is a program, too, in a folder of libraries.
    let maps = std::fs::read_to_string("/proc/self/maps").unwrap();
    let library = maps
        .lines()
        .find_map(|line| line.split(' ').next_back().filter(|path| path.contains("/libc.so")));
    let library = library.map(str::to_owned);
    let mut policy = Policy::default();
    policy.add(Need::Run("sh".to_owned()));
    place.enter(&policy);
    let shell =
        |text: &str| Command::new("sh").args(["-c", text]).stderr(Stdio::null()).status().unwrap();
    assert!(shell("exit 0").success());
    assert!(refused(Command::new("/bin/true").status()));
    if let Some(library) = &library {
        assert!(refused(Command::new(library).stdout(Stdio::null()).status()), "{library}");
    }
    // Neither this process nor the program reaches others.
    assert_eq!(rustix::process::test_kill_process(place.parent), Err(Errno::PERM));
    assert!(!shell(&format!("kill -0 {}", place.parent.as_raw_nonzero())).success());
    assert!(!shell(&format!("echo > {}", place.file("other").display())).success());
}

fn numbers_of_other_interfaces(place: &Place) {
    let Some(python) = find_program("python3").filter(|_| cfg!(target_arch = "x86_64")) else {
        return;
    };
    // The error of setns(2) by this number: EBADF says that it was carried out.
    let trial = "import ctypes, sys; libc = ctypes.CDLL(None, use_errno=True); \
                 libc.syscall(int(sys.argv[1]), -1, 0); print(ctypes.get_errno())";
    // As the compilers of 32-bit programs make getpid(2).
    let interrupt = "import ctypes, mmap; page = mmap.mmap(-1, 4096, prot=7); \
                     page.write(bytes.fromhex('b814000000cd80c3')); \
                     print(ctypes.CFUNCTYPE(ctypes.c_int)(ctypes.addressof(ctypes.c_char.from_buffer(page)))())";
    // Makes the process outside the owner of a file: who gets the signals that tell of it.
    let owner = "import fcntl, os, sys\n\
                 try: print(fcntl.fcntl(0, int(sys.argv[1]), os.getppid()))\n\
                 except OSError as error: print(error.errno)";
    let run = |script: &str, number: i64| {
        let number = number.to_string();
        Command::new(&python).args(["-c", script, &number]).output().unwrap()
    };
    const X32: i64 = 0x4000_0000;
    let answer = |script: &str, number: i64| {
        String::from_utf8(run(script, number).stdout).unwrap().trim().parse::<i32>()
    };
    let error = |number| answer(trial, number);
    let owns = || answer(owner, libc::F_SETOWN.into());
    let before = run(interrupt, 0);
    assert_eq!((error(libc::SYS_setns), owns()), (Ok(libc::EBADF), Ok(0)));
    // Nothing is known of the needs, so only what none can need is forbidden.
    let policy = Policy { unknown: Some("of a test".to_owned()), ..Policy::default() };
    let held = enter(&policy, &Ok(Vec::new()));
    assert!(!held.holds && held.line().contains("seccomp"), "{held:?}");
    assert_eq!(error(libc::SYS_setns), Ok(libc::EPERM));
    assert_eq!(error(X32 + libc::SYS_setns), Ok(libc::EPERM));
    assert_eq!(owns(), Ok(libc::EPERM));
    if before.status.success() {
        let killed = std::os::unix::process::ExitStatusExt::signal(&run(interrupt, 0).status);
        assert_eq!(killed, Some(libc::SIGSYS));
    }
    let _ = place;
}
