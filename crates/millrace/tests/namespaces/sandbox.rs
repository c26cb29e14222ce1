//! The sandbox of a running router: what its devices and elements need goes on, and nothing else does.

use std::io::{BufRead, BufReader, Write};
use std::net::Shutdown;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use millrace_testkit::{Namespace, find_program, privileged};

const MILLRACE: &str = env!("CARGO_BIN_EXE_millrace");
const CLICK: &str = env!("CARGO_BIN_EXE_click");

/// A program that is ended with the test.
struct Running {
    child: Child,
    /// What the program said of the sandbox.
    line: String,
}

impl Running {
    /// Starts `millrace run`, and waits until it has entered the sandbox.
    fn new(command: &mut Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().unwrap();
        let mut said = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
        let line = said.find(|line| line.starts_with("sandbox:")).unwrap();
        // It goes on to listen, so that the program can go on to speak.
        std::thread::spawn(move || said.for_each(drop));
        Self { child, line }
    }

    /// The lines of each thread's status that begin with this word, without it.
    fn status(&self, word: &str) -> Vec<String> {
        let tasks = std::fs::read_dir(format!("/proc/{}/task", self.pid())).unwrap();
        let of_task = |task: std::io::Result<std::fs::DirEntry>| {
            // A thread may have ended meanwhile.
            let status = std::fs::read_to_string(task.ok()?.path().join("status")).ok()?;
            let line = status.lines().find_map(|line| line.strip_prefix(word))?;
            Some(line.trim().to_owned())
        };
        tasks.filter_map(of_task).collect()
    }

    /// `ip netns exec` and `setpriv` become the program that they start.
    fn pid(&self) -> u32 {
        self.child.id()
    }

    fn stop(mut self) {
        wait_for("it listens to signals", || {
            self.status("Name:").iter().any(|name| name == "signals")
        });
        Command::new("kill").arg(self.pid().to_string()).status().unwrap();
        assert!(self.child.wait().unwrap().success());
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Tries until it holds.
fn wait_for(what: &str, mut holds: impl FnMut() -> bool) {
    let until = Instant::now() + Duration::from_secs(120);
    while !holds() {
        assert!(Instant::now() < until, "{what}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Says a line to a control socket; all that it answers.
fn ask(socket: &Path, line: &str) -> String {
    let mut stream = UnixStream::connect(socket).unwrap();
    write!(stream, "{line}\r\n").unwrap();
    stream.shutdown(Shutdown::Write).unwrap();
    let mut text = String::new();
    std::io::Read::read_to_string(&mut stream, &mut text).unwrap();
    text
}

fn cable() -> (Namespace, Namespace) {
    let (here, there) = (Namespace::new("sandbox"), Namespace::new("peer"));
    here.connect("eth0", &there, "lan");
    (here, there)
}

#[test]
fn every_thread_is_inside() {
    let Some(_alone) = privileged!("ip", "sysctl") else { return };
    let (here, _there) = cable();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("socket");
    let config = format!(
        "FromDevice(eth0) -> Pipeliner -> Discard; ControlSocket(UNIX, {})",
        folder.path().join("own").display()
    );
    let mut command = here.command(MILLRACE);
    command.args(["run", "-j", "2", "--no-table", "-e", &config, "-u"]).arg(&socket);
    let running = Running::new(&mut command);
    assert!(running.line.contains("dropped except NET_RAW, "), "{}", running.line);
    assert!(running.line.contains("landlock ABI"), "{}", running.line);
    // Two threads of the router, two of control sockets, one for signals.
    wait_for("all threads run", || running.status("Name:").len() >= 5);
    assert!(ask(&socket, "READ version").contains("200"));
    assert!(running.status("Seccomp:").iter().all(|mode| mode == "2"));
    assert!(running.status("NoNewPrivs:").iter().all(|set| set == "1"));
    // CAP_NET_RAW is the thirteenth.
    let kept = format!("{:016x}", 1u64 << 13);
    assert!(running.status("CapEff:").iter().all(|set| *set == kept));
    assert!(running.status("CapPrm:").iter().all(|set| *set == kept));
    running.stop();
    assert!(!socket.exists() && !folder.path().join("own").exists(), "sockets are removed");
}

#[test]
fn without_it_all_is_kept() {
    let Some(_alone) = privileged!("ip", "sysctl") else { return };
    let (here, _there) = cable();
    let mut command = here.command(MILLRACE);
    command.args(["run", "--no-sandbox", "--no-table", "-e", "FromDevice(eth0) -> Discard"]);
    let running = Running::new(&mut command);
    assert_eq!(running.line, "sandbox: none (--no-sandbox)");
    assert!(running.status("Seccomp:").iter().all(|mode| mode == "0"));
    running.stop();
}

#[test]
fn a_device_that_comes_back_is_opened_again() {
    let Some(_alone) = privileged!("ip", "sysctl", "ping") else { return };
    for options in ["METHOD LINUX", "METHOD SOCKET", "METHOD LINUX, SNIFFER false", "METHOD XDP"] {
        let (here, there) = cable();
        let folder = tempfile::tempdir().unwrap();
        let socket = folder.path().join("socket");
        let config =
            format!("FromDevice(eth0, {options}, PROMISC true) -> c :: Counter -> Discard");
        let mut command = here.command(MILLRACE);
        command.args(["run", "--no-table", "-e", &config, "-u"]).arg(&socket);
        let running = Running::new(&mut command);
        let count = || {
            let text = ask(&socket, "READ c.count");
            text.lines().rev().find_map(|line| line.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        let send = || {
            there.run("ping -n -c 1 -W 1 10.4.0.1");
        };
        let address = "address add 10.4.0.2/24 dev lan";
        there.ip(address);
        wait_for("packets arrive", || {
            send();
            count() > 0
        });
        here.ip("link delete eth0");
        here.connect("eth0", &there, "lan");
        there.ip(address);
        let before = count();
        wait_for(options, || {
            send();
            count() > before
        });
        running.stop();
    }
}

#[test]
fn a_new_configuration_gets_what_was_allowed() {
    let Some(_alone) = privileged!("ip", "sysctl") else { return };
    let (here, _there) = cable();
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    std::fs::create_dir(path("allowed")).unwrap();
    let mut command = here.command(CLICK);
    let first = format!("Idle -> ToDump({})", path("first.pcap"));
    command.args(["-R", "--allow-path", &path("allowed"), "-u", &path("socket"), "-e", &first]);
    let child = command.stderr(Stdio::null()).spawn().unwrap();
    let click = Running { child, line: String::new() };
    wait_for("it listens", || UnixStream::connect(path("socket")).is_ok());
    let swap = |config: &str| {
        let mut swap = Command::new(MILLRACE)
            .args(["hotswap", "--socket", &path("socket"), "-"])
            .stdin(Stdio::piped())
            .stderr(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        swap.stdin.take().unwrap().write_all(config.as_bytes()).unwrap();
        let output = swap.wait_with_output().unwrap();
        let said = [output.stdout, output.stderr].concat();
        // The locale chooses the quotation marks.
        (output.status.success(), String::from_utf8(said).unwrap().replace(['‘', '’'], "'"))
    };
    // A device that the first one did not have, the same file, and one in the folder.
    let same = format!("FromDevice(eth0) -> ToDump({})", path("first.pcap"));
    let (fine, said) = swap(&same);
    assert!(fine, "{said}");
    let (fine, said) = swap(&format!("Idle -> d :: ToDump({})", path("allowed/second.pcap")));
    assert!(fine, "{said}");
    assert!(folder.path().join("allowed/second.pcap").exists());
    // What was not allowed is told with how to allow it, and nothing is lost.
    let (fine, said) = swap(&format!("Idle -> d :: ToDump({})", path("third.pcap")));
    assert!(!fine && said.contains("needs to write"), "{said}");
    assert!(said.contains("third.pcap"), "{said}");
    let option = format!("--allow-path '{}'", folder.path().display());
    assert!(said.contains(&option), "it cannot be named before it exists: {said}");
    std::fs::write(path("there"), "").unwrap();
    let (fine, said) = swap(&format!("FromDump({}) -> Discard", path("there")));
    assert!(!fine && said.contains("needs to read"), "{said}");
    assert!(said.contains(&format!("--allow-path '{}'", path("there"))), "{said}");
    let socket = format!("FromDevice(eth0) -> Socket(UNIX, {})", path("allowed/service"));
    let (fine, said) = swap(&socket);
    assert!(!fine && said.contains("start this program with --allow-unix-sockets"), "{said}");
    assert!(!folder.path().join("third.pcap").exists());
    let (fine, said) = swap("FromDevice(eth0) -> Discard");
    assert!(fine, "{said}");
    click.stop();
}

#[test]
fn a_user_with_file_capabilities_needs_no_more() {
    let Some(_alone) = privileged!("ip", "sysctl", "setpriv", "setcap", "ping") else { return };
    let (here, there) = cable();
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("millrace");
    std::fs::copy(MILLRACE, &program).unwrap();
    let open = std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open).unwrap();
    let socket = folder.path().join("socket");
    let command = |config: &str| {
        let mut command = here.command("setpriv");
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
        command.args(["run", "--no-table", "-e", config, "-u"]).arg(&socket);
        command
    };
    let setcap = |capabilities: &str| {
        let setcap = find_program("setcap").unwrap();
        let status = Command::new(setcap).arg(capabilities).arg(&program).status();
        assert!(status.unwrap().success());
    };
    const PACKETS: &str = "FromDevice(eth0, PROMISC true) -> c :: Counter -> Discard";
    for config in [PACKETS, "RawSocket(ICMP) -> Discard"] {
        let output = command(config).output().unwrap();
        let said = String::from_utf8(output.stderr).unwrap();
        let advice = format!("sudo setcap cap_net_raw+ep {}", program.display());
        assert!(!output.status.success() && said.contains(&advice), "{said}");
    }

    for capabilities in ["cap_net_raw+ep", "cap_net_raw,cap_net_admin+ep"] {
        setcap(capabilities);
        let running = Running::new(&mut command(PACKETS));
        assert!(running.line.contains("dropped except NET_RAW, landlock"), "{}", running.line);
        // It is what the line says: the user's own, in each thread, and inside.
        let kept = format!("{:016x}", 1u64 << 13);
        assert!(running.status("CapEff:").iter().all(|set| *set == kept), "{capabilities}");
        assert!(running.status("CapPrm:").iter().all(|set| *set == kept), "{capabilities}");
        assert!(running.status("Uid:").iter().all(|ids| ids.starts_with("65534")));
        assert!(running.status("Seccomp:").iter().all(|mode| mode == "2"));
        assert!(running.status("NoNewPrivs:").iter().all(|set| *set == "1"));
        let count = || {
            let text = ask(&socket, "READ c.count");
            text.lines().rev().find_map(|line| line.trim().parse::<u64>().ok()).unwrap_or(0)
        };
        there.ip("address replace 10.4.0.2/24 dev lan");
        wait_for("packets arrive", || {
            there.run("ping -n -c 1 -W 1 10.4.0.1");
            count() > 0
        });
        running.stop();
    }
}
