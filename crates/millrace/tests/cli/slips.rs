//! No harm by a slip: files that are named twice or not at all, signals at any time, readers that do not read.

use std::fs;
use std::io::Write;
use std::path::Path;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};

use super::{Done, click_command, millrace, millrace_command, with_input};

/// For what takes a moment on an idle machine.
const PATIENCE: Duration = Duration::from_secs(60);

/// Waits until a program has ended; kills it if it does not.
fn wait(child: &mut Child) -> Option<ExitStatus> {
    let end = Instant::now() + PATIENCE;
    while Instant::now() < end {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    child.kill().unwrap();
    child.wait().unwrap();
    None
}

fn signal(child: &Child, signal: Signal) {
    kill_process(Pid::from_child(child), signal).unwrap();
}

/// Waits until a program handles a signal.
fn wait_for_handler(child: &Child, signal: Signal) {
    let end = Instant::now() + PATIENCE;
    let handles = || {
        let status = fs::read_to_string(format!("/proc/{}/status", child.id())).unwrap();
        let caught = status.lines().find_map(|line| line.strip_prefix("SigCgt:")).unwrap();
        u64::from_str_radix(caught.trim(), 16).unwrap() >> (signal.as_raw() - 1) & 1 == 1
    };
    while !handles() {
        assert!(
            Instant::now() < end,
            "it does not handle the signal before it has read its configuration"
        );
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn capture(path: &Path) {
    let text = format!(
        "InfiniteSource(LENGTH 60, LIMIT 10, STOP true) -> ToDump({}, SNAPLEN 0)",
        path.display()
    );
    let done = millrace(&["run", "-e", &text]);
    assert_eq!(done.status, 0, "{}", done.stderr);
}

#[test]
fn a_file_that_is_read_is_not_overwritten_by_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name);
    capture(&path("in.pcap"));
    fs::hard_link(path("in.pcap"), path("hard.pcap")).unwrap();
    std::os::unix::fs::symlink("in.pcap", path("soft.pcap")).unwrap();
    let before = fs::read(path("in.pcap")).unwrap();
    assert!(before.len() > 700);
    for name in ["in.pcap", "./in.pcap", "hard.pcap", "soft.pcap"] {
        let (from, to) = (path("in.pcap"), path(name));
        let text = format!("FromDump({}, STOP true) -> ToDump({})", from.display(), to.display());
        for mut command in [millrace_command(), click_command()] {
            if command.get_program().to_string_lossy().ends_with("millrace") {
                command.arg("run");
            }
            let done = Done::from(command.args(["-e", &text]).output().unwrap());
            assert_ne!(done.status, 0, "{name}");
            let why = "would be overwritten, and is the file that ‘FromDump@1 :: FromDump’ reads";
            assert!(done.stderr.contains(why), "{name}: {}", done.stderr);
            assert!(fs::read(path("in.pcap")).unwrap() == before, "{name}");
        }
    }
    // It needs no run to see it.
    let name = path("in.pcap");
    let text = format!("FromDump({0}, STOP true) -> ToDump({0})", name.display());
    let done = millrace(&["check", "-e", &text]);
    assert!(done.status != 0 && done.stderr.contains("overwritten"), "{}", done.stderr);
    // What keeps nothing may be both: this one fails because it is empty.
    let text = "FromIPSummaryDump(/dev/null, STOP true) -> ToDump(/dev/null)";
    let done = millrace(&["run", "-e", text]);
    assert!(!done.stderr.contains("overwritten"), "{}", done.stderr);
}

#[test]
fn a_file_has_one_writer_by_any_name() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).display().to_string();
    let both = |first: &str, second: &str| {
        let text = format!("t :: Tee; t[0] -> {first}; t[1] -> {second}; Idle -> t");
        millrace(&["check", "-e", &text])
    };
    let dumps = (path("out"), path("./out"));
    let done = both(&format!("a :: ToDump({})", dumps.0), &format!("b :: ToDump({})", dumps.1));
    assert_ne!(done.status, 0);
    assert!(done.stderr.contains("is the file that ‘a :: ToDump’ writes, too"), "{}", done.stderr);
    let done = both(&format!("ToDump({})", dumps.0), &format!("ToIPSummaryDump({})", dumps.1));
    assert_ne!(done.status, 0);
    let done = both(&format!("ToDump({})", dumps.0), &format!("ToDump({})", path("other")));
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(both("ToDump(/dev/null)", "ToDump(/dev/null)").status, 0);
}

#[test]
fn a_router_that_cannot_start_leaves_files_as_they_were() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out");
    for writer in ["ToDump(OUT)", "ToIPSummaryDump(OUT)", "IPPrint(OUTFILE OUT) -> Discard"] {
        let text = format!("FromDump(/no/such/in.pcap, STOP true) -> CheckIPHeader -> {writer}");
        let text = text.replace("OUT)", &format!("{})", out.display()));
        fs::write(&out, "of value").unwrap();
        let done = millrace(&["run", "-e", &text]);
        assert_ne!(done.status, 0, "{writer}");
        assert!(done.stderr.contains("/no/such/in.pcap"), "{writer}: {}", done.stderr);
        assert_eq!(fs::read_to_string(&out).unwrap(), "of value", "{writer}");
        fs::remove_file(&out).unwrap();
        let done = millrace(&["run", "-e", &text]);
        assert!(done.status != 0 && !out.exists(), "{writer}: {}", done.stderr);
    }
}

fn make_pipe(path: &Path) {
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    rustix::fs::mknodat(rustix::fs::CWD, path, rustix::fs::FileType::Fifo, mode, 0).unwrap();
}

/// A program whose configuration is still to come through a pipe, at this path.
fn waiting_for_its_configuration(pipe: &Path) -> Child {
    make_pipe(pipe);
    let mut command = millrace_command();
    command.arg("run").arg(pipe).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().unwrap();
    // The last one of those that stop it, and others.
    wait_for_handler(&child, Signal::USR2);
    child
}

#[test]
fn a_signal_before_the_router_runs_stops_it_in_good_order() {
    let folder = tempfile::tempdir().unwrap();
    let pipe = folder.path().join("pipe.click");
    let child = waiting_for_its_configuration(&pipe);
    signal(&child, Signal::INT);
    fs::File::create(&pipe)
        .unwrap()
        .write_all(b"TimedSource(0.01) -> c :: Counter -> Discard")
        .unwrap();
    let done = Done::from(child.wait_with_output().unwrap());
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stdout.contains("Counter"), "there is a summary: {}", done.stdout);
}

#[test]
fn a_program_that_waits_for_its_configuration_can_be_stopped() {
    let folder = tempfile::tempdir().unwrap();
    for (name, signals) in [("once", 1), ("twice", 2)] {
        let mut child = waiting_for_its_configuration(&folder.path().join(name));
        for _ in 0..signals {
            signal(&child, Signal::TERM);
            std::thread::sleep(Duration::from_millis(60));
        }
        let status = wait(&mut child).expect("it ends");
        assert_eq!(status.code(), Some(128 + Signal::TERM.as_raw()), "{name}");
    }
}

/// Its control socket is open already, and another element waits for its capture.
#[test]
fn a_hot_swap_before_the_router_runs_waits_for_it() {
    let folder = tempfile::tempdir().unwrap();
    let [pipe, socket] =
        ["pipe", "socket"].map(|name| folder.path().join(name).display().to_string());
    make_pipe(pipe.as_ref());
    let text = |source: &str| format!("ControlSocket(UNIX, {socket}); i :: {source} -> Discard");
    let mut child =
        click_command().args(["-R", "-e", &text(&format!("FromDump({pipe})"))]).spawn().unwrap();
    let end = Instant::now() + PATIENCE;
    while !Path::new(&socket).exists() {
        assert!(Instant::now() < end, "there is no socket");
        std::thread::sleep(Duration::from_millis(5));
    }
    std::thread::scope(|scope| {
        let swap = scope.spawn(|| {
            let mut swap = millrace_command();
            with_input(swap.args(["hotswap", "--socket", &socket, "-"]), &text("Idle"))
        });
        std::thread::sleep(Duration::from_millis(300));
        assert!(!swap.is_finished());
        let empty = b"\xd4\xc3\xb2\xa1\x02\0\x04\0\0\0\0\0\0\0\0\0\xff\xff\0\0\x01\0\0\0";
        fs::write(&pipe, empty).unwrap();
        let swapped = swap.join().unwrap();
        assert_eq!(swapped.status, 0, "{}", swapped.stderr);
    });
    assert_eq!(millrace(&["read", "i.class", "--socket", &socket]).stdout, "Idle\n");
    assert_eq!(millrace(&["write", "stop", "--socket", &socket]).status, 0);
    assert!(wait(&mut child).expect("it ends").success());
}

/// Nobody reads standard error, so that an element that prints waits for ever.
#[test]
fn signals_end_a_router_whose_output_is_blocked() {
    let text = "InfiniteSource(LENGTH 60) -> Print(blocked) -> Discard";
    // The second one ends at once what the first one found blocked.
    for (name, signals, pause) in [("once", 1, 0), ("twice", 2, 60), ("twice, later", 2, 300)] {
        for mut command in [millrace_command(), click_command()] {
            if command.get_program().to_string_lossy().ends_with("millrace") {
                command.args(["run", "--no-table"]);
            }
            command.args(["-e", text]).stdout(Stdio::piped()).stderr(Stdio::piped());
            let mut child = command.spawn().unwrap();
            // A pipe has room for 64 KiB; the thread never sleeps but to wait for more room.
            let stderr = child.stderr.take().unwrap();
            let sleeps = || {
                let stat = fs::read_to_string(format!("/proc/{}/stat", child.id())).unwrap();
                stat.rsplit(") ").next().unwrap().starts_with('S')
            };
            let end = Instant::now() + PATIENCE;
            while rustix::io::ioctl_fionread(&stderr).unwrap() < 60_000 || !sleeps() {
                assert!(Instant::now() < end, "it prints nothing");
                std::thread::sleep(Duration::from_millis(5));
            }
            signal(&child, Signal::INT);
            std::thread::sleep(Duration::from_millis(pause));
            let second = Instant::now();
            if signals > 1 {
                signal(&child, Signal::INT);
            }
            let status = wait(&mut child).unwrap_or_else(|| panic!("it does not end: {name}"));
            assert!(pause < 300 || second.elapsed() < Duration::from_millis(400), "{name}");
            assert_eq!(status.code(), Some(128 + Signal::INT.as_raw()), "{name}");
        }
    }
}

#[test]
fn a_file_that_may_not_become_longer_is_as_a_full_disk() {
    let folder = tempfile::tempdir().unwrap();
    let out = folder.path().join("out.pcap");
    let text = format!(
        "InfiniteSource(LENGTH 1000, LIMIT 3000, STOP true) -> ToDump({}, SNAPLEN 0)",
        out.display()
    );
    let mut command = super::command("sh");
    // In blocks of 512 or 1,024 bytes.
    command.args(["-c", "ulimit -f 500 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_millrace")]);
    let done = Done::from(command.args(["run", "-e", &text]).output().unwrap());
    assert_eq!(done.status, 1, "{}", done.stderr);
    assert!(done.stderr.contains("File too large"), "{}", done.stderr);
    assert!(done.stdout.contains("ToDump"), "there is a summary: {}", done.stdout);
}

/// What a script does wrong is no secret: who starts the program sees it by its exit status, and in the summary.
#[test]
fn a_script_that_fails_lets_the_program_fail() {
    let run = |script: &str| millrace(&["run", "--json", "-e", &format!("s :: {script}")]);
    let failing = ["Script(write nobody.reset, stop)", "DriverManager(error \"no\")"];
    for script in failing {
        let done = run(script);
        assert_eq!(done.status, 1, "{script}: {}", done.stderr);
        let summary: serde_json::Value = serde_json::from_str(&done.stdout).unwrap();
        let complaints = summary["complaints"].to_string();
        assert!(complaints.contains("an instruction failed"), "{complaints}");
    }
    let done = run("Script(set x 1, write s.set y 2, stop)");
    assert_eq!(done.status, 0, "{}", done.stderr);
}

/// A script saves a value that it has, and empties no file for one that it has not.
#[test]
fn a_script_that_saves_reads_first() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("kept");
    let saved = |instruction: &str| {
        fs::write(&path, "old\n").unwrap();
        let text =
            format!("s :: Script({}, stop)", instruction.replace("FILE", path.to_str().unwrap()));
        let done = millrace(&["run", "--no-sandbox", "-e", &text]);
        (done.status, fs::read_to_string(&path).unwrap())
    };
    assert_eq!(saved("print >FILE s.cat FILE"), (0, "old\n".to_owned()));
    assert_eq!(saved("save s.nothing FILE"), (1, "old\n".to_owned()));
    let (status, text) = saved("save s.now FILE");
    assert_eq!((status, text.contains("old")), (0, false), "{text}");
}
