//! Devices with something at the other end: interfaces of the kernel, another program.

use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use millrace_testkit::{find_program, privileged};

use crate::plugin::needs_dpdk;
use crate::run::{Done, Summary, millrace, words};

/// A network namespace that goes when this is dropped.
struct Namespace(String);

impl Namespace {
    fn new(role: &str) -> Self {
        let name = format!("millrace-{}-{role}", std::process::id());
        assert!(ip(&["netns", "add", &name]), "{name}");
        let quiet = "net.ipv6.conf.default.disable_ipv6=1";
        let namespace = Self(name);
        assert!(namespace.command("sysctl").args(["-q", "-w", quiet]).status().unwrap().success());
        namespace
    }

    fn command(&self, program: &str) -> Command {
        let mut command = Command::new(find_program("ip").unwrap());
        command
            .args(["netns", "exec", &self.0])
            .arg(find_program(program).unwrap_or(program.into()));
        command
    }

    fn ip(&self, line: &str) -> bool {
        let words: Vec<&str> = ["-n", &self.0].into_iter().chain(line.split_whitespace()).collect();
        ip(&words)
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        ip(&["netns", "delete", &self.0]);
    }
}

fn ip(words: &[&str]) -> bool {
    let mut command = Command::new(find_program("ip").unwrap());
    command.args(words).stderr(Stdio::null()).status().is_ok_and(|status| status.success())
}

/// Answers ARP and pings for 10.9.0.2.
fn host(port: &str) -> String {
    format!(
        "FromDPDKDevice({port}) -> c :: Classifier(12/0806 20/0001, 12/0800);
         out :: ToDPDKDevice({port}, BLOCKING true);
         c[0] -> ARPResponder(10.9.0.2 2:0:0:0:9:2) -> out;
         c[1] -> CheckIPHeader(14) -> ICMPPingResponder -> EtherMirror -> out;"
    )
}

/// Starts the program in a namespace and waits until `ready`.
fn start(namespace: &Namespace, device: &str, text: &str, ready: impl Fn() -> bool) -> Child {
    let mut command = namespace.command(env!("CARGO_BIN_EXE_millrace"));
    command.args(words(&[device])).args(["--for", "20s", "-e", text]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(ready);
    child
}

fn wait_until(ready: impl Fn() -> bool) {
    let end = Instant::now() + Duration::from_secs(15);
    while !ready() {
        assert!(Instant::now() < end, "it does not come up");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Stops the program, which must end well.
fn stop(child: Child) -> Summary {
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    Summary::of(Done::from(child.wait_with_output().unwrap()))
}

fn ping(namespace: &Namespace) -> bool {
    let mut command = namespace.command("ping");
    command.args("-c 5 -i 0.1 -w 10 -q -s 1000 10.9.0.2".split_whitespace());
    command.stdout(Stdio::null()).status().unwrap().success()
}

#[test]
fn the_kernel_pings_a_host_behind_a_tap() {
    let Some(_alone) = privileged!("ip", "ping", "sysctl") else { return };
    needs_dpdk!();
    let namespace = Namespace::new("tap");
    let router = start(&namespace, "net_tap0,iface=mdtap", &host("net_tap0"), || {
        namespace.ip("address replace 10.9.0.1/24 dev mdtap") && namespace.ip("link set mdtap up")
    });
    let answered = ping(&namespace);
    let summary = stop(router);
    assert!(answered, "{}", summary.said);
    assert!(summary.packets("net_tap0", "in") >= 6);
    assert_eq!(summary.copies(), 0);
}

#[test]
fn the_kernel_pings_a_host_behind_a_packet_socket() {
    let Some(_alone) = privileged!("ip", "ping", "sysctl") else { return };
    needs_dpdk!();
    let (near, far) = (Namespace::new("packet"), Namespace::new("peer"));
    assert!(near.ip(&format!("link add md0 type veth peer name md1 netns {}", far.0)));
    assert!(near.ip("link set md0 up") && far.ip("link set md1 up"));
    assert!(far.ip("address add 10.9.0.1/24 dev md1"));
    let device = "net_af_packet0,iface=md0";
    let router = start(&near, device, &host("net_af_packet0"), || true);
    let answered = ping(&far);
    let summary = stop(router);
    assert!(answered, "{}", summary.said);
    assert_eq!(summary.copies(), 0);
}

#[test]
fn two_programs_meet_in_shared_memory() {
    needs_dpdk!();
    let folder = tempfile::tempdir().unwrap();
    let socket = folder.path().join("memif");
    let device = |role: &str| {
        let socket = socket.display();
        format!("net_memif0,role={role},socket={socket},socket-abstract=no,id=0")
    };
    let (server, client) = (device("server"), device("client"));
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(words(&[&server])).args(["--for", "20s", "-e", "FromDPDKDevice(0) -> Discard"]);
    let receiver = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    wait_until(|| socket.exists());
    // There is no room before the two have met. What has been sent gets a moment to arrive.
    let text =
        "InfiniteSource(LENGTH 200, LIMIT 1000, BURST 32) -> out :: ToDPDKDevice(0, BLOCKING true);
        Script(label again, wait 0.1s, goto again $(lt $(out.count) 1000), wait 0.5s, stop);";
    let sent = millrace(&[&words(&[&client])[..], &["--for", "15s", "-e", text]].concat());
    let (sent, received) = (Summary::of(sent), stop(receiver));
    assert_eq!((sent.packets("0", "out"), received.packets("0", "in")), (1000, 1000));
}
