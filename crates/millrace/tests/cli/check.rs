//! `millrace check`, `flatten`, `fmt`, `plan` and `handlers`.

use serde_json::Value;

use crate::{TempFile, millrace, millrace_command, with_input};

#[test]
fn all_errors_are_reported_at_once() {
    let file = TempFile::new("bad.click", "Idle -> q :: Queue(0x) -> Discard(ACTIVE maybe);\n");
    let done = millrace(&["check", &file.path()]);
    assert_eq!(done.status, 1);
    assert!(done.stderr.contains("bad.click:1:"), "{}", done.stderr);
    assert!(done.stderr.contains("While configuring ‘q :: Queue’"), "{}", done.stderr);
    assert!(done.stderr.contains("While configuring ‘Discard@3 :: Discard’"), "{}", done.stderr);
    assert!(done.stderr.ends_with("bad.click: 2 errors\n"), "{}", done.stderr);
}

#[test]
fn an_unknown_class_does_not_hide_what_is_wrong_elsewhere() {
    let done = millrace(&["check", "-e", "Idle -> Qeueu -> Discard(ACTIVE maybe);"]);
    assert!(done.stderr.contains("‘Qeueu’"), "{}", done.stderr);
    assert!(done.stderr.contains("ACTIVE"), "{}", done.stderr);
    assert!(done.stderr.ends_with("config: 2 errors\n"), "{}", done.stderr);
}

#[test]
fn what_follows_from_a_missing_parenthesis_is_not_reported() {
    let text = "Idle -> Strip((14 -> Discard;\nIdle -> IPFilter(allow (tcp, deny all) -> Discard;\nx :: Foo;\n";
    let done = millrace(&["check", "-e", text]);
    assert_eq!(done.stderr.matches("expected ‘)’").count(), 2, "{}", done.stderr);
    assert!(done.stderr.contains("‘Foo’"), "{}", done.stderr);
    assert!(done.stderr.ends_with("config: 3 errors\n"), "{}", done.stderr);
}

#[test]
fn rules_about_connections_want_a_tracker_before_them() {
    let check = |text: &str| millrace(&["check", "-e", text]).stderr;
    for class in ["IPFilter(allow established, deny all)", "IPClassifier(new or related)"] {
        let without = check(&format!("Idle -> {class} -> Discard"));
        assert!(without.contains("there is no ConnectionTracker upstream"), "{without}");
        let with = check(&format!(
            "Idle -> ConnectionTracker -> SimpleQueue -> Unqueue -> {class} -> Discard"
        ));
        assert!(!with.contains("ConnectionTracker upstream"), "{with}");
    }
}

#[test]
fn several_files_are_checked_and_each_gets_a_verdict() {
    let good = TempFile::new("good.click", "Idle -> Discard;\n");
    let done = millrace(&["check", &good.path(), "/no/such.click", &good.path()]);
    assert_eq!(done.status, 1);
    assert_eq!(done.stderr.matches("good.click: 2 elements, no errors\n").count(), 2);
    assert!(done.stderr.contains("millrace: /no/such.click: No such file or directory\n"));
    assert_eq!(millrace(&["check", &good.path()]).status, 0);
}

#[test]
fn elements_that_break_batches_are_named() {
    let notes = |text: &str| {
        let done = millrace(&["check", "-e", text]);
        assert_eq!(done.status, 0, "{}", done.stderr);
        assert!(done.stderr.ends_with(", no errors\n"), "{}", done.stderr);
        let notes = done.stderr.lines().filter_map(|line| line.strip_prefix("note: "));
        notes.map(str::to_owned).collect::<Vec<_>>()
    };
    let bursts = "sends bursts of 1, so what is below gets batches of 1; say BURST 32, for example";
    assert_eq!(notes("InfiniteSource -> Queue -> Unqueue(BURST 8) -> Discard"), [bursts]);
    assert!(notes("InfiniteSource -> Unqueue(BURST 8) -> Discard").is_empty());
    let one = "packets go on one at a time";
    assert_eq!(notes("Idle -> Queue -> RatedUnqueue(10) -> Discard"), [one]);
    assert_eq!(notes("Idle -> Queue -> Unqueue -> Discard"), [format!("{one}: BURST is 1")]);
    let alone = "while it shows packets, every packet goes through the whole router by itself instead of in a batch";
    assert_eq!(notes("Idle -> Print -> Discard"), [alone]);
    assert!(notes("Idle -> Print(ACTIVE false) -> Discard").is_empty());
}

#[test]
fn an_argument_without_effect_is_named() {
    let text = "Idle -> d :: Discard(COUNT false)";
    let done = millrace(&["check", "-e", text]);
    assert_eq!(done.status, 0, "{}", done.stderr);
    let note = "note: COUNT is accepted without effect: packets are always counted\n";
    assert!(done.stderr.starts_with(note), "{}", done.stderr);
    assert!(done.stderr.contains("While configuring ‘d :: Discard’"), "{}", done.stderr);
    // Who runs it is not told.
    let run = millrace(&["run", "--for", "1ms", "-e", text]);
    assert!(!run.stderr.contains("COUNT"), "{}", run.stderr);
    let wrong = millrace(&["check", "-e", "Idle -> Discard(COUNT maybe)"]);
    assert!(wrong.stderr.contains("COUNT: parse error"), "{}", wrong.stderr);
    assert_eq!(wrong.status, 1);
}

#[test]
fn compounds_are_flattened() {
    let text = "elementclass Two { $n | input -> a :: Queue($n) -> Unqueue -> output } \
                Idle -> t :: Two(5) -> Discard;";
    let done = millrace(&["flatten", "-e", text]);
    assert_eq!(
        done.stdout,
        "Idle@1 :: Idle;\nDiscard@3 :: Discard;\nt/a :: Queue(5);\nt/Unqueue@2 :: Unqueue;\n\n\
         Idle@1 -> t/a\n    -> t/Unqueue@2\n    -> Discard@3;\n",
        "{}",
        done.stderr
    );
    // What is printed means the same.
    let again = with_input(millrace_command().args(["flatten", "-"]), &done.stdout);
    assert_eq!(again.stdout, done.stdout);
}

#[test]
fn texts_are_laid_out() {
    let done = with_input(millrace_command().args(["fmt", "-"]), "Idle->Discard  ;");
    assert_eq!((done.stdout.as_str(), done.status), ("Idle -> Discard;\n", 0));

    let file = TempFile::new("a.click", "Idle->Discard;");
    let check = millrace(&["fmt", "--check", &file.path()]);
    assert_eq!((check.status, check.stderr), (1, format!("{}\n", file.path())));
    assert_eq!(millrace(&["fmt", "--write", &file.path()]).status, 0);
    assert_eq!(file.read(), "Idle -> Discard;\n");
    let check = millrace(&["fmt", "--check", &file.path()]);
    assert_eq!((check.status, check.stderr.as_str()), (0, ""));

    let broken = TempFile::new("b.click", "Idle -> -> ;");
    assert_eq!(millrace(&["fmt", "--write", &broken.path()]).status, 1);
    assert_eq!(broken.read(), "Idle -> -> ;");
}

#[test]
fn the_plan_says_who_runs_what() {
    let text = "a :: InfiniteSource -> q :: Queue -> b :: Unqueue -> Discard; \
                StaticThreadSched(b 1);";
    let words = millrace(&["plan", "-j", "2", "-e", text]).stdout;
    assert!(words.contains("Thread 0, not pinned to a core, runs:\n  a :: InfiniteSource: "));
    assert!(words.contains(
        "Thread 1, not pinned to a core, runs:\n  b :: Unqueue: set by StaticThreadSched\n"
    ));
    assert!(words.contains("are locked or atomic):\n  q :: Queue\n"), "{words}");

    let done = millrace(&["plan", "--json", "-j", "2", "-e", text]);
    let plan: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(plan["threads"][1]["runs"][0]["element"], "b");
    let elements = plan["elements"].as_array().unwrap();
    let threads = |name: &str| &elements.iter().find(|e| e["name"] == name).unwrap()["threads"];
    assert_eq!(threads("a"), &Value::from(vec![0]));
    assert_eq!(threads("q"), &Value::from(vec![0, 1]));
    assert_eq!(threads("b"), &Value::from(vec![1]));
}

#[test]
fn the_plan_says_which_elements_packets_pass_in_one_go() {
    let text = "Idle -> s :: Strip(14) -> c :: CheckIPHeader -> g :: GetIPAddress(16) -> Discard";
    let words = millrace(&["plan", "-e", text]).stdout;
    let row = "  s :: Strip, c :: CheckIPHeader, g :: GetIPAddress\n";
    assert!(words.contains(&format!("where they are connected:\n{row}")), "{words}");
    let done = millrace(&["plan", "--json", "-e", text]);
    let plan: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(plan["passages"], serde_json::json!([["s", "c", "g"]]));

    let words = millrace(&["plan", "--no-optimise", "-e", text]).stdout;
    assert!(!words.contains(row), "{words}");
}

#[test]
fn the_plan_has_that_of_each_gpu_section() {
    let text =
        "Idle -> Batcher(512, SLOTS 2) -> h :: HostToDeviceMemcpy -> rt :: GPUIPLookup(0/0 0)
                -> DeviceToHostMemcpy -> Debatcher -> Discard";
    let words = millrace(&["plan", "-e", text]).stdout;
    let begins = "h :: HostToDeviceMemcpy begins a part that runs by this plan:\n  batch: 512 packets at \
         most, ";
    assert!(words.contains(begins), "{words}");
    assert!(words.contains("\n  launch 0: lpm4 for rt, "), "{words}");
    let done = millrace(&["plan", "--json", "-e", text]);
    let plan: Value = serde_json::from_str(&done.stdout).unwrap();
    assert_eq!(plan["plans"][0]["element"], "h");
    assert!(plan["plans"][0]["plan"].as_str().unwrap().starts_with("batch: 512 packets"));
}

#[test]
fn the_plan_is_for_a_method() {
    let plan = |more: &[&str]| {
        let text = "FromDevice(no-such-device, N_QUEUES 8) -> Discard";
        millrace(&[&["plan", "-e", text], more].concat())
    };
    let done = plan(&["--method", "xdp"]);
    assert_eq!(done.status, 0, "{done:?}");
    assert!(done.stdout.contains("on queues 0 to 7 of no-such-device"), "{}", done.stdout);
    assert_eq!(plan(&["--method", "nonsense"]).status, 2);
}

#[test]
fn the_plan_for_another_machine_keeps_nodes_together() {
    let machine = tempfile::tempdir().unwrap();
    for (file, text) in [
        ("devices/system/node/online", "0-1"),
        ("devices/system/node/node0/cpulist", "0-1,4-5"),
        ("devices/system/node/node1/cpulist", "2-3,6-7"),
        ("devices/system/cpu/online", "0-7"),
        ("devices/system/cpu/cpu4/topology/thread_siblings_list", "0,4"),
        ("devices/system/cpu/cpu6/topology/thread_siblings_list", "2,6"),
        ("class/net/eth0/device/numa_node", "1"),
        ("class/net/eth1/device/numa_node", "0"),
    ] {
        let path = machine.path().join(file);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    }
    let sys = machine.path().to_str().unwrap();
    let text = "in :: FromDevice(eth0) -> out :: ToDevice(eth1, MAXQUEUES 1)";
    let plan = |more: &[&str]| {
        let words = ["plan", "--sys", sys, "-j", "2", "-e", text];
        millrace(&[&words[..], more].concat())
    };
    let words = plan(&["--affinity"]).stdout;
    for line in [
        "Thread 0 on core 2 of NUMA node 1 runs:\n",
        "Thread 1 on core 3 of NUMA node 1 runs:\n",
        "  in :: FromDevice on queue 1 of eth0: 2 threads for the only device\n",
        "in receives from eth0 (NUMA node 1): queue 0 by thread 0, queue 1 by thread 1: ",
        "out transmits to eth1 (NUMA node 0) by queue 0, which threads 0 and 1 share under a lock, \
         because there are no more queues; packets cross to its NUMA node\n",
        "Threads 0 and 1 count references to shared packets with atomic instructions",
    ] {
        assert!(words.contains(line), "{line}\n{words}");
    }
    assert!(plan(&[]).stdout.contains("Thread 0 on any core of NUMA node 1 runs:\n"));
    assert!(plan(&["--affinity=4,7"]).stdout.contains("Thread 1 on core 7 of NUMA node 1 runs:\n"));
    let refused = plan(&["--affinity=7"]);
    assert!(refused.stderr.contains("there is no core 8"), "{}", refused.stderr);
    let json: Value = serde_json::from_str(&plan(&["--json", "--affinity"]).stdout).unwrap();
    assert_eq!(json["receivers"][0]["threads"], Value::from(vec![0, 1]));
    assert_eq!(json["transmitters"][0]["locked"], true);
    assert_eq!(json["threads"][0]["core"], 2);
}

#[test]
fn handlers_are_listed() {
    let all = millrace(&["handlers", "-e", "Idle -> q :: Queue -> Discard"]).stdout;
    assert!(all.starts_with("(router)\n  r-  version\n"), "{all}");
    assert!(all.contains("\nq :: Queue\n"), "{all}");
    let one = millrace(&["handlers", "-e", "Idle -> q :: Queue -> Discard", "q"]).stdout;
    assert!(one.contains("  r-  length\n") && one.contains("  -w  reset\n"), "{one}");
    let file = TempFile::new("a.click", "Idle -> q :: Queue -> Discard");
    assert_eq!(millrace(&["handlers", &file.path(), "q"]).stdout, one);
    let wrong = millrace(&["handlers", &file.path(), "Q"]);
    assert_eq!(wrong.status, 1);
    assert_eq!(wrong.stderr, "millrace: there is no element ‘Q’; did you mean ‘q’?\n");
}

#[test]
fn a_value_for_a_variable_that_the_file_lacks_is_an_error_everywhere() {
    let file = TempFile::new(
        "dev.click",
        "define($DEV lo, $COUNT 5);\nInfiniteSource(LIMIT $COUNT) -> Discard; // $DEV\n",
    );
    for command in ["check", "run", "flatten", "plan", "handlers", "graph"] {
        let done = millrace(&[command, &file.path(), "DEVICE=eth0"]);
        assert_eq!(done.status, 1, "{command}: {}", done.stderr);
        let expected = "there is no variable ‘DEVICE’; did you mean ‘DEV’?";
        assert!(done.stderr.contains(expected), "{command}: {}", done.stderr);
        let done = millrace(&[command, &file.path(), "dev=eth0"]);
        assert!(done.stderr.contains("did you mean ‘DEV’?"), "{command}: {}", done.stderr);
    }
    assert_eq!(millrace(&["check", &file.path(), "DEV=eth0", "COUNT=7"]).status, 0);
    let plain = millrace(&["check", "-e", "Idle -> Discard", "N=1"]);
    assert!(plain.stderr.contains("the configuration has no variables"), "{}", plain.stderr);
}

#[test]
fn a_variable_without_a_value_is_an_error() {
    let file = TempFile::new("unset.click", "FromDevice($DEVICE) -> Discard;\n");
    let done = millrace(&["check", &file.path()]);
    assert_eq!(done.status, 1);
    assert!(done.stderr.contains("variable ‘DEVICE’ has no value"), "{}", done.stderr);
    assert!(done.stderr.contains("`DEVICE=VALUE` on the command line"), "{}", done.stderr);
    assert_eq!(millrace(&["check", &file.path(), "DEVICE=lo"]).status, 0);
    // A default, single quotes, and the variables of a script are no mistakes.
    let fine = "Idle -> Print('$x', MAXLENGTH ${N-5}) -> Discard; Script(set y 1, print $y)";
    assert_eq!(millrace(&["check", "-e", fine]).status, 0);
}
