//! `millrace run`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use millrace_testkit::Program;
use serde_json::Value;

use crate::{Done, TempFile, click_command, millrace, millrace_command, with_input};

const SMALL: &str = "InfiniteSource(LIMIT 1000, BURST 32, STOP true) -> c :: Counter -> Discard";

/// The summary's cells for one element.
fn row<'a>(done: &'a Done, element: &str) -> Vec<&'a str> {
    let line = done.stdout.lines().find(|line| line.split_whitespace().next() == Some(element));
    line.unwrap_or_else(|| panic!("{element} in {}", done.stdout)).split_whitespace().collect()
}

#[test]
fn a_run_ends_with_a_summary() {
    let done = millrace(&["run", "-e", SMALL]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert_eq!(row(&done, "c")[1..6], ["Counter", "1000", "1000", "32", "31.2"]);
    let discard = row(&done, "Discard@3");
    assert_eq!(discard[8..], ["1000", "discarded"]);
    assert!(done.stdout.contains(": 1000 packets in = 0 out + 1000 dropped + 0 held.\n"));
    assert!(done.stdout.contains("\nEvery packet is accounted for.\n"));
    assert!(!done.stdout.contains('\x1b'), "no table where there is no terminal");
    assert!(done.stderr.contains("packet memory: node 0: "));
    assert!(done.stderr.contains("thread 0, not pinned to a core\n"));
}

#[test]
fn packets_that_stay_are_held() {
    let done = millrace(&["run", "-e", "InfiniteSource(LIMIT 5, STOP true) -> Queue -> Idle"]);
    assert!(done.stdout.contains(": 5 packets in = 0 out + 0 dropped + 5 held.\n"), "{done:?}");
}

pub(super) fn json(done: &Done) -> Value {
    assert_eq!(done.status, 0, "{}", done.stderr);
    serde_json::from_str(&done.stdout).unwrap()
}

fn element<'a>(summary: &'a Value, name: &str) -> &'a Value {
    summary["elements"].as_array().unwrap().iter().find(|element| element["name"] == name).unwrap()
}

#[test]
fn the_summary_comes_as_json_too() {
    let text = SMALL.replace("LIMIT", "DATA abcd, LIMIT");
    let summary = json(&millrace(&["run", "--json", "-e", &text]));
    let counter = element(&summary, "c");
    assert_eq!((&counter["in"], &counter["out"]), (&1000.into(), &1000.into()));
    assert_eq!(counter["batches"], 32);
    assert_eq!(counter["mean_batch"], 31.25);
    assert_eq!(counter["bytes"], 4000);
    assert!(counter["cycles"].as_u64().unwrap() > 0);
    assert_eq!(element(&summary, "Discard@3")["drops"]["discarded"], 1000);
    assert_eq!(summary["totals"]["in"], 1000);
    assert_eq!(summary["totals"]["dropped"], 1000);
    assert_eq!(summary["totals"]["balanced"], true);
    assert_eq!(summary["copies"]["receive"], 0);
    assert_eq!(summary["complaints"].as_array().unwrap().len(), 0);
}

/// What scripts read in `--json`: none of these names goes.
#[test]
fn the_json_keeps_its_names() {
    let text = "InfiniteSource(LIMIT 1, STOP true) -> Discard";
    let summary = json(&millrace(&["run", "--json", "-e", text]));
    let has = |object: &Value, names: &str| {
        for name in names.split_whitespace() {
            assert!(object.get(name).is_some(), "{name} in {object}");
        }
    };
    has(&summary, "seconds threads virtual_seconds elements devices copies idle_cycles totals");
    has(&summary, "complaints sandbox version program pid generation phase workers connections");
    has(&summary["totals"], "in out dropped held balanced");
    let old = "name class in out received created sent consumed bytes batches mean_batch cycles \
               cycles_per_packet held dropped drops balanced";
    has(&summary["elements"][0], old);
    has(&summary["elements"][0], "id landmark information inputs outputs polling_cycles queue");
    has(&summary["workers"][0], "thread cores busy_cycles polling_cycles idle_cycles sleeps");
    has(&summary["connections"][0], "from from_port to to_port packets");
    let lab = json(&millrace(&["run", "--json", "--lab", "-e", "FromDevice(eth0) -> Discard"]));
    let device = "device direction backend zero_copy queues packets bytes batches lost segmented";
    has(&lab["devices"][0], device);
    has(&lab, "lab");
}

#[test]
fn the_configuration_comes_from_a_file_or_standard_input_with_variables() {
    let text = "InfiniteSource(LIMIT $N, STOP true) -> c :: Counter -> Discard";
    let file = TempFile::new("a.click", text);
    let summary = json(&millrace(&["run", "--json", &file.path(), "N=7"]));
    assert_eq!(element(&summary, "c")["in"], 7);
    let done = with_input(millrace_command().args(["run", "--json", "-", "N=8"]), text);
    assert_eq!(element(&json(&done), "c")["in"], 8);
}

#[test]
fn time_is_limited() {
    let rated = "RatedSource(RATE 1000) -> c :: Counter -> Discard";
    let summary = json(&millrace(&["run", "--json", "--for", "300ms", "-e", rated]));
    let count = element(&summary, "c")["in"].as_u64().unwrap();
    let seconds = summary["seconds"].as_f64().unwrap();
    // A busy machine ends it later; what was due while the thread did not run comes at once.
    let most = seconds * 1000.0 + 100.0;
    assert!(seconds >= 0.3 && count > 0 && (count as f64) < most, "{count} in {seconds} s");
}

#[test]
fn virtual_time_takes_no_time() {
    let rated = "RatedSource(RATE 10) -> c :: Counter -> Discard";
    let args = ["run", "--json", "--simtime", "--for", "1h", "-e", rated];
    let summary = json(&millrace(&args));
    // Real seconds.
    assert!(summary["seconds"].as_f64().unwrap() < 1800.0, "{summary:#}");
    let count = element(&summary, "c")["in"].as_u64().unwrap();
    assert!((36_000..=36_001).contains(&count), "{count}");
    assert_eq!(summary["virtual_seconds"], 3600.0);
}

#[test]
fn a_run_on_virtual_time_ends_when_nothing_is_left_to_do() {
    let done = millrace(&["run", "--simtime", "-e", "InfiniteSource(LIMIT 3) -> Discard"]);
    assert_eq!(done.status, 0);
    assert!(done.stdout.contains(": 3 packets in"), "{}", done.stdout);
}

/// Runs a router for a moment and interrupts it.
fn interrupted(text: &str) -> Done {
    let mut child = millrace_command()
        .args(["run", "-p", "0", "-e", text])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // That the control socket is there is said when all else is ready.
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines();
    assert!(lines.any(|line| line.unwrap().starts_with("control socket: ")));
    std::thread::sleep(Duration::from_millis(200));
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    Done::from(child.wait_with_output().unwrap())
}

#[test]
fn ctrl_c_stops_in_good_order() {
    let done = interrupted("RatedSource(RATE 1000) -> Queue -> Unqueue -> Discard");
    assert_eq!(done.status, 0);
    assert!(done.stdout.contains("Every packet is accounted for."), "{}", done.stdout);
}

#[test]
fn ctrl_c_leaves_no_packet_on_a_device() {
    let section = "GPURuntime(DEVICE simulator); InfiniteSource(LENGTH 60) -> GetIPAddress(16)
        -> Batcher(5000, TIMEOUT 1h) -> HostToDeviceMemcpy -> GPUIP6Lookup(::/0 0) -> DeviceToHostMemcpy
        -> Debatcher -> Discard";
    let done = interrupted(section);
    assert_eq!(done.status, 0);
    assert!(done.stdout.contains(" dropped + 0 held."), "{}", done.stdout);
    assert!(done.stdout.contains("Every packet is accounted for."), "{}", done.stdout);
}

#[test]
fn unreadable_input_is_reported_in_one_line() {
    let file = TempFile::new("program", b"\x7fELF\x02\x00\x00");
    let cases = [
        ("/no/such.click".to_owned(), "No such file or directory"),
        ("/".to_owned(), "Is a directory"),
        (file.path(), "this is not a text file"),
    ];
    for (path, reason) in cases {
        let done = millrace(&["run", &path]);
        assert_eq!(done.status, 1);
        assert_eq!(done.stderr, format!("millrace: {path}: {reason}\n"));
    }
}

#[test]
fn optimised_or_not_a_router_does_the_same() {
    let example = concat!(env!("CARGO_MANIFEST_DIR"), "/../../examples/minimal-router.click");
    let run = |more: &[&str]| {
        let args = ["run", example, "--lab", "--simtime", "--for", "1s", "--json"];
        let mut summary = json(&millrace(&[&args, more].concat()));
        for element in summary["elements"].as_array_mut().unwrap() {
            // What it took may differ.
            let element = element.as_object_mut().unwrap();
            element.retain(|name, _| !name.contains("cycles"));
        }
        summary
    };
    let (optimised, plain) = (run(&[]), run(&["--no-optimise"]));
    assert!(optimised["totals"]["in"].as_u64().unwrap() > 1000);
    for part in ["elements", "devices", "totals", "lab"] {
        assert_eq!(optimised[part], plain[part], "{part}");
    }
}

#[test]
fn the_code_of_hot_loops_can_be_chosen() {
    let run = |level: &str| {
        let mut command = millrace_command();
        with_input(command.env("MILLRACE_ISA", level).args(["run", "-"]), SMALL)
    };
    let done = run("baseline");
    assert_eq!(done.status, 0, "{}", done.stderr);
    assert!(done.stderr.contains("for baseline (MILLRACE_ISA=baseline)\n"), "{}", done.stderr);
    let done = run("sse9");
    assert_eq!((done.status, done.stdout.as_str()), (1, ""));
    assert!(
        done.stderr.contains("unknown value ‘sse9’: use baseline, avx2 or avx512"),
        "{}",
        done.stderr
    );
}

#[test]
fn nonsense_on_the_command_line_is_refused() {
    let cases: [(&[&str], &str); 7] = [
        (&["run"], "no configuration is given"),
        (&["run", "a", "b"], "more than one configuration"),
        (&["run", "-e", "Idle", "A=1", "A=2"], "variable ‘A’ is given two values"),
        (&["run", "-e", "Idle", "--threads", "0"], "between 1 and 64 threads are possible"),
        (&["run", "-e", "Idle", "--buffers", "0"], "--buffers"),
        (&["run", "-e", "Idle", "--affinity=4095"], "there is no core 4095"),
        (&["run", "-e", "Idle", "--simtime=-1"], "virtual time cannot start at -1 s"),
    ];
    for (args, expected) in cases {
        let done = millrace(args);
        assert_eq!(done.status, 1, "{args:?}");
        assert!(done.stderr.contains(expected), "{args:?}: {}", done.stderr);
    }
}

#[test]
fn errors_are_shown_in_the_text_and_nothing_runs() {
    let done = millrace(&["run", "-e", "Idle -> Queue(CAPACITY many) -> Discrad"]);
    assert_eq!((done.status, done.stdout.as_str()), (1, ""));
    assert!(done.stderr.contains("1 | Idle -> Queue(CAPACITY many) -> Discrad"), "{}", done.stderr);
    assert!(done.stderr.contains("‘Discard’"), "{}", done.stderr);
}

#[test]
fn a_closed_standard_output_does_not_cause_a_panic() {
    let mut child = millrace_command()
        .args(["run", "-e", SMALL])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let done = Done::from(child.wait_with_output().unwrap());
    assert_eq!(done.status, 0);
    assert!(!done.stderr.contains("panicked"), "{}", done.stderr);
}

#[test]
fn several_threads_share_the_work() {
    let text = "a :: InfiniteSource(LIMIT 5000, STOP true) -> c :: Counter -> Discard;
                b :: InfiniteSource(LIMIT 5000, STOP true) -> c;
                StaticThreadSched(a 0, b 1); DriverManager(pause, pause)";
    let summary = json(&millrace(&["run", "--json", "-j", "2", "-e", text]));
    assert_eq!(summary["threads"], 2);
    assert_eq!(element(&summary, "c")["in"], 10_000);
    assert_eq!(summary["totals"]["balanced"], true);
}

#[test]
fn a_trace_goes_in_and_comes_out() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let (first, second) = (path("first.pcap"), path("second.pcap"));
    let make = format!("InfiniteSource(DATA abcd, LIMIT 3, STOP true) -> ToDump({first})");
    assert_eq!(json(&millrace(&["run", "--json", "-e", &make]))["totals"]["out"], 3);
    let copy = "FromDump($IN, STOP true) -> ToDump($OUT)";
    let (in_, out) = (format!("IN={first}"), format!("OUT={second}"));
    let summary = json(&millrace(&["run", "--json", "-e", copy, &in_, &out]));
    assert_eq!(summary["totals"]["in"], 3);
    assert_eq!(std::fs::read(&first).unwrap(), std::fs::read(&second).unwrap());
}

#[test]
fn a_device_that_is_not_there_is_named() {
    let done = millrace(&["run", "-e", "FromDevice(no-such-device) -> Discard"]);
    assert_eq!(done.status, 1);
    assert!(done.stderr.contains("no-such-device"), "{}", done.stderr);
    assert!(done.stderr.contains("config:1:1"), "{}", done.stderr);
    assert!(done.stderr.ends_with("millrace: the router could not be initialized\n"));
}

#[test]
fn devices_are_announced_and_counted() {
    let Some(_alone) = millrace_testkit::privileged!() else { return };
    // What else goes by the loopback interface is of other programs.
    let text = "FromDevice(lo, PROMISC true) -> c :: Counter
                -> all :: Classifier(0/0200000000000200000000010800, -)
                -> own :: Counter -> Discard; all[1] -> Discard;
                RatedSource(\\<02000000000002000000000108004500>, RATE 500, LIMIT 100)
                -> Queue -> ToDevice(lo);
                Script(wait 0.02s, goto begin $(lt $(own.count) 100), stop)";
    // Other tests have connections on it.
    let done = millrace(&["run", "--take-interface", "--json", "--for", "60s", "-e", text]);
    assert!(done.stderr.contains("lo: receives by AF_PACKET on 1 queue"), "{}", done.stderr);
    assert!(done.stderr.contains("lo: promiscuous mode is on"), "{}", done.stderr);
    let summary = json(&done);
    let devices = summary["devices"].as_array().unwrap();
    let sent = devices.iter().find(|device| device["direction"] == "out").unwrap();
    assert_eq!((&sent["packets"], &sent["bytes"]), (&100.into(), &1600.into()));
    let received = devices.iter().find(|device| device["direction"] == "in").unwrap();
    assert!(received["packets"].as_u64().unwrap() >= 100, "{received}");
    assert_eq!(element(&summary, "c")["in"], received["packets"]);
}

#[test]
fn a_source_without_end_stops_on_virtual_time_too() {
    for source in ["InfiniteSource", "RandomSource(60)", "RatedSource(1000000000)"] {
        let config = format!("{source} -> Discard");
        let done = millrace(&["run", "--json", "--simtime", "--for", "0.2s", "-e", &config]);
        assert_eq!(json(&done)["virtual_seconds"], 0.2, "{source}");
    }
}

#[test]
fn no_signal_loses_what_was_dumped() {
    let folder = tempfile::tempdir().unwrap();
    for (signal, ends) in [
        ("HUP", true),
        ("TERM", true),
        ("INT", true),
        ("USR1", false),
        ("USR2", false),
        ("PIPE", false),
    ] {
        let file = folder.path().join(signal);
        let socket = folder.path().join("socket").display().to_string();
        let config = format!("RatedSource(hello, RATE 1000) -> d :: ToDump({})", file.display());
        let mut command = millrace_command();
        command.args(["run", "--json", "-u", &socket, "-e", &config]);
        let mut program = Program::start(&mut command).unwrap();
        program.wait_for_line("control socket: ").unwrap();
        let dumped = || {
            let done = millrace(&["read", "d.count", "--socket", &socket]);
            done.stdout.trim().parse::<u64>().unwrap_or_else(|_| panic!("{signal}: {done:?}"))
        };
        let come_more_than = |count| {
            while dumped() <= count {
                std::thread::sleep(Duration::from_millis(10));
            }
        };
        come_more_than(0);
        let send = |signal: &str| {
            let (signal, pid) = (format!("-{signal}"), program.id().to_string());
            assert!(Command::new("kill").args([signal, pid]).status().unwrap().success());
        };
        send(signal);
        if signal == "USR1" {
            program.wait_for_line("Every packet is accounted for.").unwrap();
        }
        match ends {
            true => {
                while program.runs() {
                    std::thread::sleep(Duration::from_millis(10));
                }
            }
            false => come_more_than(dumped()),
        }
        let ended = program.stop().unwrap();
        assert!(ended.status.success(), "{signal}: {:?}", ended.stderr);
        let summary: Value = serde_json::from_str(&ended.stdout).unwrap();
        // The header of the file; those of the packets, and five bytes each.
        let length = 24 + 21 * element(&summary, "d")["in"].as_u64().unwrap();
        assert_eq!(std::fs::metadata(&file).unwrap().len(), length, "{signal}");
    }
}

#[test]
fn what_is_dumped_is_in_the_file_before_the_run_ends() {
    let folder = tempfile::tempdir().unwrap();
    let dumps = ["ToDump", "ToIPSummaryDump"].map(|class| (class, folder.path().join(class)));
    for (class, file) in &dumps {
        let config = format!("InfiniteSource(LIMIT 3) -> {class}({})", file.display());
        let mut child = millrace_command()
            .args(["run", "-e", &config])
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let begun = Instant::now();
        // The file's header alone is shorter.
        let is_there = || std::fs::metadata(file).is_ok_and(|file| file.len() > 60);
        while !is_there() && begun.elapsed().as_secs() < 120 {
            std::thread::sleep(Duration::from_millis(50));
        }
        let is_running = child.try_wait().unwrap().is_none();
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(is_running && is_there(), "{class}");
    }
}

#[test]
fn the_summary_does_not_mix_with_data_on_standard_output() {
    let source = "InfiniteSource(LIMIT 2, STOP true)";
    for (data, first) in [
        (format!("{source} -> ToIPSummaryDump(-)"), "!IPSummaryDump"),
        (format!("{source} -> Discard; Script(print \"here\")"), "here"),
        (format!("{source} -> ToDump(-, SNAPLEN 1)"), "\u{d4}"),
    ] {
        for json in [false, true] {
            let mut command = millrace_command();
            command.args(["run", "-e", &data]).args(json.then_some("--json"));
            let output = command.output().unwrap();
            // A capture is not UTF-8.
            let stdout: String = output.stdout.iter().map(|&byte| char::from(byte)).collect();
            let stderr = String::from_utf8(output.stderr).unwrap();
            assert!(stdout.starts_with(first), "{data}: {stdout}");
            assert!(!stdout.contains("InfiniteSource"), "{data}: {stdout}");
            assert!(stderr.contains("InfiniteSource"), "{data}: {stderr}");
        }
    }
}

/// A pull may call handlers of the element that pulls.
#[test]
fn a_recording_can_be_reset_while_it_is_loaded() {
    let text = "InfiniteSource(LENGTH 60, LIMIT 600) -> Queue(1000)
        -> Counter(COUNT_CALL 400 replay.reset) -> replay :: ReplayUnqueue(STOP 1, ACTIVE false)
        -> c :: Counter -> Discard; Script(wait 1, write replay.active true)";
    let done = millrace(&["run", "--simtime", "--json", "-e", text]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let summary: Value = serde_json::from_str(&done.stdout).unwrap();
    // They are pulled 256 at a time: the first ones are thrown out, and those that came with the call stay.
    assert_eq!(element(&summary, "c")["in"], 344, "{}", done.stdout);
    assert_eq!(element(&summary, "replay")["balanced"], true, "{}", done.stdout);
}

/// A packet that waits for its time when the program ends is accounted for.
#[test]
fn a_packet_of_a_dump_that_is_not_yet_due_is_held() {
    let folder = tempfile::tempdir().unwrap();
    let dump = folder.path().join("in.dump");
    fs::write(&dump, "!data timestamp ip_src\n1 10.0.0.1\n2 10.0.0.1\n100 10.0.0.1\n").unwrap();
    let text = format!("f :: FromIPSummaryDump({}, TIMING true) -> Discard", dump.display());
    let done = millrace(&["run", "--simtime", "--for", "10s", "--json", "-e", &text]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let summary: Value = serde_json::from_str(&done.stdout).unwrap();
    let dump = element(&summary, "f");
    assert_eq!((&dump["created"], &dump["held"]), (&3.into(), &1.into()), "{}", done.stdout);
    assert_eq!(dump["balanced"], true, "{}", done.stdout);
}

/// A hot swap goes on with the file of a dump, after the packets that are in it.
#[test]
fn a_dump_goes_on_after_a_hot_swap() {
    let folder = tempfile::tempdir().unwrap();
    let (out, socket) = (folder.path().join("out.pcap"), folder.path().join("socket"));
    let text = format!(
        "RatedSource(LENGTH 60, RATE 1000) -> c :: Counter -> dump :: ToDump({}, SNAPLEN 0)",
        out.display()
    );
    let socket = socket.to_str().unwrap();
    let mut child = click_command()
        .args(["-R", "-u", socket, "-e", &text])
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let count = || -> u64 {
        let end = Instant::now() + Duration::from_secs(60);
        loop {
            let done = millrace(&["read", "dump.count", "--socket", socket]);
            if let Ok(count) = done.stdout.trim().parse() {
                return count;
            }
            assert!(Instant::now() < end, "{done:?}");
        }
    };
    for _ in 0..3 {
        let before = count();
        while count() < before + 100 {}
        let done = with_input(millrace_command().args(["hotswap", "--socket", socket, "-"]), &text);
        assert_eq!(done.status, 0, "{}", done.stderr);
        let pause = millrace(&["read", "swap_pause", "--socket", socket]).stdout;
        assert!(pause.trim().parse::<f64>().unwrap() > 0.0, "{pause}");
    }
    let written = count();
    assert!(written > 300);
    let id = rustix::process::Pid::from_child(&child);
    rustix::process::kill_process(id, rustix::process::Signal::INT).unwrap();
    assert!(child.wait().unwrap().success());
    let length = std::fs::metadata(&out).unwrap().len();
    assert_eq!((length - 24) % 76, 0, "{length}");
    assert!((length - 24) / 76 >= written, "{length} bytes, {written} packets");
}
