//! Rings within a process, and between two that share memory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use millrace_testkit::{find_program, privileged};

use crate::captures;
use crate::plugin::needs_dpdk;
use crate::run::{Done, Summary, millrace, run};

#[test]
fn packets_go_through_a_ring_of_the_process() {
    needs_dpdk!();
    let summary = run(
        &["net_null0"],
        &[],
        "InfiniteSource(LENGTH 100, LIMIT 3000, BURST 32) -> ToDPDKRing(1, FROM_PROC main, TO_PROC nf);
         FromDPDKRing(1, FROM_PROC nf, TO_PROC main) -> c :: Counter -> Discard",
    );
    assert_eq!(summary.received("c"), 3000);
    // What was not in shared memory is copied into it.
    assert_eq!(summary.transmit_copies(), 3000);
}

#[test]
fn packets_of_dpdk_go_through_a_ring_without_a_copy() {
    needs_dpdk!();
    let folder = tempfile::tempdir().unwrap();
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let frames = captures::frames(700, 60, 1514);
    captures::write(&input, &frames);
    let device = format!("net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display());
    let summary = run(
        &[&device],
        &[],
        "FromDPDKDevice(0) -> ToDPDKRing(1, FROM_PROC main, TO_PROC nf, NDESC 1000);
         FromDPDKRing(1, FROM_PROC nf, TO_PROC main) -> ToDPDKDevice(0, BLOCKING true)",
    );
    assert_eq!(summary.copies(), 0);
    assert!(captures::read(&output) == frames);
}

#[test]
fn a_secondary_process_needs_a_primary_one() {
    needs_dpdk!();
    let prefix = format!("millrace-none-{}", std::process::id());
    let options =
        ["--dpdk", "--proc-type", "secondary", "--file-prefix", &prefix, "--no-pci", "--"];
    let ring = "FromDPDKRing(1, a, b) -> Discard";
    let done = millrace(&[&["run"], &options[..], &["--for", "100ms", "-e", ring]].concat());
    assert_eq!(done.status, 1, "{done:?}");
    assert!(done.stderr.contains("there is no primary process to attach to"), "{done:?}");
}

/// Huge pages of the test, which both processes map.
struct HugePages {
    folder: PathBuf,
    before: u64,
}

const PAGES: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/nr_hugepages";
const FREE: &str = "/sys/kernel/mm/hugepages/hugepages-2048kB/free_hugepages";

impl HugePages {
    /// Reserves 1 GiB, because each program that starts meanwhile takes its packet memory from there; `None` where
    /// that cannot be done.
    fn reserve(folder: &Path) -> Option<Self> {
        let number = |file: &str| fs::read_to_string(file).ok()?.trim().parse::<u64>().ok();
        let before = number(PAGES)?;
        let own = Self { folder: folder.to_owned(), before };
        fs::write(PAGES, (before + 512).to_string()).ok()?;
        let mut mount = Command::new(find_program("mount")?);
        mount.args(["-t", "hugetlbfs", "none"]).arg(folder);
        let mounted = mount.stderr(Stdio::null()).status().is_ok_and(|status| status.success());
        (mounted && number(FREE)? >= 512).then_some(own)
    }
}

impl Drop for HugePages {
    fn drop(&mut self) {
        if let Some(unmount) = find_program("umount") {
            let _ = Command::new(unmount).arg(&self.folder).stderr(Stdio::null()).status();
        }
        let _ = fs::write(PAGES, self.before.to_string());
    }
}

/// Starts a process of DPDK with this role.
fn start(role: &str, huge: &Path, prefix: &str, devices: &[&str], text: &str) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_millrace"));
    command.args(["run", "--json", "--dpdk", "--proc-type", role, "--file-prefix", prefix]);
    command.arg("--huge-dir").arg(huge).args(["-m", "64", "--no-pci"]);
    for device in devices {
        command.args(["--vdev", device]);
    }
    command.args(["--", "--buffers", "1024", "--for", "60s", "-e", text]);
    command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
}

/// Stops the process, which must end well.
fn stop(child: Child) -> Summary {
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::TERM).unwrap();
    Summary::of(Done::from(child.wait_with_output().unwrap()))
}

#[test]
fn packets_go_to_another_process_and_come_back_without_a_copy() {
    let Some(_alone) = privileged!("mount", "umount") else { return };
    needs_dpdk!();
    let folder = tempfile::tempdir().unwrap();
    let huge = folder.path().join("huge");
    fs::create_dir(&huge).unwrap();
    let Some(_pages) = HugePages::reserve(&huge) else {
        fn here() {}
        millrace_testkit::announce(millrace_testkit::enclosing(here), &"needs huge pages");
        return;
    };
    let (input, output) = (folder.path().join("in"), folder.path().join("out"));
    let frames = captures::frames(700, 60, 1514);
    captures::write(&input, &frames);
    let prefix = format!("millrace-{}", std::process::id());
    let device = format!("net_pcap0,rx_pcap={},tx_pcap={}", input.display(), output.display());
    let primary = "DPDKInfo(NB_MBUF 8192);
        FromDPDKDevice(0) -> ToDPDKRing(MEM_POOL 1, FROM_PROC main_tx, TO_PROC nf_rx);
        FromDPDKRing(MEM_POOL 2, FROM_PROC main_rx, TO_PROC nf_tx) -> ToDPDKDevice(0, BLOCKING true)";
    let secondary = "FromDPDKRing(MEM_POOL 1, FROM_PROC nf_rx, TO_PROC main_tx) -> c :: Counter
            -> ToDPDKRing(MEM_POOL 2, FROM_PROC nf_tx, TO_PROC main_rx)";
    let mut primary = start("primary", &huge, &prefix, &[&device], primary);
    // Others can attach to it when its socket is there.
    let socket = format!("/var/run/dpdk/{prefix}/mp_socket");
    let end = Instant::now() + Duration::from_secs(20);
    while !Path::new(&socket).exists() && Instant::now() < end {
        if primary.try_wait().unwrap().is_some() {
            panic!("{:?}", Done::from(primary.wait_with_output().unwrap()));
        }
        std::thread::sleep(Duration::from_millis(20));
    }
    let secondary = start("secondary", &huge, &prefix, &[], secondary);
    let bytes = frames.iter().map(Vec::len).sum::<usize>();
    let end = Instant::now() + Duration::from_secs(30);
    let whole = || fs::metadata(&output).is_ok_and(|file| file.len() as usize > bytes);
    while !whole() && Instant::now() < end {
        std::thread::sleep(Duration::from_millis(20));
    }
    let (second, first) = (stop(secondary), stop(primary));
    let _ = fs::remove_dir_all(format!("/var/run/dpdk/{prefix}"));
    assert_eq!(second.received("c"), 700, "{}", second.said);
    assert_eq!((first.copies(), second.copies()), (0, 0));
    assert!(captures::read(&output) == frames);
}
